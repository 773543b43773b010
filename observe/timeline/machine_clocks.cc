#include "observe/timeline/machine_clocks.h"

#include <optional>
#include <tuple>
#include <utility>

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

}  // namespace

MachineClocks::MachineClocks(const std::vector<ThreadEvents>& threads) {
  for (const ThreadEvents& thread : threads) machines_[thread.machine].host = thread.host;
  if (threads.empty()) return;
  machines_[threads.front().machine].known = true;
  if (machines_.size() == 1) return;
  const Offsets offsets = OffsetsOf(threads);
  // From the first on, each time by the link that adds the least error.
  while (true) {
    std::optional<std::pair<uint64_t, Machine>> best;
    for (const auto& [pair, offset] : offsets) {
      const std::optional<ClockOffset::Estimate> estimate = offset.estimate();
      const Machine& a = machines_[pair.first];
      const Machine& b = machines_[pair.second];
      if (!estimate.has_value() || a.known == b.known) continue;
      const Machine& from = a.known ? a : b;
      Machine found = a.known ? b : a;
      found.offset = from.offset + (a.known ? estimate->offset : -estimate->offset);
      found.error = from.error + estimate->error;
      found.known = true;
      if (best.has_value() && best->second.error <= found.error) continue;
      best = {a.known ? pair.second : pair.first, found};
    }
    if (!best.has_value()) return;
    machines_[best->first] = best->second;
  }
}

Nanos MachineClocks::OnFirst(uint64_t machine, Nanos at) const {
  const auto found = machines_.find(machine);
  return found == machines_.end() ? at : at - found->second.offset;
}

}  // namespace soapstone::timeline
