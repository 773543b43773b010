#include "experiment/fair_comparison.h"

#include <glog/logging.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cluster/straggler.h"
#include "experiment/grids.h"

namespace soapstone::experiment {

const CellResult& SideOf(const Results& results, const ResolvedClaim& claim, size_t policy) {
  const CellResult* cell = results.Find(
      {claim.subject, policy, claim.straggler, results.experiment->workers[claim.workers]});
  CHECK(cell != nullptr);
  return *cell;
}

namespace {

template <typename... Parts>
std::string OfCell(const Experiment& experiment, const CellResult& cell, const Parts&... parts) {
  return absl::StrCat(experiment.policies[cell.cell.policy].name, ", under ",
                      experiment.stragglers[cell.cell.straggler].name(), ": ", parts...);
}

}  // namespace

std::string NothingLearned(const Experiment& experiment, const CellResult& cell) {
  const size_t runs = cell.finished.size();
  if (runs == 0 || 2 * cell.guessing < runs) return "";
  return OfCell(experiment, cell, cell.guessing, " of ", runs, " runs end no better than guessing");
}

std::string StrawMan(const Experiment& experiment, const CellResult& cell) {
  if (cell.finished.empty() || !cell.candidate.has_value()) return "";  // rules 3 and 13
  const auto why = [&](auto... parts) { return OfCell(experiment, cell, parts...); };
  const size_t runs = cell.finished.size();
  if (cell.not_finite > 0) {
    return why(cell.not_finite, " of ", runs, " runs diverged: losses that are not finite");
  }
  if (std::string nothing = NothingLearned(experiment, cell); !nothing.empty()) return nothing;
  if (2 * cell.reached <= runs)
    return why("reached the target in ", cell.reached, " of ", runs, " runs");
  const Grid& grid = experiment.subjects[cell.cell.subject].grids[cell.cell.policy];
  if (!AtEdge(grid, *cell.candidate)) return "";
  return why("its best candidate, ", grid.candidates[*cell.candidate].optimizer,
             ", is at the edge of its grid, or more than ten times from the next rate: a better "
             "one may lie there");
}

namespace {

bool Same(const RunOutcome* a, const RunOutcome* b) {
  return a != nullptr && b != nullptr && a->parameters_sha256 == b->parameters_sha256 &&
         a->duration_s == b->duration_s && a->curve == b->curve;
}

// Rows that differ in what decides nothing would be one result, shown as two. One seed of several
// may be alike by chance: a straggler that is rare has not come in it.
std::string RunsOfAnotherRow(const Results& results, const CellResult& cell) {
  const Experiment& experiment = *results.experiment;
  for (const CellResult& other : results.cells) {
    if (other.cell == cell.cell || other.cell.policy != cell.cell.policy) continue;
    const size_t count = std::min(cell.runs.size(), other.runs.size());
    size_t same = 0;
    for (size_t i = 0; i < count; ++i) same += Same(cell.runs[i], other.runs[i]) ? 1 : 0;
    if (count == 0 || same < count) continue;
    return absl::StrCat("no evidence: the runs of ", experiment.policies[cell.cell.policy].name,
                        " are those of another row");
  }
  return "";
}

}  // namespace

std::string IdenticalRuns(const Results& results, const ResolvedClaim& claim) {
  const Experiment& experiment = *results.experiment;
  const auto name_of = [&](const CellResult& cell) {
    return experiment.policies[cell.cell.policy].name;
  };
  const CellResult& faster = SideOf(results, claim, claim.faster);
  const CellResult& than = SideOf(results, claim, claim.than);
  for (size_t i = 0; i < std::min(faster.runs.size(), than.runs.size()); ++i) {
    if (claim.faster != claim.than && Same(faster.runs[i], than.runs[i])) {
      return absl::StrCat("no evidence: runs of ", name_of(faster), " and ", name_of(than),
                          " are identical, seed ", experiment.seeds[i]);
    }
    for (const CellResult* cell : {&faster, &than}) {
      for (size_t j = 0; j < i; ++j) {
        if (!Same(cell->runs[i], cell->runs[j])) continue;
        return absl::StrCat("no evidence: runs of ", name_of(*cell), " are identical, seeds ",
                            experiment.seeds[j], " and ", experiment.seeds[i]);
      }
    }
  }
  for (const CellResult* cell : {&faster, &than}) {
    std::string shared = RunsOfAnotherRow(results, *cell);
    if (!shared.empty()) return shared;
  }
  return "";
}

bool HasOtherFiles(const Results& results, size_t subject) {
  std::set<std::string> files;
  for (const CellResult& cell : results.cells) {
    if (cell.cell.subject != subject) continue;
    for (const RunOutcome* run : cell.finished) files.insert(run->provenance.files_sha256);
  }
  for (const TuningResult& row : results.tuning) {
    if (row.cell.subject == subject) files.insert(row.files.begin(), row.files.end());
  }
  return files.size() > 1;
}

bool HasOtherTraces(const Results& results, size_t straggler) {
  std::set<std::string> traces;
  for (const CellResult& cell : results.cells) {
    if (cell.cell.straggler != straggler) continue;
    for (const RunOutcome* run : cell.finished) traces.insert(run->provenance.traces_sha256);
  }
  for (const TuningResult& row : results.tuning) {
    if (row.cell.straggler == straggler) traces.insert(row.traces.begin(), row.traces.end());
  }
  traces.erase("");  // runs of before do not say
  return traces.size() > 1;
}

std::string OtherGrid(const Experiment& experiment, size_t subject) {
  const std::vector<Grid>& grids = experiment.subjects[subject].grids;
  for (size_t one = 0; one < grids.size(); ++one) {
    for (size_t two = one + 1; two < grids.size(); ++two) {
      const ResolvedPolicy& first = experiment.policies[one];
      const ResolvedPolicy& second = experiment.policies[two];
      if (first.traits.exchange.index() != second.traits.exchange.index()) continue;
      if (SameGrid(grids[one], grids[two])) continue;
      return absl::StrCat(first.name, " and ", second.name,
                          " exchange alike, and chose from different grids");
    }
  }
  return "";
}

// none: nobody stays slow, a barrier waits little longer than under the calmest model, and not
// long.
StragglerKinds StragglersOf(const Experiment& experiment,
                            const std::vector<const CellResult*>& cells) {
  std::map<std::pair<size_t, uint32_t>, double> calmest;  // by subject and workers
  for (const CellResult* cell : cells) {
    const auto [at, fresh] =
        calmest.try_emplace({cell->cell.subject, cell->cell.workers}, cell->stragglers.passing);
    at->second = std::min(at->second, cell->stragglers.passing);
  }
  StragglerKinds kinds;
  std::set<std::string> seen;
  for (const CellResult* cell : cells) {
    if (cell->finished.empty() || cell->cell.workers == 1) continue;
    const Straggler& straggler = experiment.stragglers[cell->cell.straggler];
    const auto model = sim::StragglerModel::Parse(straggler.model(), 0);
    if (!model.ok() || model->fails() || model->limits_links()) continue;
    const StragglerEffect& effect = cell->stragglers;
    seen.insert(
        absl::StrFormat("%s %.4g and %.4g", straggler.name(), effect.lasting, effect.passing));
    const double calm = calmest[{cell->cell.subject, cell->cell.workers}];
    const bool lasting = effect.lasting >= kLastingMin;
    const bool passing = effect.passing >= kPassingMin * calm;
    kinds.persistent = kinds.persistent || lasting;
    kinds.transient = kinds.transient || (passing && !lasting);
    kinds.none = kinds.none || (!passing && !lasting && effect.passing <= kCalmMax);
  }
  kinds.observed = absl::StrCat(
      "observed mean factors, of a worker that stays slow and of the slowest at each clock: ",
      absl::StrJoin(seen, "; "));
  return kinds;
}

}  // namespace soapstone::experiment
