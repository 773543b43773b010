// ShardHost: the shards of a server process: makes them, brings them what comes, and looks after
// them until the end. A part of the server's shell.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/checkpoint/part_writer.h"
#include "apps/loop/shard_thread.h"
#include "apps/report/report.h"
#include "base/mutex.h"
#include "cluster/job.h"
#include "wire/message.h"

namespace soapstone::apps {

// The loop's thread calls all. `answers` outlives it.
class ShardHost {
 public:
  // `wake`: see ShardThread.
  ShardHost(std::shared_ptr<const Job> job, MessageInbox* answers, std::function<void()> wake);

  // Begins to make the shards of server `rank`. `pin`: each serving thread stays on one of the CPUs
  // that this process may use. Once.
  void Start(uint32_t rank, uint64_t session, bool pin);

  // A message for one of them, or of its chain. Never waits.
  void Put(Nanos now, wire::Message message);
  // A roster, for each of them, where shards have replicas.
  void PutToAll(Nanos now, const wire::Message& roster);
  // Handles what has waited for shards that are made now; finds those that are broken or hang.
  void Look(Nanos now);
  // So much waits for a shard that the loop shall take in no more than shards do.
  bool behind() const;
  // Why the job cannot go on.
  const std::optional<wire::Notice>& failure() const { return failure_; }
  // While shards are made.
  std::optional<wire::SlowWork> work() const;

  // The counters of each that is made, not older than its last message but one or a second.
  std::vector<ShardStatus> AskStatus();

  // Ends all of their threads.
  void Join();
  // REQUIRES: joined.
  void AddTo(NodeReport* report) const;
  void WriteCurve() const;

 private:
  std::unique_ptr<server::Replica> MakeReplica(ShardId id, ServerId self, ShardProgress* progress);
  ShardThreadOptions OptionsOf(ShardId id, size_t place, uint64_t session, bool pin);
  void PutTo(Nanos now, size_t place, wire::Message message);
  CaptureSink CapturesOf();
  std::unique_ptr<Recorder> OpenRecorder(ShardId id, uint64_t session);
  void Fail(int code, std::string text);

  std::shared_ptr<const Job> job_;
  MessageInbox* answers_;
  std::function<void()> wake_;
  std::vector<ShardId> ids_;  // of shards_, ascending
  uint64_t total_bytes_ = 0;
  Nanos patience_ = 0;  // with a shard that is at one message
  std::optional<wire::Notice> failure_;
  Mutex mutex_;
  std::optional<std::string> not_made_ ABSL_GUARDED_BY(mutex_);  // why a shard cannot be
  std::unique_ptr<PartWriter> parts_;                            // null: there are no checkpoints
  std::vector<std::unique_ptr<ShardThread>> shards_;
};

}  // namespace soapstone::apps
