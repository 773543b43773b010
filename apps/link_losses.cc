#include "apps/link_losses.h"

#include <glog/logging.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"

namespace soapstone::apps {

std::optional<wire::Notice> ReportLostLinks(NodeLoop* loop, std::optional<wire::Address> self,
                                            wire::Outbox* out) {
  for (const transport::LostNode& lost : loop->TakeLost()) {
    LOG(WARNING) << "the link to " << lost.node.ToString() << " is lost: " << lost.why;
    if (lost.node.role == wire::Role::kScheduler) {
      return wire::Notice{kExitPeerLost, absl::StrCat("scheduler lost: ", lost.why)};
    }
    if (!self.has_value()) continue;
    wire::Message message;
    message.type = wire::MessageType::kLinkLost;
    message.from = *self;
    message.to = wire::Address::Scheduler();
    message.epoch = std::min(loop->epoch(), lost.epoch);
    message.body = wire::LostLink{lost.node, lost.why};
    out->Send(std::move(message));
  }
  return std::nullopt;
}

}  // namespace soapstone::apps
