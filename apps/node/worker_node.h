// WorkerNode: the shell of a worker: the loop that runs its engine, and a device thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/loop/device_thread.h"
#include "apps/loop/node_loop.h"
#include "apps/loop/recorder.h"
#include "apps/loop/worker_timeline.h"
#include "apps/node/curve_parts.h"
#include "apps/node/registration.h"
#include "apps/node/status_host.h"
#include "apps/report/report.h"
#include "base/exit_codes.h"
#include "base/memory/bounded_inbox.h"
#include "cluster/iteration_trace.h"
#include "cluster/job.h"
#include "models/runtime/graph_runner.h"
#include "server/peer/peer.h"
#include "transport/shaped_transport.h"
#include "transport/transport.h"
#include "wire/membership/membership_client.h"
#include "worker/device/seat_executor.h"
#include "worker/engine.h"

namespace soapstone::apps {

// One thread calls Run; RequestStop from any. `reports` outlives it, and may be null.
class WorkerNode {
 public:
  // `transport` has been connected to the scheduler.
  WorkerNode(std::shared_ptr<const Job> job, std::unique_ptr<transport::Transport> transport,
             const Registration& registration, ReportSink* reports);

  // Works until the job ends. Returns the exit code.
  int Run();
  // Before Run: how it is, is shown there. May be null; outlives it.
  void ShowAt(StatusHost* status) { status_ = status; }
  // Finishes the step in hand, pushes it and leaves; Run returns `code`.
  void RequestStop(int code) { loop_.RequestStop(code); }
  // After Run: how it ended.
  const wire::Notice& ended() const { return *end_; }
  // After Run: it was stopped while its device was prepared, which nobody can end. To destroy this
  // waits for that.
  bool still_prepares() const { return still_prepares_; }

 private:
  // What takes as long as the model is large, before this worker registers: kernels, memory, a
  // peer's values. The loop looks after signals meanwhile.
  absl::Status Prepare();
  void RegisterIfPrepared(Nanos now);
  void Dispatch(Nanos now, const wire::Message& message);
  // Carries messages between the engine and its peer until there is none.
  void DispatchWithin(Nanos now);
  void OnWelcome(uint32_t rank);
  // The engine's timer: for what it waits is asked again, and said.
  void AskAgain(Nanos now);
  bool TakeEvents(Nanos now);
  // Ends this node where its device does not go on.
  void LookAtDevice(Nanos now);
  std::string TextOf(const worker::Overdue& overdue) const;
  // Opens what the job is to write; ends this node where it cannot.
  void OpenFiles(WorkerId self);
  template <typename T>
  void Keep(absl::StatusOr<std::unique_ptr<T>> opened, std::unique_ptr<T>* to) {
    if (opened.ok()) {
      *to = *std::move(opened);
    } else {
      end_ = {kExitConfig, std::string(opened.status().message())};
    }
  }
  void Record(const sim::RecordedEvent& event) {
    if (recorder_ != nullptr) recorder_->Write(event);
  }
  void ToPeer(Nanos now, wire::Message message);
  void ToEngine(Nanos now, const wire::Message& message);
  // What this process, not its engine, has put into the outbox since it held `first` messages.
  void RecordTold(Nanos now, size_t first);
  void OnDevice(Nanos now, worker::DeviceEvent event);
  void KeepCurve(Nanos now);
  void AwaitReplica();
  uint64_t MovedBytes() const;
  // What the worker's own ledgers have found; the first of it, of a strict job.
  uint64_t Violations() const;
  std::optional<std::string> BrokenGuarantee() const;
  void BeginLeaving(Nanos now);
  void OnMayLeave(Nanos now);
  void Leave(Nanos now);
  bool Over(Nanos now);
  void Flush(Nanos now);
  int Finish();
  void ReportEnd();
  // A step begins only where links take what the last ones made: under a policy that waits for
  // nobody there would be ever more of it, for a node that reads nothing.
  bool MayBegin(const worker::DeviceCommand& next, Nanos now);
  wire::Progress ProgressAt(Nanos now) const;
  // Ends this process without a word, if the straggler model says that it fails there.
  void FailIfDue(const worker::DeviceCommand& command) const;
  // `transport`, or one around it whose links are as slow as the straggler model says.
  std::unique_ptr<transport::Transport> Shaped(std::unique_ptr<transport::Transport> transport);
  worker::EngineOutput Output() { return {.outbox = &out_, .commands = &commands_}; }

  NodeStatus StatusNow(Nanos now) const;

  std::shared_ptr<const Job> job_;
  StatusHost* status_ = nullptr;
  const Nanos began_ = NodeLoop::Now();
  transport::ShapedTransport* shaped_ = nullptr;  // null: no model limits the links
  NodeLoop loop_;
  wire::MembershipClient membership_;
  size_t turn_ = 0;      // of addresses, for a place
  int64_t wanted_rank_;  // -1: any
  ReportSink* reports_;
  std::shared_ptr<models::GraphRunner> warm_;          // until the device has it
  std::shared_ptr<worker::SeatExecutor> seat_;         // likewise, of a worker with a seat
  std::unique_ptr<server::PeerVectors> peer_vectors_;  // until the peer has them
  BoundedInbox<absl::Status> prepared_{1};             // how Prepare ended
  std::jthread preparing_;
  bool still_prepares_ = false;
  std::optional<worker::Engine> engine_;
  std::optional<server::Peer> peer_;  // of decentralised policies
  std::unique_ptr<DeviceThread> device_;
  Nanos look_at_device_ = 0;               // from then on
  bool abandon_device_ = false;            // it cannot be waited for: hung, or in a long step
  std::unique_ptr<IterationTrace> trace_;  // null: not asked for
  std::unique_ptr<Recorder> recorder_;     // likewise: of the engine
  std::unique_ptr<Recorder> peer_recorder_;
  std::unique_ptr<WorkerCurve> curve_;  // likewise
  WorkerTimeline timeline_;
  enum class Replica : uint8_t { kTraining, kAsked, kEvaluated };
  Replica replica_ = Replica::kTraining;  // where its own accuracy is asked for
  bool started_ = false;
  Epoch started_with_ = 0;            // the roster's
  std::optional<Clock> step_;         // the last that the device was given commands of
  const uint64_t waiting_bytes_max_;  // for others, where a step begins
  std::optional<Nanos> held_since_;   // the next step: for others, which take too little
  bool said_held_ = false;
  std::optional<Nanos> leave_by_;
  bool asked_to_leave_ = false;  // and was not told yet that it may
  std::optional<wire::Notice> end_;
  wire::Outbox out_;
  std::vector<worker::DeviceCommand> commands_;  // of the engine's last call
  std::deque<worker::DeviceCommand> due_;        // that the device has no room for yet
};

}  // namespace soapstone::apps
