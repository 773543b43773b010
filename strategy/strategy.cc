#include "strategy/strategy.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::planner {
namespace {

absl::Status ConfigError(const PlanOp& op, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("configuration of ", op.name, ": ", why));
}

absl::Status CheckCuts(const PlanOp& op, const OpConfig& config) {
  if (config.cuts.empty()) return absl::OkStatus();
  if (config.cuts.size() != config.degrees.size()) {
    return ConfigError(op, "cuts must be given for each dimension or for none");
  }
  for (size_t d = 0; d < config.cuts.size(); ++d) {
    const models::IterationDim& dim = op.rule.dims[d];
    const std::vector<int64_t>& cuts = config.cuts[d];
    if (cuts.empty()) continue;
    if (cuts.size() + 1 != config.degrees[d]) {
      return ConfigError(op, absl::StrCat("dimension ", dim.name, " in ", config.degrees[d],
                                          " parts needs one cut less, not ", cuts.size()));
    }
    int64_t last = 0;
    for (int64_t cut : cuts) {
      if (cut <= last || cut >= dim.extent || cut % dim.unit != 0) {
        return ConfigError(
            op, absl::StrCat("cuts of ", dim.name, " must be ascending multiples of ", dim.unit,
                             " between 0 and ", dim.extent));
      }
      last = cut;
    }
  }
  return absl::OkStatus();
}

// Where part j of this dimension begins and the one before it ends.
int64_t Boundary(const models::IterationDim& dim, const OpConfig& config, size_t d, uint32_t j) {
  const int64_t degree = config.degrees[d];
  if (j == 0) return 0;
  if (j == degree) return dim.extent;
  if (d < config.cuts.size() && !config.cuts[d].empty()) return config.cuts[d][j - 1];
  return j * (dim.extent / dim.unit) / degree * dim.unit;
}

}  // namespace

absl::Status CheckServers(const OpGraph& graph, size_t count, const Strategy& strategy) {
  if (strategy.servers.empty()) return absl::OkStatus();
  if (strategy.synchronization != Synchronization::kServers) {
    return absl::InvalidArgumentError(
        "servers are named that keep parameters, but do not synchronize them");
  }
  if (strategy.servers.size() != graph.groups.size()) {
    return absl::InvalidArgumentError(absl::StrCat("servers of ", strategy.servers.size(),
                                                   " parameter groups; ", graph.model, " has ",
                                                   graph.groups.size()));
  }
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    const std::vector<uint32_t>& servers = strategy.servers[group];
    if (servers.empty()) continue;
    const auto refuse = [&](const std::string& why) {
      return absl::InvalidArgumentError(
          absl::StrCat("servers of ", NameOfGroup(graph, group), ": ", why));
    };
    if (std::adjacent_find(servers.begin(), servers.end(), std::greater_equal<>()) !=
        servers.end()) {
      return refuse("they must ascend, each once");
    }
    if (servers.back() >= count) {
      return refuse(absl::StrCat("there is no server ", servers.back(), " among ", count));
    }
    if (!HasParams(graph, group)) return refuse("it has no parameters");
  }
  return absl::OkStatus();
}

void SetSynchronization(Synchronization way, Strategy* strategy) {
  strategy->synchronization = way;
  if (way != Synchronization::kServers) strategy->servers.clear();
}

void DropEqualShares(Strategy* strategy) {
  if (std::all_of(strategy->servers.begin(), strategy->servers.end(),
                  [](const std::vector<uint32_t>& kept) { return kept.empty(); })) {
    strategy->servers.clear();
  }
}

uint32_t DegreeMax(const models::IterationDim& dim) {
  if (!dim.splittable) return 1;
  return static_cast<uint32_t>(std::clamp<int64_t>(dim.extent / dim.unit, 1, UINT32_MAX));
}

std::vector<int64_t> BoundariesOf(const models::IterationDim& dim, const OpConfig& config,
                                  size_t d) {
  std::vector<int64_t> bounds;
  for (uint32_t j = 0; j <= config.degrees[d]; ++j) bounds.push_back(Boundary(dim, config, d, j));
  return bounds;
}

models::Block PartBlock(const PlanOp& op, const OpConfig& config, uint32_t part) {
  models::Block block(config.degrees.size());
  for (size_t d = config.degrees.size(); d-- > 0;) {
    const models::IterationDim& dim = op.rule.dims[d];
    const uint32_t at = part % config.degrees[d];
    block[d] = {Boundary(dim, config, d, at), Boundary(dim, config, d, at + 1)};
    part /= config.degrees[d];
  }
  return block;
}

absl::Status CheckConfig(const PlanOp& op, const OpConfig& config, uint32_t devices) {
  if (config.degrees.size() != op.rule.dims.size()) {
    return ConfigError(op, absl::StrCat("it has ", op.rule.dims.size(), " dimensions, not ",
                                        config.degrees.size()));
  }
  uint64_t parts = 1;
  for (size_t d = 0; d < config.degrees.size(); ++d) {
    const models::IterationDim& dim = op.rule.dims[d];
    if (config.degrees[d] < 1 || config.degrees[d] > DegreeMax(dim)) {
      return ConfigError(op, absl::StrCat("dimension ", dim.name, " can be split in 1 to ",
                                          DegreeMax(dim), " parts, not ", config.degrees[d]));
    }
    parts *= config.degrees[d];
    if (parts > kPartsMax) break;
  }
  if (parts > kPartsMax) {
    return ConfigError(op, absl::StrCat("more than ", kPartsMax, " parts"));
  }
  if (config.devices.size() != parts) {
    return ConfigError(
        op, absl::StrCat("it has ", parts, " parts, but devices for ", config.devices.size()));
  }
  for (uint32_t device : config.devices) {
    if (device >= devices) {
      return ConfigError(op, absl::StrCat("there is no device ", device, " among ", devices));
    }
  }
  return CheckCuts(op, config);
}

absl::Status CheckStrategy(const OpGraph& graph, const Machine& machine, const Strategy& strategy) {
  if (strategy.ops.size() != graph.ops.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a strategy for ", strategy.ops.size(),
                                                   " operators; ", graph.model, " has ",
                                                   graph.ops.size()));
  }
  if (strategy.synchronization == Synchronization::kServers && machine.servers().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("machine ", machine.name(), " has no servers to keep the parameters"));
  }
  SOAP_RETURN_IF_ERROR(CheckServers(graph, machine.servers().size(), strategy));
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const auto devices = static_cast<uint32_t>(machine.devices().size());
    SOAP_RETURN_IF_ERROR(CheckConfig(graph.ops[i], strategy.ops[i], devices));
  }
  return absl::OkStatus();
}

OpConfig DataParallelConfig(const PlanOp& op, uint32_t devices) {
  OpConfig config;
  config.degrees.assign(op.rule.dims.size(), 1);
  uint32_t parts = 1;
  for (size_t d = 0; d < op.rule.dims.size(); ++d) {
    if (op.rule.dims[d].kind != models::DimKind::kSample) continue;
    parts = std::min(devices, DegreeMax(op.rule.dims[d]));
    config.degrees[d] = parts;
    break;
  }
  config.devices.resize(parts);
  std::iota(config.devices.begin(), config.devices.end(), 0);
  return config;
}

Strategy DataParallel(const OpGraph& graph, uint32_t devices) {
  Strategy strategy;
  for (const PlanOp& op : graph.ops) strategy.ops.push_back(DataParallelConfig(op, devices));
  return strategy;
}

Strategy SingleDevice(const OpGraph& graph, uint32_t device) {
  Strategy strategy;
  for (const PlanOp& op : graph.ops) {
    strategy.ops.push_back(
        {.degrees = std::vector<uint32_t>(op.rule.dims.size(), 1), .devices = {device}});
  }
  return strategy;
}

Strategy Canonical(const Machine& machine, const Strategy& strategy) {
  const std::vector<uint32_t>& classes = machine.symmetry_classes();
  std::map<uint32_t, std::vector<uint32_t>> members;  // class → devices, ascending
  for (uint32_t d = 0; d < classes.size(); ++d) members[classes[d]].push_back(d);
  std::map<uint32_t, uint32_t> named, renamed;  // class → devices named so far; device → new one
  Strategy result = strategy;
  for (OpConfig& config : result.ops) {
    for (uint32_t& device : config.devices) {
      const auto [it, is_new] = renamed.try_emplace(device, 0);
      if (is_new) it->second = members[classes[device]][named[classes[device]]++];
      device = it->second;
    }
  }
  return result;
}

}  // namespace soapstone::planner
