// ServerNode: the shell of a server: one loop, which does nothing that grows with the model, so
// that its heartbeats say that it lives; and the shards it hosts (apps/node/shard_host.h). Server 0
// also has the model saved at the end (apps/node/model_saver.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "apps/loop/node_loop.h"
#include "apps/node/model_saver.h"
#include "apps/node/registration.h"
#include "apps/node/shard_host.h"
#include "apps/node/status_host.h"
#include "apps/report/report.h"
#include "base/mutex.h"
#include "cluster/job.h"
#include "consistency/violation_log.h"
#include "transport/transport.h"
#include "wire/membership/membership_client.h"

namespace soapstone::apps {

// One thread calls Run; RequestStop from any. `reports` outlives it, and may be null.
class ServerNode {
 public:
  // `transport` listens and has been connected to the scheduler.
  ServerNode(std::shared_ptr<const Job> job, std::unique_ptr<transport::Transport> transport,
             const Registration& registration, ReportSink* reports);

  // Serves until the job ends. Returns the exit code.
  int Run();
  // Before Run: the thread of each shard stays on one of the CPUs that this process may use.
  void PinShards() { pin_shards_ = true; }
  // Before Run: how it is, is shown there. May be null; outlives it.
  void ShowAt(StatusHost* status) { status_ = status; }
  // Leaves the job, which ends by it, where it has checkpoints with one, within grace_s; a second
  // time at once. Run returns `code`.
  void RequestStop(int code) { loop_.RequestStop(code); }
  // The same, because of something else in its process that has ended so, and has said it.
  void EndWith(const wire::Notice& why);

 private:
  bool IsToGo(Nanos now);
  std::optional<wire::Message> Receive();
  void Dispatch(Nanos now, wire::Message message);
  void OnWelcome(uint32_t rank);
  // Of what this process sends: some stays here.
  void Send(Nanos now, wire::Message message);
  void TakeAnswers(Nanos now);
  // What the next heartbeat says.
  wire::Body HeartbeatBody();
  NodeStatus StatusNow(Nanos now);
  std::optional<wire::Notice> Beside();  // what its process ends with
  void SayLastWord(const wire::Notice& end);
  void BeginSaving();
  void OnSlices(const wire::Message& message);
  void ContinueSaving(Nanos now);
  int Finish();
  void ReportEnd();

  std::shared_ptr<const Job> job_;
  NodeLoop loop_;
  wire::MembershipClient membership_;
  size_t turn_ = 0;  // of addresses, for a place
  ReportSink* reports_;
  StatusHost* status_ = nullptr;
  const Nanos began_ = NodeLoop::Now();
  MessageInbox answers_;
  bool pin_shards_ = false;
  bool told_reads_ = false;  // by the last heartbeat
  std::optional<uint32_t> rank_;
  wire::Roster roster_;
  ShardHost shards_;
  wire::Outbox saving_;              // of the saver
  std::optional<ModelSaver> saver_;  // server 0's, from kSave on
  consistency::ViolationLog saved_;  // of what the file gets
  std::optional<Nanos> leave_by_;    // told to end, and the job is to stop first
  std::optional<wire::Notice> failure_;
  Mutex mutex_;
  std::optional<wire::Notice> ends_with_ ABSL_GUARDED_BY(mutex_);
  wire::Outbox out_;
};

}  // namespace soapstone::apps
