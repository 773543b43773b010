#include "consistency/policy.h"

#include <type_traits>

namespace soapstone::consistency {
namespace {

// The alternative that is made of these numbers and nothing else.
template <class Numbers, class Gates>
struct GateOf;
template <class Numbers, class First, class... Rest>
struct GateOf<Numbers, std::variant<First, Rest...>>
    : std::conditional_t<std::is_constructible_v<First, const Numbers&>, std::type_identity<First>,
                         GateOf<Numbers, std::variant<Rest...>>> {};

template <class AnyGate>
struct GateMaker {
  const PolicyTraits& traits;
  uint32_t bucket_count;
  uint32_t micro_batch_count;
  ShardSeat seat;

  template <class Numbers>
  AnyGate operator()(const Numbers& gate) const {
    return typename GateOf<Numbers, AnyGate>::type(gate);
  }
  // These know more of the job.
  AnyGate operator()(const RoundTraits&) const {
    return RoundGate(traits.takes_over() ? RoundGate::Complete::kAllMicroBatches
                                         : RoundGate::Complete::kAllMembers,
                     bucket_count, micro_batch_count, /*fetches=*/traits.tree());
  }
  AnyGate operator()(const BatchTraits& gate) const { return BatchGate(gate, bucket_count); }
  AnyGate operator()(const BackupTraits& gate) const {
    return BackupGate(gate.spare, seat, bucket_count);
  }
};

}  // namespace

Policy::AnyGate Policy::MakeGate(const PolicyTraits& traits, uint32_t bucket_count,
                                 uint32_t micro_batch_count, ShardSeat seat) {
  return std::visit(GateMaker<AnyGate>{traits, bucket_count, micro_batch_count, seat}, traits.gate);
}

Policy::Policy(const PolicyTraits& traits, uint32_t bucket_count, uint32_t micro_batch_count,
               ShardSeat seat)
    : traits_(traits), gate_(MakeGate(traits, bucket_count, micro_batch_count, seat)) {}

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
Actions Policy::OnHeld(ShardId from, WorkerId worker, Clock clock) {
  auto* gate = std::get_if<BackupGate>(&gate_);
  return gate != nullptr ? gate->OnHeld(from, worker, clock) : Actions{};
}
Actions Policy::OnChosen(Clock clock, absl::Span<const WorkerId> workers) {
  auto* gate = std::get_if<BackupGate>(&gate_);
  return gate != nullptr ? gate->OnChosen(clock, workers) : Actions{};
}
Actions Policy::OnFetched(Clock clock) {
  auto* gate = std::get_if<RoundGate>(&gate_);
  return gate != nullptr ? gate->OnFetched(clock) : Actions{};
}
Actions Policy::OnRestart(Clock start) {
  auto* gate = std::get_if<RoundGate>(&gate_);
  return gate != nullptr ? gate->OnRestart(start) : Actions{};
}
bool Policy::fetching() const {
  const auto* gate = std::get_if<RoundGate>(&gate_);
  return gate != nullptr && gate->fetching();
}
absl::Span<const WorkerId> Policy::chosen() const {
  const auto* gate = std::get_if<BackupGate>(&gate_);
  return gate != nullptr ? gate->chosen() : absl::Span<const WorkerId>();
}
const ClockTable& Policy::clocks() const {
  return std::visit([](const auto& gate) -> const ClockTable& { return gate.clocks(); }, gate_);
}
Clock Policy::Frontier() const {
  return std::visit([](const auto& gate) { return gate.Frontier(); }, gate_);
}
Nanos Policy::NewestClock() const {
  const auto* gate = std::get_if<DynamicGate>(&gate_);
  return gate != nullptr ? gate->Newest() : -1;
}
double Policy::UnseenMax() const {
  const auto* gate = std::get_if<ValueGate>(&gate_);
  return gate != nullptr ? gate->UnseenMax() : 0;
}
void Policy::AddTo(Fingerprint* f) const {
  std::visit([&](const auto& gate) { gate.AddTo(f); }, gate_);
}

}  // namespace soapstone::consistency
