// How many simulations and proposals the planner decides a second, on strategies along a search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace soapstone::bench {

struct PlannerRow {
  std::string model;
  uint32_t devices = 0;
  size_t operators = 0, tasks = 0;  // tasks: the mean over the strategies measured
  double data = 0;                  // simulations a second of data parallelism
  double full = 0;                  // of the strategies, of the whole timeline
  // With the task graph of the strategy, too: built from nothing, as a full simulation builds it
  // that keeps nothing (FlexFlow's algorithm 1); or put together from blocks that are kept.
  double anew = 0, built = 0;
  double whole = 0;                       // proposals a second that were simulated without a cutoff
  double proposals = 0;                   // decided a second along the search, with early rejection
  double late_proposals = 0;              // without
  double step_first_ms = 0, step_ms = 0;  // of data parallelism, and of what was found
  std::string decided;                    // how proposals were
};

struct PlannerLoad {
  std::string model = "gnmt";
  uint32_t devices = 4;  // nodes of 4
  uint64_t proposals = 20'000;
};
PlannerRow MeasurePlanner(const PlannerLoad& load);
std::string PlannerTable(const std::vector<PlannerRow>& rows);

}  // namespace soapstone::bench
