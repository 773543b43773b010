// Local steps of a seat, and what it exchanges after them: SeatExecutor's part.
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "glog/logging.h"
#include "worker/device/seat_executor.h"

namespace soapstone::worker {

void SeatExecutor::CarryOut(const DeviceCommand& command, const UpdateLocally&, DeviceEvent*) {
  std::vector<absl::Span<const float>> gradients(sums_.of.size());
  for (size_t p = 0; p < gradients.size(); ++p) {
    const std::vector<BufferPool::Block>& stack = sums_.of[p].stack;
    CHECK(stack.size() == 1) << "a gradient that is not there";
    gradients[p] = stack[0].floats();
  }
  const uint64_t samples = SamplesOf(command).size();
  const std::optional<uint32_t> odd = kept_->Step(command.clock, samples, gradients);
  if (!odd.has_value() || not_finite_.updates++ > 0) return;
  not_finite_.tensor = *odd;
  not_finite_.parameters = true;
}

void SeatExecutor::CarryOut(const DeviceCommand&, const ElasticCommand& elastic, DeviceEvent*) {
  kept_->Move(elastic);
}

void SeatExecutor::CarryOut(const DeviceCommand&, const TakeDelta&, DeviceEvent*) {
  kept_->TakeDelta();
}

}  // namespace soapstone::worker
