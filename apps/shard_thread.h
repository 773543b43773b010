// ShardThread: one shard of a server, on a thread of its own or, where it is the only one, on the
// loop's: two hand-overs cost more there than they win. Messages come in through a bounded inbox;
// what the shard sends goes out through the server's. Nothing else is shared.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "apps/recorder.h"
#include "base/bounded_inbox.h"
#include "base/ids.h"
#include "server/shard.h"
#include "server/snapshot.h"
#include "wire/message.h"

namespace soapstone::apps {

using MessageInbox = BoundedInbox<wire::Message>;

struct ShardThreadOptions {
  // The shard is given no more messages once its guarantee is broken.
  bool strict = false;
  std::optional<server::SnapshotTaker> taker;  // empty: no learning curve is asked for
  std::unique_ptr<Recorder> recorder;          // null: not recorded
  bool own_thread = true;                      // false: Put handles the message
  std::optional<int> cpu;                      // the thread stays there; empty: where it may run
};

// The loop's thread constructs, Puts and Joins. `out` outlives it.
class ShardThread {
 public:
  // `wake` makes the loop look into `out`; any thread may call it.
  ShardThread(std::unique_ptr<server::Shard> shard, MessageInbox* out, std::function<void()> wake,
              ShardThreadOptions options = {});

  // A strict shard has broken its guarantee, and its thread has ended.
  bool broken() const { return broken_; }
  // False when the shard has not taken its messages for too long, or its thread has given up.
  bool Put(Nanos now, wire::Message message);

  // Handles what is queued, then ends the thread. The shard may be looked at afterwards.
  const server::Shard& Join();
  // Those taken, and the end. REQUIRES: joined.
  std::vector<server::Snapshot> TakeSnapshots();

 private:
  struct Arrival {
    wire::Message message;
    Nanos at = 0;
  };

  void Run();
  // False: the thread is to end.
  bool Handle(Nanos now, Arrival arrival);

  std::unique_ptr<server::Shard> shard_;
  std::vector<server::Snapshot> snapshots_;
  BoundedInbox<Arrival> in_;
  MessageInbox* out_;
  std::function<void()> wake_;
  ShardThreadOptions options_;
  wire::Outbox outbox_;  // of the thread that handles messages
  std::atomic<bool> broken_{false};
  std::jthread thread_;
};

}  // namespace soapstone::apps
