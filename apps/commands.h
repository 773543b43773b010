// The commands of `soapstone`, by what their flags say. Each command has its flags beside it.
#pragma once

#include <variant>

#include "apps/checkpoint_command/checkpoint_flags.h"
#include "apps/cli/command_line.h"
#include "apps/cli/models_flags.h"
#include "apps/cli/node_flags.h"
#include "apps/data/data_flags.h"
#include "apps/experiment/experiment_flags.h"
#include "apps/experiment/replay_flags.h"
#include "apps/experiment/simulate_flags.h"
#include "apps/keygen/keygen_flags.h"
#include "apps/plan/plan_flags.h"
#include "apps/predict/predict_flags.h"
#include "apps/profile/profile_flags.h"
#include "apps/timeline/timeline_flags.h"
#include "apps/top/top_flags.h"

namespace soapstone::apps {

struct PoliciesCommand {};
struct AgentCommand {};
struct NodeCommand {
  NodeFlags flags;
};
// NodeFlags: `train`.
using Command =
    std::variant<NodeFlags, SimulateFlags, ExperimentFlags, ReplayFlags, ModelsFlags, ProfileFlags,
                 PlanFlags, DataFlags, PoliciesCommand, NodeCommand, TopFlags, TimelineFlags,
                 CheckpointFlags, KeygenFlags, AgentCommand, PredictFlags, EvaluateFlags>;

// Of `soapstone`.
std::variant<Command, EndNow> ParseCommand(int argc, const char* const* argv);

}  // namespace soapstone::apps
