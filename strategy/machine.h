// The machine that is planned for: devices, the links between them, and the servers that keep the
// parameters. A value, read from a text file that a person can write (wire/config/machine.proto);
// nothing of it needs to be at hand. Knows no models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ids.h"

namespace soapstone::planner {

// What devices of one kind can do.
struct DeviceKind {
  std::string name;
  double flops_per_second = 0;  // of large float32 products, reached
  double bytes_per_second = 0;  // of its memory, reached
  uint64_t memory_bytes = 0;
  Nanos launch_ns = 0;  // of each kernel, whatever its size
  friend bool operator==(const DeviceKind&, const DeviceKind&) = default;
};

struct Device {
  std::string name;
  uint32_t kind = 0;
  uint32_t node = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

// One direction of a connection, a queue of its own: NVLink of a pair, the PCIe root of a node, a
// node's NIC outwards, the same inwards.
struct Link {
  std::string name;
  double bytes_per_second = 0;
  Nanos latency_ns = 0;
  Nanos message_ns = 0;  // of each message, besides its bytes: occupies the link
  friend bool operator==(const Link&, const Link&) = default;
};

// A process that keeps a share of the parameters.
struct ParameterServer {
  std::string name;
  uint32_t node = 0;
  double apply_bytes_per_second = 0;  // of gradients taken in and applied
  friend bool operator==(const ParameterServer&, const ParameterServer&) = default;
};

// Invariants: at least one device; every path between different devices, and between each device
// and each server, is there; ids are indexes.
class Machine {
 public:
  struct Parts {
    std::string name;
    std::vector<DeviceKind> kinds;
    std::vector<Device> devices;
    std::vector<Link> links;
    std::vector<ParameterServer> servers;
    // [from · devices + to] → links in the order in which a message passes them; empty from a
    // device to itself.
    std::vector<std::vector<uint32_t>> device_paths;
    // [device · servers + server], and [server · devices + device]
    std::vector<std::vector<uint32_t>> push_paths, pull_paths;
    std::string known_as;  // HashOf another one, whose strategies are this one's too; empty: none
  };
  // Errors: InvalidArgument, naming the part.
  static absl::StatusOr<Machine> Make(Parts parts);

  const Parts& parts() const { return parts_; }
  const std::string& name() const { return parts_.name; }
  const std::vector<DeviceKind>& kinds() const { return parts_.kinds; }
  const std::vector<Device>& devices() const { return parts_.devices; }
  const std::vector<Link>& links() const { return parts_.links; }
  const std::vector<ParameterServer>& servers() const { return parts_.servers; }
  const DeviceKind& kind_of(uint32_t device) const {
    return parts_.kinds[parts_.devices[device].kind];
  }
  absl::Span<const uint32_t> Path(uint32_t from, uint32_t to) const;
  absl::Span<const uint32_t> PushPath(uint32_t device, uint32_t server) const;
  absl::Span<const uint32_t> PullPath(uint32_t server, uint32_t device) const;

  // Devices of one class may be exchanged for one another: same node, same kind, and paths that
  // differ in nothing but which of them it is. By device; classes are numbered from 0.
  const std::vector<uint32_t>& symmetry_classes() const { return symmetry_classes_; }

 private:
  Machine() = default;
  Parts parts_;
  std::vector<uint32_t> symmetry_classes_;
};

// The first `devices` devices of a machine, and the servers and links that are then left. Error:
// it has fewer.
absl::StatusOr<Machine> FirstDevices(const Machine& machine, uint32_t devices);

// The machine whose device d takes slowness[d] times as long for whatever it computes; 1: as long
// as it says. Links and servers stay, and strategies for either are for both. Errors:
// InvalidArgument, a factor for each device is needed, finite and above 0.
absl::StatusOr<Machine> SlowedDevices(const Machine& machine, absl::Span<const double> slowness);

// SHA-256, as hex, of all that the machine is: strategies name what they were made for.
std::string HashOf(const Machine& machine);

}  // namespace soapstone::planner
