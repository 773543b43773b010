// `soapstone experiment`: makes the runs of an experiment file that its folder lacks, and writes
// the report.
#pragma once

#include "apps/experiment/experiment_flags.h"
#include "apps/experiment/experiment_runner.h"

namespace soapstone::apps {

// Returns the exit code.
int RunExperiment(const ExperimentFlags& flags);

// "[######------]  34/154 runs  ssp:s=4, transient, seed 3  ETA 3:12"; without the bar where `bar`
// is false.
std::string ProgressText(const ExperimentProgress& progress, const std::string& plan, bool bar);

}  // namespace soapstone::apps
