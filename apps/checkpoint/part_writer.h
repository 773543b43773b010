// PartWriter: writes what the shards of a server process captured of themselves, on one thread, so
// that no message waits for a disk. A part of the server's shell.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/memory/bounded_inbox.h"
#include "base/mutex.h"
#include "checkpoint/disk.h"
#include "checkpoint/table_part.h"
#include "cluster/job.h"
#include "server/store/capture.h"
#include "server/store/table_capture.h"
#include "wire/layout.h"
#include "wire/message.h"

namespace soapstone::apps {

// A shard's tables for its part, whose rows are taken from the capture as they are written; null:
// it has none. `rows` outlives what is returned.
std::vector<checkpoint::PartTable> TablesOf(const wire::Layout& layout, server::TableCapture* rows);

// Invariant: of one shard at most one capture waits or is written; another is refused at once, and
// the scheduler told.
class PartWriter {
 public:
  // Of the run of `session`. `tell` takes what the scheduler is to hear, from any thread.
  PartWriter(std::shared_ptr<const Job> job, uint64_t session,
             std::function<void(wire::Message)> tell);
  // What is being written is, and no more.
  ~PartWriter();
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;

  // Never waits. Any thread.
  void Write(ShardId shard, server::Capture capture);

 private:
  struct Task {
    ShardId shard{};
    server::Capture capture;
  };
  void Run();
  wire::Message WriteNow(const Task& task);

  std::shared_ptr<const Job> job_;
  uint64_t session_;
  std::function<void(wire::Message)> tell_;
  std::unique_ptr<checkpoint::Disk> disk_ = checkpoint::RealDisk();
  BoundedInbox<Task> tasks_;
  Mutex mutex_;
  std::set<ShardId> busy_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace soapstone::apps
