// Proposals that are tried one after the other and kept where they are better, on several threads.
// Descents and climbs are made of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

struct TrialLimits {
  uint64_t proposals = UINT64_MAX;
  std::function<bool()> stop;  // asked every few proposals, also from threads; may be empty
  uint32_t threads = 1;        // where `proposals` is no limit, and what is tried takes a while
};

// Between two looks at the clock: as many as simulate some 10⁵ tasks, and a few hundred at most.
uint64_t ProposalsUnasked(const Simulator& simulator);

// With several threads those behind are looked at before it is known whether one is kept, each on a
// simulator of its own that follows the first. Kept is what one thread would keep.
class Trials {
 public:
  struct Proposal {
    std::vector<Change> changes;
    std::vector<ServerChange> servers;
    bool empty() const { return changes.empty() && servers.empty(); }
  };
  // Puts into the proposal, which is empty, what is to be tried at `index` on the strategy of
  // `now`; nothing: then nothing is tried. Called from several threads at once.
  using Maker = std::function<void(const Simulator& now, size_t index, Proposal* proposal)>;

  // Keeps the pointer. REQUIRES that nothing else changes the simulator's strategy until the end.
  Trials(Simulator* simulator, TrialLimits limits);
  // Adds what the other simulators counted to the first.
  ~Trials();
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  // Tries 0 to count − 1 in turn. Each that makes the step shorter, or overflow less, is kept, and
  // those behind it are tried on what it leaves. Whether any was.
  bool Run(size_t count, const Maker& make);
  // A limit is reached: nothing is tried any more.
  bool stopped() const { return stopped_; }

 private:
  struct Follower {
    std::unique_ptr<Simulator> simulator;
    size_t kept = 0;  // how many of kept_ it has
  };
  bool Stops();
  bool RunAlone(size_t begin, size_t end, const Maker& make);
  size_t FirstBetter(size_t begin, size_t end, const Maker& make);
  bool Lags(const Follower& follower) const;
  void CatchUp(Follower* follower, const Strategy& now) const;

  Simulator& simulator_;
  const TrialLimits limits_;
  const uint64_t unasked_;
  uint64_t proposed_ = 0;
  bool stopped_ = false;
  Proposal proposal_;
  std::vector<Follower> followers_;
  std::vector<Proposal> kept_;  // since there are followers
};

}  // namespace soapstone::planner
