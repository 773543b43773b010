// What a plan is made of, read from flags and files: the model's operators, the machine, the costs;
// and what the simulator predicts of a strategy for them. Used by `soapstone plan`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "scheduler/planner/cost/cost_model.h"
#include "scheduler/planner/pipeline/stale_search.h"
#include "scheduler/planner/simulator/priced_strategy.h"
#include "scheduler/planner/simulator/simulator.h"
#include "scheduler/planner/simulator/strategy_evaluator.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/order.h"
#include "strategy/planned_times.h"
#include "strategy/strategy.h"

namespace soapstone::apps {

struct PlanningOptions {
  std::string model;
  std::shared_ptr<const models::Graph> graph;  // the model; null: the one of that name
  std::string machine_path;
  uint32_t devices = 0;          // the first of the machine's; 0: all
  std::vector<double> slowness;  // of each of them (SlowedDevices); empty: as the machine says
  int64_t batch = 0;             // 0: 64 a device
  int64_t time_chunk = 0;        // steps; 0: sequences are whole
  int64_t micro_batches = 1;     // 0: to be chosen; 1 until UseGraph
  double jitter = 0;             // sigma of parts' times (simulator.h); 0: none
  double moved_gb = 0;           // of a step, at most, 10^9 bytes each; 0: any number
  std::string costs_path;        // empty: the roofline
  std::string synchronization;   // owner, ring, servers; empty: whichever is best
  bool for_workers = false;      // only splits whose parts workers can run, rings as they run them
  std::string optimizer;         // as of a job: "adam:lr=1e-3"; empty: one without state
};

struct ComparedStrategies {
  std::vector<planner::PricedStrategy> priced;
  std::vector<std::string> left_out;  // "expert by servers": for want of time
};

class Planning {
 public:
  static constexpr size_t kMeasuredDevices = 16;

  static absl::StatusOr<std::unique_ptr<Planning>> Create(const PlanningOptions& options);

  const planner::OpGraph& graph() const { return graph_; }
  // The model in so many micro-batches, all else as in graph(). Errors: as of MakeOpGraph.
  absl::StatusOr<planner::OpGraph> GraphOf(int64_t micro_batches) const;
  // The simulator's counting is to leave so much less of devices' memory from now on: a plan that
  // it took for one that fits needs more. Prices of before are void.
  void TightenMemory(const planner::PricedStrategy& plan);
  // Plans this one, of GraphOf, from now on; strategies and prices() of before are void.
  void UseGraph(planner::OpGraph graph);
  const planner::Machine& machine() const { return *machine_; }
  const planner::CostModel& costs() const { return *costs_; }
  // To synchronize: those that the options allow.
  const std::vector<planner::Synchronization>& ways() const { return ways_; }
  // This one alone from now on. Returns whether the machine has what it takes; else all stay.
  bool UseWay(planner::Synchronization way);
  const planner::SimulatorOptions& simulator_options() const { return simulator_options_; }

  // Its memory is what its sections take (executed_memory.h), where they can be made and there are
  // at most kMeasuredDevices; else what the simulator counts, times what one device's section takes
  // of what is counted there.
  // REQUIRES: the strategy is one for the graph and the machine.
  planner::PricedStrategy Price(const std::string& name, const planner::Strategy& strategy) const;
  // The mean iteration under each staleness up to `max`, stale copies held in memory.
  std::vector<planner::StaleIteration> Stalenesses(planner::Strategy strategy, uint32_t max) const;
  std::vector<planner::TimelineTask> Timeline(const planner::Strategy& strategy) const;
  // In which workers are to run it; empty where it is not for workers.
  planner::Order OrderOf(const planner::Strategy& strategy) const;
  // When they are to, of an order of OrderOf: in a step, or in one of the iterations that overlap.
  planner::PlannedTimes TimesOf(const planner::Strategy& strategy,
                                const planner::Order& order) const;
  // Data parallelism, model parallelism, the expert's, each with the synchronization that was asked
  // for, or else the one that suits it best. Two threads, which ask give_up while they price one:
  // where it says so, that is left out, but for data parallelism in the first way. Empty: nothing
  // is.
  ComparedStrategies Baselines(const std::function<bool()>& give_up) const;
  // What is priced so far; searches add to it. Threading: its own.
  planner::CostCache* prices() const { return prices_.get(); }

 private:
  explicit Planning(models::Graph model) : model_(std::move(model)) {}
  planner::StrategyEvaluator MakeEvaluator() const {
    return {&graph_, machine_.get(), costs_.get(), simulator_options_, ways_, prices_.get()};
  }
  // One baseline.
  ComparedStrategies Compare(const std::string& name, planner::Strategy strategy,
                             planner::StrategyEvaluator* evaluator) const;
  void CalibrateMemory();
  void MeasureMemory(planner::PricedStrategy* priced) const;
  planner::PriceOptions price_options() const {
    return {.moved_bytes_max = simulator_options_.moved_bytes_max, .jitter = jitter_};
  }
  const models::Graph model_;
  planner::OpGraph graph_;
  std::unique_ptr<planner::Machine> machine_;
  std::unique_ptr<planner::CostModel> costs_;
  bool for_workers_ = false;
  double jitter_ = 0;
  double section_share_ = 1;  // what is counted of one device, of what its section takes
  planner::SimulatorOptions simulator_options_;
  std::vector<planner::Synchronization> ways_;
  std::unique_ptr<planner::CostCache> prices_ = std::make_unique<planner::CostCache>();
};

}  // namespace soapstone::apps
