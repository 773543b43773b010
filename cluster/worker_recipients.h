// Which of a worker's actors take a message that has come to its node: the engine, or under a
// decentralised policy the peer beside it. Every world that delivers messages to workers asks here.
#pragma once

#include "wire/message.h"

namespace soapstone::cluster {

// Where both are true the peer takes the message before the engine does.
struct WorkerRecipients {
  bool peer = false;
  bool engine = false;
  friend bool operator==(const WorkerRecipients&, const WorkerRecipients&) = default;
};

// What is addressed to the peer is the peer's alone. Of what comes under the worker's name rosters
// are for both, and the shards' final values, which the peer has asked for, are the peer's. Without
// a peer nobody takes what is addressed to one, and the engine all else.
WorkerRecipients RecipientsOf(const wire::Message& message, bool has_peer);

}  // namespace soapstone::cluster
