#include "scheduler/planner/simulator/trials.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "glog/logging.h"

namespace soapstone::planner {
namespace {

constexpr uint64_t kUnaskedMax = 256;
constexpr uint64_t kTasksUnasked = 1 << 18;       // some 50 ms
constexpr uint64_t kTasksWorthThreads = 1 << 17;  // starting one takes some 50 µs
constexpr size_t kKeptMax = 16;  // a follower that lacks more is set to the strategy instead

// Whether it is better; the simulator then has it, and its caller accepts it or not.
bool IsBetter(const Trials::Proposal& proposal, Simulator* simulator) {
  const Nanos cutoff = simulator->StepTime() - 1;
  return simulator->Propose(proposal.changes, cutoff, proposal.servers) != kNever;
}

void Make(const Trials::Maker& make, const Simulator& now, size_t index,
          Trials::Proposal* proposal) {
  proposal->changes.clear();
  proposal->servers.clear();
  make(now, index, proposal);
}

}  // namespace

uint64_t ProposalsUnasked(const Simulator& simulator) {
  return std::clamp<uint64_t>(kTasksUnasked / std::max<uint64_t>(simulator.tasks(), 1), 1,
                              kUnaskedMax);
}

Trials::Trials(Simulator* simulator, TrialLimits limits)
    : simulator_(*simulator), limits_(std::move(limits)), unasked_(ProposalsUnasked(*simulator)) {}

Trials::~Trials() {
  for (const Follower& follower : followers_) simulator_.AddCounts(follower.simulator->counts());
}

bool Trials::Stops() {
  stopped_ = stopped_ || proposed_ >= limits_.proposals ||
             (limits_.stop && proposed_ % unasked_ == 0 && limits_.stop());
  return stopped_;
}

bool Trials::Run(size_t count, const Maker& make) {
  bool kept = false;
  for (size_t at = 0; at < count;) {
    const bool together = limits_.threads > 1 && limits_.proposals == UINT64_MAX &&
                          (count - at) * simulator_.tasks() >= kTasksWorthThreads;
    if (!together) return RunAlone(at, count, make) || kept;
    const size_t first = FirstBetter(at, count, make);
    if (first == count) return kept;
    Make(make, simulator_, first, &proposal_);
    CHECK(IsBetter(proposal_, &simulator_)) << "simulators differ";
    simulator_.Accept();
    kept_.push_back(proposal_);
    kept = true;
    at = first + 1;
  }
  return kept;
}

bool Trials::RunAlone(size_t begin, size_t end, const Maker& make) {
  bool kept = false;
  for (size_t i = begin; i < end && !Stops(); ++i) {
    Make(make, simulator_, i, &proposal_);
    if (proposal_.empty()) continue;
    ++proposed_;
    if (!IsBetter(proposal_, &simulator_)) {
      simulator_.Reject();
      continue;
    }
    simulator_.Accept();
    if (!followers_.empty()) kept_.push_back(proposal_);
    kept = true;
  }
  return kept;
}

// now: the first simulator's strategy, where the follower needs it.
void Trials::CatchUp(Follower* follower, const Strategy& now) const {
  if (Lags(*follower)) {
    if (follower->simulator == nullptr) follower->simulator = simulator_.CloneEmpty();
    CHECK(follower->simulator->SetStrategy(now).ok());
  } else {
    for (size_t i = follower->kept; i < kept_.size(); ++i) {
      CHECK(IsBetter(kept_[i], follower->simulator.get())) << "simulators differ";
      follower->simulator->Accept();
    }
  }
  follower->kept = kept_.size();
}

bool Trials::Lags(const Follower& follower) const {
  return follower.simulator == nullptr || kept_.size() - follower.kept > kKeptMax;
}

// Each thread takes the next index. Whoever finds a better one lets nobody begin one behind it;
// those before it are under way, and the least counts. `end`: none, or stopped before one was
// found.
size_t Trials::FirstBetter(size_t begin, size_t end, const Maker& make) {
  followers_.resize(limits_.threads - 1);
  std::atomic<size_t> next = begin, first = end;
  std::atomic<bool> stopped = stopped_;
  const auto search = [&](Simulator* simulator) {
    Proposal proposal;
    uint64_t proposed = 0;
    for (size_t i = next++; i < first && !stopped; i = next++) {
      if (limits_.stop && proposed % unasked_ == 0 && limits_.stop()) stopped = true;
      Make(make, *simulator, i, &proposal);
      if (proposal.empty()) continue;
      ++proposed;
      if (IsBetter(proposal, simulator)) {
        for (size_t least = first; i < least && !first.compare_exchange_weak(least, i);) continue;
      }
      simulator->Reject();
    }
  };
  Strategy now;
  if (std::any_of(followers_.begin(), followers_.end(),
                  [this](const Follower& follower) { return Lags(follower); })) {
    now = simulator_.strategy();
  }
  std::vector<std::thread> others;
  for (Follower& follower : followers_) {
    others.emplace_back([&] {
      CatchUp(&follower, now);
      search(follower.simulator.get());
    });
  }
  search(&simulator_);
  for (std::thread& thread : others) thread.join();
  stopped_ = stopped;
  return first;
}

}  // namespace soapstone::planner
