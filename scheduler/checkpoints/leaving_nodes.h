// LeavingNodes: who has asked to leave, and whether the job can go on without them. Where it
// cannot, and has checkpoints, it stops with one; else each worker that has asked is told that it
// may go, once others are known to go on. A value; the scheduler's shell feeds it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::scheduler {

struct LeavingOptions {
  uint32_t team_seats = 1;      // workers of a team, which goes with any of them; 1: there are none
  bool beside_workers = false;  // a worker and a server of the same rank are one process
};

class LeavingNodes {
 public:
  // All of a job may be told to end, one process a little behind the other.
  static constexpr Nanos kWait = kSecond;

  struct Verdict {
    std::string stop;  // why the job has to: "server 1 leaves"; empty: it goes on
    std::vector<wire::Address> may_leave;
    friend bool operator==(const Verdict&, const Verdict&) = default;
  };

  explicit LeavingNodes(const LeavingOptions& options) : options_(options) {}

  // `node` asks. Who is no member when it is looked at is not heard.
  void Ask(Nanos now, wire::Address node) { asked_.emplace(node, Asked{.at = now}); }
  // To be called now and then. `silent`: who was not heard of late, and may be gone.
  Verdict Look(Nanos now, const wire::Roster& roster, const std::vector<wire::Address>& silent);
  // Where it had to stop: ranks of the workers that have asked and did not go, ascending.
  std::vector<uint32_t> workers() const;

 private:
  struct Asked {
    Nanos at = 0;
    std::optional<Epoch> admitted;  // known when it is looked at; who has the rank later has not
                                    // asked
    bool told = false;
  };
  // Those who have gone.
  void Forget(const wire::Roster& roster);
  std::string WhyItStops(const wire::Roster& roster) const;
  bool Goes(const wire::Roster& roster, const std::vector<wire::Address>& silent) const;
  uint32_t TeamOf(WorkerId worker) const { return Index(worker) / options_.team_seats; }

  LeavingOptions options_;
  std::map<wire::Address, Asked> asked_;
  bool stops_ = false;
};

}  // namespace soapstone::scheduler
