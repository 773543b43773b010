// The learning curve of a real run. While it runs nothing is evaluated: servers keep references to
// parameters (server/store/snapshot.h) and workers write down their counters; at the end each
// writes a part, and who started them all evaluates the parameters and makes one curve of the
// parts.
//
//   CURVE.shard-K    for each snapshot, the end last: time, steps, number of elements, f32
//   elements;
//                    of a shard without parameters none
//   CURVE.worker-N   "began,time,bytes" of each process of the rank, then lines
//                    "time,samples,loss_sum,bytes", counted since it began; one
//                    "replica,correct,samples" where the policy averages replicas
//
// Of a split model the workers that compute the loss count samples, and all count bytes.
//
// Times are of NodeLoop::Now: one clock for all processes of a machine, and of that machine only.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/curve.h"
#include "cluster/job.h"
#include "experiment/run.h"
#include "server/store/snapshot.h"
#include "wire/message.h"
#include "worker/device/device.h"

namespace soapstone::apps {

std::string ShardCurvePart(const std::string& path, ShardId shard);
std::string WorkerCurvePart(const std::string& path, WorkerId worker);

// Error: InvalidArgument, which the part tells too, as there is no other way to who joins them.
absl::Status WriteShardPart(const std::string& path, ShardId shard,
                            const std::vector<server::Snapshot>& snapshots);

// A worker's part. Appends: a rank's second process goes on where its first one ended. What could
// not be written, as on a full disk, is told by the part itself, which JoinCurve reads.
class WorkerCurve {
 public:
  ~WorkerCurve();
  WorkerCurve(const WorkerCurve&) = delete;
  WorkerCurve& operator=(const WorkerCurve&) = delete;
  // Error: it cannot be written.
  static absl::StatusOr<std::unique_ptr<WorkerCurve>> Open(const std::string& path,
                                                           WorkerId worker);
  // The start barrier has opened. `bytes`: sent and received so far.
  void Start(Nanos now, uint64_t bytes);
  // Writes a line where samples have been trained on since the last call, or a step was ended: a
  // seat of a team may have no part of the loss. REQUIRES: Start, or nothing was done.
  void Take(Nanos now, const wire::Progress& progress, uint64_t bytes);
  void TakeReplica(const worker::DeviceEvent& evaluation);

 private:
  WorkerCurve(std::string part, std::ofstream file)
      : part_(std::move(part)), file_(std::move(file)) {}
  void NoteFailure();

  const std::string part_;
  std::ofstream file_;
  std::string failure_;   // of the first write that failed
  uint64_t samples_ = 0;  // of the last line
  Clock clock_ = 0;       // likewise
};

void RemoveCurveParts(const Job& job);

struct RealCurve {
  std::vector<experiment::CurvePoint> points;  // the last is the end, with every update applied
  std::optional<experiment::ReplicaAccuracy> replicas;  // policies that average them
};
// Of the parts of a job that has ended; removes them. Error: InvalidArgument or NotFound with the
// part that is missing, damaged or could not be written.
absl::StatusOr<RealCurve> JoinCurve(const Job& job);

}  // namespace soapstone::apps
