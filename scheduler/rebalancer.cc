#include "scheduler/rebalancer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "glog/logging.h"
#include "wire/frame.h"
#include "wire/membership.h"

namespace soapstone::scheduler {
namespace {

// Shares that rosters may carry; one more must fit after old ones are dropped.
constexpr size_t kSharesMax = wire::FrameLimits{}.roster_shares_max;

// T(n) over the ranks that are there.
double StepTime(const std::vector<double>& sample_ns, const std::vector<uint32_t>& leaves) {
  double longest = 0;
  for (size_t r = 0; r < sample_ns.size(); ++r) {
    longest = std::max(longest, sample_ns[r] * static_cast<double>(leaves[r]));
  }
  return longest;
}

// How many leaves each rank computes by the newest shares, adopted ones included.
std::vector<uint32_t> LeavesNow(const wire::Roster& roster, uint32_t leaf_count) {
  const Clock newest = roster.shares.empty() ? 0 : roster.shares.back().from;
  const std::vector<LeafRange> ranges = wire::LeafRanges(roster, newest, leaf_count);
  std::vector<uint32_t> leaves(ranges.size(), 0);
  for (const wire::Member& member : roster.workers) {
    leaves[Index(member.worker)] = ranges[Index(member.worker)].size();
  }
  for (uint32_t r = 0; r < ranges.size(); ++r) {
    if (FindMember(roster, WorkerId{r}) != nullptr) continue;
    for (uint32_t j = ranges[r].begin; j < ranges[r].end; ++j) {
      ++leaves[Index(roster.workers[j % roster.workers.size()].worker)];
    }
  }
  return leaves;
}

// The ranks that are there, by what a leaf more or less would cost: the least on top.
using ByCost = std::priority_queue<std::pair<double, size_t>,
                                   std::vector<std::pair<double, size_t>>, std::greater<>>;

}  // namespace

std::vector<uint32_t> BestShares(const std::vector<double>& sample_ns, uint32_t leaf_count) {
  double speed_sum = 0;
  for (const double t : sample_ns) speed_sum += t > 0 ? 1 / t : 0;
  CHECK_GT(speed_sum, 0);
  std::vector<uint32_t> leaves(sample_ns.size(), 0);
  for (size_t r = 0; r < sample_ns.size(); ++r) {
    if (sample_ns[r] == 0) continue;
    const double quota = leaf_count / (sample_ns[r] * speed_sum);
    leaves[r] = std::max(1u, static_cast<uint32_t>(quota));
  }
  uint64_t sum = std::accumulate(leaves.begin(), leaves.end(), uint64_t{0});
  const bool add = sum < leaf_count;
  const auto cost = [&](size_t r) {
    if (add) return (leaves[r] + 1) * sample_ns[r];
    return -(leaves[r] * sample_ns[r]);
  };
  ByCost ranks;
  for (size_t r = 0; r < leaves.size(); ++r) {
    if (leaves[r] > 0) ranks.emplace(cost(r), r);
  }
  // With fewer leaves than ranks the slowest go without: -1 t_r is least for them.
  for (; sum != leaf_count; sum += add ? 1 : -1) {
    const size_t r = ranks.top().second;
    ranks.pop();
    leaves[r] += add ? 1 : -1;
    if (leaves[r] > 0) ranks.emplace(cost(r), r);
  }
  return leaves;
}

void Rebalancer::Observe(WorkerId worker, const wire::Progress& progress) {
  if (options_.leaf_count == 0) return;
  const Nanos busy = progress.compute_ns + progress.injected_ns;
  const Speed start{.clock = progress.clock, .samples = progress.samples, .busy = busy};
  // The first report only says where to count from: what came before it is the start, and a
  // replacement begins at the clock of others.
  const auto [it, is_new] = speeds_.emplace(worker, start);
  Speed& speed = it->second;
  if (is_new) return;
  const Clock clocks = progress.clock - speed.clock;
  if (clocks < 0 || progress.samples < speed.samples || busy < speed.busy) {
    speed = start;
    return;
  }
  if (clocks < options_.clocks_min || progress.samples == speed.samples || busy == speed.busy) {
    return;
  }
  const double sample_ns = static_cast<double>(busy - speed.busy) /
                           static_cast<double>(progress.samples - speed.samples);
  speed.read += clocks;
  speed.since += clocks;
  // The plain mean at first, later one that forgets.
  const auto weight_of = [clocks](double memory) { return static_cast<double>(clocks) / memory; };
  const double weight = std::max(1 - std::exp(-weight_of(options_.memory_clocks)),
                                 weight_of(static_cast<double>(speed.read)));
  speed.sample_ns += weight * (sample_ns - speed.sample_ns);
  speed.clock = progress.clock;
  speed.samples = progress.samples;
  speed.busy = busy;
  ++readings_;
}

void Rebalancer::Forget(WorkerId worker) {
  speeds_.erase(worker);
  if (change_.has_value()) change_->bounds.erase(worker);
}

std::vector<double> Rebalancer::SampleTimes(const wire::Roster& roster) const {
  std::vector<double> times(roster.worker_count, 0);
  std::vector<double> known;
  std::vector<WorkerId> unknown;
  for (const wire::Member& member : roster.workers) {
    const auto it = speeds_.find(member.worker);
    const bool read = it != speeds_.end() && it->second.sample_ns > 0 &&
                      it->second.since >= options_.trial_clocks;
    const bool idle =
        !roster.shares.empty() && roster.shares.back().leaves[Index(member.worker)] == 0;
    if (!read && !idle) return {};
    if (read) {
      times[Index(member.worker)] = it->second.sample_ns;
      known.push_back(it->second.sample_ns);
    } else {
      unknown.push_back(member.worker);
    }
  }
  if (known.empty()) return {};
  // Who had no leaves so far is taken for one in the middle.
  std::nth_element(known.begin(), known.begin() + known.size() / 2, known.end());
  for (const WorkerId worker : unknown) times[Index(worker)] = known[known.size() / 2];
  return times;
}

std::optional<Rebalancer::Proposal> Rebalancer::Propose(const wire::Roster& roster) {
  if (options_.leaf_count == 0 || changing() || roster.shares.size() >= kSharesMax) {
    return std::nullopt;
  }
  if (readings_ < roster.workers.size()) return std::nullopt;
  readings_ = 0;
  const std::vector<double> times = SampleTimes(roster);
  if (times.empty()) return std::nullopt;
  Proposal proposal{.leaves = BestShares(times, options_.leaf_count)};
  proposal.gain =
      StepTime(times, LeavesNow(roster, options_.leaf_count)) / StepTime(times, proposal.leaves) -
      1;
  if (proposal.gain <= options_.gain_min) return std::nullopt;
  return proposal;
}

void Rebalancer::Begin(Proposal proposal, Epoch epoch) {
  CHECK(!changing());
  change_ = Change{.proposal = std::move(proposal), .epoch = epoch, .bounds = {}};
}

void Rebalancer::Record(WorkerId worker, Epoch epoch, Clock bound) {
  // One of an earlier change binds nobody any more.
  if (!changing() || epoch < change_->epoch) return;
  Clock& kept = change_->bounds[worker];
  kept = std::max(kept, bound);
}

std::optional<double> Rebalancer::EndIfAgreed(const wire::Roster& roster,
                                              SharedList<wire::Shares>* shares) {
  if (!changing() || roster.workers.empty()) return std::nullopt;
  Clock from = 0, least = kClockMax;
  for (const wire::Member& member : roster.workers) {
    const auto it = change_->bounds.find(member.worker);
    if (it == change_->bounds.end()) return std::nullopt;
    from = std::max(from, it->second);
    least = std::min(least, it->second);
  }
  // Nobody computes a clock before this any more: a worker repeats at most the one before that in
  // hand, and a newcomer starts where the slowest is, or one before.
  const Clock in_play = least - options_.lead - 3;
  std::vector<wire::Shares>& entries = shares->Mutable();
  while (entries.size() >= 2 && entries[1].from <= in_play) entries.erase(entries.begin());
  if (!entries.empty() && from <= entries.back().from) from = entries.back().from + 1;
  entries.push_back({.from = from, .leaves = std::move(change_->proposal.leaves)});
  const double gain = change_->proposal.gain;
  change_.reset();
  for (auto& [worker, speed] : speeds_) speed.since = 0;
  return gain;
}

void Rebalancer::AddTo(Fingerprint* f) const {
  for (const auto& [worker, speed] : speeds_) {
    f->Add(worker);
    f->Add(speed.clock);
    f->Add(speed.samples);
    f->Add(speed.busy);
    f->Add(speed.read);
    f->Add(speed.since);
    f->Add(std::bit_cast<uint64_t>(speed.sample_ns));
  }
  f->Add(readings_);
  f->Add(changing());
  if (!changing()) return;
  f->Add(change_->epoch);
  for (const uint32_t leaves : change_->proposal.leaves) f->Add(leaves);
  for (const auto& [worker, bound] : change_->bounds) {
    f->Add(worker);
    f->Add(bound);
  }
}

}  // namespace soapstone::scheduler
