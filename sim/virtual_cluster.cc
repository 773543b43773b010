#include "sim/virtual_cluster.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cluster/straggler.h"
#include "sim/actors.h"
#include "sim/virtual_run.h"

namespace soapstone::sim {
namespace {

constexpr Clock kUnlimitedClocks = 1'000'000'000;

absl::Status CheckOptions(const VirtualOptions& options) {
  const auto error = [](const char* text) { return absl::InvalidArgumentError(text); };
  if (options.clocks < 0 || options.duration < 0 || !std::isfinite(options.duration)) {
    return error("clocks and duration are not negative");
  }
  if (options.training == nullptr && options.clocks == 0 && options.duration == 0) {
    return error("the run has no end: give clocks or a duration");
  }
  if (options.iteration_ns < 1 || options.iteration_ns > 3600 * kSecond) {
    return error("the iteration time is outside [1 ns, 1 h]");
  }
  if (options.timeout_ns < 0 || options.timeout_ns > 3600 * kSecond) {
    return error("the time until a worker that failed is counted out is outside [0, 1 h]");
  }
  if (options.duration * static_cast<double>(options.iteration_ns) > 9e18) {
    return error("the duration is beyond the range of nanoseconds");
  }
  if (!(options.latency_us >= 0 && options.latency_us <= 1e9)) {
    return error("the latency is outside [0, 1e9] us");
  }
  // Of less a message would take longer than nanoseconds can count.
  if (options.bandwidth_mbps != 0 &&
      !(options.bandwidth_mbps >= 0.001 && options.bandwidth_mbps <= 1e9)) {
    return error("the bandwidth is outside [0.001, 1e9] Mbit/s; 0: no limit");
  }
  return absl::OkStatus();
}

absl::StatusOr<ActorFactory> FactoryOf(const VirtualOptions& options) {
  if (options.training != nullptr) return ActorFactory::MakeTraining(*options.training);
  JobShape shape = {.workers = options.workers,
                    .shards = options.shards,
                    .buckets_per_shard = options.buckets_per_shard,
                    .clocks = options.clocks > 0 ? options.clocks : kUnlimitedClocks};
  const uint64_t buckets = std::max<uint64_t>(1, uint64_t{shape.shards} * shape.buckets_per_shard);
  shape.bucket_elements = std::max<uint64_t>(1024, options.model_elements / buckets);
  SOAP_ASSIGN_OR_RETURN(shape.policy, consistency::ParsePolicy(options.policy));
  SOAP_ASSIGN_OR_RETURN(
      shape.micro_batch_count,
      MicroBatchesOf(shape.policy, options.workers, options.micro_batch_count, options.rebalance));
  if (options.rebalance) shape.rebalance.micro_batch_count = shape.micro_batch_count;
  return ActorFactory::Make(shape);
}

}  // namespace

absl::StatusOr<VirtualResult> RunVirtual(const VirtualOptions& options) {
  SOAP_RETURN_IF_ERROR(CheckOptions(options));
  SOAP_ASSIGN_OR_RETURN(StragglerModel stragglers,
                        StragglerModel::Parse(options.stragglers, options.seed));
  SOAP_ASSIGN_OR_RETURN(ActorFactory factory, FactoryOf(options));
  if (factory.job().team != nullptr && stragglers.fails()) {
    return absl::InvalidArgumentError(
        "stragglers: failstop is not simulated of workers that a strategy splits the model over: a "
        "team is lost with each of them");
  }
  if (factory.job().team != nullptr && factory.policy().decentralised()) {
    return absl::InvalidArgumentError(absl::StrCat("policy: ", factory.policy().spec,
                                                   " is not simulated where a strategy splits the "
                                                   "model: peers of one seat have a part of it"));
  }
  return VirtualRun(options, std::move(factory), std::move(stragglers)).Run();
}

}  // namespace soapstone::sim
