// ServerNode: the shell of a server: one loop, and one thread per shard it hosts. Server 0 also
// gathers the model at the end and writes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "apps/enlisting.h"
#include "apps/job.h"
#include "apps/node_loop.h"
#include "apps/report.h"
#include "apps/shard_thread.h"
#include "server/model_gatherer.h"
#include "transport/transport.h"
#include "wire/enrolment.h"

namespace soapstone::apps {

// One thread calls Run; RequestStop from any. `reports` outlives it, and may be null.
class ServerNode {
 public:
  // `transport` listens and has been connected to the scheduler.
  ServerNode(std::shared_ptr<const Job> job, std::unique_ptr<transport::Transport> transport,
             Enlisting enlisting, ReportSink* reports);

  // Serves until the job ends. Returns the exit code.
  int Run();
  // Before Run: the thread of each shard stays on one of the CPUs that this process may use.
  void PinShards() { pin_shards_ = true; }
  // Leaves the job, which ends by it; Run returns `code`.
  void RequestStop(int code) { loop_.RequestStop(code); }

 private:
  void Dispatch(Nanos now, wire::Message message);
  void OnWelcome(uint32_t rank);
  std::unique_ptr<server::Shard> MakeShard(ShardId id) const;
  std::unique_ptr<Recorder> OpenRecorder(ShardId id);
  void ToShard(Nanos now, wire::Message message);
  void TakeAnswers(Nanos now);
  void WatchGuarantee();
  void SayLastWord(const wire::Notice& end);
  void OnSlices(const wire::Message& message);
  int Finish();
  void ReportEnd();
  void WriteCurve();

  std::shared_ptr<const Job> job_;
  NodeLoop loop_;
  wire::Enrolment enrolment_;
  ReportSink* reports_;
  MessageInbox answers_;
  bool pin_shards_ = false;
  std::optional<uint32_t> rank_;
  std::vector<std::unique_ptr<ShardThread>> shards_;
  std::optional<server::ModelGatherer> gatherer_;  // server 0
  std::optional<wire::Notice> failure_;
  wire::Outbox out_;
};

}  // namespace soapstone::apps
