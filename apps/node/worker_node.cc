#include "apps/node/worker_node.h"

#include <glog/logging.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "apps/loop/link_losses.h"
#include "apps/node/device_runner.h"
#include "apps/node/warm_replica.h"
#include "apps/node/wire_limits.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
#include "cluster/actor_options.h"
#include "cluster/worker_recipients.h"

namespace soapstone::apps {
namespace {

using wire::MessageType;

constexpr Nanos kWorkerPatience = kSecond;
constexpr Nanos kCommandsPatience = kMillisecond;  // while the device has as many as it may
// Events of the device that are taken between two looks at the network and the timers: a heartbeat
// is not late because the device is fast.
constexpr int kEventsAtOnce = 64;
constexpr Nanos kHeldUnsaid = kSecond;  // a step, for others that take too little
constexpr absl::Duration kWorkerLinger = absl::Seconds(1);
constexpr absl::Duration kPreparedSoon = absl::Milliseconds(100);
constexpr absl::Duration kWorkerLookAgain = absl::Milliseconds(1);
constexpr uint64_t kReplicaRun = 0;  // of the shell's own command; the engine's runs begin with 1

}  // namespace

WorkerNode::WorkerNode(std::shared_ptr<const Job> job,
                       std::unique_ptr<transport::Transport> transport,
                       const Registration& registration, ReportSink* reports)
    : job_(std::move(job)),
      loop_(Shaped(std::move(transport)), job_->config.cluster().shards_per_server()),
      membership_(
          MembershipClientOptionsOf(*job_, wire::Role::kWorker, registration, loop_.transport())),
      wanted_rank_(registration.wanted_rank),
      reports_(reports),
      waiting_bytes_max_(LinkBytesOf(*job_)) {
  loop_.transport().SetSelf(membership_.temporary_address());
}

absl::Status WorkerNode::Prepare() {
  const auto rank = static_cast<uint32_t>(std::max<int64_t>(wanted_rank_, 0));
  const bool listens = !loop_.transport().endpoint().empty();
  if (job_->team != nullptr) {
    SOAP_ASSIGN_OR_RETURN(seat_, PrepareSeat(*job_, wanted_rank_, listens));
  } else {
    SOAP_ASSIGN_OR_RETURN(warm_, WarmReplica(*job_, rank));
  }
  if (job_->specs.policy.decentralised() && job_->workers > 1 && !listens) {
    return absl::FailedPreconditionError(absl::StrCat(
        job_->specs.policy.spec, " has workers reach each other, and this one listens nowhere"));
  }
  peer_vectors_ = cluster::PeerVectorsOf(*job_, WorkerId{rank});
  return absl::OkStatus();
}

void WorkerNode::RegisterIfPrepared(Nanos now) {
  const std::optional<absl::Status> prepared = prepared_.Take(SteadyTime::InfinitePast());
  if (!prepared.has_value()) return;
  preparing_.join();
  if (prepared->ok()) return membership_.Start(now, &out_);
  // Too little memory, a precision that is not there: the job's to change.
  const bool of_the_job =
      absl::IsResourceExhausted(*prepared) || absl::IsFailedPrecondition(*prepared);
  end_ = {of_the_job ? kExitConfig : kExitInternal, std::string(prepared->message())};
}

int WorkerNode::Run() {
  preparing_ = std::jthread([this] {
    prepared_.TryPut(Prepare());
    loop_.Wake();
  });
  bool events_wait = false;
  while (!Over(loop_.Now())) {
    const Nanos patience = due_.empty() ? kWorkerPatience : kCommandsPatience;
    const std::optional<wire::Message> message = loop_.Next(events_wait ? 0 : patience);
    const Nanos now = loop_.Now();
    if (preparing_.joinable()) RegisterIfPrepared(now);
    if (message.has_value()) Dispatch(now, *message);
    events_wait = TakeEvents(now);
    LookAtDevice(now);
    if (curve_ != nullptr) KeepCurve(now);
    ReportLostLinks(now, wire::Role::kWorker, &loop_, &membership_, &out_);
    WaitForPlace(now, job_->config.cluster().scheduler(), &membership_, &loop_.transport(), &turn_);
    for (const wire::TimerId timer : loop_.TakeDue(now)) {
      if (timer == worker::Engine::kWatch) AskAgain(now);
      if (timer != wire::MembershipClient::kTick) continue;
      wire::Body progress;
      if (engine_.has_value()) progress = ProgressAt(now);
      const size_t first = out_.messages.size();
      membership_.OnTimer(now, std::move(progress), &out_);
      RecordTold(now, first);
    }
    if (loop_.stop_requested() && !leave_by_.has_value()) BeginLeaving(now);
    Flush(now);
    Show(status_, now, [&] { return StatusNow(now); });
  }
  return Finish();
}

NodeStatus WorkerNode::StatusNow(Nanos now) const {
  const std::optional<uint32_t> rank = membership_.rank();
  NodeStatus status =
      StatusOf(*job_, loop_, "worker", rank.has_value() ? *rank : int64_t{-1}, now, began_);
  status.job.ready = engine_.has_value() && loop_.epoch() > 0;
  status.job.phase = started_ ? "running" : status.job.ready ? "installing" : "registering";
  if (!status.job.ready) {
    status.job.waits = preparing_.joinable() ? "preparing its device"
                       : rank.has_value()    ? "waiting for the other nodes to register"
                                             : "waiting for a rank";
  }
  if (engine_.has_value()) status.progress = engine_->ProgressAt(now);
  status.violations = Violations();
  return status;
}

// A step that is held is waited for as values are: where nothing moves the scheduler says why.
wire::Progress WorkerNode::ProgressAt(Nanos now) const {
  wire::Progress progress = engine_->ProgressAt(now);
  const std::optional<MessageRouter::Backlog> most = loop_.router().Greatest();
  const bool held = held_since_.has_value() && now - *held_since_ > kHeldUnsaid && !due_.empty();
  if (progress.waiting.has_value() || !held || !most.has_value()) return progress;
  const uint32_t shards = job_->config.cluster().shards_per_server();
  const wire::Address node = most->node;
  progress.waiting = wire::Waiting{.of = node.role == wire::Role::kWorker
                                             ? wire::Address::PeerOf(WorkerId{node.index})
                                             : wire::Address::Of(ShardId{node.index * shards}),
                                   .clock = due_.front().clock,
                                   .for_ns = now - *held_since_};
  return progress;
}

void WorkerNode::AskAgain(Nanos now) {
  Record({.kind = sim::EventKind::kTimer, .now = now});
  engine_->OnTimer(now, Output());
  DispatchWithin(now);
  const std::optional<wire::Waiting> waiting = engine_->ProgressAt(now).waiting;
  if (!waiting.has_value()) return;
  LOG(WARNING) << "worker " << *membership_.rank() << " waits " << wire::ToString(*waiting) << " ("
               << loop_.router().NodeOf(waiting->of).ToString() << ")";
}

// True: there may be more of them.
bool WorkerNode::TakeEvents(Nanos now) {
  if (device_ == nullptr) return false;
  for (int taken = 0; taken < kEventsAtOnce; ++taken) {
    std::optional<worker::DeviceEvent> event = device_->Take();
    if (!event.has_value()) return false;
    OnDevice(now, *std::move(event));
  }
  return true;
}

void WorkerNode::LookAtDevice(Nanos now) {
  if (device_ == nullptr || now < look_at_device_) return;
  look_at_device_ = now + DeviceThread::kLookEvery;
  const std::optional<worker::Overdue> overdue = device_->Look(now);
  if (!overdue.has_value()) return;
  const std::string text = TextOf(*overdue);
  if (!overdue->hung) {
    LOG(WARNING) << text;
    return;
  }
  abandon_device_ = true;
  if (!end_.has_value()) end_ = {kExitInternal, text};
}

// What takes so long, by the operator's name.
std::string WorkerNode::TextOf(const worker::Overdue& overdue) const {
  const double seconds = static_cast<double>(overdue.for_ns) / kSecond;
  if (!overdue.taken) {
    return absl::StrFormat("the device is %s: it has taken no command for %.1f s",
                           overdue.hung ? "stuck" : "slow", seconds);
  }
  const std::optional<uint32_t> op = overdue.what.op;
  std::string what(overdue.what.name);
  if (op.has_value()) absl::StrAppend(&what, " of ", NameOfWork(*job_, *op));
  const std::string before =
      overdue.median_ns < 0 ? "it had not been done three times before"
                            : absl::StrFormat("it took %.3f s before",
                                              static_cast<double>(overdue.median_ns) / kSecond);
  return absl::StrFormat("the device %s %s for %.1f s; %s",
                         overdue.hung ? "is stuck: it has been in" : "is slow: it has been in",
                         what, seconds, before);
}

void WorkerNode::Dispatch(Nanos now, const wire::Message& message) {
  if (message.from.role == wire::Role::kScheduler) {
    membership_.OnMessage(now, message, &out_);
    if (!engine_.has_value() && membership_.rank().has_value()) OnWelcome(*membership_.rank());
  }
  if (!engine_.has_value()) return;
  if (const auto* roster = std::get_if<wire::Roster>(&message.body)) {
    // Of a tree those of its own branch, else all: servers are numbered as shards are.
    const uint32_t servers = job_->config.cluster().servers();
    const WorkerId self{*membership_.rank()};
    const uint32_t first =
        Index(consistency::ShardFor(self, ShardId{0}, servers, job_->specs.policy));
    loop_.router().Follow(*roster);
    loop_.router().ConnectServers(*roster, first, first + servers);
    loop_.router().ConnectWorkers(cluster::ReachedBy(job_->team.get(), self, *roster));
  }
  if (message.type == MessageType::kMayLeave) return OnMayLeave(now);
  const cluster::WorkerRecipients to = cluster::RecipientsOf(message, peer_.has_value());
  if (to.peer) {
    ToPeer(now, message);
    DispatchWithin(now);
  }
  if (!to.engine) return;
  if (message.type == MessageType::kStart && !started_) {
    started_ = true;
    started_with_ = message.epoch;
    if (curve_ != nullptr) curve_->Start(now, MovedBytes());
  }
  ToEngine(now, message);
  DispatchWithin(now);
}

void WorkerNode::ToPeer(Nanos now, wire::Message message) {
  if (peer_recorder_ != nullptr) peer_recorder_->Write(sim::EventOf(now, message));
  peer_->OnMessage(now, std::move(message), &out_);
}

void WorkerNode::ToEngine(Nanos now, const wire::Message& message) {
  // What comes for the address it had before its rank is the membership's.
  if (!message.to.IsTemporary()) Record(sim::EventOf(now, message));
  timeline_.OnMessage(message);
  engine_->OnMessage(now, message, Output());
}

void WorkerNode::DispatchWithin(Nanos now) {
  while (peer_.has_value()) {
    const auto at =
        std::find_if(out_.messages.begin(), out_.messages.end(), server::Peer::IsWithinNode);
    if (at == out_.messages.end()) return;
    wire::Message message = std::move(*at);
    out_.messages.erase(at);
    if (message.to.role == wire::Role::kPeer) {
      ToPeer(now, std::move(message));
    } else {
      ToEngine(now, message);
    }
  }
}

void WorkerNode::OnWelcome(uint32_t rank) {
  const wire::Address self = wire::Address::Of(WorkerId{rank});
  loop_.transport().SetSelf(self);
  loop_.transport().SetSession(membership_.session());
  loop_.router().SetSelf(self);
  engine_.emplace(cluster::EngineOptionsOf(*job_, WorkerId{rank}));
  if (cluster::HasPeer(*job_, WorkerId{rank})) {
    peer_.emplace(cluster::PeerOptionsOf(*job_, WorkerId{rank}), std::move(peer_vectors_));
  }
  timeline_.Open(*job_, WorkerId{rank}, membership_.session(), seat_.get());
  absl::StatusOr<DeviceThread::Runner> runner =
      MakeDeviceRunner(*job_, WorkerId{rank}, std::move(warm_), std::move(seat_));
  if (!runner.ok()) {
    end_ = {kExitInternal, std::string(runner.status().message())};
    return;
  }
  device_ = std::make_unique<DeviceThread>(
      timeline_.Around(*std::move(runner)), [this] { loop_.Wake(); }, job_->patience_ns);
  OpenFiles(WorkerId{rank});
  LOG(INFO) << "worker " << rank << " of " << job_->config.cluster().workers() << ": "
            << job_->summary;
}

void WorkerNode::OpenFiles(WorkerId self) {
  const wire::Output& output = job_->config.output();
  if (!output.trace_path().empty()) {
    Keep(IterationTrace::Open(output.trace_path(), self), &trace_);
  }
  if (!output.curve_path().empty()) Keep(WorkerCurve::Open(output.curve_path(), self), &curve_);
  const uint64_t session = membership_.session();
  Keep(Recorder::Open(*job_, wire::Address::Of(self), session), &recorder_);
  if (peer_.has_value()) {
    Keep(Recorder::Open(*job_, wire::Address::PeerOf(self), session), &peer_recorder_);
  }
}

void WorkerNode::RecordTold(Nanos now, size_t first) {
  for (size_t i = first; i < out_.messages.size(); ++i) {
    Record(sim::ToldEvent(now, out_.messages[i]));
  }
}

void WorkerNode::OnDevice(Nanos now, worker::DeviceEvent event) {
  if (event.run == kReplicaRun) {
    curve_->TakeReplica(event);
    replica_ = Replica::kEvaluated;
    return;
  }
  Record(sim::EventOf(now, event));
  engine_->OnDevice(now, std::move(event), Output());
  DispatchWithin(now);
  if (trace_ != nullptr) trace_->Take(loop_.Now(), engine_->progress());
}

// Writes down what has been done, and has the replica evaluated once its last step is made.
void WorkerNode::KeepCurve(Nanos now) {
  curve_->Take(now, engine_->progress(), MovedBytes());
  const bool averages = job_->specs.policy.keeps_parameters();
  if (!averages || !engine_->done() || replica_ != Replica::kTraining) return;
  commands_.push_back({.run = kReplicaRun, .what = worker::EvaluateModel{}, .wants_event = true});
  replica_ = Replica::kAsked;
}

// The job may end before the last replica's evaluation has.
void WorkerNode::AwaitReplica() {
  const Nanos until = loop_.Now() + kWorkerPatience;
  while (replica_ == Replica::kAsked && loop_.Now() < until) {
    const std::optional<worker::DeviceEvent> event = device_->Take();
    if (event.has_value() && event->run == kReplicaRun) {
      OnDevice(loop_.Now(), *event);
    } else if (!event.has_value()) {
      absl::SleepFor(kWorkerLookAgain);
    }
  }
}

uint64_t WorkerNode::MovedBytes() const {
  const transport::TransportStats moved = loop_.transport().stats();
  return moved.sent.total() + moved.received.total();
}

std::optional<std::string> WorkerNode::BrokenGuarantee() const {
  if (!job_->config.strict() || !engine_.has_value()) return std::nullopt;
  const auto read = engine_->replies().violations().first();
  const auto made = peer_.has_value() ? peer_->ledger().violations().first() : std::nullopt;
  if (!read.has_value() && !made.has_value()) return std::nullopt;
  return absl::StrCat(job_->specs.policy.spec,
                      " broke its guarantee: ", made.has_value() ? *made : *read);
}

uint64_t WorkerNode::Violations() const {
  const uint64_t read = engine_.has_value() ? engine_->replies().violations().count() : 0;
  return read + (peer_.has_value() ? peer_->ledger().violations().count() : 0);
}

std::unique_ptr<transport::Transport> WorkerNode::Shaped(
    std::unique_ptr<transport::Transport> transport) {
  if (!job_->specs.stragglers.limits_links()) return transport;
  const uint32_t shards_per_server = job_->config.cluster().shards_per_server();
  auto shaped = std::make_unique<transport::ShapedTransport>(
      std::move(transport), [shards_per_server](wire::Address address) {
        return MessageRouter::NodeOf(address, shards_per_server);
      });
  shaped_ = shaped.get();
  return shaped;
}

void WorkerNode::FailIfDue(const worker::DeviceCommand& command) const {
  if (!worker::RunsOperators(command) || command.clock >= job_->total_clocks) return;
  const WorkerId self{*membership_.rank()};
  if (!job_->specs.stragglers.Fails(self, command.clock, started_with_)) return;
  LOG(WARNING) << "failing at clock " << command.clock << ", as training.stragglers asked";
  google::FlushLogFiles(google::INFO);
  raise(SIGKILL);
}

bool WorkerNode::MayBegin(const worker::DeviceCommand& next, Nanos now) {
  if (step_ >= next.clock || leave_by_.has_value()) return true;  // of a step in hand, or the last
  const std::optional<MessageRouter::Backlog> most = loop_.router().Greatest();
  if (most.has_value() && loop_.router().waiting_bytes() > waiting_bytes_max_) {
    if (!held_since_.has_value()) held_since_ = now;
    if (!said_held_ && now - *held_since_ > kHeldUnsaid) {
      said_held_ = true;
      LOG(WARNING) << "worker " << *membership_.rank() << " holds its step of clock " << next.clock
                   << ": " << most->bytes << " bytes wait for " << most->node.ToString()
                   << ", which takes too little";
    }
    return false;
  }
  step_ = next.clock;
  held_since_.reset();
  said_held_ = false;
  return true;
}

void WorkerNode::Flush(Nanos now) {
  if (shaped_ != nullptr && engine_.has_value()) {
    const WorkerId self{*membership_.rank()};
    shaped_->SetLimit(job_->specs.stragglers.LinkMbps(self, engine_->clock()));
  }
  std::move(commands_.begin(), commands_.end(), std::back_inserter(due_));
  commands_.clear();
  while (!due_.empty() && MayBegin(due_.front(), now)) {
    FailIfDue(due_.front());
    if (!device_->Put(&due_.front())) break;
    due_.pop_front();
  }
  for (wire::Message& message : out_.messages) {
    auto* progress = std::get_if<wire::Progress>(&message.body);
    if (progress != nullptr) progress->violations = Violations();
  }
  if (started_) timeline_.OnProgress(engine_->progress());
  timeline_.BeforeSending(out_.messages);
  loop_.Flush(&out_);
  timeline_.AfterSending();
}

int WorkerNode::Finish() {
  if (preparing_.joinable()) {  // for nobody any more
    still_prepares_ = !prepared_.Take(SteadyNow() + kPreparedSoon).has_value();
    if (!still_prepares_) preparing_.join();
  }
  if (!abandon_device_) AwaitReplica();
  loop_.router().Retry();
  loop_.transport().Close(kWorkerLinger);
  LogEnd(*end_);
  ReportEnd();
  // Last: of a large model it takes seconds, and who started us does not wait for ever.
  if (abandon_device_) DeviceThread::Abandon(std::move(device_));
  device_.reset();
  return end_->code;
}

void WorkerNode::ReportEnd() {
  if (const uint64_t violations = Violations(); violations > 0) {
    LOG(ERROR) << "the guarantee of " << job_->specs.policy.spec << " was broken " << violations
               << " times, as this worker has seen";
  }
  if (reports_ == nullptr || !membership_.rank().has_value()) return;
  NodeReport report = ReportOf(absl::StrCat("worker-", *membership_.rank()), loop_);
  if (engine_.has_value()) {
    report.answers = engine_->replies().replies();
    AddViolations(engine_->replies().violations(), absl::StrCat("worker ", *membership_.rank()),
                  &report);
  }
  if (peer_.has_value()) {
    AddViolations(peer_->ledger().violations(), absl::StrCat("peer ", *membership_.rank()),
                  &report);
  }
  reports_->Take(report);
}

}  // namespace soapstone::apps
