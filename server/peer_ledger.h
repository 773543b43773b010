// PeerLedger: what a peer's parcels and steps show of what it is promised. Its vectors testify to the
// steps that they have made, its channels number what they carry. Asserted:
//   parcels    of each process that has begun to be heard come without a gap: the next number is one
//              more
//   steps      the vectors have made each step that the policy asked for, in that order
//   reads      hold the values of the newest step
// A value: copied with its peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"

namespace soapstone::server {

class PeerLedger {
 public:
  explicit PeerLedger(WorkerId self) : self_(self) {}

  // A number's upper bits are its process's (Peer::ToPeer): those of two are not compared.
  static constexpr int kProcessShift = 40;

  // A parcel of `from` is taken; the number of the one before, 0: there was none.
  void OnParcel(WorkerId from, uint64_t before, uint64_t number);
  // The policy asks for the step of `round`; then what the vectors say of all that they made.
  void OnStep(Clock round);
  void OnMade(uint64_t steps, uint64_t order);
  // The worker is answered with the values after `steps` steps.
  void OnRead(Clock clock, uint64_t steps);

  // The digest of steps in their order: of one after another.
  static uint64_t OrderWith(uint64_t order, Clock round);

  uint64_t steps() const { return steps_; }
  uint64_t violations() const { return violations_; }
  const std::optional<std::string>& first_violation() const { return first_violation_; }

 private:
  void Break(std::string what);

  WorkerId self_;
  uint64_t steps_ = 0;  // asked for
  uint64_t order_ = 0;
  uint64_t violations_ = 0;
  std::optional<std::string> first_violation_;
};

}  // namespace soapstone::server
