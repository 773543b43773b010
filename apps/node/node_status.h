// NodeStatus: all that a node shows of itself at a moment, as a value that its loop makes and its
// HTTP thread reads; and the metrics that follow from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/checkpoint/checkpoint_keeper.h"
#include "apps/loop/node_loop.h"
#include "apps/loop/shard_thread.h"
#include "apps/report/job_status.h"
#include "apps/report/report.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "cluster/job.h"
#include "observe/metrics/family.h"
#include "transport/transport.h"
#include "wire/message.h"

namespace soapstone::apps {

// Workers with series of their own on the scheduler; of more, the first so many have them.
inline constexpr size_t kMetricsWorkersMax = 256;

// Of the turns that a node's loop has made, each from a message that came, or the end of waiting
// for one, to the next wait.
struct TurnTimes {
  Histogram milliseconds;
  Nanos sum = 0;
};

struct NodeStatus {
  JobStatus job;
  std::string model;
  bool secured = false;  // by keys
  transport::TransportStats moved;
  uint64_t queued_bytes = 0;
  double heartbeat_gap_s = 0;
  uint64_t heartbeats_late = 0;
  TurnTimes turns;
  std::vector<ShardStatus> shards;         // of a server
  std::optional<wire::Progress> progress;  // of a worker
  uint64_t violations = 0;                 // of a worker
  // Of the scheduler of a job with checkpoints: the newest, and from one to the next.
  struct Checkpoints {
    Clock newest = 0;
    Clock every = 0;
  };
  std::optional<Checkpoints> checkpoints;
  std::optional<uint32_t> replicas_missing;  // of the scheduler, where shards have replicas
};

// What all nodes show alike. `began`: of the node.
NodeStatus StatusOf(const Job& job, const NodeLoop& loop, const char* role, int64_t rank, Nanos now,
                    Nanos began);

// A worker as the scheduler shows it.
WorkerStatus StatusOfWorker(WorkerId worker, const wire::Progress& progress, WorkerTimes times,
                            const wire::Roster& roster);

// What the scheduler knows of what a loss would cost. `keeper`: null where there are none.
void AddDurability(const Job& job, const CheckpointKeeper* keeper, const wire::Roster& roster,
                   NodeStatus* status);

metrics::Families FamiliesOf(const NodeStatus& status);

// How a server or worker went, as all of them tell it at their end.
NodeReport ReportOf(std::string name, const NodeLoop& loop);

// Of this process, by what the kernel says now.
metrics::Families ProcessFamilies();

}  // namespace soapstone::apps
