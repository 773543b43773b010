#include "consistency/policy.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/spec.h"
#include "base/status_macros.h"

namespace soapstone::consistency {
namespace {

constexpr Clock kBoundMax = 1'000'000'000;

std::variant<SnapshotRounds, BoundedGate> MakeGate(const PolicyTraits& traits,
                                                   uint32_t bucket_count, uint32_t leaf_count) {
  if (traits.guarantee.snapshot_reads) {
    const auto complete = traits.fixed_tree ? SnapshotRounds::Complete::kAllLeaves
                                            : SnapshotRounds::Complete::kAllMembers;
    return SnapshotRounds(complete, bucket_count, leaf_count);
  }
  return BoundedGate(traits.guarantee.read_lag_max.value_or(kClockMax));
}

absl::StatusOr<PolicyTraits> ParseBsp(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({}));
  return PolicyTraits{
      .spec = "bsp",
      .fixed_tree = true,
      .guarantee = {
          .read_lag_max = 0, .clock_gap_max = 1, .snapshot_reads = true, .sequential_bits = true}};
}

absl::StatusOr<PolicyTraits> ParseSsp(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"s"}));
  if (!spec.arguments.contains("s")) {
    return absl::InvalidArgumentError("ssp needs its staleness bound, as in ssp:s=2");
  }
  SOAP_ASSIGN_OR_RETURN(const Clock s, spec.Int("s", 0, 0, kBoundMax));
  return PolicyTraits{.spec = absl::StrCat("ssp:s=", s),
                      .guarantee = {.read_lag_max = s, .clock_gap_max = s + 1}};
}

absl::StatusOr<PolicyTraits> ParseAsync(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({}));
  return PolicyTraits{.spec = "async"};
}

absl::StatusOr<PolicyTraits> ParseEasgd(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"tau", "beta", "mode"}));
  SOAP_ASSIGN_OR_RETURN(const Clock tau, spec.Int("tau", 10, 1, kBoundMax));
  SOAP_ASSIGN_OR_RETURN(const double beta, spec.Real("beta", 0.9, 0, 1));
  const std::string mode = spec.Text("mode", "async");
  if (mode != "sync" && mode != "async") {
    return absl::InvalidArgumentError(
        absl::StrCat("easgd: mode=", mode, " is unknown; it is sync or async"));
  }
  PolicyTraits traits{.spec = absl::StrCat("easgd:tau=", tau, ",beta=", beta, ",mode=", mode),
                      .exchange = Exchange::kElastic,
                      .period = tau,
                      .beta = beta,
                      .guarantee = {.conserves_sum = true}};
  if (mode == "sync") {
    traits.guarantee.read_lag_max = 0;
    traits.guarantee.clock_gap_max = 1;
    traits.guarantee.snapshot_reads = true;
  }
  return traits;
}

}  // namespace

std::string Guarantee::ToString() const {
  std::vector<std::string> parts;
  parts.push_back(snapshot_reads ? "snapshot reads" : "live reads");
  parts.push_back(read_lag_max ? absl::StrCat("lag <= ", *read_lag_max) : "lag unbounded");
  if (clock_gap_max) parts.push_back(absl::StrCat("gap <= ", *clock_gap_max));
  if (sequential_bits) parts.push_back("bits of sequential SGD");
  if (conserves_sum) parts.push_back("exchanges conserve the sum of replicas and centre");
  return absl::StrJoin(parts, ", ");
}

absl::StatusOr<PolicyTraits> ParsePolicy(std::string_view text) {
  SOAP_ASSIGN_OR_RETURN(const Spec spec, Spec::Parse(text));
  if (spec.name == "bsp") return ParseBsp(spec);
  if (spec.name == "ssp") return ParseSsp(spec);
  if (spec.name == "async") return ParseAsync(spec);
  if (spec.name == "easgd") return ParseEasgd(spec);
  return absl::InvalidArgumentError(absl::StrCat("unknown policy '", spec.name,
                                                 "'; there are bsp, ssp:s=N, async, "
                                                 "easgd:tau=N,beta=B,mode=sync|async"));
}

std::vector<PolicyDescription> DescribePolicies() {
  const auto guarantee = [](std::string_view spec) {
    return ParsePolicy(spec)->guarantee.ToString();
  };
  return {
      {"bsp", "all read version t; update t is the sum over micro-batches along a fixed tree", "2M",
       "1", guarantee("bsp"), "B1 one version, B2 bits, B3 order, S6 exactly once"},
      {"ssp:s=2", "a read at clock c waits on each shard until min applied >= c - s", "2M", "1",
       guarantee("ssp:s=2"),
       "S1 lag, S2 own writes, S3 gap, S4 monotone, S5 live, S6 exactly once"},
      {"async", "no gate; staleness is recorded", "2M", "1", guarantee("async"),
       "S2 own writes, S4 monotone, S6 exactly once"},
      {"easgd:tau=10,beta=0.9,mode=sync",
       "every tau steps all exchange alpha (x_i - centre), summed in rank order", "2M / tau",
       "1 / tau", guarantee("easgd:mode=sync"), "EA1 conservation, S6 exactly once"},
      {"easgd:tau=10,beta=0.9,mode=async",
       "every tau of its own steps a worker exchanges alpha (x_i - centre)", "2M / tau", "1 / tau",
       guarantee("easgd:mode=async"), "EA1 conservation, S6 exactly once"},
  };
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
Actions Policy::OnClock(WorkerId worker, Clock completed) {
  return std::visit([&](auto& gate) { return gate.OnClock(worker, completed); }, gate_);
}
Actions Policy::OnPull(const PullEvent& pull) {
  return std::visit([&](auto& gate) { return gate.OnPull(pull); }, gate_);
}
const ClockTable& Policy::clocks() const {
  return std::visit([](const auto& gate) -> const ClockTable& { return gate.clocks(); }, gate_);
}
Clock Policy::Frontier() const {
  return std::visit([](const auto& gate) { return gate.Frontier(); }, gate_);
}
void Policy::AddTo(Fingerprint* f) const {
  std::visit([&](const auto& gate) { gate.AddTo(f); }, gate_);
}

}  // namespace soapstone::consistency
