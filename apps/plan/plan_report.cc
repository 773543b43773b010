#include "apps/plan/plan_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/report/folded_rows.h"
#include "apps/report/report.h"
#include "scheduler/planner/blocks/equivalence_classes.h"
#include "strategy/strategy_text.h"

namespace soapstone::apps {
namespace {

using Json = nlohmann::json;
using planner::Machine;
using planner::OpConfig;
using planner::OpGraph;
using planner::PlanOp;

constexpr int kPlanIndent = 1;

double Milliseconds(Nanos ns) { return static_cast<double>(ns) / 1e6; }

int64_t BlockBytes(const models::TensorUse& use, const std::vector<int64_t>& shape,
                   const models::Block& part) {
  int64_t bytes = 4;
  const models::Block block = models::BlockOf(use, shape, part);
  for (size_t i = 0; i < block.size(); ++i) bytes *= block[i].size() * use[i].repeats;
  return bytes;
}

// By device; a parameter's block is kept once, its gradient beside it.
struct Kept {
  std::map<uint32_t, int64_t> bytes;                                     // of parameters
  std::map<uint32_t, std::map<uint32_t, int64_t>> made;                  // by micro-batch: outputs
  absl::flat_hash_set<std::tuple<uint32_t, uint32_t, uint32_t>> params;  // device, parameter, block
};

// What the table needs to know of an operator's parts.
struct SplitFacts {
  std::vector<int64_t> made;              // [part], bytes
  std::vector<std::vector<Nanos>> costs;  // [kind][part], forward and backward
  struct Held {
    uint32_t block = 0;  // equal for equal blocks of a tensor, whoever holds them
    int64_t bytes = 0;
  };
  std::vector<std::vector<Held>> held;  // [parameter of the operator][part]
};

// Of equal operators that are split alike it is found once: of a thousand parts, of each of a
// hundred layers, that is most of a plan's table.
class FactsOfSplits {
 public:
  FactsOfSplits(const OpGraph& graph, const Machine& machine, const planner::CostModel& costs)
      : graph_(graph),
        machine_(machine),
        costs_(costs),
        classes_(planner::FindEquivalenceClasses(graph)) {}

  const SplitFacts& Of(uint32_t op, const OpConfig& config) {
    const auto key = std::make_tuple(classes_.of_op[op], config.degrees, config.cuts);
    const auto [it, added] = found_.try_emplace(key);
    if (added) Find(graph_.ops[op], config, &it->second);
    return it->second;
  }

 private:
  void Find(const PlanOp& op, const OpConfig& config, SplitFacts* facts) {
    facts->costs.resize(machine_.kinds().size());
    facts->held.resize(op.params.size());
    for (uint32_t part = 0; part < config.devices.size(); ++part) {
      const models::Block block = planner::PartBlock(op, config, part);
      for (uint32_t kind = 0; kind < facts->costs.size(); ++kind) {
        const planner::PartCost cost = costs_.CostOf(op, block, kind);
        facts->costs[kind].push_back(cost.forward_ns + cost.backward_ns);
      }
      int64_t made = 0;
      for (size_t o = 0; o < op.shapes.outputs.size(); ++o) {
        made += BlockBytes(op.rule.outputs[o], op.shapes.outputs[o].shape, block);
      }
      facts->made.push_back(made);
      for (size_t p = 0; p < op.params.size(); ++p) {
        const std::vector<int64_t>& shape = op.shapes.params[p].shape;
        facts->held[p].push_back({NumberOf(models::BlockOf(op.rule.params[p], shape, block)),
                                  BlockBytes(op.rule.params[p], shape, block)});
      }
    }
  }

  uint32_t NumberOf(const models::Block& block) {
    std::vector<int64_t> sides;
    for (const models::Range& range : block) sides.insert(sides.end(), {range.begin, range.end});
    return numbers_.try_emplace(std::move(sides), static_cast<uint32_t>(numbers_.size()))
        .first->second;
  }

  const OpGraph& graph_;
  const Machine& machine_;
  const planner::CostModel& costs_;
  const planner::EquivalenceClasses classes_;
  std::map<std::tuple<uint32_t, std::vector<uint32_t>, std::vector<std::vector<int64_t>>>,
           SplitFacts>
      found_;
  std::map<std::vector<int64_t>, uint32_t> numbers_;
};

// On the fullest device, with as many micro-batches as may be under way, which follow each other.
int64_t MostKept(const Kept& kept, uint32_t in_flight) {
  int64_t most = 0;
  for (const auto& [device, made] : kept.made) {
    int64_t held = 0;
    for (const auto& [first, unused] : made) {
      int64_t from_first = 0;
      for (auto it = made.find(first); it != made.end() && it->first < first + in_flight; ++it) {
        from_first += it->second;
      }
      held = std::max(held, from_first);
    }
    const auto params = kept.bytes.find(device);
    most = std::max(most, held + (params == kept.bytes.end() ? 0 : params->second));
  }
  return most;
}

void AddPart(const PlanOp& op, const SplitFacts& facts, uint32_t part, uint32_t device,
             Kept* kept) {
  kept->made[device][op.micro_batch] += facts.made[part];
  for (size_t p = 0; p < op.params.size(); ++p) {
    const SplitFacts::Held& held = facts.held[p][part];
    if (!kept->params.emplace(device, op.params[p], held.block).second) continue;
    kept->bytes[device] += 2 * held.bytes;
  }
}

PlannedGroup GroupOf(const OpGraph& graph, const Machine& machine,
                     const planner::Strategy& strategy, uint32_t in_flight,
                     const std::vector<uint32_t>& ops, FactsOfSplits* facts_of) {
  PlannedGroup group = {.name = planner::NameOfGroup(graph, graph.ops[ops.front()].group),
                        .chunks = ops.size()};
  std::vector<uint32_t> devices;
  Kept kept;
  for (const uint32_t id : ops) {
    const PlanOp& op = graph.ops[id];
    const OpConfig& config = strategy.ops[id];
    const std::string splits = SplitsText(op, config);
    if (group.splits.empty()) group.splits = splits;
    if (group.splits != splits) group.splits = "varies";
    devices.insert(devices.end(), config.devices.begin(), config.devices.end());
    Nanos slowest = 0;
    const SplitFacts& facts = facts_of->Of(id, config);
    for (uint32_t part = 0; part < config.devices.size(); ++part) {
      const uint32_t device = config.devices[part];
      slowest = std::max(slowest, facts.costs[machine.devices()[device].kind][part]);
      AddPart(op, facts, part, device, &kept);
    }
    group.compute_ns += slowest;
  }
  group.devices = DevicesText(std::move(devices));
  if (!strategy.servers.empty()) {
    group.servers = strategy.servers[graph.ops[ops.front()].group];
  }
  group.memory_bytes = MostKept(kept, in_flight);
  return group;
}

int64_t MemoryMax(const PricedStrategy& of) {
  const std::vector<int64_t>& bytes = of.breakdown.memory_bytes;
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

int64_t BytesMoved(const PricedStrategy& of) {
  return of.breakdown.transfer_bytes + of.breakdown.sync_bytes;
}

const char* Misfit(const PricedStrategy& of) {
  if (of.moved_over_bytes > 0) return "  moves too much";
  return of.overflow_bytes > 0 ? "  does not fit" : "";
}

Json StrategyJson(const PricedStrategy& of) {
  return {{"name", of.name},
          {"synchronization", planner::NameOf(of.strategy.synchronization)},
          {"staleness", of.strategy.staleness},
          {"step_ns", of.parts.step_ns},
          {"compute_ns", of.parts.compute_ns},
          {"communication_ns", of.parts.communication_ns},
          {"synchronization_ns", of.parts.synchronization_ns},
          {"idle_ns", of.parts.idle_ns},
          {"transfer_bytes", of.breakdown.transfer_bytes},
          {"synchronization_bytes", of.breakdown.sync_bytes},
          {"memory_bytes_max", MemoryMax(of)},
          {"in_flight", of.breakdown.in_flight},
          {"iteration_ns", of.iteration_ns > 0 ? of.iteration_ns : of.parts.step_ns},
          {"jitter_mean_ns", of.jitter_mean_ns},
          {"jitter_p95_ns", of.jitter_p95_ns},
          {"overflow_bytes", of.overflow_bytes}};
}

}  // namespace

std::string SplitsText(const PlanOp& op, const OpConfig& config) {
  std::vector<std::string> splits;
  for (size_t d = 0; d < config.degrees.size(); ++d) {
    if (config.degrees[d] == 1) continue;
    const bool uneven = d < config.cuts.size() && !config.cuts[d].empty();
    splits.push_back(
        absl::StrCat(op.rule.dims[d].name, "/", config.degrees[d], uneven ? " uneven" : ""));
  }
  return splits.empty() ? "-" : absl::StrJoin(splits, " ");
}

std::string DevicesText(std::vector<uint32_t> devices) {
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  std::vector<std::string> ranges;
  for (size_t i = 0; i < devices.size();) {
    size_t last = i;
    while (last + 1 < devices.size() && devices[last + 1] == devices[last] + 1) ++last;
    ranges.push_back(last == i ? absl::StrCat(devices[i])
                               : absl::StrCat(devices[i], "-", devices[last]));
    i = last + 1;
  }
  return absl::StrJoin(ranges, ",");
}

std::vector<PlannedGroup> GroupsOf(const OpGraph& graph, const Machine& machine,
                                   const planner::CostModel& costs,
                                   const planner::Strategy& strategy, uint32_t in_flight) {
  std::vector<PlannedGroup> groups;
  FactsOfSplits splits(graph, machine, costs);
  for (const std::vector<uint32_t>& ops : graph.groups) {
    groups.push_back(GroupOf(graph, machine, strategy, in_flight, ops, &splits));
  }
  return groups;
}

std::string ServersText(const std::vector<PlannedGroup>& groups) {
  std::map<std::vector<uint32_t>, std::vector<std::string>> kept;
  for (const PlannedGroup& group : groups) {
    if (!group.servers.empty()) kept[group.servers].push_back(group.name);
  }
  std::string text = kept.empty() ? "" : "\nall servers keep all parameters, but for\n";
  for (const auto& [servers, names] : kept) {
    absl::StrAppend(&text, "server", servers.size() > 1 ? "s " : " ", DevicesText(servers), ": ",
                    absl::StrJoin(names, ", "), "\n");
  }
  return text;
}

std::string StrategiesTable(const PlanSummary& summary) {
  size_t width = 8;
  for (const PricedStrategy& of : summary.strategies) width = std::max(width, of.name.size());
  const auto w = static_cast<int>(width);
  std::string text =
      absl::StrFormat("%-*s %7s %11s %11s %11s %11s %11s %11s %11s\n", w, "strategy", "sync",
                      "step ms", "compute", "communic.", "synchron.", "idle", "moved", "memory");
  for (const PricedStrategy& of : summary.strategies) {
    absl::StrAppendFormat(&text, "%-*s %7s %11.3f %11.3f %11.3f %11.3f %11.3f %11s %11s%s\n", w,
                          of.name, planner::NameOf(of.strategy.synchronization),
                          Milliseconds(of.parts.step_ns), Milliseconds(of.parts.compute_ns),
                          Milliseconds(of.parts.communication_ns),
                          Milliseconds(of.parts.synchronization_ns), Milliseconds(of.parts.idle_ns),
                          Bytes(static_cast<uint64_t>(BytesMoved(of))),
                          Bytes(static_cast<uint64_t>(MemoryMax(of))), Misfit(of));
  }
  for (const PricedStrategy& of : summary.strategies) {
    if (of.breakdown.in_flight < summary.graph->micro_batches && of.overflow_bytes == 0) {
      absl::StrAppendFormat(&text,
                            "%s: %d of %d micro-batches under way at most; more do not fit\n",
                            of.name, of.breakdown.in_flight, summary.graph->micro_batches);
    }
    if (of.iteration_ns > 0) {
      absl::StrAppendFormat(&text, "%s: an iteration every %.3f ms under staleness %d\n", of.name,
                            Milliseconds(of.iteration_ns), of.strategy.staleness);
    }
    if (of.jitter_mean_ns == 0) continue;
    absl::StrAppendFormat(&text, "with jitter: %-*s mean %11.3f  p95 %11.3f ms\n", w, of.name,
                          Milliseconds(of.jitter_mean_ns), Milliseconds(of.jitter_p95_ns));
  }
  for (const planner::StaleIteration& row : summary.stalenesses) {
    absl::StrAppendFormat(
        &text, "staleness %d: an iteration every %.3f ms%s%s\n", row.staleness,
        Milliseconds(row.found.step_ns), row.found.overflow_bytes > 0 ? ", does not fit" : "",
        row.staleness == summary.strategies[0].strategy.staleness ? "  (planned)" : "");
  }
  return text;
}

std::string GroupsTable(const std::vector<PlannedGroup>& groups) {
  size_t splits = 6;
  for (const PlannedGroup& group : groups) splits = std::max(splits, group.splits.size());
  const auto s = static_cast<int>(splits);
  std::vector<TableRow> rows;
  for (const PlannedGroup& group : groups) {
    rows.push_back({group.name, absl::StrFormat("%6d  %-*s %10.3f %11s  %s", group.chunks, s,
                                                group.splits, Milliseconds(group.compute_ns),
                                                Bytes(static_cast<uint64_t>(group.memory_bytes)),
                                                group.devices)});
  }
  rows = FoldRows(rows);
  size_t width = 8;
  for (const TableRow& row : rows) width = std::max(width, WidthOf(row.name));
  const std::string head =
      absl::StrFormat("%6s  %-*s %10s %11s  %s", "chunks", s, "splits", "ms", "memory", "devices");
  return absl::StrCat(TextOfRows({{"operator", head}}, width), TextOfRows(rows, width));
}

std::string SearchersTable(const std::vector<SearcherRow>& rows) {
  std::string text = absl::StrFormat("%-9s %11s %9s %13s %13s %9s\n", "searcher", "step ms",
                                     "to data", "proposals", "simulations", "seconds");
  for (const SearcherRow& row : rows) {
    absl::StrAppendFormat(
        &text, "%-9s %11.3f %8.3fx %13s %13s %9.2f%s%s%s\n", row.name, Milliseconds(row.step_ns),
        static_cast<double>(rows[0].step_ns) / static_cast<double>(row.step_ns),
        WithCommas(row.proposals), WithCommas(row.simulations), row.seconds,
        row.overflow_bytes > 0 ? "  does not fit" : "", row.note.empty() ? "" : "  ", row.note);
  }
  return text;
}

std::string MicroBatchesTable(const PlanSummary& summary) {
  std::string text = absl::StrFormat("%-13s %11s %11s %13s %9s\n", "micro-batches", "step ms",
                                     "too many", "proposals", "seconds");
  for (const planner::MicroBatchTrial& row : summary.micro_batches) {
    absl::StrAppendFormat(
        &text, "%13d %11.3f %11s %13s %9.2f%s\n", row.micro_batches,
        Milliseconds(row.found.step_ns),
        row.found.overflow_bytes > 0 ? Bytes(static_cast<uint64_t>(row.found.overflow_bytes)) : "-",
        WithCommas(row.proposals), row.seconds,
        row.micro_batches == summary.graph->micro_batches ? "  (planned, with the time left)" : "");
  }
  return text;
}

std::string ComparisonText(const StrategyComparison& comparison) {
  std::string text;
  for (const StrategyDifference& of : comparison.differences) {
    absl::StrAppend(&text, of.what, ": ", of.first, ", ", of.second, "\n");
  }
  absl::StrAppend(&text, comparison.operators_alike, " operators alike\n");
  return text;
}

std::string PlanTable(const PlanSummary& summary) {
  const OpGraph& graph = *summary.graph;
  std::string text = absl::StrFormat(
      "%s, batch %d%s, on %d devices of %s; costs: %s\n", graph.model, graph.batch,
      absl::StrCat(
          graph.micro_batches > 1 ? absl::StrCat(" in ", graph.micro_batches, " micro-batches")
                                  : std::string(),
          graph.time_chunk > 0 ? absl::StrCat(", in chunks of ", graph.time_chunk, " steps")
                               : std::string()),
      summary.machine->devices().size(), summary.machine->name(), summary.costs);
  absl::StrAppend(&text, summary.search, "\n\n");
  if (!summary.micro_batches.empty()) {
    absl::StrAppend(&text, MicroBatchesTable(summary), "\n");
  }
  if (!summary.searchers.empty()) {
    absl::StrAppend(&text, SearchersTable(summary.searchers), "\n");
  }
  absl::StrAppend(&text, GroupsTable(summary.groups));
  absl::StrAppend(&text, ServersText(summary.groups), "\n", StrategiesTable(summary));
  return text;
}

namespace {

void AddComparison(const StrategyComparison& comparison, Json* object) {
  Json& differences = (*object)["differences"] = Json::array();
  for (const StrategyDifference& of : comparison.differences) {
    differences.push_back({{"what", of.what}, {"first", of.first}, {"second", of.second}});
  }
  (*object)["operators_alike"] = comparison.operators_alike;
}

}  // namespace

std::string PlanJson(const PlanSummary& summary) {
  const OpGraph& graph = *summary.graph;
  Json strategies = Json::array();
  for (const PricedStrategy& of : summary.strategies) strategies.push_back(StrategyJson(of));
  Json operators = Json::array();
  for (const PlannedGroup& group : summary.groups) {
    operators.push_back({{"name", group.name},
                         {"chunks", group.chunks},
                         {"splits", group.splits},
                         {"devices", group.devices},
                         {"compute_ns", group.compute_ns},
                         {"memory_bytes", group.memory_bytes},
                         {"servers", group.servers}});
  }
  Json searchers = Json::array();
  for (const SearcherRow& row : summary.searchers) {
    searchers.push_back({{"name", row.name},
                         {"step_ns", row.step_ns},
                         {"overflow_bytes", row.overflow_bytes},
                         {"proposals", row.proposals},
                         {"simulations", row.simulations},
                         {"seconds", row.seconds},
                         {"micro_batches", row.micro_batches},
                         {"note", row.note}});
  }
  Json trials = Json::array();
  for (const planner::MicroBatchTrial& row : summary.micro_batches) {
    trials.push_back({{"micro_batches", row.micro_batches},
                      {"step_ns", row.found.step_ns},
                      {"overflow_bytes", row.found.overflow_bytes},
                      {"proposals", row.proposals},
                      {"seconds", row.seconds}});
  }
  Json stalenesses = Json::array();
  for (const planner::StaleIteration& row : summary.stalenesses) {
    stalenesses.push_back({{"staleness", row.staleness},
                           {"iteration_ns", row.found.step_ns},
                           {"overflow_bytes", row.found.overflow_bytes}});
  }
  Json object = {{"version", 1},
                 {"model", graph.model},
                 {"model_sha256", graph.model_sha256},
                 {"batch", graph.batch},
                 {"time_chunk", graph.time_chunk},
                 {"micro_batches", graph.micro_batches},
                 {"machine", summary.machine->name()},
                 {"devices", summary.machine->devices().size()},
                 {"costs", summary.costs},
                 {"costs_sha256", summary.costs_sha256},
                 {"search", summary.search},
                 {"micro_batch_trials", std::move(trials)},
                 {"stalenesses", std::move(stalenesses)},
                 {"searchers", std::move(searchers)},
                 {"strategies", std::move(strategies)},
                 {"operators", std::move(operators)}};
  if (summary.comparison.has_value()) AddComparison(*summary.comparison, &object);
  return object.dump(kPlanIndent) + "\n";
}

}  // namespace soapstone::apps
