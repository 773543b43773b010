#include "apps/loop/link_losses.h"

#include <glog/logging.h>

#include <algorithm>

namespace soapstone::apps {

void ReportLostLinks(Nanos now, wire::Role as, NodeLoop* loop, wire::MembershipClient* membership,
                     wire::Outbox* out) {
  for (const transport::LostNode& lost : loop->TakeLost()) {
    LOG(WARNING) << "the link to " << lost.node.ToString() << " is lost: " << lost.why;
    if (lost.node.role == wire::Role::kScheduler) {
      membership->OnLinkLost(now, lost.why, out);
      continue;
    }
    if (!membership->rank().has_value()) continue;
    wire::Message message;
    message.type = wire::MessageType::kLinkLost;
    message.from = {as, *membership->rank()};
    message.to = wire::Address::Scheduler();
    message.epoch = std::min(loop->epoch(), lost.epoch);
    message.body = wire::LostLink{lost.node, lost.why};
    out->Send(std::move(message));
  }
}

}  // namespace soapstone::apps
