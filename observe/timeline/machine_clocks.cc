#include "observe/timeline/machine_clocks.h"

#include <cstdlib>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/types/span.h"
#include "observe/timeline/clock_offset.h"

namespace soapstone::timeline {
namespace {

// A message's end that is seen once; of one that is seen twice nobody knows which it is.
struct Seen {
  uint64_t machine = 0;
  Nanos at = 0;
  bool once = true;
};
template <class Key>
using Ends = std::map<Key, Seen>;

template <class Key>
void Add(const Key& key, uint64_t machine, Nanos at, Ends<Key>* ends) {
  const auto [it, fresh] = ends->try_emplace(key, Seen{machine, at});
  if (!fresh) it->second.once = false;
}

using Pair = std::pair<uint64_t, uint64_t>;  // machines, the lesser first
using Offsets = std::map<Pair, ClockOffset>;

template <class Key>
void Match(const Ends<Key>& left, const Ends<Key>& came, Offsets* offsets) {
  for (const auto& [key, from] : left) {
    const auto found = came.find(key);
    if (found == came.end() || !from.once || !found->second.once) continue;
    const Seen& to = found->second;
    if (from.machine == to.machine) continue;
    if (from.machine < to.machine) {
      (*offsets)[{from.machine, to.machine}].Forth(from.at, to.at);
    } else {
      (*offsets)[{to.machine, from.machine}].Back(from.at, to.at);
    }
  }
}

Offsets OffsetsOf(const std::vector<ThreadEvents>& threads) {
  using Answer = std::tuple<uint32_t, uint32_t, Clock>;  // worker, shard, clock
  Ends<uint64_t> pushed, taken;
  Ends<Answer> answered, pulled;
  for (const ThreadEvents& thread : threads) {
    for (const Event& event : thread.events) {
      if (event.kind == EventKind::kPush) {
        Add(event.flow, thread.machine, event.begin_ns, &pushed);
      } else if (event.kind == EventKind::kApply) {
        Add(event.flow, thread.machine, event.begin_ns, &taken);
      } else if (event.kind == EventKind::kAnswer) {
        Add({event.with, thread.index, event.clock}, thread.machine, event.end_ns, &answered);
      } else if (event.kind == EventKind::kPull) {
        Add({thread.index, event.with, event.clock}, thread.machine, event.end_ns, &pulled);
      }
    }
  }
  Offsets offsets;
  Match(pushed, taken, &offsets);
  Match(answered, pulled, &offsets);
  return offsets;
}

// The clock of `to` is ahead of that of `from` by so much at most.
struct Bound {
  uint64_t from = 0, to = 0;
  Nanos ahead_max = 0;
};

std::vector<Bound> BoundsOf(const Offsets& offsets) {
  std::vector<Bound> bounds;
  for (const auto& [pair, offset] : offsets) {
    if (const auto forth = offset.forth()) bounds.push_back({pair.first, pair.second, *forth});
    if (const auto back = offset.back()) bounds.push_back({pair.second, pair.first, *back});
  }
  return bounds;
}

// How far each clock is ahead of the first's at most, by the bounds one after the other: shortest
// paths (Bellman-Ford). Clocks that run at other speeds can make a round trip negative: no path is
// longer than there are machines.
std::map<uint64_t, Nanos> AheadMax(uint64_t first, size_t machines,
                                   absl::Span<const Bound> bounds) {
  constexpr Nanos kMost = Nanos{1} << 60;
  std::map<uint64_t, Nanos> ahead = {{first, 0}};
  bool shorter = true;
  for (size_t round = 0; round < machines && shorter; ++round) {
    shorter = false;
    for (const Bound& bound : bounds) {
      const auto from = ahead.find(bound.from);
      if (from == ahead.end() || bound.to == first) continue;
      const Nanos through = from->second + bound.ahead_max;
      if (through < -kMost || through > kMost) continue;
      const auto [to, fresh] = ahead.try_emplace(bound.to, through);
      if (!fresh && to->second <= through) continue;
      to->second = through;
      shorter = true;
    }
  }
  return ahead;
}

}  // namespace

// Those that are ahead as far as they may be satisfy all bounds, those that are as little ahead as
// they may be do too, and so does the middle between them: no message of any pair goes back in
// time.
MachineClocks::MachineClocks(const std::vector<ThreadEvents>& threads) {
  for (const ThreadEvents& thread : threads) machines_[thread.machine].host = thread.host;
  if (threads.empty()) return;
  const uint64_t first = threads.front().machine;
  std::vector<Bound> bounds = BoundsOf(OffsetsOf(threads));
  const std::map<uint64_t, Nanos> most = AheadMax(first, machines_.size(), bounds);
  for (Bound& bound : bounds) std::swap(bound.from, bound.to);
  const std::map<uint64_t, Nanos> behind_most = AheadMax(first, machines_.size(), bounds);
  for (auto& [id, machine] : machines_) {
    const auto high = most.find(id);
    const auto low = behind_most.find(id);
    machine.known = high != most.end() && low != behind_most.end();
    if (!machine.known) continue;
    machine.offset = (high->second - low->second) / 2;
    machine.error = std::abs(high->second + low->second) / 2;
  }
}

Nanos MachineClocks::OnFirst(uint64_t machine, Nanos at) const {
  const auto found = machines_.find(machine);
  return found == machines_.end() ? at : at - found->second.offset;
}

}  // namespace soapstone::timeline
