// Hosts files: on which hosts the servers and workers of a job run. Values; who calls: the launch
// over ssh. A line a host, # begins a comment:
//   host [slots=N] [role=server|worker] [addr=IP] [cpus=LIST]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace soapstone::apps {

struct HostLine {
  std::string host;    // as ssh takes it
  uint32_t slots = 1;  // processes that it takes
  std::string role;    // empty: either
  std::string addr;  // IPv4, at which its processes listen; empty: that which reaches the scheduler
  std::string cpus;  // of each of its processes; empty: any
  friend bool operator==(const HostLine&, const HostLine&) = default;
};

// At least one host, none twice. Error: InvalidArgument "name:line: what is wrong, what is taken".
absl::StatusOr<std::vector<HostLine>> ParseHosts(std::string_view text, const std::string& name);

// By role and rank: an index into the hosts.
struct HostPlaces {
  std::vector<size_t> servers;
  std::vector<size_t> workers;
  friend bool operator==(const HostPlaces&, const HostPlaces&) = default;
};

// In order of rank into the slots in order of the file: a role's own hosts first, then those of
// either role; servers before workers. Error: InvalidArgument that says how many slots are missing.
absl::StatusOr<HostPlaces> PlaceOnHosts(const std::vector<HostLine>& hosts, uint32_t servers,
                                        uint32_t workers, const std::string& name);

}  // namespace soapstone::apps
