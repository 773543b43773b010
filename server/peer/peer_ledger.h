// PeerLedger: what a peer's parcels and steps show of what it is promised. Its vectors testify to
// what they have made, its channels number what they carry. Asserted:
//   parcels    of each process that has begun to be heard come without a gap: each is the next one
//   steps      the vectors have made each step, and taken in each parcel, that the policy asked
//              for, in that order
//   older      reads hold the values of the newest step
//   replicas   where all have the same values after the same round: another's checksum of them is
//              this peer's, in a job that checks them
//   final      what the shards answer at the end is of the end
//   content    and what they have written
// A value: copied with its peer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "consistency/peers/peer_seat.h"
#include "consistency/violation_log.h"
#include "wire/message.h"

namespace soapstone::server {

class PeerLedger {
 public:
  explicit PeerLedger(WorkerId self) : self_(self) {}

  // A number's upper bits are its process's (Peer::ToPeer): those of two are not compared.
  static constexpr int kProcessShift = 40;

  // A parcel of `from` is taken; the number of the one before, 0: there was none.
  void OnParcel(WorkerId from, uint64_t before, uint64_t number);
  // The policy asks for the step of `round`, or for something else with a vector (OrderWith); then
  // what the vectors say of all that they made.
  void OnStep(Clock round);
  void OnAsked(consistency::PeerActionKind kind, uint64_t begin);
  void OnMade(uint64_t steps, uint64_t order);
  // The worker is answered with the values after `steps` steps.
  void OnRead(Clock clock, uint64_t steps);
  // This peer begins `round` with values of this checksum; `from` has begun it with that one. The
  // members are others now: what was said before is void.
  void OnValues(Clock round, uint64_t sum);
  void OnOthersValues(WorkerId from, Clock round, uint64_t sum);
  void OnGroup();
  // A shard's answer to the final read.
  void OnFinalReply(const wire::Message& reply);

  // The digest of what is made in its order: of one after another. Steps of both kinds count as
  // kApplySum, by their round; of parcels the element that they begin with counts.
  static uint64_t OrderWith(uint64_t order, consistency::PeerActionKind kind, uint64_t at);

  uint64_t steps() const { return steps_; }
  // What OnValues said last; empty: nothing of this round.
  bool KnowsValues(Clock round) const { return own_.has_value() && own_->round == round; }
  uint64_t values_sum() const { return own_->sum; }
  const consistency::ViolationLog& violations() const { return log_; }

 private:
  struct Values {
    Clock round = 0;
    uint64_t sum = 0;
  };
  void Compare(WorkerId from, const Values& theirs);

  WorkerId self_;
  uint64_t steps_ = 0;  // asked for
  uint64_t order_ = 0;
  std::optional<Values> own_;
  std::map<WorkerId, Values> others_;  // of a round that this peer has not begun
  consistency::ViolationLog log_;
};

}  // namespace soapstone::server
