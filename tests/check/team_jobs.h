// Jobs of teams for worlds (sim/team/team_world.h): small models, strategies lowered as jobs have
// them, sizes instead of data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/ids.h"
#include "cluster/training_job.h"
#include "models/graph/graph.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::check {

struct TeamJobOptions {
  std::string policy = "bsp";
  Clock clocks = 2;
  uint32_t seats = 2;
  uint32_t window = 1;  // iterations under way
  uint32_t teams = 1;
  uint32_t servers = 1;  // where the strategy's parameters are on servers
  uint64_t evaluation_batches = 2;
};

// A strategy of `options.seats` devices for one team's batch; where owners keep the parameters each
// seat of team 0 has a server beside it.
// Null where the strategy is none that workers can run.
std::shared_ptr<const cluster::TrainingJob> TeamJobOf(const models::Graph& model,
                                                      const planner::OpGraph& plan,
                                                      const planner::Strategy& strategy,
                                                      const TeamJobOptions& options);

}  // namespace soapstone::check
