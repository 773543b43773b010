// PeerVectors: the tensors of one peer, as flat vectors of the model's length: values, gradient,
// contribution, sum (consistency/peers/peer_seat.h), and the optimizer's state. Carries out what
// the peer's policy says; knows nothing of members or messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "compute/init.h"
#include "compute/optimizer.h"
#include "compute/schedule.h"
#include "consistency/peers/peer_seat.h"
#include "server/store/store_fault.h"
#include "wire/layout.h"

namespace soapstone::server {

using consistency::ElementRange;

// Buffers hold elements of the vectors' own type. REQUIRES everywhere: sizes fit (PeerVectors::
// bytes); the caller has checked what came from the network.
class PeerVectors {
 public:
  virtual ~PeerVectors() = default;
  virtual std::unique_ptr<PeerVectors> Clone() const = 0;

  // What the values weigh in a mean: push-sum's omega, else 1.
  double weight() const { return weight_; }
  void SetWeight(double weight) { weight_ = weight; }

  virtual uint64_t elements() const = 0;
  virtual size_t bytes(ElementRange range) const = 0;

  // gradient[offset..] += frame, which may be kept, and must not change.
  virtual void AddGradient(uint64_t offset, const Buffer& frame) = 0;

  virtual void Stage(ElementRange range) = 0;
  virtual void Discard() = 0;
  virtual void ClearSum() = 0;
  virtual void AddValues(double factor) = 0;
  // Of a parcel in however many frames; they are kept, and must not change.
  virtual void AddParcel(ElementRange range, const Buffers& parcel, double factor) = 0;
  virtual void SetParcel(ElementRange range, const Buffers& parcel) = 0;
  virtual void ValuesFromSum() = 0;
  virtual void AddToValues(const Buffer& parcel, double factor) = 0;
  virtual void Merge(const Buffer& parcel, double factor) = 0;
  // d = (parcel - values) / 2; values += d; returns d.
  virtual Buffer Meet(const Buffer& parcel) = 0;
  // One optimizer step of `round` with sum / samples, or gradient / samples; then the contribution,
  // or the gradient, is 0. No step without samples. Returns the first element whose value, or what
  // the optimizer remembers of it, the step has left not finite; none: all are.
  virtual std::optional<uint64_t> ApplySum(Clock round, uint64_t samples) = 0;
  virtual std::optional<uint64_t> ApplyGradient(Clock round, uint64_t samples) = 0;

  // Steps that were made, whichever had samples, and the digest of them and of the parcels that
  // were taken in (PeerLedger::OrderWith).
  virtual uint64_t steps() const = 0;
  virtual uint64_t order() const = 0;
  // Of what Values returns: the steps that are in it.
  virtual uint64_t version() const = 0;
  // Of the values, a range of them (base/fingerprint.h).
  virtual uint64_t SumOf(ElementRange range) const = 0;
  // For tests of the ledgers.
  virtual void SetFault(StoreFault fault) = 0;

  // To be sent: they do not change when the vectors do.
  virtual Buffer Values() = 0;
  virtual Buffers Sum(ElementRange range) = 0;
  // The values, then the optimizer's state; and the reverse. False: malformed.
  virtual Buffers State() = 0;
  virtual bool Adopt(const Buffers& state) = 0;

 private:
  double weight_ = 1;
};

struct PeerVectorsOptions {
  std::shared_ptr<const wire::Layout> layout;  // any, of the model
  compute::OptimizerSpec optimizer;
  compute::ScheduleSpec schedule;
  Clock total_clocks = 0;
  uint64_t seed = 0;                                  // of the initial values
  std::shared_ptr<const compute::GivenValues> given;  // or they themselves
  StoreFault fault = StoreFault::kNone;
};
// Real parameters, f32.
std::unique_ptr<PeerVectors> MakePeerVectors(const PeerVectorsOptions& options);

// For checkers of conservation: f64, values given; `apply` stands for the optimizer.
using DoubleStepFunction = std::function<void(
    Clock round, uint64_t samples, absl::Span<const double> sum, absl::Span<double> values)>;
std::unique_ptr<PeerVectors> MakeDoubleVectors(absl::Span<const double> values,
                                               DoubleStepFunction apply);

// Where each parameter begins in a flat vector; then the total.
std::vector<uint64_t> ParamOffsets(const std::vector<ParamSpec>& params);
// Frames of slices, views of a flat vector whose elements have `element_bytes`.
Buffers CutSlices(const Buffer& flat, const std::vector<wire::Slice>& slices,
                  const std::vector<uint64_t>& offsets, size_t element_bytes);

}  // namespace soapstone::server
