#include "consistency/policy.h"

namespace soapstone::consistency {

Policy::AnyGate Policy::MakeGate(const PolicyTraits& traits, uint32_t bucket_count,
                                 uint32_t leaf_count) {
  switch (traits.gate) {
    case Gate::kRounds:
      return SnapshotRounds(traits.fixed_tree ? SnapshotRounds::Complete::kAllLeaves
                                              : SnapshotRounds::Complete::kAllMembers,
                            bucket_count, leaf_count);
    case Gate::kSubscribed:
      return SubscribedGate(traits.bound);
    case Gate::kDynamic:
      return DynamicGate(traits.lower, traits.bound);
    case Gate::kSampled:
      return SampledGate(traits);
    case Gate::kBatched:
      return BatchedUpdates(traits, bucket_count);
    case Gate::kValue:
      return ValueGate(traits.value);
    case Gate::kBounded:
      break;
  }
  return BoundedGate(traits.bound);
}

Policy::Policy(const PolicyTraits& traits, uint32_t bucket_count, uint32_t leaf_count)
    : traits_(traits), gate_(MakeGate(traits, bucket_count, leaf_count)) {}

Actions Policy::OnJoin(WorkerId worker, Clock clock) {
  return std::visit([&](auto& gate) { return gate.OnJoin(worker, clock); }, gate_);
}
Actions Policy::OnLeave(WorkerId worker) {
  return std::visit([&](auto& gate) { return gate.OnLeave(worker); }, gate_);
}
Actions Policy::OnPush(const PushEvent& push) {
  return std::visit([&](auto& gate) { return gate.OnPush(push); }, gate_);
}
Actions Policy::OnClock(const ClockEvent& event) {
  return std::visit([&](auto& gate) { return gate.OnClock(event); }, gate_);
}
Actions Policy::OnPull(const PullEvent& pull) {
  return std::visit([&](auto& gate) { return gate.OnPull(pull); }, gate_);
}
Actions Policy::OnDrain() {
  return std::visit([](auto& gate) { return gate.OnDrain(); }, gate_);
}
const ClockTable& Policy::clocks() const {
  return std::visit([](const auto& gate) -> const ClockTable& { return gate.clocks(); }, gate_);
}
Clock Policy::Frontier() const {
  return std::visit([](const auto& gate) { return gate.Frontier(); }, gate_);
}
double Policy::UnseenMax() const {
  const auto* gate = std::get_if<ValueGate>(&gate_);
  return gate != nullptr ? gate->UnseenMax() : 0;
}
void Policy::AddTo(Fingerprint* f) const {
  std::visit([&](const auto& gate) { gate.AddTo(f); }, gate_);
}

}  // namespace soapstone::consistency
