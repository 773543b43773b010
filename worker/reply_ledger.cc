#include "worker/reply_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::worker {

void ReplyLedger::OnPush(uint32_t index, Clock clock) {
  if (!counts_own_ || !keepers_[index].first.has_value()) return;
  uint64_t& count = keepers_[index].pushed[clock];
  count = steps_ ? 1 : count + 1;
}

void ReplyLedger::OnReply(uint32_t index, const wire::Message& reply) {
  Keeper& keeper = keepers_[index];
  // At the end a peer hands on the shards' values, at which it has looked itself, and with them no
  // version of its own. Rounds that leave members out are counted by rounds, which the shard's
  // ledger does.
  const auto& body = wire::As<wire::PullReply>(reply);
  if (body.final && steps_) return;
  ++replies_;
  const bool by_clocks = !guarantee_.left_out_max.has_value();
  const Clock lag = reply.clock - body.oldest;
  const std::optional<Clock>& bound = guarantee_.read_lag_max;
  if (!body.final && by_clocks && bound.has_value() && lag > *bound) {
    Break("read_lag", reply,
          [&] { return absl::StrCat("lags by ", lag, "; the bound is ", *bound); });
  } else if (body.final && by_clocks && body.oldest < reply.clock) {
    Break("final", reply, [&] { return absl::StrCat("is final, at clock ", body.oldest); });
  } else if (body.version < keeper.version) {
    Break("older", reply, [&] {
      return absl::StrCat("holds ", body.version, " updates; one before held ", keeper.version);
    });
  } else if (body.checksum != 0 && wire::SumOf(reply.payload, row_bytes_) != body.checksum) {
    Break("content", reply, [] { return "holds other values than its keeper has written"; });
  } else if (counts_own_) {
    CheckOwn(index, reply);
  }
  keeper.version = std::max(keeper.version, body.version);
}

// Members that come and go take updates along: with each epoch it begins anew.
void ReplyLedger::CheckOwn(uint32_t index, const wire::Message& reply) {
  Keeper* const keeper = &keepers_[index];
  const Clock own_lag = index < own_lags_.size() ? own_lags_[index] : 0;
  const uint64_t version = wire::As<wire::PullReply>(reply).version;
  if (!keeper->first.has_value() || reply.epoch != keeper->epoch) {
    *keeper = {.first = version, .version = keeper->version, .epoch = reply.epoch};
    return;
  }
  uint64_t own = 0;
  while (!keeper->pushed.empty() && keeper->pushed.begin()->first < reply.clock - own_lag) {
    own += keeper->pushed.begin()->second;
    keeper->pushed.erase(keeper->pushed.begin());
  }
  *keeper->first += own;  // what there is at least, from now on
  if (version >= *keeper->first) return;
  Break("own_writes", reply, [&] {
    return absl::StrCat("holds ", version,
                        " updates, and lacks some of its reader's: ", *keeper->first, " are due");
  });
}

void ReplyLedger::Break(const char* kind, const wire::Message& reply,
                        absl::FunctionRef<std::string()> what) {
  log_.Add(kind, reply.worker, reply.clock, [&] {
    return absl::StrCat("worker ", Index(reply.worker), ": the answer of ", reply.from.ToString(),
                        " for clock ", reply.clock, " ", what());
  });
}

}  // namespace soapstone::worker
