#include "strategy/machine_text.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "strategy/machine_check.h"
#include "wire/config/machine.pb.h"
#include "wire/config/text_config.h"

namespace soapstone::planner {
namespace {

using wire::ConnectionConfig;
using wire::MachineConfig;
using wire::NodesConfig;

using Path = std::vector<uint32_t>;  // links

Nanos NanosOf(double us) { return std::llround(us * 1000); }

// Where a device or a server is.
struct End {
  uint32_t node = 0;
  uint32_t vertex = 0;  // of the node's graph
  uint32_t nic = 0;
};

// One node: its devices, switches and processor, and the links between them.
struct NodeGraph {
  struct Edge {
    uint32_t to = 0, link = 0;
  };
  int group = 0;
  std::string name;
  uint32_t devices = 0;
  std::vector<std::vector<Edge>> edges;  // by vertex: devices, switches, the processor
  std::vector<uint32_t> nic_out, nic_in;

  uint32_t host() const { return static_cast<uint32_t>(edges.size()) - 1; }
};

class Expansion {
 public:
  Expansion(const MachineConfig& config, const wire::TextPlaces& places)
      : config_(config), places_(places) {
    parts_.name = config.name();
    for (const wire::KindConfig& kind : config.kinds()) {
      parts_.kinds.push_back({.name = kind.name(),
                              .flops_per_second = kind.tflops() * 1e12,
                              .bytes_per_second = kind.memory_gbytes_per_s() * 1e9,
                              .memory_bytes = static_cast<uint64_t>(kind.memory_gib() * (1 << 30)),
                              .launch_ns = NanosOf(kind.launch_us())});
    }
  }

  absl::StatusOr<Machine::Parts> Run() && {
    for (int i = 0; i < config_.fabrics_size(); ++i) AddFabric(config_.fabrics(i));
    for (int i = 0; i < config_.nodes_size(); ++i) {
      for (uint32_t k = 0; k < config_.nodes(i).count(); ++k) AddNode(i, k);
    }
    SOAP_RETURN_IF_ERROR(FindPaths());
    return std::move(parts_);
  }

 private:
  uint32_t AddLink(std::string name, const ConnectionConfig& c) {
    parts_.links.push_back({.name = std::move(name),
                            .bytes_per_second = c.gbytes_per_s() * 1e9,
                            .latency_ns = NanosOf(c.latency_us()),
                            .message_ns = NanosOf(c.message_us())});
    return static_cast<uint32_t>(parts_.links.size()) - 1;
  }

  void AddFabric(const wire::FabricConfig& fabric) {
    if (fabric.parent().empty()) return;
    fabric_up_[fabric.name()] =
        AddLink(absl::StrCat(fabric.name(), ">", fabric.parent()), fabric.to_parent());
    fabric_down_[fabric.name()] =
        AddLink(absl::StrCat(fabric.parent(), ">", fabric.name()), fabric.to_parent());
    fabric_parent_[fabric.name()] = fabric.parent();
  }

  void Connect(NodeGraph* node, uint32_t a, uint32_t b, const std::string& name_a,
               const std::string& name_b, const ConnectionConfig& c) {
    const auto name = [&](const std::string& x, const std::string& y) {
      return absl::StrCat(node->name, ":", x, ">", y);
    };
    node->edges[a].push_back({b, AddLink(name(name_a, name_b), c)});
    node->edges[b].push_back({a, AddLink(name(name_b, name_a), c)});
  }

  void AddNode(int group_index, uint32_t number) {
    const NodesConfig& group = config_.nodes(group_index);
    NodeGraph node = {.group = group_index, .name = group.name(), .devices = group.devices()};
    if (group.count() > 1) absl::StrAppend(&node.name, number);
    const auto id = static_cast<uint32_t>(nodes_.size());
    const uint32_t devices = group.devices();
    node.edges.resize(devices + static_cast<uint32_t>(group.switches_size()) + 1);
    AddConnections(group, &node);
    const uint32_t nics = group.has_nics() ? group.nics().count() : 0;
    for (uint32_t k = 0; k < nics; ++k) {
      const std::string nic = absl::StrCat(node.name, ":nic", k);
      node.nic_out.push_back(AddLink(absl::StrCat(nic, ">"), group.nics().connection()));
      node.nic_in.push_back(AddLink(absl::StrCat(nic, "<"), group.nics().connection()));
    }
    const auto of_kind = std::find_if(parts_.kinds.begin(), parts_.kinds.end(),
                                      [&](const DeviceKind& k) { return k.name == group.kind(); });
    for (uint32_t d = 0; d < devices; ++d) {
      parts_.devices.push_back({.name = absl::StrCat(node.name, ":", d),
                                .kind = static_cast<uint32_t>(of_kind - parts_.kinds.begin()),
                                .node = id});
      devices_.push_back({.node = id, .vertex = d, .nic = d * nics / devices});
    }
    for (uint32_t s = 0; s < group.servers(); ++s) {
      parts_.servers.push_back({.name = absl::StrCat(node.name, ":server", s),
                                .node = id,
                                .apply_bytes_per_second = group.server_apply_gbytes_per_s() * 1e9});
      servers_.push_back({.node = id, .vertex = node.host(), .nic = s * nics / group.servers()});
    }
    nodes_.push_back(std::move(node));
  }

  void AddConnections(const NodesConfig& group, NodeGraph* node) {
    const uint32_t devices = group.devices();
    const auto name = [](uint32_t device) { return absl::StrCat(device); };
    for (uint32_t a = 0; group.has_mesh() && a < devices; ++a) {
      for (uint32_t b = a + 1; b < devices; ++b) {
        Connect(node, a, b, name(a), name(b), group.mesh());
      }
    }
    std::map<std::string, uint32_t> vertices = {{kHostVertex, node->host()}};
    for (const wire::SwitchConfig& s : group.switches()) {
      const auto vertex = devices + static_cast<uint32_t>(vertices.size()) - 1;
      vertices[s.name()] = vertex;
      for (const uint32_t d : s.devices()) {
        Connect(node, d, vertex, name(d), s.name(), s.to_device());
      }
    }
    for (const wire::SwitchConfig& s : group.switches()) {
      if (s.parent().empty()) continue;
      Connect(node, vertices[s.name()], vertices[s.parent()], s.name(), s.parent(), s.to_parent());
    }
    for (uint32_t d = 0; group.has_host() && d < devices; ++d) {
      Connect(node, d, node->host(), name(d), kHostVertex, group.host());
    }
  }

  // Paths of fewest links from a vertex to all others, not through other devices; of equals the
  // first that is found. Empty where there is none.
  static std::vector<Path> PathsFrom(const NodeGraph& node, uint32_t from) {
    std::vector<Path> paths(node.edges.size());
    std::vector<bool> seen(node.edges.size(), false);
    std::deque<uint32_t> next = {from};
    seen[from] = true;
    while (!next.empty()) {
      const uint32_t at = next.front();
      next.pop_front();
      if (at < node.devices && at != from) continue;
      for (const NodeGraph::Edge& edge : node.edges[at]) {
        if (seen[edge.to]) continue;
        seen[edge.to] = true;
        paths[edge.to] = paths[at];
        paths[edge.to].push_back(edge.link);
        next.push_back(edge.to);
      }
    }
    return paths;
  }

  bool direct(const NodeGraph& node) const { return config_.nodes(node.group).nics().direct(); }

  // Up from the one fabric, down to the other. False: they have no fabric in common.
  bool AppendFabrics(const std::string& from, const std::string& to, Path* path) const {
    if (config_.fabrics_size() == 0) return true;
    std::vector<std::string> up = {from};
    while (fabric_parent_.contains(up.back())) up.push_back(fabric_parent_.at(up.back()));
    Path down;
    std::string at = to;
    auto meets = std::find(up.begin(), up.end(), at);
    while (meets == up.end()) {
      if (!fabric_parent_.contains(at)) return false;
      down.insert(down.begin(), fabric_down_.at(at));
      at = fabric_parent_.at(at);
      meets = std::find(up.begin(), up.end(), at);
    }
    for (auto f = up.begin(); f != meets; ++f) path->push_back(fabric_up_.at(*f));
    path->insert(path->end(), down.begin(), down.end());
    return true;
  }

  // Empty if there is none.
  Path Between(const End& a, const End& b) const {
    if (a.node == b.node) return local_[a.node][a.vertex][b.vertex];
    const NodeGraph& from = nodes_[a.node];
    const NodeGraph& to = nodes_[b.node];
    Path path;
    if (a.vertex != from.host() && !direct(from)) {
      path = local_[a.node][a.vertex][from.host()];
      if (path.empty()) return {};
    }
    path.push_back(from.nic_out[a.nic]);
    if (!AppendFabrics(config_.nodes(from.group).fabric(), config_.nodes(to.group).fabric(),
                       &path)) {
      return {};
    }
    path.push_back(to.nic_in[b.nic]);
    if (b.vertex != to.host() && !direct(to)) {
      const Path& in = local_[b.node][to.host()][b.vertex];
      if (in.empty()) return {};
      path.insert(path.end(), in.begin(), in.end());
    }
    return path;
  }

  absl::Status FindPath(const End& a, const std::string& from, const End& b, const std::string& to,
                        std::vector<Path>* paths) const {
    paths->push_back(Between(a, b));
    if (!paths->back().empty()) return absl::OkStatus();
    const std::string place = places_.Of({{"nodes", nodes_[a.node].group}});
    return ErrorAt(place, "nodes: there is no path from ", from, " to ", to, ": it takes mesh, ",
                   "switches with common parents, or fabrics; to NICs that are not direct and to ",
                   "servers of the node also host, or switches with parent: \"host\"");
  }

  absl::Status FindPaths() {
    for (const NodeGraph& node : nodes_) {
      local_.emplace_back();
      for (uint32_t v = 0; v < node.edges.size(); ++v) local_.back().push_back(PathsFrom(node, v));
    }
    const std::vector<Device>& devices = parts_.devices;
    const std::vector<ParameterServer>& servers = parts_.servers;
    for (size_t a = 0; a < devices.size(); ++a) {
      for (size_t b = 0; b < devices.size(); ++b) {
        if (a == b) {
          parts_.device_paths.emplace_back();
          continue;
        }
        SOAP_RETURN_IF_ERROR(FindPath(devices_[a], devices[a].name, devices_[b], devices[b].name,
                                      &parts_.device_paths));
      }
      for (size_t s = 0; s < servers.size(); ++s) {
        SOAP_RETURN_IF_ERROR(FindPath(devices_[a], devices[a].name, servers_[s], servers[s].name,
                                      &parts_.push_paths));
      }
    }
    for (size_t s = 0; s < servers.size(); ++s) {
      for (size_t a = 0; a < devices.size(); ++a) {
        SOAP_RETURN_IF_ERROR(FindPath(servers_[s], servers[s].name, devices_[a], devices[a].name,
                                      &parts_.pull_paths));
      }
    }
    return absl::OkStatus();
  }

  const MachineConfig& config_;
  const wire::TextPlaces& places_;
  Machine::Parts parts_;
  std::vector<NodeGraph> nodes_;
  std::vector<End> devices_, servers_;
  std::map<std::string, uint32_t> fabric_up_, fabric_down_;
  std::map<std::string, std::string> fabric_parent_;
  std::vector<std::vector<std::vector<Path>>> local_;  // by node, from, to
};

}  // namespace

absl::StatusOr<Machine> ParseMachine(const std::string& text, const std::string& file) {
  MachineConfig config;
  wire::TextPlaces places;
  SOAP_RETURN_IF_ERROR(wire::ParseTextConfig(text, file, &config, &places));
  SOAP_RETURN_IF_ERROR(CheckMachineConfig(config, places));
  SOAP_ASSIGN_OR_RETURN(Machine::Parts parts, Expansion(config, places).Run());
  absl::StatusOr<Machine> machine = Machine::Make(std::move(parts));
  if (!machine.ok()) return ErrorAt(file, machine.status().message());
  return machine;
}

}  // namespace soapstone::planner
