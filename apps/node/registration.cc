#include "apps/node/registration.h"

#include <glog/logging.h>

#include <string>
#include <utility>

#include "apps/node/compute_backend.h"

namespace soapstone::apps {

wire::MembershipClientOptions MembershipClientOptionsOf(const Job& job, wire::Role role,
                                                        Registration registration,
                                                        const transport::Transport& transport) {
  const wire::Cluster& cluster = job.config.cluster();
  return {.role = role,
          .wanted_rank = registration.wanted_rank,
          .endpoint = transport.endpoint(),
          .nonce = registration.nonce,
          .config_digest = job.digest,
          .arithmetic = ArithmeticOf(role, cluster),
          .key = transport.process_key(),
          .host = std::move(registration.host),
          .scheduler = cluster.scheduler(),
          .heartbeat_ns = NanosOf(cluster.heartbeat_s()),
          .timeout_ns = NanosOf(cluster.heartbeat_timeout_s()),
          .start_timeout_ns = NanosOf(cluster.start_timeout_s())};
}

void LogWaiting(Nanos now, wire::MembershipClient* membership) {
  const std::string line = membership->TakeWaitLine(now);
  LOG_IF(WARNING, !line.empty()) << line;
}

}  // namespace soapstone::apps
