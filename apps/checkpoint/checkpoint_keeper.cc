#include "apps/checkpoint/checkpoint_keeper.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
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
      outcomes_(1) {}

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
  keeper->thread_ = std::jthread([self = keeper.get()] { self->Run(); });
  return keeper;
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
    return std::exchange(end_, std::nullopt)->notice;
  }
  if (!orders_.ending() && !std::exchange(said_too_late_, true)) {
    news_.push_back("the last clock is begun: the job ends with its model");
  }
  if (now < end_->by) return std::nullopt;
  End end = *std::exchange(end_, std::nullopt);
  if (end.notice.code == kExitStopped) end.notice.code = kExitPeerLost;  // not to go on at once
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
  if (const auto whole = orders_.TakeWhole()) tasks_.TryPut(ManifestOf(*whole, trained));
  for (const Clock clock : orders_.TakeGivenUp()) tasks_.TryPut(clock);
  orders_.Look(now, trained.newest, roster, out);
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
    const std::optional<Task> task = tasks_.Take(SteadyNow() + kCommitLookAgain);
    if (!task.has_value()) continue;
    if (const Clock* given_up = std::get_if<Clock>(&*task)) {
      disk_->Remove(checkpoint::UnderWay(folder_, *given_up, session_)).IgnoreError();
      continue;
    }
    const auto& manifest = std::get<wire::Checkpoint>(*task);
    outcomes_.TryPut({.clock = manifest.clock(), .error = Commit(manifest)});
    wake_();
  }
}

std::string CheckpointKeeper::Commit(const wire::Checkpoint& manifest) {
  const absl::Status committed = checkpoint::Commit(disk_.get(), folder_, manifest);
  if (!committed.ok()) return std::string(committed.message());
  kept_.push_back(manifest.clock());
  if (kept_.size() > kKept) kept_.erase(kept_.begin(), kept_.end() - kKept);
  // That older ones stay is no reason to train on without this one.
  absl::Status pruned = checkpoint::Prune(disk_.get(), folder_, kept_);
  // The next is ordered when this one is told: what is there now was given up.
  if (pruned.ok()) pruned = checkpoint::RemoveUnfinished(disk_.get(), folder_);
  LOG_IF(WARNING, !pruned.ok()) << "older checkpoints stay: " << pruned.message();
  return "";
}

std::string CheckpointKeeper::Summary() const {
  if (orders_.committed() + orders_.failed() == 0) return "";
  std::string line = absl::StrCat(Counted(orders_.committed(), "checkpoint"), " in ", folder_);
  if (orders_.committed() > 0) absl::StrAppend(&line, ", the last of clock ", last_);
  if (orders_.failed() > 0) absl::StrAppend(&line, "; ", orders_.failed(), " not written");
  return line;
}

}  // namespace soapstone::apps
