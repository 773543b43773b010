// ReplyLedger: what a worker sees of its policy's guarantee in the answers to its reads, from each
// that keeps parameters (a shard, or its own peer). It believes no more of them than they say of
// the values they sent: the oldest applied clock, the version, and, in a job that checks them, the
// checksum. Asserted:
//   lag        a reply for clock c claims an oldest applied clock of c - bound at least
//   monotony   its version is not less than of the reply before
//   own        where a read holds the reader's own updates, the version has grown by those that
//              it has pushed since its first read, of clocks below c, less the clocks by which it
//              reads ahead; a peer counts its steps
//   final      a final reply claims that every clock is applied
//   content    the tensors and rows are those that the checksum was taken of
// A value: copied with its engine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "consistency/traits.h"
#include "consistency/violation_log.h"
#include "wire/message.h"

namespace soapstone::worker {

class ReplyLedger {
 public:
  // `row_bytes`: of a row of each table (wire::SumOf).
  // `own_lags`: by keeper, clocks by which it reads ahead of what it has pushed; none: by none.
  ReplyLedger(const consistency::PolicyTraits& policy, uint32_t keepers,
              std::vector<size_t> row_bytes = {}, std::vector<Clock> own_lags = {})
      : guarantee_(policy.guarantee),
        counts_own_(policy.guarantee.own_writes && !policy.fixed_tree),
        own_lags_(std::move(own_lags)),
        steps_(policy.decentralised()),
        row_bytes_(std::move(row_bytes)),
        keepers_(keepers) {}

  // A push of `clock` to keeper `index` has been sent.
  void OnPush(uint32_t index, Clock clock);
  // A reply of keeper `index`, in the order of arrival.
  void OnReply(uint32_t index, const wire::Message& reply);

  // Replies looked at.
  uint64_t replies() const { return replies_; }
  const consistency::ViolationLog& violations() const { return log_; }

 private:
  struct Keeper {
    std::optional<uint64_t> first;       // version of the first reply in this epoch
    uint64_t version = 0;                // of the last reply
    Epoch epoch = 0;                     // likewise
    std::map<Clock, uint64_t> pushed{};  // updates by clock, since the first reply
  };

  void CheckOwn(uint32_t index, const wire::Message& reply);
  void Break(const char* kind, const wire::Message& reply, absl::FunctionRef<std::string()> what);

  consistency::Guarantee guarantee_;
  bool counts_own_ = false;
  std::vector<Clock> own_lags_;
  bool steps_ = false;  // a keeper counts steps: all pushes of a clock are one
  std::vector<size_t> row_bytes_;
  std::vector<Keeper> keepers_;
  uint64_t replies_ = 0;
  consistency::ViolationLog log_;
};

}  // namespace soapstone::worker
