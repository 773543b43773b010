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

// While this node has no place: calls the scheduler again where its connection has ended, as that
// of one that is started again; logs what it waits for, every few seconds. Where nobody answers and
// the scheduler's name has several addresses, such as those of a pod that is gone and of the one in
// its place, it asks at the next of them. `turn`: how often it has; the caller keeps it.
void WaitForPlace(Nanos now, const std::string& scheduler, wire::MembershipClient* membership,
                  transport::Transport* transport, size_t* turn);

}  // namespace soapstone::apps
