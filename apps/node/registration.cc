#include "apps/node/registration.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "apps/node/compute_backend.h"
#include "transport/node/endpoint.h"

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

void WaitForPlace(Nanos now, const std::string& scheduler, wire::MembershipClient* membership,
                  transport::Transport* transport, size_t* turn) {
  if (membership->rank().has_value()) return;
  for (const wire::Address node : transport->TakeEnded()) {
    if (node.role == wire::Role::kScheduler) membership->CallAgain();
  }
  if (membership->TakeCall()) {
    LOG(INFO) << "the connection to the scheduler has ended: it is asked by another";
    const absl::Status called = transport->Connect(wire::Address::Scheduler(), scheduler);
    LOG_IF(WARNING, !called.ok()) << called;
  }
  const std::string line = membership->TakeWaitLine(now);
  if (line.empty()) return;
  LOG(WARNING) << line;
  if (!membership->unanswered()) return;
  std::vector<std::string> endpoints = transport::EndpointsOf(scheduler);
  if (endpoints.empty()) LOG(WARNING) << scheduler << ": this name does not resolve here";
  if (endpoints.size() < 2) return;
  // In an order of our own: who answers for the name may begin with another one each time.
  std::sort(endpoints.begin(), endpoints.end());
  const std::string& next = endpoints[(*turn)++ % endpoints.size()];
  LOG(INFO) << scheduler << " is at " << endpoints.size() << " addresses; asking at " << next;
  const absl::Status connected = transport->Connect(wire::Address::Scheduler(), next);
  LOG_IF(WARNING, !connected.ok()) << connected;
}

}  // namespace soapstone::apps
