// SeatCosts: how long the devices of a split model's workers compute in virtual time, by step of
// their sections. Made from one time for all (EvenSeatCosts), or from what a planner predicts of
// each part (experiment/cosim/planned_times.h). A value.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"
#include "cluster/training_job.h"

namespace soapstone::sim {

struct SeatCosts {
  // By worker; by samples of its team's batch; by step of its section: ns, without stragglers. 0:
  // of what takes and gives blocks.
  std::vector<std::map<uint64_t, std::vector<Nanos>>> steps;
};

// A whole step takes each seat `iteration_ns`, shared out as `training.base_ms` is: backward halves
// of parts take twice as long as forward ones. REQUIRES: the job has a team.
SeatCosts EvenSeatCosts(const cluster::TrainingJob& job, Nanos iteration_ns);

}  // namespace soapstone::sim
