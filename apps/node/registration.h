// How a server or a worker presents itself to the scheduler: what its membership is made from.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/job.h"
#include "transport/transport.h"
#include "wire/membership/membership_client.h"

namespace soapstone::apps {

struct Registration {
  int64_t wanted_rank = -1;  // -1: whatever is free
  uint64_t nonce = 0;        // random: tells processes apart that want one rank
  std::string host;          // the machine's name
};

// `transport`: by which the node is reached.
wire::MembershipClientOptions MembershipClientOptionsOf(const Job& job, wire::Role role,
                                                        Registration registration,
                                                        const transport::Transport& transport);

// Logs what this node waits for while it has no place, every few seconds.
void LogWaiting(Nanos now, wire::MembershipClient* membership);

}  // namespace soapstone::apps
