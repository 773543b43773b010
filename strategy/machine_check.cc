#include "strategy/machine_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "base/status_macros.h"
#include "strategy/machine_text.h"

namespace soapstone::planner {
namespace {

using wire::ConnectionConfig;
using wire::MachineConfig;
using wire::NodesConfig;

constexpr uint32_t kServersMax = 1024;
constexpr double kMicrosecondsMax = 1e9;
// Of TFLOPS and GB/s: what a machine has, with room; then times of what a model does are numbers.
constexpr double kRateMin = 1e-6, kRateMax = 1e9;
// A text of a few lines must not stand for more than there is memory for. A mesh of kDevicesMax
// devices has 2^20 links.
constexpr size_t kLevelsMax = 16;  // of switches and of fabrics
constexpr uint64_t kLinksMax = uint64_t{1} << 21;
constexpr uint64_t kPathsMax = uint64_t{1} << 21;  // between any two of a node, over all nodes

absl::Status CheckAbove(const std::string& place, const std::string& field, double value) {
  if (!(std::isfinite(value) && value > 0)) {
    return ErrorAt(place, field, ": must be above 0, not ", value);
  }
  if (value >= kRateMin && value <= kRateMax) return absl::OkStatus();
  return ErrorAt(place, field, ": must be from ", kRateMin, " to ", kRateMax, ", not ", value);
}

absl::Status CheckMicroseconds(const std::string& place, const std::string& field, double us) {
  if (us >= 0 && us <= kMicrosecondsMax) return absl::OkStatus();
  return ErrorAt(place, field, ": must be from 0 to ", kMicrosecondsMax, ", not ", us);
}

absl::Status CheckConnection(const std::string& place, const std::string& field,
                             const ConnectionConfig& c) {
  SOAP_RETURN_IF_ERROR(CheckAbove(place, field + ".gbytes_per_s", c.gbytes_per_s()));
  SOAP_RETURN_IF_ERROR(CheckMicroseconds(place, field + ".latency_us", c.latency_us()));
  return CheckMicroseconds(place, field + ".message_us", c.message_us());
}

// One error for all trees of names: switches of a node, fabrics. `parents` by name; a name that
// is no key ends the way up from `name`.
absl::Status CheckWayUp(const std::string& place, const char* what, const std::string& name,
                        const std::map<std::string, std::string>& parents) {
  size_t levels = 1;
  for (auto at = parents.find(parents.at(name)); at != parents.end();
       at = parents.find(at->second)) {
    if (at->first == name) return ErrorAt(place, what, " ", name, ": parent: it is above itself");
    if (++levels > kLevelsMax) {
      return ErrorAt(place, what, " ", name, ": parent: more than ", kLevelsMax,
                     " levels, or one of them is above itself");
    }
  }
  return absl::OkStatus();
}

// Checks of what was read, each with its place.
class ConfigCheck {
 public:
  ConfigCheck(const MachineConfig& config, const wire::TextPlaces& places)
      : config_(config), places_(places) {}

  absl::Status Run() const {
    if (config_.name().empty()) return ErrorAt(places_.Of({{"name"}}), "name: it needs one");
    SOAP_RETURN_IF_ERROR(CheckKinds());
    SOAP_RETURN_IF_ERROR(CheckFabrics());
    std::map<std::string, int> names;
    uint64_t devices = 0;
    uint64_t servers = 0;
    uint64_t nodes = 0, links = 2 * static_cast<uint64_t>(config_.fabrics_size()), paths = 0;
    for (int i = 0; i < config_.nodes_size(); ++i) {
      SOAP_RETURN_IF_ERROR(CheckNodes(i));
      const NodesConfig& group = config_.nodes(i);
      if (!names.emplace(group.name(), i).second) {
        return ErrorAt(Place(i, "name"), "nodes: name: two are called '", group.name(), "'");
      }
      devices += uint64_t{group.count()} * group.devices();
      servers += uint64_t{group.count()} * group.servers();
      nodes += group.count();
      links += group.count() * LinksOf(group);
      const uint64_t vertices = uint64_t{group.devices()} + group.switches_size() + 1;
      paths += group.count() * vertices * vertices;
      if (devices > kDevicesMax || servers > kServersMax) {
        return ErrorAt(Place(i, "count"), "nodes: count: more than ", kDevicesMax, " devices or ",
                       kServersMax, " servers in all");
      }
      if (links > kLinksMax || paths > kPathsMax) {
        return ErrorAt(Place(i, "count"), "nodes: more than ", kLinksMax, " links, or more than ",
                       kPathsMax, " paths within nodes, in all");
      }
    }
    if (devices == 0) return ErrorAt(places_.Of({{"nodes"}}), "nodes: the machine has no device");
    for (int i = 0; nodes > 1 && i < config_.nodes_size(); ++i) {
      if (config_.nodes(i).has_nics()) continue;
      return ErrorAt(Place(i, "nics"), "nodes: nics: there is no path from ",
                     config_.nodes(i).name(), " to other nodes without");
    }
    return absl::OkStatus();
  }

 private:
  std::string Place(int nodes, const char* field) const {
    return places_.Of({{"nodes", nodes}, {field}});
  }

  // At least what Expansion makes of one node.
  static uint64_t LinksOf(const NodesConfig& group) {
    const uint64_t devices = group.devices();
    uint64_t connections = group.has_host() ? devices : 0;
    if (group.has_mesh()) connections += devices * devices / 2;
    if (group.has_nics()) connections += group.nics().count();
    for (const wire::SwitchConfig& s : group.switches()) {
      connections += static_cast<uint64_t>(s.devices_size()) + 1;
    }
    return 2 * connections;
  }

  absl::Status CheckKinds() const {
    for (int i = 0; i < config_.kinds_size(); ++i) {
      const wire::KindConfig& kind = config_.kinds(i);
      const auto place = [&](const char* field) { return places_.Of({{"kinds", i}, {field}}); };
      if (kind.name().empty()) return ErrorAt(place("name"), "kinds: name: it needs one");
      for (int j = 0; j < i; ++j) {
        if (config_.kinds(j).name() != kind.name()) continue;
        return ErrorAt(place("name"), "kinds: name: two are called '", kind.name(), "'");
      }
      SOAP_RETURN_IF_ERROR(CheckAbove(place("tflops"), "kinds.tflops", kind.tflops()));
      SOAP_RETURN_IF_ERROR(CheckAbove(place("memory_gbytes_per_s"), "kinds.memory_gbytes_per_s",
                                      kind.memory_gbytes_per_s()));
      SOAP_RETURN_IF_ERROR(CheckAbove(place("memory_gib"), "kinds.memory_gib", kind.memory_gib()));
      if (kind.memory_gib() > 1 << 30) {
        return ErrorAt(place("memory_gib"), "kinds.memory_gib: must be at most 2^30");
      }
      SOAP_RETURN_IF_ERROR(
          CheckMicroseconds(place("launch_us"), "kinds.launch_us", kind.launch_us()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckFabrics() const {
    std::map<std::string, std::string> parents;
    for (int i = 0; i < config_.fabrics_size(); ++i) {
      const wire::FabricConfig& fabric = config_.fabrics(i);
      const std::string place = places_.Of({{"fabrics", i}, {"name"}});
      if (fabric.name().empty()) return ErrorAt(place, "fabrics: name: it needs one");
      if (!parents.emplace(fabric.name(), fabric.parent()).second) {
        return ErrorAt(place, "fabrics: name: two are called '", fabric.name(), "'");
      }
    }
    for (int i = 0; i < config_.fabrics_size(); ++i) {
      const wire::FabricConfig& fabric = config_.fabrics(i);
      if (fabric.parent().empty()) continue;
      const std::string place = places_.Of({{"fabrics", i}, {"parent"}});
      if (!parents.contains(fabric.parent())) {
        return ErrorAt(place, "fabrics: parent: there is no fabric '", fabric.parent(), "'");
      }
      SOAP_RETURN_IF_ERROR(CheckConnection(places_.Of({{"fabrics", i}, {"to_parent"}}),
                                           "fabrics.to_parent", fabric.to_parent()));
      SOAP_RETURN_IF_ERROR(CheckWayUp(place, "fabric", fabric.name(), parents));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNodes(int i) const {
    const NodesConfig& group = config_.nodes(i);
    if (group.name().empty()) return ErrorAt(Place(i, "name"), "nodes: name: it needs one");
    if (group.count() < 1 || group.count() > kDevicesMax) {
      return ErrorAt(Place(i, "count"), "nodes: count: must be from 1 to ", kDevicesMax, ", not ",
                     group.count());
    }
    if (group.devices() > kDevicesMax) {
      return ErrorAt(Place(i, "devices"), "nodes: devices: must be at most ", kDevicesMax, ", not ",
                     group.devices());
    }
    if (group.devices() > 0) {
      const auto named = [&](const wire::KindConfig& k) { return k.name() == group.kind(); };
      if (std::none_of(config_.kinds().begin(), config_.kinds().end(), named)) {
        return ErrorAt(Place(i, "kind"), "nodes: kind: there is no kind '", group.kind(), "'");
      }
    }
    if (group.servers() > 0) {
      SOAP_RETURN_IF_ERROR(CheckAbove(Place(i, "server_apply_gbytes_per_s"),
                                      "nodes.server_apply_gbytes_per_s",
                                      group.server_apply_gbytes_per_s()));
    }
    if (group.has_mesh()) {
      SOAP_RETURN_IF_ERROR(CheckConnection(Place(i, "mesh"), "nodes.mesh", group.mesh()));
    }
    if (group.has_host()) {
      SOAP_RETURN_IF_ERROR(CheckConnection(Place(i, "host"), "nodes.host", group.host()));
    }
    SOAP_RETURN_IF_ERROR(CheckSwitches(i));
    return CheckNics(i);
  }

  absl::Status CheckSwitches(int i) const {
    const NodesConfig& group = config_.nodes(i);
    std::map<std::string, std::string> parents;
    for (int s = 0; s < group.switches_size(); ++s) {
      const wire::SwitchConfig& at = group.switches(s);
      const std::string place = places_.Of({{"nodes", i}, {"switches", s}, {"name"}});
      if (at.name().empty() || at.name() == kHostVertex) {
        return ErrorAt(place, "switches: name: it needs one, other than ", kHostVertex);
      }
      if (!parents.emplace(at.name(), at.parent()).second) {
        return ErrorAt(place, "switches: name: two are called '", at.name(), "'");
      }
      for (const uint32_t device : at.devices()) {
        if (device < group.devices()) continue;
        return ErrorAt(places_.Of({{"nodes", i}, {"switches", s}, {"devices"}}),
                       "switches: devices: there is no device ", device, " in a node of ",
                       group.devices());
      }
      if (at.devices_size() > 0) {
        SOAP_RETURN_IF_ERROR(
            CheckConnection(places_.Of({{"nodes", i}, {"switches", s}, {"to_device"}}),
                            "switches.to_device", at.to_device()));
      }
    }
    for (int s = 0; s < group.switches_size(); ++s) {
      const wire::SwitchConfig& at = group.switches(s);
      if (at.parent().empty()) continue;
      const std::string place = places_.Of({{"nodes", i}, {"switches", s}, {"parent"}});
      if (at.parent() != kHostVertex && !parents.contains(at.parent())) {
        return ErrorAt(place, "switches: parent: there is no switch '", at.parent(), "'");
      }
      SOAP_RETURN_IF_ERROR(CheckWayUp(place, "switch", at.name(), parents));
      SOAP_RETURN_IF_ERROR(
          CheckConnection(places_.Of({{"nodes", i}, {"switches", s}, {"to_parent"}}),
                          "switches.to_parent", at.to_parent()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNics(int i) const {
    const NodesConfig& group = config_.nodes(i);
    if (!group.has_nics()) return absl::OkStatus();
    if (group.nics().count() < 1 || group.nics().count() > kDevicesMax) {
      return ErrorAt(places_.Of({{"nodes", i}, {"nics"}, {"count"}}),
                     "nodes.nics.count: must be from 1 to ", kDevicesMax, ", not ",
                     group.nics().count());
    }
    SOAP_RETURN_IF_ERROR(CheckConnection(places_.Of({{"nodes", i}, {"nics"}, {"connection"}}),
                                         "nodes.nics.connection", group.nics().connection()));
    const auto named = [&](const wire::FabricConfig& f) { return f.name() == group.fabric(); };
    if (config_.fabrics_size() > 0 &&
        std::none_of(config_.fabrics().begin(), config_.fabrics().end(), named)) {
      return ErrorAt(Place(i, "fabric"), "nodes: fabric: there is no fabric '", group.fabric(),
                     "'");
    }
    return absl::OkStatus();
  }

  const MachineConfig& config_;
  const wire::TextPlaces& places_;
};

}  // namespace

absl::Status CheckMachineConfig(const MachineConfig& config, const wire::TextPlaces& places) {
  return ConfigCheck(config, places).Run();
}

}  // namespace soapstone::planner
