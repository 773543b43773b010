#include "worker/reply_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "glog/logging.h"

namespace soapstone::worker {
namespace {

constexpr int kLogEvery = 1000;

uint64_t SumOf(const Buffers& frames, size_t tensors) {
  FrameSums all;
  for (size_t i = 0; i < tensors; ++i) all.Add(ContentSum(frames[i].data(), frames[i].size()));
  return all.value();
}

}  // namespace

void ReplyLedger::OnPush(uint32_t index, Clock clock) {
  if (!counts_own_ || !keepers_[index].first.has_value()) return;
  uint64_t& count = keepers_[index].pushed[clock];
  count = steps_ ? 1 : count + 1;
}

void ReplyLedger::OnReply(uint32_t index, const wire::Message& reply, size_t tensors) {
  Keeper& keeper = keepers_[index];
  // At the end a peer hands on the shards' values, and with them no version of its own. Rounds that
  // leave members out are counted by rounds, which the shard's ledger does.
  if (reply.final && steps_) return;
  const bool by_clocks = !guarantee_.left_out_max.has_value();
  const Clock lag = reply.clock - reply.oldest;
  const std::optional<Clock>& bound = guarantee_.read_lag_max;
  if (!reply.final && by_clocks && bound.has_value() && lag > *bound) {
    Break(reply, absl::StrCat("lags by ", lag, "; the bound is ", *bound));
  } else if (reply.final && by_clocks && reply.oldest < reply.clock) {
    Break(reply, absl::StrCat("is final, at clock ", reply.oldest));
  } else if (reply.version < keeper.version) {
    Break(reply, absl::StrCat("holds ", reply.version, " updates; one before held ",
                              keeper.version));
  } else if (reply.checksum != 0 && reply.payload.size() >= tensors &&
             SumOf(reply.payload, tensors) != reply.checksum) {
    Break(reply, "holds other values than its keeper has written");
  } else if (counts_own_) {
    CheckOwn(reply, &keeper);
  }
  keeper.version = std::max(keeper.version, reply.version);
}

// Members that come and go take updates along: with each epoch it begins anew.
void ReplyLedger::CheckOwn(const wire::Message& reply, Keeper* keeper) {
  if (!keeper->first.has_value() || reply.epoch != keeper->epoch) {
    *keeper = {.first = reply.version, .version = keeper->version, .epoch = reply.epoch};
    return;
  }
  uint64_t own = 0;
  while (!keeper->pushed.empty() && keeper->pushed.begin()->first < reply.clock) {
    own += keeper->pushed.begin()->second;
    keeper->pushed.erase(keeper->pushed.begin());
  }
  *keeper->first += own;  // what there is at least, from now on
  if (reply.version >= *keeper->first) return;
  Break(reply, absl::StrCat("holds ", reply.version, " updates, and lacks some of its reader's: ",
                            *keeper->first, " are due"));
}

void ReplyLedger::Break(const wire::Message& reply, std::string what) {
  ++violations_;
  what = absl::StrCat("worker ", Index(reply.worker), ": the answer of ", reply.from.ToString(),
                      " for clock ", reply.clock, " ", what);
  if (!first_violation_.has_value()) first_violation_ = what;
  LOG_EVERY_N(ERROR, kLogEvery) << "guarantee broken: " << what;
}

}  // namespace soapstone::worker
