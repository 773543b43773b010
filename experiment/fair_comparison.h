// Whether two sides are worth comparing: what rules 12, 13, 14 and 17 of honesty.h say of
// them. Functions that return a string answer with what is wrong, as a sentence for the page;
// empty: nothing is.
#pragma once

#include <string>
#include <vector>

#include "experiment/results.h"

namespace soapstone::experiment {

// The measured runs of one of a claim's policies, under the claim's straggler model.
const CellResult& SideOf(const Results& results, const ResolvedClaim& claim, size_t policy);

// What makes a gain over it worth nothing: runs that diverged; half of them no better than
// guessing, or short of the target; a candidate at the edge of its grid (AtEdge), outside of which
// a better one may lie. Of a cell without runs: nothing.
std::string StrawMan(const Experiment& experiment, const CellResult& cell);
// Half of its runs or more end no better than guessing: which says so. Else nothing.
std::string NothingLearned(const Experiment& experiment, const CellResult& cell);

// Runs of the two sides, or of one side with different seeds, that have the same bits at the same
// times: compared they show nothing, and counted twice they are one.
std::string IdenticalRuns(const Results& results, const ResolvedClaim& claim);

// Whether finished runs of the subject, tuning runs among them, read data files of other contents:
// what a policy was tuned on need not be what it is measured on.
bool HasOtherFiles(const Results& results, size_t subject);
// Runs under one straggler model whose traces were not the same.
bool HasOtherTraces(const Results& results, size_t straggler);

// Two policies that exchange alike (PolicyTraits::exchange) and chose from different grids.
std::string OtherGrid(const Experiment& experiment, size_t subject);

// Which kinds of stragglers the runs met, by what their models did (straggler_effect.h), not by
// names. What slows links or ends workers is none of the three, and one worker has nobody to wait
// for.
struct StragglerKinds {
  bool none = false, transient = false, persistent = false;
  std::string observed;  // the factors, as a sentence
};
StragglerKinds StragglersOf(const Experiment& experiment,
                            const std::vector<const CellResult*>& cells);

}  // namespace soapstone::experiment
