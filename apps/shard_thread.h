// ShardThread: one shard of a server on a thread of its own. Messages come in through a bounded
// inbox; what the shard sends goes out through the server's. Nothing else is shared.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/bounded_inbox.h"
#include "server/shard.h"
#include "server/snapshot.h"
#include "wire/message.h"

namespace soapstone::apps {

using MessageInbox = BoundedInbox<wire::Message>;

// The loop's thread constructs, Puts and Joins. `out` outlives it.
class ShardThread {
 public:
  // `wake` makes the loop look into `out`; any thread may call it. `taker`: empty where no learning
  // curve is asked for.
  ShardThread(std::unique_ptr<server::Shard> shard, std::optional<server::SnapshotTaker> taker,
              MessageInbox* out, std::function<void()> wake);

  // False when the shard has not taken its messages for too long, or its thread has given up.
  bool Put(wire::Message message);

  // Handles what is queued, then ends the thread. The shard may be looked at afterwards.
  const server::Shard& Join();
  // Those taken, and the end. REQUIRES: joined.
  std::vector<server::Snapshot> TakeSnapshots();

 private:
  void Run();

  std::unique_ptr<server::Shard> shard_;
  std::optional<server::SnapshotTaker> taker_;
  std::vector<server::Snapshot> snapshots_;
  MessageInbox in_;
  MessageInbox* out_;
  std::function<void()> wake_;
  std::jthread thread_;
};

}  // namespace soapstone::apps
