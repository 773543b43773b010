// LeafSupply: which micro-batches the workers of a world have computed, and how often, while their
// shares of the batch change. A value, of World's. One bucket stands for all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::sim {

class LeafSupply {
 public:
  // A message that a worker sends: pushes of bucket 0 of shard 0 count.
  void Record(const wire::Message& message) {
    const auto* push = std::get_if<wire::Push>(&message.body);
    if (push == nullptr || message.to != wire::Address::Of(ShardId{0})) return;
    if (Index(push->bucket) != 0) return;
    for (uint32_t micro_batch = push->micro_batches.begin; micro_batch < push->micro_batches.end;
         ++micro_batch) {
      ++times_[{message.clock, micro_batch}];
    }
  }
  // The first micro-batch that was not computed once, of those clocks.
  std::optional<std::string> WhatIsWrong(Clock clocks, uint32_t micro_batch_count) const {
    for (Clock c = 0; c < clocks; ++c) {
      for (uint32_t micro_batch = 0; micro_batch < micro_batch_count; ++micro_batch) {
        const auto it = times_.find({c, micro_batch});
        const uint32_t times = it == times_.end() ? 0 : it->second;
        if (times == 1) continue;
        return absl::StrCat("S6: micro-batch ", micro_batch, " of clock ", c, " was computed ",
                            times, " times");
      }
    }
    return std::nullopt;
  }
  void AddTo(Fingerprint* f) const {
    for (const auto& [micro_batch, times] : times_) {
      f->Add(micro_batch.first);
      f->Add(micro_batch.second);
      f->Add(times);
    }
  }

 private:
  std::map<std::pair<Clock, uint32_t>, uint32_t> times_;  // by clock and micro-batch
};

}  // namespace soapstone::sim
