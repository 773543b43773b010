#include "strategy/machine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace soapstone::planner {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

template <class... Pieces>
absl::Status MachineError(const Pieces&... pieces) {
  return absl::InvalidArgumentError(absl::StrCat(pieces...));
}

absl::Status CheckRate(const std::string& of, const char* field, double rate) {
  if (std::isfinite(rate) && rate > 0) return absl::OkStatus();
  return MachineError(of, ": ", field, " must be above 0, not ", rate);
}

absl::Status CheckNotNegative(const std::string& of, const char* field, Nanos value) {
  if (value >= 0) return absl::OkStatus();
  return MachineError(of, ": ", field, " must not be negative, as ", value);
}

// Of each list by itself.
template <class Named>
absl::Status CheckNames(const char* what, const std::vector<Named>& all) {
  absl::flat_hash_set<std::string> names;
  for (const Named& one : all) {
    if (one.name.empty()) return MachineError("a ", what, " has no name");
    if (!names.insert(one.name).second) {
      return MachineError("two ", what, "s are called ", one.name);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckKinds(const std::vector<DeviceKind>& kinds) {
  for (const DeviceKind& kind : kinds) {
    SOAP_RETURN_IF_ERROR(CheckRate(kind.name, "flops_per_second", kind.flops_per_second));
    SOAP_RETURN_IF_ERROR(CheckRate(kind.name, "bytes_per_second", kind.bytes_per_second));
    SOAP_RETURN_IF_ERROR(CheckNotNegative(kind.name, "launch_ns", kind.launch_ns));
    if (kind.memory_bytes == 0) return MachineError(kind.name, ": it has no memory");
  }
  return absl::OkStatus();
}

absl::Status CheckLinks(const std::vector<Link>& links) {
  for (const Link& link : links) {
    SOAP_RETURN_IF_ERROR(CheckRate(link.name, "bytes_per_second", link.bytes_per_second));
    SOAP_RETURN_IF_ERROR(CheckNotNegative(link.name, "latency_ns", link.latency_ns));
    SOAP_RETURN_IF_ERROR(CheckNotNegative(link.name, "message_ns", link.message_ns));
  }
  return absl::OkStatus();
}

absl::Status CheckPath(const std::string& from, const std::string& to,
                       const std::vector<uint32_t>& path, size_t links) {
  if (path.empty()) return MachineError("there is no path from ", from, " to ", to);
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] >= links) {
      return MachineError("the path from ", from, " to ", to, " has link ", path[i], " of ", links);
    }
    if (std::find(path.begin(), path.begin() + static_cast<ptrdiff_t>(i), path[i]) !=
        path.begin() + static_cast<ptrdiff_t>(i)) {
      return MachineError("the path from ", from, " to ", to, " passes one link twice");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPaths(const Machine::Parts& parts) {
  const size_t devices = parts.devices.size();
  const size_t servers = parts.servers.size();
  if (parts.device_paths.size() != devices * devices ||
      parts.push_paths.size() != devices * servers ||
      parts.pull_paths.size() != devices * servers) {
    return MachineError(parts.name, ": it needs a path for each pair of devices, and to and from ",
                        "each server for each device");
  }
  const size_t links = parts.links.size();
  for (size_t from = 0; from < devices; ++from) {
    const std::string& name = parts.devices[from].name;
    for (size_t to = 0; to < devices; ++to) {
      const std::vector<uint32_t>& path = parts.device_paths[from * devices + to];
      if (from == to) {
        if (!path.empty()) return MachineError("the path from ", name, " to itself is not empty");
        continue;
      }
      SOAP_RETURN_IF_ERROR(CheckPath(name, parts.devices[to].name, path, links));
    }
    for (size_t to = 0; to < servers; ++to) {
      const std::string& server = parts.servers[to].name;
      SOAP_RETURN_IF_ERROR(CheckPath(name, server, parts.push_paths[from * servers + to], links));
      SOAP_RETURN_IF_ERROR(CheckPath(server, name, parts.pull_paths[to * devices + from], links));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const Machine::Parts& parts) {
  if (parts.devices.empty()) return MachineError(parts.name, ": it has no device");
  SOAP_RETURN_IF_ERROR(CheckNames("kind", parts.kinds));
  SOAP_RETURN_IF_ERROR(CheckNames("device", parts.devices));
  SOAP_RETURN_IF_ERROR(CheckNames("link", parts.links));
  SOAP_RETURN_IF_ERROR(CheckNames("server", parts.servers));
  SOAP_RETURN_IF_ERROR(CheckKinds(parts.kinds));
  SOAP_RETURN_IF_ERROR(CheckLinks(parts.links));
  for (const Device& device : parts.devices) {
    if (device.kind >= parts.kinds.size()) {
      return MachineError(device.name, ": it is of kind ", device.kind, " of ", parts.kinds.size());
    }
  }
  for (const ParameterServer& server : parts.servers) {
    SOAP_RETURN_IF_ERROR(
        CheckRate(server.name, "apply_bytes_per_second", server.apply_bytes_per_second));
  }
  return CheckPaths(parts);
}

// Devices a and b may be exchanged if there is a permutation π of the links, of equal rates and
// latencies, with π(path(x, y)) = path(σx, σy) for all x and y, σ = (a b), and likewise for
// servers. Paths that neither a nor b ends stay as they are, so that π moves none of their links.
// Transpositions generate: "may be exchanged" is an equivalence.
class Symmetries {
 public:
  explicit Symmetries(const Machine::Parts& parts)
      : parts_(parts),
        paths_by_link_(parts.links.size(), 0),
        seen_(parts.links.size(), 0),
        image_(parts.links.size(), kNone) {
    for (const auto* paths : {&parts.device_paths, &parts.push_paths, &parts.pull_paths}) {
      for (const std::vector<uint32_t>& path : *paths) {
        for (const uint32_t link : path) ++paths_by_link_[link];
      }
    }
  }

  std::vector<uint32_t> Classes() {
    const size_t n = parts_.devices.size();
    std::vector<uint32_t> classes(n, kNone);
    std::vector<uint32_t> first;  // device of each class
    for (uint32_t device = 0; device < n; ++device) {
      for (uint32_t c = 0; c < first.size() && classes[device] == kNone; ++c) {
        if (Exchangeable(first[c], device)) classes[device] = c;
      }
      if (classes[device] != kNone) continue;
      classes[device] = static_cast<uint32_t>(first.size());
      first.push_back(device);
    }
    return classes;
  }

 private:
  bool Exchangeable(uint32_t a, uint32_t b) {
    if (parts_.devices[a].node != parts_.devices[b].node ||
        parts_.devices[a].kind != parts_.devices[b].kind) {
      return false;
    }
    const bool maps = MapAll(a, b);
    bool same = maps;
    for (const uint32_t link : mapped_) {
      // Every path that uses a moved link was looked at.
      same = same && (image_[link] == link || seen_[link] == paths_by_link_[link]);
      image_[link] = kNone;
    }
    mapped_.clear();
    for (const uint32_t link : touched_) seen_[link] = 0;
    touched_.clear();
    return same;
  }

  bool MapAll(uint32_t a, uint32_t b) {
    const size_t n = parts_.devices.size();
    const size_t servers = parts_.servers.size();
    const auto swapped = [a, b](uint32_t x) { return x == a ? b : x == b ? a : x; };
    for (const uint32_t x : {a, b}) {
      for (uint32_t y = 0; y < n; ++y) {
        const size_t x_to = swapped(x);
        const size_t y_to = swapped(y);
        if (!Map(parts_.device_paths[x * n + y], parts_.device_paths[x_to * n + y_to]))
          return false;
        if (y == a || y == b) continue;  // else both ways are seen by now
        if (!Map(parts_.device_paths[y * n + x], parts_.device_paths[y_to * n + x_to]))
          return false;
      }
      for (size_t s = 0; s < servers; ++s) {
        const size_t x_to = swapped(x);
        if (!Map(parts_.push_paths[x * servers + s], parts_.push_paths[x_to * servers + s]) ||
            !Map(parts_.pull_paths[s * n + x], parts_.pull_paths[s * n + x_to])) {
          return false;
        }
      }
    }
    return true;
  }

  // π is an involution as σ is, and so one to one.
  bool Map(const std::vector<uint32_t>& from, const std::vector<uint32_t>& to) {
    if (from.size() != to.size()) return false;
    for (size_t i = 0; i < from.size(); ++i) {
      if (seen_[from[i]]++ == 0) touched_.push_back(from[i]);
      if (!Assign(from[i], to[i]) || !Assign(to[i], from[i])) return false;
    }
    return true;
  }

  bool Assign(uint32_t from, uint32_t to) {
    if (image_[from] != kNone) return image_[from] == to;
    const Link& x = parts_.links[from];
    const Link& y = parts_.links[to];
    image_[from] = to;
    mapped_.push_back(from);
    return x.bytes_per_second == y.bytes_per_second && x.latency_ns == y.latency_ns &&
           x.message_ns == y.message_ns;
  }

  const Machine::Parts& parts_;
  std::vector<uint32_t> paths_by_link_;  // how many pass it
  std::vector<uint32_t> seen_;           // of those, how many were mapped
  std::vector<uint32_t> touched_;        // those of which it is not 0
  std::vector<uint32_t> image_;          // π, as far as it is known
  std::vector<uint32_t> mapped_;         // the links of which it is
};

// Servers whose node keeps a device, or never had one.
std::vector<uint32_t> ServersLeft(const Machine& machine, uint32_t devices) {
  std::vector<uint32_t> left;
  for (uint32_t s = 0; s < machine.servers().size(); ++s) {
    bool had = false;
    bool has = false;
    for (uint32_t d = 0; d < machine.devices().size(); ++d) {
      if (machine.devices()[d].node != machine.servers()[s].node) continue;
      had = true;
      has = has || d < devices;
    }
    if (has || !had) left.push_back(s);
  }
  return left;
}

// Numbers the links anew, as they are first used.
class LinksLeft {
 public:
  explicit LinksLeft(const std::vector<Link>& links)
      : links_(links), number_(links.size(), kNone) {}
  std::vector<uint32_t> Take(absl::Span<const uint32_t> path) {
    std::vector<uint32_t> taken;
    for (const uint32_t link : path) {
      if (number_[link] == kNone) {
        number_[link] = static_cast<uint32_t>(left_.size());
        left_.push_back(links_[link]);
      }
      taken.push_back(number_[link]);
    }
    return taken;
  }
  std::vector<Link> left() && { return std::move(left_); }

 private:
  const std::vector<Link>& links_;
  std::vector<uint32_t> number_;
  std::vector<Link> left_;
};

}  // namespace

absl::StatusOr<Machine> Machine::Make(Parts parts) {
  SOAP_RETURN_IF_ERROR(CheckParts(parts));
  Machine machine;
  machine.symmetry_classes_ = Symmetries(parts).Classes();
  machine.parts_ = std::move(parts);
  return machine;
}

absl::Span<const uint32_t> Machine::Path(uint32_t from, uint32_t to) const {
  return parts_.device_paths[from * parts_.devices.size() + to];
}

absl::Span<const uint32_t> Machine::PushPath(uint32_t device, uint32_t server) const {
  return parts_.push_paths[device * parts_.servers.size() + server];
}

absl::Span<const uint32_t> Machine::PullPath(uint32_t server, uint32_t device) const {
  return parts_.pull_paths[server * parts_.devices.size() + device];
}

absl::StatusOr<Machine> FirstDevices(const Machine& machine, uint32_t devices) {
  if (devices == 0 || devices > machine.devices().size()) {
    return MachineError(machine.name(), " has ", machine.devices().size(), " devices, not ",
                        devices);
  }
  // As it is: the links' numbers, too, are part of what strategies are made for.
  if (devices == machine.devices().size()) return machine;
  const std::vector<uint32_t> servers = ServersLeft(machine, devices);
  if (servers.empty() && !machine.servers().empty()) {
    return MachineError("no parameter server of ", machine.name(), " is on a node of its first ",
                        devices, " devices");
  }
  Machine::Parts parts = {.name = machine.name(), .kinds = machine.kinds()};
  parts.devices.assign(machine.devices().begin(), machine.devices().begin() + devices);
  for (const uint32_t server : servers) parts.servers.push_back(machine.servers()[server]);
  LinksLeft links(machine.links());
  for (uint32_t from = 0; from < devices; ++from) {
    for (uint32_t to = 0; to < devices; ++to) {
      parts.device_paths.push_back(links.Take(machine.Path(from, to)));
    }
    for (const uint32_t server : servers) {
      parts.push_paths.push_back(links.Take(machine.PushPath(from, server)));
    }
  }
  for (const uint32_t server : servers) {
    for (uint32_t to = 0; to < devices; ++to) {
      parts.pull_paths.push_back(links.Take(machine.PullPath(server, to)));
    }
  }
  parts.links = std::move(links).left();
  return Machine::Make(std::move(parts));
}

absl::StatusOr<Machine> SlowedDevices(const Machine& machine, absl::Span<const double> slowness) {
  if (slowness.size() != machine.devices().size()) {
    return MachineError(machine.name(), " has ", machine.devices().size(), " devices, and ",
                        slowness.size(), " factors are given");
  }
  Machine::Parts parts = machine.parts();
  parts.known_as = HashOf(machine);
  for (size_t d = 0; d < slowness.size(); ++d) {
    if (!std::isfinite(slowness[d]) || slowness[d] <= 0) {
      return MachineError(parts.devices[d].name, ": a factor must be above 0, not ", slowness[d]);
    }
    if (slowness[d] == 1) continue;
    DeviceKind kind = machine.kind_of(static_cast<uint32_t>(d));
    absl::StrAppend(&kind.name, " x ", slowness[d]);
    kind.flops_per_second /= slowness[d];
    kind.bytes_per_second /= slowness[d];
    kind.launch_ns = std::llround(static_cast<double>(kind.launch_ns) * slowness[d]);
    const auto there = std::find(parts.kinds.begin(), parts.kinds.end(), kind);
    parts.devices[d].kind = static_cast<uint32_t>(there - parts.kinds.begin());
    if (there == parts.kinds.end()) parts.kinds.push_back(std::move(kind));
  }
  return Machine::Make(std::move(parts));
}

std::string HashOf(const Machine& machine) {
  if (!machine.parts().known_as.empty()) return machine.parts().known_as;
  std::string text = absl::StrCat("machine ", machine.name(), "\n");
  for (const DeviceKind& kind : machine.kinds()) {
    absl::StrAppendFormat(&text, "kind %s %a %a %d %d\n", kind.name, kind.flops_per_second,
                          kind.bytes_per_second, kind.memory_bytes, kind.launch_ns);
  }
  for (const Device& device : machine.devices()) {
    absl::StrAppend(&text, "device ", device.name, " ", device.kind, " ", device.node, "\n");
  }
  for (const Link& link : machine.links()) {
    absl::StrAppendFormat(&text, "link %s %a %d %d\n", link.name, link.bytes_per_second,
                          link.latency_ns, link.message_ns);
  }
  for (const ParameterServer& server : machine.servers()) {
    absl::StrAppendFormat(&text, "server %s %d %a\n", server.name, server.node,
                          server.apply_bytes_per_second);
  }
  const auto add = [&text](absl::Span<const uint32_t> path) {
    absl::StrAppend(&text, absl::StrJoin(path, " "), "\n");
  };
  for (uint32_t from = 0; from < machine.devices().size(); ++from) {
    for (uint32_t to = 0; to < machine.devices().size(); ++to) add(machine.Path(from, to));
    for (uint32_t s = 0; s < machine.servers().size(); ++s) {
      add(machine.PushPath(from, s));
      add(machine.PullPath(s, from));
    }
  }
  Sha256 sha;
  sha.Update(text.data(), text.size());
  return sha.HexDigest();
}

}  // namespace soapstone::planner
