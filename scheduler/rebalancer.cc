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
#include "wire/membership/membership.h"

namespace soapstone::scheduler {
namespace {

// Shares that rosters may carry; one more must fit after old ones are dropped.
constexpr size_t kSharesMax = wire::FrameLimits{}.roster_shares_max;

// T(n) over the ranks that are there.
double StepTime(const std::vector<double>& sample_ns, const std::vector<uint32_t>& micro_batches) {
  double longest = 0;
  for (size_t r = 0; r < sample_ns.size(); ++r) {
    longest = std::max(longest, sample_ns[r] * static_cast<double>(micro_batches[r]));
  }
  return longest;
}

// How many micro-batches each rank computes by the newest shares, those taken over included.
std::vector<uint32_t> MicroBatchesNow(const wire::Roster& roster, uint32_t micro_batch_count) {
  const Clock newest = roster.shares.empty() ? 0 : roster.shares.back().from;
  const std::vector<MicroBatchRange> ranges =
      wire::MicroBatchRanges(roster, newest, micro_batch_count);
  std::vector<uint32_t> micro_batches(ranges.size(), 0);
  for (const wire::Member& member : roster.workers) {
    micro_batches[Index(member.worker)] = ranges[Index(member.worker)].size();
  }
  for (uint32_t r = 0; r < ranges.size(); ++r) {
    if (FindMember(roster, WorkerId{r}) != nullptr) continue;
    for (uint32_t j = ranges[r].begin; j < ranges[r].end; ++j) {
      ++micro_batches[Index(roster.workers[j % roster.workers.size()].worker)];
    }
  }
  return micro_batches;
}

// The ranks that are there, by what a micro-batch more or less would cost: the least on top.
using ByCost = std::priority_queue<std::pair<double, size_t>,
                                   std::vector<std::pair<double, size_t>>, std::greater<>>;

}  // namespace

std::vector<uint32_t> BestShares(const std::vector<double>& sample_ns, uint32_t micro_batch_count) {
  CHECK_GE(micro_batch_count, sample_ns.size());
  double speed_sum = 0;
  for (const double t : sample_ns) speed_sum += t > 0 ? 1 / t : 0;
  CHECK_GT(speed_sum, 0);
  std::vector<uint32_t> micro_batches(sample_ns.size(), 1);
  const auto absent = std::count(sample_ns.begin(), sample_ns.end(), 0.0);
  const auto to_share = static_cast<double>(micro_batch_count - absent);
  for (size_t r = 0; r < sample_ns.size(); ++r) {
    if (sample_ns[r] == 0) continue;
    micro_batches[r] = std::max(1u, static_cast<uint32_t>(to_share / (sample_ns[r] * speed_sum)));
  }
  uint64_t sum = std::accumulate(micro_batches.begin(), micro_batches.end(), uint64_t{0});
  const bool add = sum < micro_batch_count;
  // What a micro-batch more would cost, or one less would save.
  ByCost ranks;
  const auto enter = [&](size_t r) {
    if (sample_ns[r] == 0 || (!add && micro_batches[r] == 1)) return;
    ranks.emplace(add ? (micro_batches[r] + 1) * sample_ns[r] : -(micro_batches[r] * sample_ns[r]),
                  r);
  };
  for (size_t r = 0; r < micro_batches.size(); ++r) enter(r);
  for (; sum != micro_batch_count; sum += add ? 1 : -1) {
    const size_t r = ranks.top().second;
    ranks.pop();
    micro_batches[r] += add ? 1 : -1;
    enter(r);
  }
  return micro_batches;
}

void Rebalancer::Observe(WorkerId worker, const wire::Progress& progress) {
  if (options_.micro_batch_count == 0) return;
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
  Learn(static_cast<double>(busy - speed.busy) /
            static_cast<double>(progress.samples - speed.samples),
        clocks, &speed);
  speed.clock = progress.clock;
  speed.samples = progress.samples;
  speed.busy = busy;
  ++readings_;
}

void Rebalancer::Learn(double sample_ns, Clock clocks, Speed* speed) const {
  const auto k = static_cast<double>(clocks);
  const double off = sample_ns - speed->mean;
  const double usual =
      std::max(options_.jump_min * speed->mean, 4 * std::sqrt(speed->variance / k));
  const int side = speed->readings > 0 && std::abs(off) > usual ? (off > 0 ? 1 : -1) : 0;
  if (side != speed->side && speed->doubts > 0) {  // what was far off was noise
    Average(speed->doubted / speed->doubted_clocks, speed->doubted_clocks, speed);
    speed->doubts = 0;
    speed->doubted = speed->doubted_clocks = 0;
  }
  speed->side = side;
  if (side == 0) return Average(sample_ns, k, speed);
  speed->doubted += k * sample_ns;
  speed->doubted_clocks += k;
  if (++speed->doubts < options_.doubts_max) return;
  // It is here to stay: a new mean, as noisy as the old one.
  speed->mean = speed->doubted / speed->doubted_clocks;
  speed->read = speed->doubted_clocks;
  speed->side = 0;
  speed->doubts = 0;
  speed->doubted = speed->doubted_clocks = 0;
}

// The mean m and the variance s^2 of one clock, both plain means at first and later ones that
// forget. A reading x of k clocks has variance s^2 / k, so k (x - m)^2 estimates s^2.
void Rebalancer::Average(double sample_ns, double clocks, Speed* speed) const {
  speed->read += clocks;
  const double weight =
      std::max(1 - std::exp(-clocks / options_.memory_clocks), clocks / speed->read);
  const double off = sample_ns - speed->mean;
  if (speed->readings > 0) {
    const double part = speed->readings == 1 ? 1 : weight;
    speed->variance += part * (clocks * off * off - speed->variance);
  }
  speed->mean += weight * off;
  ++speed->readings;
}

void Rebalancer::Forget(WorkerId worker) {
  speeds_.erase(worker);
  if (change_.has_value()) change_->bounds.erase(worker);
}

std::vector<double> Rebalancer::SampleTimes(const wire::Roster& roster, double* noise) const {
  std::vector<double> times(roster.worker_count, 0);
  *noise = 0;
  for (const wire::Member& member : roster.workers) {
    const auto it = speeds_.find(member.worker);
    if (it == speeds_.end() || it->second.readings < 2) return {};
    const Speed& speed = it->second;
    times[Index(member.worker)] = speed.mean;
    // Weights that fall to 1/e after `memory` clocks amount to a plain mean over twice as many.
    const double clocks = std::min(speed.read, 2 * options_.memory_clocks);
    *noise = std::max(*noise, std::sqrt(speed.variance / clocks) / speed.mean);
  }
  return times;
}

std::optional<Rebalancer::Proposal> Rebalancer::Propose(const wire::Roster& roster) {
  if (options_.micro_batch_count < roster.worker_count || changing()) return std::nullopt;
  if (readings_ < roster.workers.size() || roster.shares.size() >= kSharesMax) return std::nullopt;
  readings_ = 0;
  double noise = 0;
  const std::vector<double> times = SampleTimes(roster, &noise);
  if (times.empty()) return std::nullopt;
  Proposal proposal{.micro_batches = BestShares(times, options_.micro_batch_count)};
  proposal.gain = StepTime(times, MicroBatchesNow(roster, options_.micro_batch_count)) /
                      StepTime(times, proposal.micro_batches) -
                  1;
  if (proposal.gain <= options_.gain_min + options_.noise_weight * noise) return std::nullopt;
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

std::vector<WorkerId> Rebalancer::Unanswered(const wire::Roster& roster) const {
  std::vector<WorkerId> unanswered;
  for (const wire::Member& member : roster.workers) {
    if (changing() && !change_->bounds.contains(member.worker)) unanswered.push_back(member.worker);
  }
  return unanswered;
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
  entries.push_back({.from = from, .micro_batches = std::move(change_->proposal.micro_batches)});
  const double gain = change_->proposal.gain;
  change_.reset();
  return gain;
}

void Rebalancer::AddTo(Fingerprint* f) const {
  for (const auto& [worker, speed] : speeds_) {
    f->Add(worker);
    f->Add(speed.clock);
    f->Add(speed.samples);
    f->Add(speed.busy);
    f->Add(speed.readings);
    f->Add(speed.side);
    f->Add(speed.doubts);
    for (const double x :
         {speed.doubted, speed.doubted_clocks, speed.read, speed.mean, speed.variance}) {
      f->Add(std::bit_cast<uint64_t>(x));
    }
  }
  f->Add(readings_);
  f->Add(changing());
  if (!changing()) return;
  f->Add(change_->epoch);
  for (const uint32_t micro_batches : change_->proposal.micro_batches) f->Add(micro_batches);
  for (const auto& [worker, bound] : change_->bounds) {
    f->Add(worker);
    f->Add(bound);
  }
}

}  // namespace soapstone::scheduler
