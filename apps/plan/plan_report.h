// What `soapstone plan` says: the comparison of strategies, the table of operators, the JSON
// object. Values and their texts; searches nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/planner/pipeline/micro_batch_search.h"
#include "scheduler/planner/pipeline/stale_search.h"
#include "scheduler/planner/simulator/priced_strategy.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::apps {

using planner::PricedStrategy;

// The operators of a parameter group, as one row.
struct PlannedGroup {
  std::string name;
  size_t chunks = 1;
  std::string splits;        // "n/4 o/2"; "-": whole; "varies"
  std::string devices;       // "0-3,8"
  Nanos compute_ns = 0;      // forward and backward of the slowest part, summed over the chunks
  int64_t memory_bytes = 0;  // outputs, parameters, gradients on the fullest device
  std::vector<uint32_t> servers;  // that keep its parameters, where not all of them do
};

// What one of several searchers found.
struct SearcherRow {
  std::string name;
  Nanos step_ns = 0;
  int64_t overflow_bytes = 0;
  uint64_t proposals = 0, simulations = 0;
  double seconds = 0;
  int64_t micro_batches = 1;
  std::string note;
};

// What differs between two strategies.
struct StrategyDifference {
  std::string what;  // operator or parameter group
  std::string first, second;
};
struct StrategyComparison {
  std::vector<StrategyDifference> differences;
  size_t operators_alike = 0;
};

struct PlanSummary {
  const planner::OpGraph* graph = nullptr;
  const planner::Machine* machine = nullptr;
  std::string costs;   // a file, or "roofline"
  std::string search;  // what was done to find the first
  std::string costs_sha256;
  std::vector<PricedStrategy>
      strategies;                    // the one that was asked for, then what it is held against
  std::vector<PlannedGroup> groups;  // of the first
  std::vector<planner::StaleIteration> stalenesses;     // of the first, where they were asked for
  std::vector<planner::MicroBatchTrial> micro_batches;  // where they were chosen, by the searcher
  std::vector<SearcherRow> searchers;  // where several were asked; the first is data parallelism
  std::optional<StrategyComparison> comparison;  // of the first two, where just these were compared
};

// "n/4 o/2" of one operator.
std::string SplitsText(const planner::PlanOp& op, const planner::OpConfig& config);
// "0-3,8", ascending, each once.
std::string DevicesText(std::vector<uint32_t> devices);

// in_flight: of Breakdown.
std::vector<PlannedGroup> GroupsOf(const planner::OpGraph& graph, const planner::Machine& machine,
                                   const planner::CostModel& costs,
                                   const planner::Strategy& strategy, uint32_t in_flight);

// A line for each set of servers that keeps what the others do not; "" where all keep all.
std::string ServersText(const std::vector<PlannedGroup>& groups);
// A line a strategy: step, its parts, bytes, memory.
std::string StrategiesTable(const PlanSummary& summary);
// A line a parameter group; stretches of groups that are alike are folded (folded_rows.h).
std::string GroupsTable(const std::vector<PlannedGroup>& groups);
// A line a searcher.
std::string SearchersTable(const std::vector<SearcherRow>& rows);
// A line a number of micro-batches that was tried.
std::string MicroBatchesTable(const PlanSummary& summary);
std::string ComparisonText(const StrategyComparison& comparison);
std::string PlanTable(const PlanSummary& summary);
std::string PlanJson(const PlanSummary& summary);

}  // namespace soapstone::apps
