// ShardThread: one shard of a server on a thread of its own. Messages come in through a bounded
// inbox; what the shard sends goes out through the server's. Nothing else is shared.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "apps/recorder.h"
#include "base/bounded_inbox.h"
#include "server/shard.h"
#include "wire/message.h"

namespace soapstone::apps {

using MessageInbox = BoundedInbox<wire::Message>;

// The loop's thread constructs, Puts and Joins. `out` outlives it.
class ShardThread {
 public:
  // `wake` makes the loop look into `out`; any thread may call it. `recorder` may be null.
  ShardThread(std::unique_ptr<server::Shard> shard, std::unique_ptr<Recorder> recorder,
              MessageInbox* out, std::function<void()> wake);

  // False when the shard has not taken its messages for too long, or its thread has given up.
  bool Put(wire::Message message);

  // Handles what is queued, then ends the thread. The shard may be looked at afterwards.
  const server::Shard& Join();

 private:
  void Run();

  std::unique_ptr<server::Shard> shard_;
  std::unique_ptr<Recorder> recorder_;
  MessageInbox in_;
  MessageInbox* out_;
  std::function<void()> wake_;
  std::jthread thread_;
};

}  // namespace soapstone::apps
