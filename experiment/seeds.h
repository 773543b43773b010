// Seeds that nobody has chosen: drawn from the SHA-256 of what the runs of an experiment depend on.
// A seed that turned out well cannot be put into a file; another title, another claim, another
// order or spelling of the lists draws the same ones. (What cannot be seen is an author who changes
// what does decide, if only in the last digit, until the draw suits him.) Who calls: spec.cc.
#pragma once

#include <set>
#include <string>

#include "experiment/spec.h"
#include "experiment/spec.pb.h"
#include "wire/config/job.pb.h"

namespace soapstone::experiment {

// What decides the result of a run, but for its seed, spelled in one way. `filled`: with its
// defaults. Left out: outputs; paths but for the files' own names; with co-simulation, what is
// about processes.
std::string KindOfRun(wire::JobConfig filled, const std::string& stragglers,
                      const ExperimentSpec& spec, double iteration_ms);

// Fills in runs_digest, the SHA-256 of these kinds, and the seeds that are to be drawn, as many as
// there is place for: distinct, none that the author has listed, the same tuning seeds for every
// grid. The i-th of a purpose has the first 32 bits of SHA-256("digest purpose i").
void DrawSeeds(const std::set<std::string>& kinds, Experiment* experiment);

}  // namespace soapstone::experiment
