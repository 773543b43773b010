#include "strategy/strategy_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "strategy/machine_text.h"
#include "wire/config/text_config.h"

namespace soapstone::planner {
namespace {

// Of what is written; 1 has no planned times.
constexpr uint32_t kStrategyVersion = 2;
constexpr size_t kAnyServers = size_t{1} << 20;  // who has them knows how many there are

template <class... Pieces>
absl::Status Refuse(const std::string& file, const Pieces&... pieces) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", pieces...));
}

std::string ShortHash(const std::string& sha256) { return sha256.substr(0, 12); }

absl::Status CheckModel(const wire::Strategy& message, const std::string& file,
                        const OpGraph& graph) {
  if (message.model_sha256() != graph.model_sha256) {
    return Refuse(file, "a strategy for ", message.model(), " (", ShortHash(message.model_sha256()),
                  "), not for ", graph.model, " (", ShortHash(graph.model_sha256), ")");
  }
  if (message.batch() != graph.batch || message.time_chunk() != graph.time_chunk) {
    return Refuse(file, "a strategy for batch ", message.batch(), " and time chunk ",
                  message.time_chunk(), ", not for ", graph.batch, " and ", graph.time_chunk);
  }
  const int64_t micro_batches = std::max<int64_t>(1, message.micro_batches());
  if (micro_batches != graph.micro_batches) {
    return Refuse(file, "a strategy for ", micro_batches, " micro-batches, not for ",
                  graph.micro_batches);
  }
  return absl::OkStatus();
}

absl::Status CheckMachine(const wire::Strategy& message, const std::string& file,
                          const Machine& machine) {
  const std::string machine_sha256 = HashOf(machine);
  if (message.machine_sha256() != machine_sha256) {
    return Refuse(file, "a strategy for ", message.devices(), " devices of ", message.machine(),
                  " (", ShortHash(message.machine_sha256()), "), not for ",
                  machine.devices().size(), " of ", machine.name(), " (", ShortHash(machine_sha256),
                  ")");
  }
  return absl::OkStatus();
}

absl::StatusOr<Synchronization> SynchronizationOf(const std::string& name,
                                                  const std::string& file) {
  for (const Synchronization s :
       {Synchronization::kOwner, Synchronization::kRing, Synchronization::kServers}) {
    if (NameOf(s) == name) return s;
  }
  return Refuse(file, "synchronization: '", name, "' is none of owner, ring, servers");
}

absl::StatusOr<OpConfig> ConfigFrom(const wire::OpConfig& message, const std::string& file,
                                    const PlanOp& op) {
  OpConfig config;
  config.degrees.assign(op.rule.dims.size(), 1);
  config.devices.assign(message.devices().begin(), message.devices().end());
  for (const wire::Split& split : message.splits()) {
    const auto dim = std::find_if(op.rule.dims.begin(), op.rule.dims.end(),
                                  [&](const auto& d) { return d.name == split.dim(); });
    if (dim == op.rule.dims.end()) {
      return Refuse(file, op.name, ": it has no dimension '", split.dim(), "'");
    }
    const auto d = static_cast<size_t>(dim - op.rule.dims.begin());
    config.degrees[d] = split.parts();
    if (split.cuts().empty()) continue;
    config.cuts.resize(op.rule.dims.size());
    config.cuts[d].assign(split.cuts().begin(), split.cuts().end());
  }
  return config;
}

absl::Status KeptFrom(const wire::Strategy& message, const std::string& file, const OpGraph& graph,
                      Strategy* strategy) {
  if (message.kept().empty()) return absl::OkStatus();
  strategy->servers.resize(graph.groups.size());
  for (const wire::Kept& kept : message.kept()) {
    const auto group = std::find_if(
        graph.groups.begin(), graph.groups.end(), [&](const std::vector<uint32_t>& ops) {
          return !ops.empty() && graph.ops[ops.front()].name == kept.op();
        });
    if (group == graph.groups.end()) {
      return Refuse(file, "kept: no parameter group begins with '", kept.op(), "'");
    }
    std::vector<uint32_t>& servers =
        strategy->servers[static_cast<size_t>(group - graph.groups.begin())];
    if (!servers.empty()) return Refuse(file, "kept: '", kept.op(), "' stands there twice");
    if (kept.servers().empty()) return Refuse(file, "kept: '", kept.op(), "' has no servers");
    servers.assign(kept.servers().begin(), kept.servers().end());
  }
  return absl::OkStatus();
}

}  // namespace

std::string NameOf(Synchronization synchronization) {
  switch (synchronization) {
    case Synchronization::kOwner:
      return "owner";
    case Synchronization::kRing:
      return "ring";
    case Synchronization::kServers:
      return "servers";
  }
  return "";
}

wire::Strategy MessageOf(const OpGraph& graph, const Machine& machine,
                         const std::string& costs_sha256, const Strategy& strategy) {
  wire::Strategy message;
  message.set_version(kStrategyVersion);
  message.set_model(graph.model);
  message.set_model_sha256(graph.model_sha256);
  message.set_batch(graph.batch);
  message.set_time_chunk(graph.time_chunk);
  if (graph.micro_batches > 1) message.set_micro_batches(graph.micro_batches);
  message.set_machine(machine.name());
  message.set_machine_sha256(HashOf(machine));
  message.set_devices(static_cast<uint32_t>(machine.devices().size()));
  message.set_costs_sha256(costs_sha256);
  message.set_synchronization(NameOf(strategy.synchronization));
  message.set_staleness(strategy.staleness);
  for (size_t group = 0; group < strategy.servers.size(); ++group) {
    const std::vector<uint32_t>& servers = strategy.servers[group];
    if (servers.empty()) continue;
    wire::Kept* kept = message.add_kept();
    kept->set_op(graph.ops[graph.groups[group].front()].name);
    kept->mutable_servers()->Add(servers.begin(), servers.end());
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const PlanOp& op = graph.ops[i];
    const OpConfig& config = strategy.ops[i];
    wire::OpConfig* to = message.add_ops();
    to->set_name(op.name);
    for (size_t d = 0; d < config.degrees.size(); ++d) {
      if (config.degrees[d] == 1) continue;
      wire::Split* split = to->add_splits();
      split->set_dim(op.rule.dims[d].name);
      split->set_parts(config.degrees[d]);
      if (config.cuts.empty()) continue;
      split->mutable_cuts()->Add(config.cuts[d].begin(), config.cuts[d].end());
    }
    to->mutable_devices()->Add(config.devices.begin(), config.devices.end());
  }
  return message;
}

absl::StatusOr<wire::Strategy> ParseStrategy(const std::string& text, const std::string& file) {
  wire::Strategy message;
  SOAP_RETURN_IF_ERROR(wire::ParseTextConfig(text, file, &message));
  if (message.version() < 1 || message.version() > kStrategyVersion) {
    return Refuse(file, "strategies of version ", message.version(), " are not known, only up to ",
                  kStrategyVersion, "; plan again");
  }
  if (message.staleness() > kStalenessMax) {
    return Refuse(file, "staleness: ", message.staleness(), " is more than ", kStalenessMax);
  }
  return message;
}

namespace {

absl::StatusOr<Strategy> Read(const wire::Strategy& message, const std::string& file,
                              const OpGraph& graph) {
  if (static_cast<size_t>(message.ops_size()) != graph.ops.size()) {
    return Refuse(file, "ops: it has ", message.ops_size(), " operators, the model ",
                  graph.ops.size());
  }
  Strategy strategy = {.staleness = message.staleness()};
  SOAP_ASSIGN_OR_RETURN(strategy.synchronization,
                        SynchronizationOf(message.synchronization(), file));
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const wire::OpConfig& of = message.ops(static_cast<int>(i));
    if (of.name() != graph.ops[i].name) {
      return Refuse(file, "ops: '", of.name(), "' stands where the model has '", graph.ops[i].name,
                    "'");
    }
    SOAP_ASSIGN_OR_RETURN(OpConfig config, ConfigFrom(of, file, graph.ops[i]));
    strategy.ops.push_back(std::move(config));
  }
  SOAP_RETURN_IF_ERROR(KeptFrom(message, file, graph, &strategy));
  return strategy;
}

}  // namespace

absl::StatusOr<Strategy> StrategyFrom(const wire::Strategy& message, const std::string& file,
                                      const OpGraph& graph, const Machine& machine) {
  SOAP_RETURN_IF_ERROR(CheckModel(message, file, graph));
  SOAP_RETURN_IF_ERROR(CheckMachine(message, file, machine));
  SOAP_ASSIGN_OR_RETURN(Strategy strategy, Read(message, file, graph));
  const absl::Status fits = CheckStrategy(graph, machine, strategy);
  if (!fits.ok()) return Refuse(file, fits.message());
  return strategy;
}

namespace {

using Part = std::pair<uint32_t, uint32_t>;  // operator, part

// By device, the parts that it has, ascending.
std::vector<std::vector<Part>> PartsByDevice(const Strategy& strategy, size_t devices) {
  std::vector<std::vector<Part>> parts(devices);
  for (uint32_t op = 0; op < strategy.ops.size(); ++op) {
    const std::vector<uint32_t>& of = strategy.ops[op].devices;
    for (uint32_t part = 0; part < of.size(); ++part) parts[of[part]].push_back({op, part});
  }
  return parts;
}

}  // namespace

void SetOrder(const OpGraph& graph, const Strategy& strategy, const Order& order,
              wire::Strategy* message) {
  CHECK(CheckOrder(graph, strategy, order).ok());
  const std::vector<std::vector<Part>> parts = PartsByDevice(strategy, order.size());
  message->clear_order();
  for (size_t seat = 0; seat < order.size(); ++seat) {
    wire::SeatOrder* to = message->add_order();
    for (const TaskRef& task : order[seat]) {
      const auto at =
          std::lower_bound(parts[seat].begin(), parts[seat].end(), Part{task.op, task.part});
      const auto number = static_cast<uint32_t>(at - parts[seat].begin());
      to->add_halves(2 * number + (task.backward ? 1 : 0));
    }
  }
}

absl::StatusOr<Order> OrderFrom(const wire::Strategy& message, const std::string& file,
                                const OpGraph& graph, const Strategy& strategy) {
  if (message.order().empty()) return CanonicalOrder(graph, strategy, message.devices());
  if (static_cast<uint32_t>(message.order_size()) != message.devices()) {
    return Refuse(file, "order: of ", message.order_size(), " devices, and there are ",
                  message.devices());
  }
  const std::vector<std::vector<Part>> parts = PartsByDevice(strategy, message.devices());
  Order order(message.devices());
  for (uint32_t seat = 0; seat < message.devices(); ++seat) {
    for (const uint32_t half : message.order(static_cast<int>(seat)).halves()) {
      if (half / 2 >= parts[seat].size()) {
        return Refuse(file, "order: device ", seat, " has ", parts[seat].size(),
                      " parts, so no half ", half);
      }
      const Part& part = parts[seat][half / 2];
      order[seat].push_back({.op = part.first, .part = part.second, .backward = half % 2 == 1});
    }
  }
  const absl::Status runs = CheckOrder(graph, strategy, order);
  if (!runs.ok()) return Refuse(file, "order: ", runs.message());
  return order;
}

absl::StatusOr<Strategy> StrategyForWorkers(const wire::Strategy& message, const std::string& file,
                                            const OpGraph& graph) {
  SOAP_RETURN_IF_ERROR(CheckModel(message, file, graph));
  SOAP_ASSIGN_OR_RETURN(Strategy strategy, Read(message, file, graph));
  if (message.devices() < 1 || message.devices() > kDevicesMax) {
    return Refuse(file, "devices: ", message.devices(), " is not 1 to ", kDevicesMax);
  }
  std::vector<bool> used(message.devices());
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    const absl::Status fits = CheckConfig(graph.ops[k], strategy.ops[k], message.devices());
    if (!fits.ok()) return Refuse(file, fits.message());
    for (const uint32_t device : strategy.ops[k].devices) used[device] = true;
  }
  const absl::Status kept = CheckServers(graph, kAnyServers, strategy);
  if (!kept.ok()) return Refuse(file, kept.message());
  const auto idle = std::find(used.begin(), used.end(), false);
  if (idle != used.end()) {
    return Refuse(file, "device ", idle - used.begin(),
                  " has no part of the model, and a worker there "
                  "nothing to do; plan for fewer devices (soapstone plan --devices)");
  }
  return strategy;
}

}  // namespace soapstone::planner
