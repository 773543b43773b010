// A state of the policy space (policy_space.h): the shards' policy objects and what is around them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "consistency/policy.h"

namespace soapstone::check {

struct Item {
  bool is_clock = false;
  Clock clock = 0;           // update: computed at it; clock: completed clocks
  uint32_t micro_batch = 0;  // update: of whom; another's than the sender's where it was taken over
  bool taken_over = false;   // then no clock comes with it
  bool is_pull = false;      // asked over a connection that was broken then
};

struct State {
  std::vector<Clock> issued;         // by worker: completed clocks
  std::vector<bool> alive;           // runs its program
  std::vector<uint32_t> life;        // by worker: how often it began anew
  std::vector<uint32_t> read;        // by worker: shards read at this clock
  std::vector<uint32_t> parked;      // by worker: shards that parked its pull
  std::vector<uint32_t> subscribed;  // by worker: shards that send unasked
  std::vector<uint32_t> down;        // by worker: shards with which its connection is broken
  std::vector<uint32_t> answered;    // by worker: shards whose answer waits until it is made again
  std::vector<uint32_t> lost;        // by worker: shards that it cannot reach any more
  std::vector<bool> out;             // by worker: counted out alive; runs until it is told
  std::vector<uint32_t> to_evict;    // by worker: shards that must hear it is gone
  std::vector<uint32_t> to_prepare;  // by worker: shards to install a newcomer
  std::vector<uint32_t> to_commit;   // by worker: shards to learn its start
  std::vector<Clock> start;          // by worker: of a newcomer, while joining
  std::vector<std::vector<std::deque<Item>>> chan;  // [worker][shard]
  std::vector<std::vector<Clock>> applied;          // [shard][worker]
  std::vector<std::vector<Clock>> computing;        // [shard][worker]: at it, with what it read
  std::vector<std::vector<uint32_t>> unseen;        // [shard][reader * P + worker]: updates
  std::vector<consistency::Policy> policy;          // by shard
  std::vector<Nanos> now;                           // by shard
  std::vector<std::vector<uint64_t>> held;          // by shard: tickets taken and not yet applied
  // Where micro-batches of the lost are taken over: clock from which each rank takes part,
  // kNoClock: none; the truth, and as each worker has heard it; and the micro-batches that it
  // pushed for its last clock.
  std::vector<Clock> members;
  std::vector<std::vector<Clock>> heard;  // [worker][rank]
  std::vector<bool> to_hear;
  std::vector<uint32_t> planned;
  int crashes = 0, leaves = 0, joins = 0, restores = 0, duplicates = 0;  // left in the budget
  int breaks = 0, losses = 0;                                            // likewise

  // Of two states that differ only by the names of their shards one print, where `symmetric`.
  // `forget`: leaves out what has been read (a mutant's).
  std::pair<uint64_t, uint64_t> Print(bool symmetric = false, bool forget = false) const {
    Fingerprint f;
    for (size_t w = 0; w < issued.size(); ++w) {
      f.Add(issued[w]);
      f.Add(static_cast<bool>(alive[w]));
      f.Add(life[w]);
      f.Add(static_cast<bool>(out[w]));
      f.Add(start[w]);
      f.Add(members[w]);
      for (const Clock clock : heard[w]) f.Add(clock);
      f.Add(static_cast<bool>(to_hear[w]));
      f.Add(planned[w]);
    }
    std::vector<std::pair<uint64_t, uint64_t>> shards(policy.size());
    for (size_t k = 0; k < policy.size(); ++k) shards[k] = PrintShard(k, forget);
    if (symmetric) std::sort(shards.begin(), shards.end());
    for (const auto& [a, b] : shards) {
      f.Add(a);
      f.Add(b);
    }
    for (int left : {crashes, leaves, joins, restores, duplicates, breaks, losses}) f.Add(left);
    return f.value();
  }

 private:
  std::pair<uint64_t, uint64_t> PrintShard(size_t k, bool forget) const {
    Fingerprint f;
    for (size_t w = 0; w < issued.size(); ++w) {
      uint32_t bits = 0;
      for (const auto* mask : {&read, &parked, &subscribed, &down, &answered, &lost, &to_evict,
                               &to_prepare, &to_commit}) {
        bits = bits << 1 | (mask == &read && forget ? 0 : (*mask)[w] >> k & 1u);
      }
      f.Add(bits);
      f.Add(chan[w][k].size());
      for (const Item& item : chan[w][k]) {
        f.Add((item.clock << 2) | (item.is_pull ? 2 : 0) | (item.is_clock ? 1 : 0));
        f.Add(item.micro_batch << 1 | (item.taken_over ? 1u : 0u));
      }
    }
    for (const Clock clock : applied[k]) f.Add(clock);
    f.Add(held[k].size());
    for (const uint64_t ticket : held[k]) f.Add(ticket);
    policy[k].AddTo(&f);
    const consistency::GateTraits& gate = policy[k].traits().gate;
    // Times count by their distance from the newest that the policy knows.
    const bool dynamic = std::holds_alternative<consistency::DynamicTraits>(gate);
    if (dynamic) f.Add(now[k] - policy[k].NewestClock());
    if (std::holds_alternative<consistency::ValueTraits>(gate)) {
      for (const uint32_t count : unseen[k]) f.Add(count);
      for (const Clock clock : computing[k]) f.Add(clock);
    }
    return f.value();
  }
};

}  // namespace soapstone::check
