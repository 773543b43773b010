#include "apps/checkpoint/best_keeper.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/plain_text.h"
#include "base/strict_json.h"
#include "checkpoint/best.h"
#include "checkpoint/folder.h"

namespace soapstone::apps {
namespace {

// JSON has no numbers that are not finite: null stands for them.
double FigureFrom(const nlohmann::json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

}  // namespace

absl::StatusOr<wire::BestCheckpoint> FiguresOf(const std::string& text) {
  wire::BestCheckpoint figures;
  try {
    const auto json = nlohmann::json::parse(text);
    figures.set_samples(WholeFrom<uint64_t>(json.at("test_samples")));
    figures.set_accuracy(FigureFrom(json.at("test_accuracy")));
    figures.set_loss(FigureFrom(json.at("test_loss")));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("what it says cannot be read: ", error.what()));
  }
  return figures;
}

BestKeeper::Verdict BestKeeper::GoOn(const wire::Checkpoint& first) {
  Verdict verdict;
  const absl::StatusOr<wire::Checkpoint> manifest =
      checkpoint::ReadBestManifest(disk_, options_.folder);
  const auto best = checkpoint::ReadBest(disk_, options_.folder);
  const bool mine = manifest.ok() && manifest->meaning() == first.meaning() && best.ok() &&
                    best->has_value() && (*best)->by_loss() == options_.by_loss;
  // Who goes back gives up what was trained after: it would be the newest of the folder.
  const bool known = mine && (*best)->clock() <= first.clock();
  if (known) {
    best_ = **best;
    said_ = best_->clock();
    // Evaluations of what is given up do not count.
    if (best_->evaluated() > first.clock()) best_->set_not_better(0);
    verdict.best = best_;
    verdict.line = absl::StrCat("the best checkpoint so far: ", best_->clock(), ", ",
                                checkpoint::FigureOf(*best_));
  } else if (!absl::IsNotFound(manifest.status())) {
    verdict.warns = true;
    const std::string why = !manifest.ok() ? PlainText(manifest.status().message())
                            : mine         ? "it is after where this run goes on"
                                           : "it is another job's";
    verdict.line = absl::StrCat("the best checkpoint so far is not known: ", why);
  }
  if (!known || best_->evaluated() < first.clock()) Add(first.clock(), first.session());
  return verdict;
}

absl::Status BestKeeper::BeforeCommit(int64_t clock) {
  if (waiting_.has_value() && waiting_->clock == clock) waiting_.reset();
  if (running_.has_value() && running_->of.clock == clock) running_.reset();
  if (best_.has_value() && best_->clock() == clock) best_.reset();
  if (said_ != clock) return absl::OkStatus();
  said_.reset();
  return checkpoint::RemoveBest(disk_, options_.folder);
}

void BestKeeper::Add(int64_t clock, uint64_t session) {
  if (!stopped_) waiting_ = {.clock = clock, .session = session};
}

std::vector<int64_t> BestKeeper::kept() const {
  std::vector<int64_t> clocks;
  if (best_.has_value()) clocks.push_back(best_->clock());
  if (said_.has_value()) clocks.push_back(*said_);
  if (waiting_.has_value()) clocks.push_back(waiting_->clock);
  if (running_.has_value()) clocks.push_back(running_->of.clock);
  return clocks;
}

void BestKeeper::Stop() {
  stopped_ = true;
  waiting_.reset();
  running_.reset();
}

std::optional<BestKeeper::Verdict> BestKeeper::Turn(Nanos now) {
  if (!running_.has_value() && waiting_.has_value()) {
    const Candidate next = *std::exchange(waiting_, std::nullopt);
    auto begun = options_.evaluate(next.clock, now);
    if (!begun.ok()) return Failed(next, std::string(begun.status().message()));
    running_ = {.of = next, .evaluation = *std::move(begun)};
  }
  if (!running_.has_value()) return std::nullopt;
  const auto said = running_->evaluation->Poll(now);
  if (!said.has_value()) return std::nullopt;
  const Candidate of = running_->of;
  running_.reset();
  return Judge(of, *said);
}

BestKeeper::Verdict BestKeeper::Failed(const Candidate& of, const std::string& why) {
  Verdict verdict = {.best = best_};
  if (std::exchange(said_failed_, true)) return verdict;
  verdict.warns = true;
  verdict.line = absl::StrCat("checkpoint ", of.clock, " is not evaluated: ", PlainText(why));
  return verdict;
}

BestKeeper::Verdict BestKeeper::Judge(const Candidate& of,
                                      const absl::StatusOr<std::string>& said) {
  if (!said.ok()) return Failed(of, std::string(said.status().message()));
  absl::StatusOr<wire::BestCheckpoint> figures = FiguresOf(*said);
  if (!figures.ok()) return Failed(of, std::string(figures.status().message()));
  said_failed_ = false;
  figures->set_clock(of.clock);
  figures->set_session(of.session);
  figures->set_by_loss(options_.by_loss);
  figures->set_evaluated(of.clock);
  Verdict verdict;
  if (!best_.has_value() || checkpoint::IsBetter(*figures, *best_)) {
    best_ = *std::move(figures);
    verdict.line =
        absl::StrCat("checkpoint ", of.clock, " is the best so far: ", checkpoint::FigureOf(*best_),
                     " on ", Counted(best_->samples(), "held-out sample"));
  } else {
    best_->set_evaluated(of.clock);
    best_->set_not_better(best_->not_better() + 1);
    verdict.stop = options_.early_stop > 0 && best_->not_better() >= options_.early_stop;
  }
  verdict.best = best_;
  if (const std::string why = Say(); !why.empty()) {
    verdict.warns = true;
    absl::StrAppend(&verdict.line, verdict.line.empty() ? "" : "; ", why);
  }
  return verdict;
}

std::string BestKeeper::Say() {
  const absl::Status written = checkpoint::WriteBest(disk_, options_.folder, *best_);
  if (written.ok()) {
    said_ = best_->clock();
    said_unwritten_ = false;
    return "";
  }
  if (std::exchange(said_unwritten_, true)) return "";
  return absl::StrCat("that ", best_->clock(),
                      " is the best is not written: ", PlainText(written.message()));
}

}  // namespace soapstone::apps
