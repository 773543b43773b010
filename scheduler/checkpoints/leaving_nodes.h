// LeavingNodes: who has asked to leave, and whether the job can go on without them. Where it
// cannot, and has checkpoints, it stops with one; a worker that it can go on without leaves by
// itself.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "wire/message.h"

namespace soapstone::scheduler {

struct LeavingOptions {
  uint32_t team_seats = 0;      // workers of a team; 0: each is one of its own
  bool beside_workers = false;  // a worker and a server of the same rank are one process
};

class LeavingNodes {
 public:
  explicit LeavingNodes(const LeavingOptions& options) : options_(options) {}

  // `node` asks; `roster` is that of now. Why the job has to stop: "server 1 leaves"; none: it goes
  // on. Who is no member is not heard.
  std::optional<std::string> Take(wire::Address node, const wire::Roster& roster);
  // Where it had to stop: ranks of the workers that have asked and did not go, ascending.
  std::vector<uint32_t> workers() const;

 private:
  std::optional<std::string> WhyItStops(wire::Address node, const wire::Roster& roster) const;

  LeavingOptions options_;
  std::set<wire::Address> asked_;
  bool stops_ = false;
};

}  // namespace soapstone::scheduler
