#include "cluster/replicas/replicas.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace soapstone::apps {
namespace {

// Of chains so long each update goes through as many processes, one after another.
constexpr uint32_t kReplicasMax = 16;

}  // namespace

wire::ShardPlaces PlacesOf(const wire::JobConfig& config, const consistency::PolicyTraits& policy) {
  return {.servers = ServerCount(config, policy),
          .shards_per_server = config.cluster().shards_per_server(),
          .replicas = config.cluster().replicas()};
}

absl::Status CheckReplicas(const wire::JobConfig& config, const consistency::PolicyTraits& policy) {
  const wire::Cluster& cluster = config.cluster();
  if (cluster.replicas() < 2) return absl::OkStatus();
  const auto refuse = [&cluster](const auto&... why) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.replicas: ", cluster.replicas(), why...));
  };
  if (cluster.replicas() > kReplicasMax) return refuse("; ", kReplicasMax, " at most");
  if (policy.decentralised()) {
    return refuse(": under ", policy.spec, " no server keeps parameters while it trains");
  }
  if (!cluster.strategy().empty()) {
    return refuse(", and cluster.strategy: shards of a strategy are kept once as yet");
  }
  if (policy.tree() || policy.backup()) {
    return refuse(": under ", policy.spec,
                  " shards tell each other of rounds, which replicas do not take over as yet");
  }
  if (!config.output().record_path().empty()) {
    return refuse(", and output.record_path: a run with replicas is not replayed; leave one out");
  }
  if (cluster.replicas() > cluster.servers()) {
    return refuse(" of each shard, each on another server, and there are ", cluster.servers(),
                  " servers; take --servers=", cluster.replicas(), " or more");
  }
  return absl::OkStatus();
}

}  // namespace soapstone::apps
