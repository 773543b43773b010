#include "apps/node/scheduler_node.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/stop_signals.h"
#include "checkpoint/best.h"
#include "cluster/divergence.h"
#include "consistency/levels.h"
#include "models/runtime/confusion.h"

namespace soapstone::apps {
namespace {

using scheduler::Coordinator;

constexpr Nanos kReportEvery = kSecond / 2;
constexpr size_t kNewsShown = 50;
// On whom nobody is to rely who asks to leave; less than scheduler::LeavingNodes::kWait.
constexpr Nanos kUnheard = 3 * kSecond / 4;
constexpr Nanos kEndUnsaid = 2 * kSecond;  // that it stays there for so long
constexpr absl::Duration kSchedulerLinger = absl::Seconds(2);

double ReportSeconds(Nanos duration) {
  return static_cast<double>(duration) / static_cast<double>(kSecond);
}

std::vector<WorkerTimes> TimesOf(const ProgressByWorker& progress) {
  std::vector<WorkerTimes> times;
  times.reserve(progress.size());
  for (const auto& [worker, p] : progress) {
    times.push_back({.worker = Index(worker),
                     .compute = ReportSeconds(p.compute_ns),
                     .injected = ReportSeconds(p.injected_ns),
                     .policy = ReportSeconds(p.parked_ns),
                     .shard = ReportSeconds(p.queued_ns),
                     .network = ReportSeconds(p.blocked_ns - p.parked_ns - p.queued_ns)});
  }
  return times;
}

}  // namespace

scheduler::CoordinatorOptions CoordinatorOptionsOf(const Job& job, uint64_t session) {
  const wire::Cluster& cluster = job.config.cluster();
  return {
      .servers = ServerCount(job.config, job.specs.policy),
      .workers = cluster.workers(),
      .shards_per_server = cluster.shards_per_server(),
      .replicas = cluster.replicas(),
      .session = session,
      .config_digest = job.digest,
      .one_arithmetic = job.specs.policy.guarantee.sequential_bits,
      .heartbeat_ns = NanosOf(cluster.heartbeat_s()),
      .timeout_ns = job.patience_ns,
      .start_timeout_ns = NanosOf(cluster.start_timeout_s()),
      .evaluate = job.config.training().evaluation() != "none",
      .rebalance = {.micro_batch_count = job.rebalance ? job.micro_batches : 0},
      .first_clock = job.first_clock,
      .team = job.team != nullptr ? std::optional(job.team->shape) : std::nullopt,
      .needs_all_teams = job.specs.policy.takes_over(),
      .ends_with_a_team = job.specs.policy.decentralised(),
      .beside_workers = job.team != nullptr && job.team->plan.owned,
      .on_divergence = [config = job.config, specs = job.specs, clocks = job.total_clocks](
                           Clock clock) { return DivergenceAdvice(config, specs, clocks, clock); }};
}

SchedulerNode::SchedulerNode(std::shared_ptr<const Job> job,
                             std::unique_ptr<transport::Transport> transport, uint64_t session,
                             ReportSink* reports)
    : job_(std::move(job)),
      loop_(std::move(transport), job_->config.cluster().shards_per_server()),
      coordinator_(CoordinatorOptionsOf(*job_, session)),
      meter_({.clocks = job_->total_clocks,
              .clocks_per_epoch = job_->clocks_per_epoch,
              .epochs = EpochsOf(*job_),
              .language_model = IsLanguageModel(*job_)}),
      reports_(reports) {
  loop_.transport().SetSelf(wire::Address::Scheduler());
  loop_.transport().SetSession(session);
  loop_.router().SetSelf(wire::Address::Scheduler());
}

int SchedulerNode::Run() {
  reports_->Take(
      Listening{loop_.transport().endpoint(), status_ == nullptr ? "" : status_->address()});
  if (checkpoints_ != nullptr) checkpoints_->WakeBy([this] { loop_.Wake(); });
  const Nanos began = loop_.Now();
  Record({.kind = sim::EventKind::kStart, .now = began});
  coordinator_.Start(began, &out_);
  Flush();
  while (!coordinator_.ended().has_value()) {
    const std::optional<wire::Message> message = loop_.Next(kReportEvery);
    const Nanos now = loop_.Now();
    DoubtThoseThatEnded(now);
    if (message.has_value()) Deliver(now, *message);
    for (const wire::TimerId timer : loop_.TakeDue(now)) {
      Record({.kind = sim::EventKind::kTimer, .index = static_cast<uint32_t>(timer), .now = now});
      coordinator_.OnTimer(now, timer, &out_);
    }
    for (const transport::LostNode& lost : loop_.TakeLost()) {
      // Of a process that was refused, such as a stranger, nobody waits for anything.
      LOG_IF(WARNING, !lost.node.IsTemporary())
          << "the link to " << lost.node.ToString() << " is lost: " << lost.why;
      Lose(now, lost.node, lost.epoch);
    }
    if (loop_.stop_requested()) EndAsTold(now);
    if (stop_for_strategy_.exchange(false)) {
      EndWithCheckpoint(now, {kExitStopped, "it goes on by another strategy"},
                        NanosOf(job_->config.cluster().grace_s()), true);
    }
    Flush();
    Watch(now);
    LookAtCheckpoints(now);
    Report(now);
    Show(status_, now, [&] { return StatusNow(now); });
  }
  if (checkpoints_ != nullptr) leaving_ = checkpoints_->leaving();
  ResultReport result = Result();
  if (recorder_ != nullptr && !result.sha256.empty()) {
    const absl::Status written = WriteRecordedHash(job_->config, result.sha256);
    if (!written.ok() && result.code == kExitOk) {
      result.code = kExitConfig;
      result.reason = std::string(written.message());
    }
  }
  loop_.router().Retry();
  loop_.transport().Close(kSchedulerLinger);
  EndCheckpoints(&result);
  LOG(INFO) << "ended with exit code " << result.code << ": " << result.reason;
  const transport::TransportStats moved = loop_.transport().stats();
  reports_->Take(NodeReport{.name = "scheduler",
                            .sent = moved.sent,
                            .received = moved.received,
                            .sockets = moved.sockets,
                            .shared_bytes = moved.shared_bytes});
  reports_->Take(result);
  ShowEnd(result);
  return result.code;
}

void SchedulerNode::EndCheckpoints(ResultReport* result) {
  if (checkpoints_ == nullptr) return;
  const bool well = result->code == kExitOk;
  if (well && checkpoints_->evaluates()) Tell("evaluating the last checkpoints");
  checkpoints_->FinishEvaluations([&] { return WaitsNoMore(!well || loop_.stop_requested()); });
  for (std::string& line : checkpoints_->TakeNews()) Tell(std::move(line));
  if (checkpoints_->best().has_value()) TakeBest(result);
  if (std::string line = checkpoints_->Summary(); !line.empty()) Tell(std::move(line));
  checkpoints_.reset();
}

// Whoever looks at the pages sees a process that is not hung.
bool SchedulerNode::WaitsNoMore(bool asked) const {
  if (status_ != nullptr) status_->Starts(loop_.Now());
  return asked;
}

void SchedulerNode::TakeBest(ResultReport* result) const {
  const wire::BestCheckpoint& best = *checkpoints_->best();
  const wire::Output& output = job_->config.output();
  result->best = {.clock = best.clock(),
                  .by_loss = best.by_loss(),
                  .samples = best.samples(),
                  .accuracy = best.accuracy(),
                  .loss = best.loss(),
                  .path = absl::StrCat(output.checkpoint_path(), "/", checkpoint::kBestFile)};
  if (!checkpoints_->stopped_early() || result->code != kExitOk) return;
  result->stopped_early = true;
  result->test_samples = best.samples();
  result->test_accuracy = best.accuracy();
  result->test_loss = best.loss();
  if (IsLanguageModel(*job_)) result->test_perplexity = std::exp(best.loss());
  if (output.model_path().empty()) return;
  const absl::Status written = checkpoints_->ExportBest(
      output.model_path(), [this] { return WaitsNoMore(loop_.stop_now_requested()); });
  if (written.ok()) {
    result->model_path = output.model_path();
    return;
  }
  result->code = kExitConfig;
  result->reason = absl::StrCat("output.model_path: ", written.message());
}

// Everybody else has been told and is on the way out: who looks at the pages learns it too.
void SchedulerNode::ShowEnd(const ResultReport& result) {
  if (status_ == nullptr) return;
  const Nanos now = loop_.Now();
  NodeStatus last = StatusNow(now);
  last.job.ended = {.code = result.code, .reason = result.reason};
  status_->ShowEnd(now, std::move(last));
  if (const Nanos left = status_->EndLeft(now); left > kEndUnsaid) {
    reports_->Take(News{absl::StrCat("ended with ", result.code, ": ", result.reason,
                                     "; that stays at /metrics until it is read, ", left / kSecond,
                                     " s at most, or until a signal")});
  }
  // Where a signal has ended the job, it takes another to end this.
  const bool stopped = loop_.stop_requested();
  const auto told = [&] { return stopped ? loop_.stop_now_requested() : loop_.stop_requested(); };
  while (status_->EndLeft(loop_.Now()) > 0 && !told()) {
    absl::SleepFor(absl::Milliseconds(20));
  }
}

void SchedulerNode::Deliver(Nanos now, const wire::Message& message) {
  const bool knows =
      message.from.role == wire::Role::kServer || message.from.role == wire::Role::kWorker;
  // What is written changes nothing of the training, nor does a wait for it: the coordinator need
  // not know, nor a recording.
  const bool asks = message.type == wire::MessageType::kAskLeave;
  const bool server_asks = asks && message.from.role == wire::Role::kServer;
  if (server_asks && coordinator_.OnServerLeaves(now, message.from, &out_)) return;
  const bool trains =
      running_since_.has_value() || coordinator_.phase() >= scheduler::Coordinator::Phase::kRunning;
  if (checkpoints_ != nullptr && trains && checkpoints_->Take(now, message)) return;
  if (server_asks) Lose(now, message.from, kLastEpoch, "stopped by a signal");
  if (asks) return;
  if (message.type == wire::MessageType::kBroken && knows) {
    return TakeLastWord(now, message.from, std::get<wire::Notice>(message.body));
  }
  Record(sim::EventOf(now, message));
  const bool evaluated = coordinator_.evaluation().has_value();
  coordinator_.OnMessage(now, message, &out_);
  if (!evaluated && coordinator_.evaluation().has_value()) confusion_ = message.payload;
}

// Why a node ends that the job cannot go on without. What is to be mended before the job can be
// tried again is the job's own end; else the node is lost.
void SchedulerNode::TakeLastWord(Nanos now, wire::Address node, const wire::Notice& end) {
  if (end.code == kExitBroken) return Abort(now, kExitBroken, end.text);
  if (node.role != wire::Role::kServer) return;
  if (end.code == kExitConfig) {
    return Abort(now, kExitConfig, absl::StrCat("server ", node.index, ": ", end.text));
  }
  Lose(now, node, kLastEpoch, end.text);
}

void SchedulerNode::Abort(Nanos now, int32_t code, std::string why) {
  Record({.kind = sim::EventKind::kAbort, .now = now, .clock = code});
  coordinator_.Abort(now, code, std::move(why), &out_);
}

bool SchedulerNode::EndWithCheckpoint(Nanos now, wire::Notice end, Nanos grace_ns,
                                      bool or_goes_on) {
  if (checkpoints_ == nullptr) return false;
  if (!checkpoints_->ending() && coordinator_.phase() != Coordinator::Phase::kRunning) return false;
  checkpoints_->EndBy({.notice = std::move(end), .by = now + grace_ns, .or_goes_on = or_goes_on});
  return true;
}

// The launcher that ends the rest knows whose end was the first.
void SchedulerNode::EndAsTold(Nanos now) {
  const std::optional<EndedProcess> ended = EndedProcessOf(signal_value_);
  if (!ended.has_value()) {
    const wire::Notice end = {loop_.stop_code(), "stopped by a signal"};
    const Nanos grace_ns = NanosOf(job_->config.cluster().grace_s());
    if (!loop_.stop_now_requested() && EndWithCheckpoint(now, end, grace_ns)) return;
    return Abort(now, end.code, end.text);
  }
  Abort(now, ended->code,
        absl::StrCat(ended->is_worker ? "worker " : "server ", ended->rank,
                     " lost: its process has ended"));
}

void SchedulerNode::Lose(Nanos now, wire::Address node, Epoch heard, std::string_view why) {
  Record({.kind = sim::EventKind::kLost,
          .role = node.role,
          .index = node.index,
          .now = now,
          .check = heard});
  coordinator_.OnLost(now, node, heard, &out_, why);
}

// Before a message is looked at, which may be of a connection that was made since.
void SchedulerNode::DoubtThoseThatEnded(Nanos now) {
  if (coordinator_.phase() != Coordinator::Phase::kRegistering) return;
  for (const wire::Address node : loop_.transport().TakeEnded()) {
    Record({.kind = sim::EventKind::kEnded, .role = node.role, .index = node.index, .now = now});
    coordinator_.OnConnectionEnded(now, node);
  }
}

void SchedulerNode::Flush() {
  loop_.router().SetChains(coordinator_.roster().chains);
  for (const wire::Message& message : out_.messages) {
    const auto* welcome = std::get_if<wire::Welcome>(&message.body);
    if (welcome == nullptr) continue;
    const wire::Address place = {message.to.role, welcome->rank};
    loop_.transport().SetHolder(place, coordinator_.KeyOf(place));
    loop_.router().SetAlias(place, message.to);
  }
  loop_.Flush(&out_);
}

void SchedulerNode::Watch(Nanos now) {
  for (std::string& line : coordinator_.TakeNews()) Tell(std::move(line));
  TellViolations();
  const bool running = coordinator_.phase() == Coordinator::Phase::kRunning;
  if (running && !running_since_.has_value()) running_since_ = now;
  if (!running && running_since_.has_value() && !running_until_.has_value()) {
    running_until_ = now;
    last_progress_ = meter_.Take(now, coordinator_.progress(), coordinator_.roster());
  }
}

void SchedulerNode::LookAtCheckpoints(Nanos now) {
  if (checkpoints_ == nullptr || !running_since_.has_value()) return;
  if (running_until_.has_value()) checkpoints_->Stop();
  CheckpointKeeper::Trained trained = {
      .seconds = ReportSeconds(running_until_.value_or(now) - *running_since_)};
  for (const auto& [worker, progress] : coordinator_.progress()) {
    trained.newest = std::max(trained.newest, progress.clock);
    trained.samples += progress.samples;
  }
  checkpoints_->Look(now, trained, coordinator_.roster(), coordinator_.Silent(now, kUnheard),
                     &out_);
  const std::optional<wire::Notice> end = checkpoints_->TakeEnd(now);
  for (std::string& line : checkpoints_->TakeNews()) Tell(std::move(line));
  if (end.has_value()) Abort(now, end->code, end->text);
  Flush();
}

void SchedulerNode::Tell(std::string line) {
  LOG(INFO) << line;
  Keep(std::move(line));
}

void SchedulerNode::Keep(std::string line) {
  news_.push_back(line);
  if (news_.size() > kNewsShown) news_.pop_front();
  reports_->Take(News{std::move(line)});
}

// Once a worker: a strict job ends with the first, another goes on.
void SchedulerNode::TellViolations() {
  for (const auto& [worker, progress] : coordinator_.progress()) {
    if (progress.violations == 0 || !told_violations_.insert(worker).second) continue;
    std::string line = absl::StrCat("worker ", Index(worker), ": the guarantee of ",
                                    job_->specs.policy.spec, " was broken ", progress.violations,
                                    " times so far; its log says where first");
    LOG(ERROR) << line;
    Keep(std::move(line));
  }
}

void SchedulerNode::Report(Nanos now) {
  if (coordinator_.phase() != Coordinator::Phase::kRunning || now < next_report_) return;
  next_report_ = now + kReportEvery;
  last_progress_ = meter_.Take(now, coordinator_.progress(), coordinator_.roster());
  if (last_progress_.samples > 0) {
    reports_->Take(last_progress_);
    history_.Take(ReportSeconds(now - *running_since_), last_progress_);
  }
  ReportSpeeds();
  for (std::string& line :
       slow_.Take(now, *running_since_, coordinator_.progress(), coordinator_.roster())) {
    Tell(std::move(line));
  }
}

void SchedulerNode::ReportSpeeds() {
  if (job_->team == nullptr) return;
  if (!speeds_.has_value()) speeds_.emplace(job_->config.cluster().workers(), job_->first_clock);
  for (const auto& [worker, progress] : coordinator_.progress()) {
    speeds_->Observe(worker, progress);
  }
  if (const std::optional<std::vector<double>> slowness = speeds_->Take(); slowness.has_value()) {
    reports_->Take(SlownessReport{.clock = last_progress_.clock, .slowness = *slowness});
  }
}

NodeStatus SchedulerNode::StatusNow(Nanos now) const {
  constexpr const char* kPhases[] = {"registering", "installing", "running",
                                     "evaluating",  "saving",     "closing"};
  NodeStatus status = StatusOf(*job_, loop_, "scheduler", -1, now, began_);
  JobStatus& job = status.job;
  const Coordinator::Phase phase = coordinator_.phase();
  job.phase = kPhases[static_cast<size_t>(phase)];
  job.ready = true;  // it listens
  job.missing = coordinator_.Missing();
  if (phase == Coordinator::Phase::kRegistering) job.waits = "waiting for " + job.missing;
  const wire::Roster& roster = coordinator_.roster();
  job.servers = ServerCount(job_->config, job_->specs.policy);
  job.servers_there = coordinator_.Present(wire::Role::kServer);
  job.workers_wanted = job_->config.cluster().workers();
  job.decentralised = job_->specs.policy.decentralised();
  job.progress = last_progress_;
  job.progress.clocks = job_->total_clocks;
  job.progress.epochs = EpochsOf(*job_);
  if (job.progress.samples == 0) job.progress.eta_s = -1;  // nothing is known of it
  job.progress.workers = coordinator_.Present(wire::Role::kWorker);
  job.shards = LagsNow(now);
  job.history = history_.points();
  job.news.assign(news_.begin(), news_.end());
  AddDurability(*job_, checkpoints_.get(), roster, &status);
  std::vector<WorkerTimes> times = TimesOf(coordinator_.progress());
  auto time = times.begin();
  for (const auto& [worker, progress] : coordinator_.progress()) {
    job.workers.push_back(StatusOfWorker(worker, progress, *time++, roster));
    job.workers.back().host = coordinator_.HostOf(wire::Address::Of(worker));
    const auto pace = slow_.paces().find(worker);
    if (pace == slow_.paces().end()) continue;
    job.workers.back().step_s = pace->second.step_s;
    job.workers.back().slowdown = pace->second.slowdown;
  }
  return status;
}

std::vector<ShardLags> SchedulerNode::LagsNow(Nanos now) const {
  std::vector<ShardLags> lags;
  for (const auto& [server, report] : coordinator_.reports().all()) {
    for (const wire::ShardReads& reads : report.progress.shards) {
      const consistency::Level level =
          consistency::LevelOf(reads.shard, job_->layout->shard_count(), job_->specs.policy);
      const consistency::Guarantee guarantee =
          consistency::TraitsOfLevel(job_->specs.policy, level).guarantee;
      lags.push_back({.server = Index(server),
                      .groups = level == consistency::Level::kRoot,
                      .age_s = ReportSeconds(now - report.at),
                      .read_lag_max = guarantee.read_lag_max,
                      .clock_gap_max = guarantee.clock_gap_max,
                      .reads = reads});
    }
  }
  return lags;
}

void SchedulerNode::AddEvaluation(ResultReport* result) const {
  const auto& evaluation = coordinator_.evaluation();
  if (!evaluation.has_value()) return;
  const double samples = static_cast<double>(std::max<uint64_t>(1, evaluation->samples));
  result->test_samples = evaluation->samples;
  result->test_accuracy = std::round(evaluation->correct) / samples;
  result->test_loss = evaluation->loss_sum / samples;
  if (IsLanguageModel(*job_)) result->test_perplexity = std::exp(result->test_loss);
  absl::StatusOr<models::Confusion> confusion = models::ConfusionOf(confusion_);
  if (!confusion.ok()) {
    LOG(ERROR) << confusion.status().message();
    return;
  }
  result->balanced_accuracy = models::BalancedAccuracy(*confusion);
  result->confusion = *std::move(confusion);
  if (job_->data != nullptr) result->class_names = job_->data->class_names;
}

ResultReport SchedulerNode::Result() const {
  const wire::Progress sum = SumOf(coordinator_.progress());
  ResultReport result;
  result.code = coordinator_.ended()->code;
  result.reason = coordinator_.ended()->text;
  result.job = job_->summary;
  consistency::Guarantee guarantee = job_->specs.policy.guarantee;
  // Split operators are their wholes up to rounding.
  const bool whole = job_->team == nullptr || job_->team->plan.whole;
  guarantee.sequential_bits = guarantee.sequential_bits && whole;
  result.guarantee = guarantee.ToString();
  AddEvaluation(&result);
  if (running_since_.has_value()) {
    result.seconds = ReportSeconds(running_until_.value_or(loop_.Now()) - *running_since_);
  }
  result.samples = sum.samples;
  if (result.seconds > 0) {
    result.samples_per_s = static_cast<double>(sum.samples) / result.seconds;
  }
  result.train_loss = last_progress_.loss;
  result.train_perplexity = last_progress_.perplexity;
  result.losses = meter_.losses();
  result.pushed_bytes = sum.pushed_bytes;
  result.pulled_bytes = sum.pulled_bytes;
  result.read_lags = sum.read_lags;
  result.leaving = leaving_;
  result.times = TimesOf(coordinator_.progress());
  for (const auto& [worker, progress] : coordinator_.progress()) {
    for (const wire::LeftOut& entry : progress.left_out) {
      result.left_out.push_back({.worker = Index(worker),
                                 .tensor = entry.tensor,
                                 .updates = entry.updates,
                                 .first_clock = entry.first});
    }
  }
  result.violations = sum.violations;
  result.rejects = sum.rejects;
  const transport::TransportStats moved = loop_.transport().stats();
  result.malformed = moved.rejected_messages + coordinator_.ignored();
  result.strangers = moved.strangers;
  if (const auto& saved = coordinator_.saved(); saved.has_value()) {
    result.sha256 = saved->sha256;
    result.model_path = saved->path;
  }
  return result;
}

}  // namespace soapstone::apps
