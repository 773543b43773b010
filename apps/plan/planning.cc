#include "apps/plan/planning.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/cli/named_model.h"
#include "apps/plan/executed_memory.h"
#include "apps/profile/cost_table.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "compute/optimizer.h"
#include "glog/logging.h"
#include "scheduler/planner/cost/measured_cost.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/searchers/baselines.h"
#include "scheduler/planner/timeline/seat_order.h"
#include "strategy/machine_text.h"
#include "strategy/strategy_text.h"
#include "strategy/team_parts.h"

namespace soapstone::apps {
namespace {

constexpr int64_t kSamplesPerDevice = 64;

absl::StatusOr<std::unique_ptr<planner::CostModel>> CostsOf(const std::string& path,
                                                            const planner::OpGraph& graph,
                                                            const planner::Machine& machine) {
  if (path.empty()) {
    return std::unique_ptr<planner::CostModel>(
        new planner::RooflineCost(machine.kinds(), planner::UsualEfficiencies()));
  }
  SOAP_ASSIGN_OR_RETURN(const wire::CostTable table, ReadCostTable(path));
  SOAP_ASSIGN_OR_RETURN(
      std::unique_ptr<planner::MeasuredCost> measured,
      planner::MeasuredCost::Make(table, path, graph.model, graph.model_sha256, machine.kinds()));
  return std::unique_ptr<planner::CostModel>(std::move(measured));
}

// Those that baselines choose from.
absl::StatusOr<std::vector<planner::Synchronization>> WaysOf(const std::string& asked,
                                                             const planner::Machine& machine) {
  using planner::Synchronization;
  const bool has_servers = !machine.servers().empty();
  if (asked == "servers" && !has_servers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sync=servers: ", machine.name(), " has no parameter servers"));
  }
  if (asked == "owner") return std::vector<Synchronization>{Synchronization::kOwner};
  if (asked == "ring") return std::vector<Synchronization>{Synchronization::kRing};
  if (asked == "servers") return std::vector<Synchronization>{Synchronization::kServers};
  return planner::SynchronizationsOf(machine);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Planning>> Planning::Create(const PlanningOptions& options) {
  models::Graph model;
  if (options.graph != nullptr) {
    model = *options.graph;
  } else {
    SOAP_ASSIGN_OR_RETURN(model, apps::GraphOf(options.model));
  }
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(options.machine_path));
  SOAP_ASSIGN_OR_RETURN(planner::Machine machine,
                        planner::ParseMachine(text, options.machine_path));
  if (options.devices > 0) {
    SOAP_ASSIGN_OR_RETURN(machine, planner::FirstDevices(machine, options.devices));
  }
  if (!options.slowness.empty()) {
    absl::StatusOr<planner::Machine> slowed = planner::SlowedDevices(machine, options.slowness);
    if (!slowed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--slowness: ", slowed.status().message()));
    }
    machine = *std::move(slowed);
  }
  std::unique_ptr<Planning> planning(new Planning(std::move(model)));
  planning->machine_ = std::make_unique<planner::Machine>(std::move(machine));
  SOAP_ASSIGN_OR_RETURN(planning->ways_, WaysOf(options.synchronization, *planning->machine_));
  const auto devices = static_cast<int64_t>(planning->machine_->devices().size());
  const int64_t batch = options.batch > 0 ? options.batch : kSamplesPerDevice * devices;
  SOAP_ASSIGN_OR_RETURN(planning->graph_,
                        planner::MakeOpGraph(planning->model_, {.batch = batch,
                                                                .time_chunk = options.time_chunk,
                                                                .micro_batches = std::max<int64_t>(
                                                                    1, options.micro_batches)}));
  planning->graph_.model = options.model;
  planning->for_workers_ = options.for_workers;
  planning->simulator_options_.rings_by_ranges = options.for_workers;
  if (options.for_workers) planner::KeepWhatRunsAlone(&planning->graph_);
  planning->jitter_ = options.jitter;
  if (!options.optimizer.empty()) {
    SOAP_ASSIGN_OR_RETURN(const compute::OptimizerSpec optimizer,
                          compute::ParseOptimizer(options.optimizer));
    planning->simulator_options_.optimizer_floats =
        static_cast<double>(compute::FloatsOf(optimizer.kind));
  }
  if (options.moved_gb > 0) {
    planning->simulator_options_.moved_bytes_max = static_cast<int64_t>(options.moved_gb * 1e9);
  }
  SOAP_ASSIGN_OR_RETURN(planning->costs_,
                        CostsOf(options.costs_path, planning->graph_, *planning->machine_));
  planning->CalibrateMemory();
  return planning;
}

// What searches count of one device that does it all, and what its section takes.
void Planning::CalibrateMemory() {
  const planner::Strategy alone = planner::SingleDevice(graph_, 0);
  const absl::StatusOr<std::vector<int64_t>> bytes =
      ExecutedMemory(graph_, alone, {.optimizer_floats = simulator_options_.optimizer_floats});
  if (!bytes.ok()) return;
  planner::Simulator simulator(&graph_, machine_.get(), costs_.get(), simulator_options_);
  CHECK(simulator.SetStrategy(alone).ok());
  const int64_t counted = simulator.CountedBytes(0, 1);  // alone it ends one and begins the next
  section_share_ = std::min(1.0, static_cast<double>(counted) / static_cast<double>((*bytes)[0]));
  simulator_options_.memory_share = section_share_;
}

void Planning::TightenMemory(const planner::PricedStrategy& plan) {
  constexpr double kRoom = 0.97;  // another plan is a little different
  double least = 1;
  for (uint32_t d = 0; d < plan.breakdown.memory_bytes.size(); ++d) {
    least = std::min(least, static_cast<double>(machine_->kind_of(d).memory_bytes) /
                                static_cast<double>(plan.breakdown.memory_bytes[d]));
  }
  simulator_options_.memory_share *= kRoom * least;
  prices_ = std::make_unique<planner::CostCache>();
}

absl::StatusOr<planner::OpGraph> Planning::GraphOf(int64_t micro_batches) const {
  SOAP_ASSIGN_OR_RETURN(planner::OpGraph graph,
                        planner::MakeOpGraph(model_, {.batch = graph_.batch,
                                                      .time_chunk = graph_.time_chunk,
                                                      .micro_batches = micro_batches}));
  graph.model = graph_.model;
  if (for_workers_) planner::KeepWhatRunsAlone(&graph);
  return graph;
}

void Planning::UseGraph(planner::OpGraph graph) {
  graph_ = std::move(graph);
  prices_ = std::make_unique<planner::CostCache>();
}

bool Planning::UseWay(planner::Synchronization way) {
  if (!planner::KeptByHolders(way) && machine_->servers().empty()) return false;
  ways_ = {way};
  return true;
}

std::vector<planner::StaleIteration> Planning::Stalenesses(planner::Strategy strategy,
                                                           uint32_t max) const {
  planner::Simulator simulator(&graph_, machine_.get(), costs_.get(), simulator_options_);
  std::vector<planner::StaleIteration> rows;
  for (uint32_t s = 0; s <= max; ++s) {
    strategy.staleness = s;
    CHECK(simulator.SetStrategy(strategy).ok());
    rows.push_back({s, {simulator.IterationTime(), simulator.Overflow()}});
  }
  return rows;
}

planner::PricedStrategy Planning::Price(const std::string& name,
                                        const planner::Strategy& strategy) const {
  planner::Simulator simulator(&graph_, machine_.get(), costs_.get(), simulator_options_);
  planner::PricedStrategy priced =
      planner::PriceStrategy(name, strategy, price_options(), &simulator);
  MeasureMemory(&priced);
  return priced;
}

void Planning::MeasureMemory(planner::PricedStrategy* priced) const {
  const size_t devices = machine_->devices().size();
  absl::StatusOr<std::vector<int64_t>> bytes = absl::UnavailableError("not measured");
  if (devices <= kMeasuredDevices) {
    bytes = ExecutedMemory(graph_, priced->strategy,
                           {.devices = static_cast<uint32_t>(devices),
                            .in_flight = priced->breakdown.in_flight,
                            .order = OrderOf(priced->strategy),
                            .optimizer_floats = simulator_options_.optimizer_floats,
                            .rings_by_ranges = simulator_options_.rings_by_ranges});
  }
  if (!bytes.ok()) {
    bytes = priced->breakdown.memory_bytes;
    for (int64_t& of : *bytes) {
      of = static_cast<int64_t>(static_cast<double>(of) / section_share_);
    }
  }
  priced->breakdown.memory_bytes = *bytes;
  priced->overflow_bytes = priced->moved_over_bytes;
  for (uint32_t d = 0; d < devices; ++d) {
    const auto room = static_cast<int64_t>(machine_->kind_of(d).memory_bytes);
    priced->overflow_bytes += std::max<int64_t>(0, (*bytes)[d] - room);
  }
}

std::vector<planner::TimelineTask> Planning::Timeline(const planner::Strategy& strategy) const {
  planner::Simulator simulator(&graph_, machine_.get(), costs_.get(), simulator_options_);
  CHECK(simulator.SetStrategy(strategy).ok());
  return simulator.Timeline();
}

planner::Order Planning::OrderOf(const planner::Strategy& strategy) const {
  if (!for_workers_) return {};
  const auto devices = static_cast<uint32_t>(machine_->devices().size());
  return planner::SeatOrder(graph_, devices, Timeline(strategy));
}

planner::PlannedTimes Planning::TimesOf(const planner::Strategy& strategy,
                                        const planner::Order& order) const {
  planner::Simulator simulator(&graph_, machine_.get(), costs_.get(), simulator_options_);
  CHECK(simulator.SetStrategy(strategy).ok());
  return planner::SeatTimes(order, simulator.IterationTimeline());
}

ComparedStrategies Planning::Compare(const std::string& name, planner::Strategy strategy,
                                     planner::StrategyEvaluator* evaluator) const {
  ComparedStrategies result;
  const absl::StatusOr<planner::Score> found = evaluator->PriceBest(&strategy);
  CHECK(found.ok()) << found.status();
  for (const planner::Synchronization way : ways_) {
    planner::Strategy tried = strategy;
    planner::SetSynchronization(way, &tried);
    const std::optional<planner::Score> known = prices_->Find(tried);
    if (known.has_value() && known->priced()) continue;
    result.left_out.push_back(absl::StrCat(name, " by ", planner::NameOf(way)));
  }
  if (!found->priced()) return result;
  result.priced.push_back(
      planner::PriceStrategy(name, strategy, price_options(), &evaluator->simulator()));
  MeasureMemory(&result.priced[0]);
  return result;
}

ComparedStrategies Planning::Baselines(const std::function<bool()>& give_up) const {
  const auto devices = static_cast<uint32_t>(machine_->devices().size());
  std::vector<ComparedStrategies> all(3);
  // The expert's takes longest.
  std::thread other([&] {
    planner::StrategyEvaluator evaluator = MakeEvaluator();
    evaluator.set_give_up(give_up);
    all[2] = Compare("expert", planner::ExpertStrategy(graph_, *machine_), &evaluator);
  });
  planner::StrategyEvaluator evaluator = MakeEvaluator();
  planner::Strategy data = planner::DataParallel(graph_, devices);
  planner::SetSynchronization(ways_[0], &data);
  CHECK(evaluator.Look(data).ok());
  evaluator.set_give_up(give_up);
  all[0] = Compare("data parallel", data, &evaluator);
  all[1] =
      Compare("model parallel", planner::ModelParallel(graph_, *machine_, *costs_), &evaluator);
  other.join();
  ComparedStrategies result;
  for (ComparedStrategies& of : all) {
    std::move(of.priced.begin(), of.priced.end(), std::back_inserter(result.priced));
    std::move(of.left_out.begin(), of.left_out.end(), std::back_inserter(result.left_out));
  }
  return result;
}

}  // namespace soapstone::apps
