#include "experiment/report/honesty.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cluster/curve.h"
#include "experiment/fair_comparison.h"
#include "experiment/grids.h"

namespace soapstone::experiment {
namespace {

constexpr size_t kTuningSeedsMin = 3;      // of rule 14
constexpr double kTimeSlack = 1.01;        // of rule 5: clocks of several processes
constexpr double kSampleSpreadMax = 0.01;  // of rule 10
constexpr double kLeakMax = 0.01;          // of rule 2: share of held-out samples trained on

// The runs that a scope is about, and one function for each rule.
class Checker {
 public:
  Checker(const Results& results, const Scope& scope);
  std::vector<Finding> Run();

 private:
  using Why = std::pair<Standing, std::string>;
  static Why Holds(std::string why) { return {Standing::kHolds, std::move(why)}; }
  static Why Marked(std::string why) { return {Standing::kMarked, std::move(why)}; }
  static Why Fails(std::string why) { return {Standing::kFails, std::move(why)}; }

  Why Accuracy() const;
  Why HeldOut() const;
  Why TuningKept() const;
  Why SameMachine() const;
  Why Kernels() const;
  Why Input() const;
  Why Target() const;
  Why OneConfiguration() const;
  Why Reference() const;
  Why Samples() const;
  Why Scaling() const;
  Why Baselines() const;
  Why Seeds() const;
  Why Budget() const;
  Why Lags() const;
  Why Bytes() const;
  Why Stragglers() const;
  Why Exposed() const;
  Why Replicas() const;
  Why WarmUp() const;

  bool real() const { return experiment_.spec.mode() == ExperimentSpec::real; }
  const std::string& PolicyOf(const CellResult& cell) const {
    return experiment_.policies[cell.cell.policy].name;
  }
  bool InTable(const Cell& cell) const;
  std::vector<ResolvedClaim> Comparisons() const;
  bool Has(const std::function<bool(const CellResult&)>& wanted) const {
    return std::any_of(table_.begin(), table_.end(),
                       [&](const CellResult* cell) { return wanted(*cell); });
  }

  const Results& results_;
  const Experiment& experiment_;
  Scope scope_;
  std::vector<const CellResult*> table_;  // of the subject and workers, all policies
  std::vector<const CellResult*> cells_;  // of the scope's policies
  std::vector<const RunOutcome*> runs_;   // of cells_
};

Checker::Checker(const Results& results, const Scope& scope)
    : results_(results), experiment_(*results.experiment), scope_(scope) {
  for (const CellResult& cell : results.cells) {
    if (!InTable(cell.cell)) continue;
    table_.push_back(&cell);
    const auto& policies = scope.policies;
    if (!policies.empty() && std::count(policies.begin(), policies.end(), cell.cell.policy) == 0) {
      continue;
    }
    cells_.push_back(&cell);
    runs_.insert(runs_.end(), cell.finished.begin(), cell.finished.end());
  }
}

bool Checker::InTable(const Cell& cell) const {
  if (scope_.subject.has_value() && cell.subject != *scope_.subject) return false;
  if (!scope_.workers.has_value()) return true;
  return cell.workers == *scope_.workers || OneWorkerCell(experiment_, cell.subject) == cell;
}

std::vector<Finding> Checker::Run() {
  using Check = Why (Checker::*)() const;
  constexpr Check kChecks[kRules] = {
      &Checker::Accuracy,   &Checker::HeldOut, &Checker::TuningKept, &Checker::SameMachine,
      &Checker::Kernels,    &Checker::Input,   &Checker::Target,     &Checker::OneConfiguration,
      &Checker::Reference,  &Checker::Samples, &Checker::Scaling,    &Checker::Baselines,
      &Checker::Seeds,      &Checker::Budget,  &Checker::Lags,       &Checker::Bytes,
      &Checker::Stragglers, &Checker::Exposed, &Checker::Replicas,   &Checker::WarmUp};
  std::vector<Finding> findings;
  findings.reserve(kRules);
  for (int rule = 1; rule <= kRules; ++rule) {
    auto [standing, why] = (this->*kChecks[rule - 1])();
    findings.push_back({.rule = rule, .standing = standing, .why = std::move(why)});
  }
  return findings;
}

Checker::Why Checker::Accuracy() const {
  if (runs_.empty()) return Fails("no measured run has finished");
  for (const RunOutcome* run : runs_) {
    if (run->provenance.test_samples == 0 || !std::isfinite(run->test_accuracy)) {
      return Fails("a run has no test accuracy");
    }
  }
  return Holds(absl::StrCat("all ", runs_.size(), " runs have theirs"));
}

Checker::Why Checker::HeldOut() const {
  uint64_t samples = 0, shared = 0;
  for (const RunOutcome* run : runs_) {
    const Provenance& p = run->provenance;
    if (p.test_samples == 0 || p.test_sha256.empty()) return Fails("there is no held-out split");
    if (p.test_sha256 == p.train_sha256) {
      return Fails("the held-out samples are the training samples (equal SHA-256)");
    }
    samples += p.test_samples;
    shared += p.test_in_train;
  }
  if (samples == 0) return Fails("no measured run has finished");
  const double share = static_cast<double>(shared) / static_cast<double>(samples);
  const std::string found =
      absl::StrFormat("%.2f%% of the held-out samples are training samples too", 100 * share);
  if (share > kLeakMax) return Fails(found);
  if (shared > 0) return Marked(found);
  return Holds("no held-out sample is among the training samples; the hashes are in runs.json");
}

Checker::Why Checker::TuningKept() const {
  if (!results_.registry.chain_verified) return Fails("the registry's hash chain is broken");
  const std::string kept =
      absl::StrCat("the registry's hash chain is whole; ", results_.tuning_finished,
                   " tuning runs of ", results_.finished, " runs");
  if (results_.finished < results_.total) {
    return Fails(
        absl::StrCat("only ", results_.finished, " of ", results_.total, " runs have finished"));
  }
  return Holds(kept);
}

Checker::Why Checker::SameMachine() const {
  std::set<std::string> hardware, builds;
  for (const RunOutcome* run : runs_) {
    hardware.insert(run->provenance.hardware);
    builds.insert(run->provenance.build);
  }
  if (hardware.size() > 1) {
    return Fails(absl::StrCat("runs were made on ", absl::StrJoin(hardware, " and on ")));
  }
  if (builds.size() > 1) {
    return Fails(absl::StrCat("runs were made by ", builds.size(),
                              " builds of the program: run it in a new folder"));
  }
  return Holds(hardware.empty() ? "no measured run has finished"
                                : absl::StrCat(*hardware.begin(), "; ", *builds.begin()));
}

Checker::Why Checker::Kernels() const {
  for (const CellResult* cell : cells_) {
    for (const RunOutcome* run : cell->finished) {
      if (run->compute_s <= kTimeSlack * run->duration_s * cell->cell.workers) continue;
      return Fails("workers computed for longer than their run is said to have taken");
    }
  }
  return Holds("all times are of whole runs; none is below what its workers computed");
}

Checker::Why Checker::Input() const {
  if (real()) return Marked("samples are in memory before the clock starts: reading is not timed");
  for (const CellResult* cell : cells_) {
    const wire::Data& data = experiment_.subjects[cell->cell.subject].config.data();
    if (data.format() != "images" && data.augment().empty()) continue;
    return Fails("images are decoded or changed during training, which virtual time leaves out");
  }
  return Marked(
      "co-simulation: samples are in memory, and an iteration's time is a model that "
      "does not include reading");
}

Checker::Why Checker::Target() const {
  std::set<std::string> precisions;
  for (const CellResult* cell : cells_) {
    const double target = experiment_.subjects[cell->cell.subject].target_accuracy;
    if (!(target > 0)) return Fails("no target_accuracy is set");
    for (const RunOutcome* run : cell->finished) {
      if (run->provenance.precision.empty()) return Fails("a run does not say its data type");
      precisions.insert(run->provenance.precision);
      if (target > GuessingAccuracy(run->provenance)) continue;
      return Fails(absl::StrFormat("the target, %.3g, is what guessing comes to", target));
    }
  }
  return Holds(absl::StrCat("times are to the target accuracy, held for ", kHoldPoints,
                            " points in a row; factors of products are ",
                            absl::StrJoin(precisions, " and ")));
}

Checker::Why Checker::OneConfiguration() const {
  // By subject and seed: what all policies must share.
  std::map<std::pair<size_t, size_t>, std::set<std::string>> shared;
  for (const CellResult* cell : cells_) {
    for (size_t i = 0; i < cell->runs.size(); ++i) {
      if (cell->runs[i] == nullptr) continue;
      const Provenance& p = cell->runs[i]->provenance;
      shared[{cell->cell.subject, i}].insert(
          absl::StrCat(p.train_sha256, " ", p.test_sha256, " ", p.parameters));
    }
  }
  for (const auto& [key, values] : shared) {
    if (values.size() > 1) return Fails("runs of one seed differ in data or model");
  }
  for (const CellResult* cell : cells_) {
    if (HasOtherFiles(results_, cell->cell.subject)) {
      return Fails("runs, tuning runs among them, read other files of data, model or weights");
    }
    if (HasOtherTraces(results_, cell->cell.straggler)) {
      return Fails("runs, tuning runs among them, read other traces of stragglers");
    }
  }
  std::set<std::string> ways;
  for (const RunOutcome* run : runs_) {
    const Provenance& p = run->provenance;
    ways.insert(absl::StrCat(p.precision, ", sent ", p.communication, ", codec ", p.codec));
  }
  if (ways.size() > 1) {
    return Marked(absl::StrCat("runs differ in precision, order of sending or codec: ",
                               absl::StrJoin(ways, "; ")));
  }
  return Holds(
      "runs of a table differ in the policy and in the tuned settings, which are listed; "
      "seed by seed they have the same data, order, initial values and stragglers");
}

Checker::Why Checker::Reference() const {
  constexpr uint64_t kDigits = 1797;  // UCI optical recognition of handwritten digits, 8x8
  constexpr uint64_t kMnist = 70'000;
  constexpr uint64_t kLeNet5 = 61'706;  // LeCun et al. 1998, at 28x28 or 32x32
  std::set<std::string> deviations;
  for (const CellResult* cell : cells_) {
    const wire::JobConfig& config = experiment_.subjects[cell->cell.subject].config;
    for (const RunOutcome* run : cell->finished) {
      const Provenance& p = run->provenance;
      const uint64_t samples = p.train_samples + p.test_samples;
      if (config.data().format() == "digits" && samples != kDigits) {
        return Fails(absl::StrCat(samples, " samples are not the ", kDigits, " of the digits"));
      }
      if (samples != kDigits && samples != kMnist) {
        deviations.insert(absl::StrCat(samples, " samples are of no data set the checker knows"));
      }
      if (config.model() == "lenet5" && p.parameters != kLeNet5) {
        deviations.insert(absl::StrCat("lenet5 has ", p.parameters,
                                       " parameters at this image size, the published one ",
                                       kLeNet5));
      }
    }
  }
  if (!deviations.empty()) return Marked(absl::StrJoin(deviations, "; "));
  return Holds("the sample counts are those of the public data sets");
}

Checker::Why Checker::Samples() const {
  std::map<std::pair<size_t, uint32_t>, std::pair<uint64_t, uint64_t>> range;
  for (const CellResult* cell : cells_) {
    for (const RunOutcome* run : cell->finished) {
      auto [at, fresh] =
          range.try_emplace({cell->cell.subject, cell->cell.workers}, run->samples, run->samples);
      at->second.first = std::min(at->second.first, run->samples);
      at->second.second = std::max(at->second.second, run->samples);
    }
  }
  for (const auto& [key, low_high] : range) {
    const auto [low, high] = low_high;
    if (static_cast<double>(high - low) > kSampleSpreadMax * static_cast<double>(high)) {
      return Fails(absl::StrCat("runs of one table trained on ", low, " to ", high, " samples"));
    }
  }
  return Holds(
      "every run of a table trains on the same number of samples; curves are drawn to "
      "the end");
}

Checker::Why Checker::Scaling() const {
  const uint32_t batch = experiment_.spec.base().training().batch();
  switch (experiment_.spec.scaling()) {
    case ExperimentSpec::strong:
      return Holds(absl::StrCat("strong scaling: the global batch is ", batch,
                                " for every number of workers"));
    case ExperimentSpec::weak:
      return Holds(absl::StrCat("weak scaling: the global batch grows with the workers, from ",
                                batch, " at ", experiment_.workers.front()));
    default:
      if (experiment_.workers.size() > 1) return Fails("several numbers of workers, no scaling");
      return Holds(absl::StrCat("one number of workers, ", experiment_.workers.front(),
                                "; the global batch is ", batch));
  }
}

Checker::Why Checker::Baselines() const {
  std::vector<std::string> missing;
  const auto policy = [&](const char* name, bool prefix) {
    const bool found = Has([&](const CellResult& cell) {
      const std::string& spec = PolicyOf(cell);
      const bool same = prefix ? absl::StartsWith(spec, name) : spec == name;
      return same && cell.cell.workers != 1 && !cell.finished.empty();
    });
    if (!found) missing.push_back(prefix ? "a static bound (ssp)" : name);
  };
  if (!Has([](const CellResult& c) { return c.cell.workers == 1 && !c.finished.empty(); })) {
    missing.push_back("one worker");
  }
  policy("bsp", false);
  policy("async", false);
  policy("ssp", true);
  const bool untuned = Has([&](const CellResult& cell) {
    return experiment_.subjects[cell.cell.subject].grids[cell.cell.policy].budget() == 0;
  });
  if (untuned) missing.push_back("tuning of the baselines");
  if (!missing.empty()) return Fails(absl::StrCat("missing: ", absl::StrJoin(missing, ", ")));
  for (const ResolvedClaim& claim : Comparisons()) {
    std::string straw = StrawMan(experiment_, SideOf(results_, claim, claim.than));
    // Of a claim that a policy gains little, that policy is the one to be weakened.
    if (straw.empty() && claim.at_most > 0) {
      straw = StrawMan(experiment_, SideOf(results_, claim, claim.faster));
    }
    // The rate, or the bytes, of who learns nothing is no gain.
    if (straw.empty()) straw = NothingLearned(experiment_, SideOf(results_, claim, claim.faster));
    if (!straw.empty()) return Fails(straw);
  }
  return Holds("all are measured, with the same seeds; those compared reach the target");
}

std::vector<ResolvedClaim> Checker::Comparisons() const {
  if (!scope_.comparisons.empty()) return scope_.comparisons;
  std::vector<ResolvedClaim> found;
  for (const ResolvedClaim& claim : experiment_.claims) {
    if (scope_.subject.value_or(claim.subject) != claim.subject) continue;
    const uint32_t workers = experiment_.workers[claim.workers];
    if (scope_.workers.value_or(workers) == workers) found.push_back(claim);
  }
  return found;
}

Checker::Why Checker::Seeds() const {
  const size_t claims = experiment_.claims.size(), seeds = experiment_.seeds.size();
  const size_t needed = SeedsNeeded(claims);
  size_t least = seeds;
  for (const CellResult* cell : cells_) least = std::min(least, cell->finished.size());
  if (least < needed) {
    return Fails(
        absl::StrCat(least, least == 1 ? " seed, of " : " seeds, of ", needed,
                     claims > 1 ? absl::StrCat(" that ", claims, " claims need") : " needed"));
  }
  for (const ResolvedClaim& claim : Comparisons()) {
    const std::string identical = IdenticalRuns(results_, claim);
    if (!identical.empty()) return Fails(identical);
  }
  if (!experiment_.seeds_drawn) {
    return Marked(absl::StrCat("the ", seeds, " seeds were chosen by the author"));
  }
  return Holds(absl::StrCat(seeds, " seeds, drawn from the digest of what the runs depend on (",
                            experiment_.runs_digest.substr(0, 12),
                            "); runs of a seed are compared"));
}

Checker::Why Checker::Budget() const {
  std::set<size_t> budgets, seeds;
  bool listed = false, other = false;
  for (const CellResult* cell : table_) {
    const std::vector<Grid>& grids = experiment_.subjects[cell->cell.subject].grids;
    const Grid& grid = grids[cell->cell.policy];
    budgets.insert(grid.budget());
    seeds.insert(grid.seeds.size());
    listed = listed || !grid.drawn;
  }
  for (const CellResult* cell : cells_) {
    const std::vector<Grid>& grids = experiment_.subjects[cell->cell.subject].grids;
    other = other || !SameGrid(grids[cell->cell.policy], grids[cells_.front()->cell.policy]);
  }
  if (budgets.size() > 1 && scope_.subject.has_value()) return Fails("the budgets differ");
  if (budgets.count(0) > 0) return Fails("nothing was tuned");
  for (const CellResult* cell : table_) {
    const std::string grid = OtherGrid(experiment_, cell->cell.subject);
    if (!grid.empty()) return Fails(grid);
  }
  std::vector<std::string> marks;
  if (!seeds.empty() && *seeds.begin() < kTuningSeedsMin) {
    marks.push_back(absl::StrCat(*seeds.begin(), " tuning seed(s) choose a setting, of ",
                                 kTuningSeedsMin, " wanted"));
  }
  if (listed) marks.push_back("the tuning seeds were chosen by the author");
  if (other) marks.push_back("policies of different exchanges chose from different grids");
  if (!marks.empty()) return Marked(absl::StrJoin(marks, "; "));
  return Holds(absl::StrCat(absl::StrJoin(budgets, " or "),
                            " tuning runs for each policy, number "
                            "of workers and straggler model, from one grid"));
}

Checker::Why Checker::Lags() const {
  for (const CellResult* cell : cells_) {
    const consistency::PolicyTraits& policy = experiment_.policies[cell->cell.policy].traits;
    if (cell->violations > 0) {
      return Fails(absl::StrCat(policy.spec, " broke its guarantee ", cell->violations, " times"));
    }
    for (const RunOutcome* run : cell->finished) {
      if (run->read_lags.empty()) return Fails(absl::StrCat(policy.spec, " has no histogram"));
    }
    const auto bound = policy.guarantee.read_lag_max;
    const auto size = static_cast<Clock>(cell->read_lags.size());
    if (bound.has_value() && size - 1 > *bound) {
      return Fails(absl::StrCat(policy.spec, " had reads of lag ", size - 1));
    }
  }
  return Holds("the histograms below; no guarantee was broken");
}

Checker::Why Checker::Bytes() const {
  for (const RunOutcome* run : runs_) {
    if (run->bytes == 0) return Fails("a run has no bytes");
  }
  if (real()) return Marked("counted in messages, not reconciled with the sockets' counters");
  return Marked("modelled: every message's payload and header; no socket was involved");
}

Checker::Why Checker::Stragglers() const {
  const StragglerKinds kinds = StragglersOf(experiment_, table_);
  std::vector<std::string> missing;
  if (!kinds.none) missing.push_back("none");
  if (!kinds.transient) missing.push_back("transient");
  if (!kinds.persistent) missing.push_back("persistent");
  if (missing.empty()) return Holds(absl::StrCat("all three are measured; ", kinds.observed));
  return Fails(absl::StrCat("missing: ", absl::StrJoin(missing, ", "), "; ", kinds.observed));
}

Checker::Why Checker::Exposed() const {
  for (const RunOutcome* run : runs_) {
    if (!(run->compute_s > 0)) return Fails("a run has no breakdown of its time");
  }
  std::set<std::string> codecs, orders;
  for (const RunOutcome* run : runs_) {
    codecs.insert(run->provenance.codec);
    orders.insert(run->provenance.communication);
  }
  return Holds(absl::StrCat("codec: ", absl::StrJoin(codecs, ", "), "; order of sending: ",
                            absl::StrJoin(orders, ", "), "; waiting is shown beside computing"));
}

Checker::Why Checker::Replicas() const {
  bool averaging = false;
  for (const CellResult* cell : cells_) {
    const consistency::PolicyTraits& policy = experiment_.policies[cell->cell.policy].traits;
    if (policy.pushes_gradients()) continue;
    averaging = true;
    if (!cell->finished.empty() && !cell->replicas.has_value()) {
      return Fails(absl::StrCat(policy.spec, " averages, and its replicas were not evaluated"));
    }
  }
  return Holds(averaging ? "least, median and greatest are in the table" : "no policy averages");
}

Checker::Why Checker::WarmUp() const {
  for (const RunOutcome* run : runs_) {
    if (run->curve.empty()) continue;
    if (run->curve.front().samples == 0 && run->curve.front().time_s > 0) {
      return Fails("a curve does not begin at time 0");
    }
    if (run->curve.back().time_s > run->duration_s * (1 + 1e-9)) {
      return Fails("a run's time is less than its curve's");
    }
  }
  if (real()) {
    return Marked("time is counted from the start barrier on: kernels are compiled before it");
  }
  return Holds("time is counted from the start barrier on");
}

}  // namespace

std::vector<Finding> CheckRules(const Results& results, const Scope& scope) {
  return Checker(results, scope).Run();
}

}  // namespace soapstone::experiment
