#include "cluster/worker_recipients.h"

namespace soapstone::cluster {

WorkerRecipients RecipientsOf(const wire::Message& message, bool has_peer) {
  if (message.to.role == wire::Role::kPeer) return {.peer = has_peer};
  const bool of_both = message.type == wire::MessageType::kRoster;
  const bool final_values =
      message.type == wire::MessageType::kPullReply && message.from.role == wire::Role::kShard;
  if (!has_peer || !(of_both || final_values)) return {.engine = true};
  return {.peer = true, .engine = of_both};
}

}  // namespace soapstone::cluster
