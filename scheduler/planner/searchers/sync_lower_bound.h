// What the synchronization of a parameter group takes at least behind the last backward part of an
// operator, and what it puts onto devices. For bounds; found by simulating the group by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/planner/cost/cost_model.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

// Of one group under its operators' configurations.
struct SyncBounds {
  std::vector<Nanos> tail;   // [operator of the group] from its last backward part to the end
  std::vector<Nanos> apply;  // [device] applying
};

// The group alone, on machines on which one device is so slow that all else is over when it is
// done. What follows its last task is a chain; a task of it that had to wait for its queue might
// not have to in another schedule, so that all such waiting is taken off the bound.
class SyncTails {
 public:
  // Keeps no pointers but the graph's.
  SyncTails(const OpGraph* graph, uint32_t group, const Machine& machine,
            const SimulatorOptions& options);
  ~SyncTails();

  // configs: by operator of the group, in its order; each passes CheckConfig.
  SyncBounds Find(const std::vector<const OpConfig*>& configs, Synchronization way);

 private:
  class SlowCosts;
  struct Slow {
    std::unique_ptr<Machine> machine;
    std::unique_ptr<Simulator> simulator;
  };
  Nanos TailBehind(uint32_t device, const Strategy& strategy, SyncBounds* bounds);

  OpGraph alone_;
  std::unique_ptr<SlowCosts> costs_;
  std::vector<Slow> slow_;  // [device]
};

}  // namespace soapstone::planner
