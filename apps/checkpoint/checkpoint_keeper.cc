#include "apps/checkpoint/checkpoint_keeper.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "apps/checkpoint/side_process.h"
#include "base/counted.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
#include "checkpoint/best.h"
#include "checkpoint/folder.h"
#include "cluster/resume/resume.h"
#include "cluster/team/job_strategy.h"
#include "server/store/capture.h"
#include "wire/config/text_config.h"

namespace soapstone::apps {
namespace {

constexpr size_t kKept = 2;
constexpr size_t kTasksMax = 64;  // more that are given up while a disk hangs are found later
constexpr absl::Duration kCommitLookAgain = absl::Seconds(1);
constexpr absl::Duration kEvaluationLookAgain = absl::Milliseconds(50);
constexpr size_t kVerdictsMax = 64;
constexpr absl::Duration kFinishMax = absl::Minutes(4);  // less than a launcher waits
constexpr absl::Duration kFinishLookAgain = absl::Milliseconds(20);

scheduler::CheckpointOptions OptionsOf(const Job& job) {
  scheduler::CheckpointOptions options = {.every = job.checkpoint_every,
                                          .first = job.first_clock,
                                          .end = job.total_clocks,
                                          .aligned = !server::ChangesByRounds(job.specs.policy)};
  for (uint32_t k = 0; k < job.layout->shard_count(); ++k) {
    const bool has_rows = !job.layout->tables().empty();
    if (has_rows || job.layout->elements(ShardId{k}) > 0) options.shards.push_back(ShardId{k});
  }
  return options;
}

// Where workers keep the parameters too, those are servers of the same rank.
scheduler::LeavingOptions LeavingOptionsOf(const Job& job) {
  if (job.team == nullptr) return {};
  const wire::Cluster& cluster = job.config.cluster();
  return {.team_seats = cluster.workers() / std::max(1u, cluster.teams()),
          .beside_workers = job.team->plan.owned};
}

// By what is the best: texts and values are told apart by their loss, classes by accuracy.
bool GoesByLoss(const wire::JobConfig& config) {
  const std::string& format = config.data().format();
  const std::string model = config.model().substr(0, config.model().find(':'));
  return format == "bytes" || format == "words" || format == "parallel" || format == "copy" ||
         model == "matrix_factorisation" || model == "skip_gram";
}

absl::Status OfFolder(const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat("output.checkpoint_path: ", status.message()));
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(std::shared_ptr<const Job> job, uint64_t session)
    : job_(std::move(job)),
      session_(session),
      folder_(job_->config.output().checkpoint_path()),
      orders_(OptionsOf(*job_)),
      leaving_(LeavingOptionsOf(*job_)),
      tasks_(kTasksMax),
      outcomes_(1),
      verdicts_(kVerdictsMax) {}

absl::StatusOr<std::unique_ptr<CheckpointKeeper>> CheckpointKeeper::Open(
    std::shared_ptr<const Job> job, uint64_t session) {
  if (job->checkpoint_every == 0) return nullptr;
  std::unique_ptr<CheckpointKeeper> keeper(new CheckpointKeeper(std::move(job), session));
  checkpoint::Disk* disk = keeper->disk_.get();
  const std::string& folder = keeper->folder_;
  if (absl::Status made = disk->MakeFolder(folder); !made.ok()) return OfFolder(made);
  absl::StatusOr<checkpoint::FolderLock> lock = checkpoint::FolderLock::Take(folder);
  if (!lock.ok()) return OfFolder(lock.status());
  keeper->lock_ = *std::move(lock);
  // Looked at before the lock, by who could have ended since.
  if (absl::Status mine = checkpoint::ClocksIn(disk, folder).status(); !mine.ok()) {
    return OfFolder(mine);
  }
  const absl::Status removed = checkpoint::RemoveUnfinished(disk, folder);
  if (!removed.ok()) return OfFolder(removed);
  if (keeper->job_->team != nullptr) {
    SOAP_ASSIGN_OR_RETURN(const JobStrategy file, ReadJobStrategy(keeper->job_->config));
    keeper->strategy_ = wire::TextOf(file.strategy);
  }
  if (keeper->job_->first_clock > 0) {
    SOAP_ASSIGN_OR_RETURN(keeper->first_, ReadFirstCheckpoint(*keeper->job_, disk));
    keeper->kept_.push_back(keeper->job_->first_clock);
  }
  SOAP_RETURN_IF_ERROR(keeper->OpenBest());
  keeper->thread_ = std::jthread([self = keeper.get()] { self->Run(); });
  return keeper;
}

absl::Status CheckpointKeeper::OpenBest() {
  const wire::Output& output = job_->config.output();
  if (!output.keep_best()) {
    const auto best = checkpoint::ReadBest(disk_.get(), folder_);
    const bool stays = best.ok() && best->has_value() && (*best)->clock() <= job_->first_clock;
    if (stays) former_best_ = (*best)->clock();
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> command = CommandBeside();
  if (!command.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("output.keep_best: ", command.status().message()));
  }
  command_ = *std::move(command);
  const Nanos idle_max = NanosOf(job_->config.cluster().start_timeout_s());
  const auto evaluate = [this, idle_max](int64_t clock, Nanos now) {
    const std::string place = absl::StrCat("--checkpoint=", folder_, "/", clock);
    return SideProcess::Start(
        {.command = {command_, "evaluate", place, "--json"}, .idle_max = idle_max}, now);
  };
  best_ = std::make_unique<BestKeeper>(disk_.get(),
                                       BestKeeper::Options{.folder = folder_,
                                                           .by_loss = GoesByLoss(job_->config),
                                                           .early_stop = output.early_stop(),
                                                           .evaluate = evaluate});
  if (job_->first_clock > 0) verdicts_.TryPut(best_->GoOn(first_));
  return absl::OkStatus();
}

CheckpointKeeper::~CheckpointKeeper() {
  tasks_.Close();
  if (thread_.joinable()) thread_.join();
  // Servers may be at what is not finished; who comes next takes away what they leave.
  checkpoint::RemoveUnfinished(disk_.get(), folder_).IgnoreError();
}

bool CheckpointKeeper::Take(Nanos now, const wire::Message& message) {
  using wire::MessageType;
  if (message.type == MessageType::kAskLeave) {
    leaving_.Ask(now, message.from);
    return true;
  }
  const bool mine = message.type == MessageType::kBounded ||
                    message.type == MessageType::kCaptured || message.type == MessageType::kWritten;
  if (mine) orders_.OnMessage(now, message);
  return mine;
}

void CheckpointKeeper::EndBy(End end) {
  const bool under_way = end_.has_value();
  // Who ends the job has the last word: where it was to go on, it does not.
  const bool counts = !under_way || end_->or_goes_on || end_->notice.code == kExitStopped;
  if (!counts || (under_way && end.or_goes_on)) return;
  end_ = std::move(end);
  if (under_way) return;
  said_too_late_ = false;
  orders_.End();
}

std::optional<wire::Notice> CheckpointKeeper::TakeEnd(Nanos now) {
  if (!end_.has_value()) return std::nullopt;
  if (const std::optional<Clock> at = orders_.ended_at(); at.has_value()) {
    const std::string where = absl::StrCat("stopped at clock ", *at, " of ", job_->total_clocks);
    news_.push_back(*at == 0 ? absl::StrCat(where, ": there is nothing to go on from")
                             : absl::StrCat(where,
                                            ": the checkpoint is written; go on with "
                                            "--resume=auto"));
    stopped_early_ = end_->notice.code == kExitOk;
    return std::exchange(end_, std::nullopt)->notice;
  }
  if (!orders_.ending() && !std::exchange(said_too_late_, true)) {
    news_.push_back("the last clock is begun: the job ends with its model");
  }
  const bool early = end_->notice.code == kExitOk;
  if (early && !orders_.ending()) {
    end_.reset();
    return std::nullopt;
  }
  if (now < end_->by) return std::nullopt;
  End end = *std::exchange(end_, std::nullopt);
  if (end.notice.code == kExitStopped) end.notice.code = kExitPeerLost;  // not to go on at once
  stopped_early_ = early;
  orders_.GiveUpEnd();
  news_.push_back(absl::StrCat("no checkpoint was written in time: ",
                               end.or_goes_on ? "training goes on"
                               : last_ > 0    ? absl::StrCat("the last is of clock ", last_)
                                              : "there is none of this run"));
  return end.or_goes_on ? std::nullopt : std::optional(end.notice);
}

std::vector<std::string> CheckpointKeeper::TakeNews() {
  std::vector<std::string> news = orders_.TakeNews();
  std::ranges::move(std::exchange(news_, {}), std::back_inserter(news));
  return news;
}

void CheckpointKeeper::LookAtLeaving(Nanos now, const wire::Roster& roster,
                                     const std::vector<wire::Address>& silent, wire::Outbox* out) {
  const auto [why, may_leave] = leaving_.Look(now, roster, silent);
  for (const wire::Address node : may_leave) {
    out->Send(
        {.type = wire::MessageType::kMayLeave, .from = wire::Address::Scheduler(), .to = node});
  }
  if (why.empty()) return;
  news_.push_back(absl::StrCat(why, ": stopping with a checkpoint"));
  EndBy({.notice = {kExitStopped, why}, .by = now + NanosOf(job_->config.cluster().grace_s())});
}

void CheckpointKeeper::Look(Nanos now, const Trained& trained, const wire::Roster& roster,
                            const std::vector<wire::Address>& silent, wire::Outbox* out) {
  if (!stopped_ && (!ending() || end_->or_goes_on)) LookAtLeaving(now, roster, silent, out);
  while (std::optional<Outcome> outcome = outcomes_.Take(SteadyTime::InfinitePast())) {
    if (outcome->error.empty()) {
      last_ = outcome->clock;
      LOG(INFO) << "checkpoint " << outcome->clock << " is written";
    } else {
      LOG(WARNING) << "checkpoint " << outcome->clock << " is not written: " << outcome->error;
    }
    orders_.OnCommitted(now, outcome->clock, outcome->error);
  }
  while (std::optional<BestKeeper::Verdict> verdict = verdicts_.Take(SteadyTime::InfinitePast())) {
    TakeVerdict(now, *std::move(verdict));
  }
  if (const auto whole = orders_.TakeWhole()) {
    commits_ += tasks_.TryPut(ManifestOf(*whole, trained)) ? 1 : 0;
  }
  for (const Clock clock : orders_.TakeGivenUp()) tasks_.TryPut(clock);
  orders_.Look(now, trained.newest, roster, out);
}

void CheckpointKeeper::TakeVerdict(Nanos now, BestKeeper::Verdict verdict) {
  if (verdict.best.has_value()) best_so_far_ = std::move(verdict.best);
  LOG_IF(WARNING, verdict.warns) << verdict.line;
  if (!verdict.line.empty()) news_.push_back(std::move(verdict.line));
  if (!verdict.stop || stopped_) return;
  const std::string why = absl::StrCat(
      Counted(best_so_far_->not_better(), "evaluation"), " in a row not better than checkpoint ",
      best_so_far_->clock(), " (", checkpoint::FigureOf(*best_so_far_), ")");
  if (!ending()) news_.push_back(absl::StrCat(why, ": stopping early with a checkpoint"));
  EndBy({.notice = {kExitOk, absl::StrCat("stopped early: ", why)},
         .by = now + NanosOf(job_->config.cluster().grace_s())});
}

void CheckpointKeeper::FinishEvaluations(const std::function<bool()>& gives_up) {
  stopped_ = true;
  const SteadyTime deadline = SteadyNow() + kFinishMax;
  while (evaluates() && !gives_up() && SteadyNow() < deadline) absl::SleepFor(kFinishLookAgain);
  while (std::optional<BestKeeper::Verdict> verdict = verdicts_.Take(SteadyTime::InfinitePast())) {
    TakeVerdict(0, *std::move(verdict));
  }
}

absl::Status CheckpointKeeper::ExportBest(const std::string& path,
                                          const std::function<bool()>& gives_up) const {
  const std::string place = absl::StrCat(folder_, "/", best_so_far_->clock());
  auto process = SideProcess::Start({.command = {command_, "checkpoint", "export", place, path},
                                     .all_max = absl::ToInt64Nanoseconds(kFinishMax)},
                                    SteadyNow().nanos());
  if (!process.ok()) return absl::InvalidArgumentError(process.status().message());
  while (!gives_up()) {
    const auto said = (*process)->Poll(SteadyNow().nanos());
    if (said.has_value() && said->ok()) return absl::OkStatus();
    if (said.has_value()) return absl::InvalidArgumentError(said->status().message());
    absl::SleepFor(kFinishLookAgain);
  }
  return absl::InvalidArgumentError("a signal came");
}

wire::Checkpoint CheckpointKeeper::ManifestOf(const scheduler::CheckpointOrders::Whole& whole,
                                              const Trained& trained) const {
  wire::Checkpoint manifest;
  manifest.set_clock(whole.clock);
  manifest.set_meaning(absl::StrCat(absl::Hex(job_->meaning, absl::kZeroPad16)));
  manifest.set_session(session_);
  manifest.set_parent(job_->first_clock);
  manifest.set_samples(first_.samples() + trained.samples);
  manifest.set_seconds(first_.seconds() + trained.seconds);
  manifest.set_job(JobText(job_->config));
  manifest.set_strategy(strategy_);
  for (const auto& [shard, part] : whole.parts) {
    checkpoint::AddPart(checkpoint::PartFile(Index(shard)),
                        {.bytes = part.bytes, .blocks = part.blocks}, &manifest);
  }
  return manifest;
}

void CheckpointKeeper::Run() {
  while (!tasks_.closed() || tasks_.size() > 0) {
    const bool evaluates = best_ != nullptr && best_->busy();
    const std::optional<Task> task =
        tasks_.Take(SteadyNow() + (evaluates ? kEvaluationLookAgain : kCommitLookAgain));
    if (best_ != nullptr && has_wake_) LookAtBest();
    if (!task.has_value()) continue;
    if (const Clock* given_up = std::get_if<Clock>(&*task)) {
      disk_->Remove(checkpoint::UnderWay(folder_, *given_up, session_)).IgnoreError();
      continue;
    }
    const auto& manifest = std::get<wire::Checkpoint>(*task);
    outcomes_.TryPut({.clock = manifest.clock(), .error = Commit(manifest)});
    evaluates_ = best_ != nullptr && best_->busy();
    ++commits_made_;
    wake_();
  }
}

void CheckpointKeeper::LookAtBest() {
  std::optional<BestKeeper::Verdict> verdict = best_->Turn(SteadyNow().nanos());
  if (verdict.has_value()) {
    if (verdict->stop) best_->Stop();
    verdicts_.TryPut(*std::move(verdict));
    const absl::Status pruned = has_committed_ ? PruneOld() : absl::OkStatus();
    LOG_IF(WARNING, !pruned.ok()) << "older checkpoints stay: " << pruned.message();
    wake_();
  }
  evaluates_ = best_->busy();
}

absl::Status CheckpointKeeper::PruneOld() {
  std::vector<int64_t> keep = kept_;
  if (former_best_.has_value()) keep.push_back(*former_best_);
  if (best_ != nullptr) std::ranges::copy(best_->kept(), std::back_inserter(keep));
  return checkpoint::Prune(disk_.get(), folder_, keep);
}

std::string CheckpointKeeper::Commit(const wire::Checkpoint& manifest) {
  absl::Status committed = absl::OkStatus();
  if (best_ != nullptr) committed = best_->BeforeCommit(manifest.clock());
  if (committed.ok()) committed = checkpoint::Commit(disk_.get(), folder_, manifest);
  if (!committed.ok()) return std::string(committed.message());
  has_committed_ = true;
  if (best_ != nullptr) best_->Add(manifest.clock(), manifest.session());
  kept_.push_back(manifest.clock());
  if (kept_.size() > kKept) kept_.erase(kept_.begin(), kept_.end() - kKept);
  // That older ones stay is no reason to train on without this one.
  absl::Status pruned = PruneOld();
  // The next is ordered when this one is told: what is there now was given up.
  if (pruned.ok()) pruned = checkpoint::RemoveUnfinished(disk_.get(), folder_);
  LOG_IF(WARNING, !pruned.ok()) << "older checkpoints stay: " << pruned.message();
  return "";
}

std::string CheckpointKeeper::Summary() const {
  if (orders_.committed() + orders_.failed() == 0) return "";
  std::string line = absl::StrCat(Counted(orders_.committed(), "checkpoint"), " in ", folder_);
  if (orders_.committed() > 0) absl::StrAppend(&line, ", the last of clock ", last_);
  if (best_so_far_.has_value()) absl::StrAppend(&line, ", the best of ", best_so_far_->clock());
  if (orders_.failed() > 0) absl::StrAppend(&line, "; ", orders_.failed(), " not written");
  return line;
}

}  // namespace soapstone::apps
