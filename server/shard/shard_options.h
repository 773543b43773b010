// ShardOptions: what one shard is of its job. Who makes a shard fills them in; the shard and the
// rules for its messages (message_rules.h) read them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "consistency/traits.h"
#include "server/shard/team_front.h"
#include "wire/layout.h"
#include "wire/membership/teams.h"

namespace soapstone::server {

struct ShardOptions {
  ShardId id{};
  std::shared_ptr<const wire::Layout> layout;
  consistency::PolicyTraits policy;
  uint32_t micro_batch_count = 1;
  Clock final_clock = 0;  // shard-visible clocks of the run (PolicyTraits::Rounds)
  uint64_t held_bytes_max = uint64_t{8} << 30;  // the shell takes it from the machine's memory
  // Of one worker and clock, 16 bytes each: it sends one a bucket and node of the summation tree.
  uint64_t seen_pushes_max = uint64_t{1} << 22;
  // Of a job whose model is split over teams: how they are made up, and the seats that hold this
  // shard's parameters, ascending. To the policy a team is one worker.
  std::optional<wire::TeamShape> team;
  std::vector<uint32_t> holders;
  // Clocks by which some of these seats read ahead of what they have pushed (strategy/window.h).
  Clock own_lag = 0;
  TeamFault team_fault = TeamFault::kNone;  // for tests
};

}  // namespace soapstone::server
