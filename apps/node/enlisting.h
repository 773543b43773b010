// How a server or a worker presents itself to the scheduler: what its enrolment is made from.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/job.h"
#include "wire/membership/enrolment.h"

namespace soapstone::apps {

struct Enlisting {
  int64_t wanted_rank = -1;  // -1: whatever is free
  uint64_t nonce = 0;        // random: tells processes apart that want one rank
};

// `endpoint`: where a server is reached; empty for workers.
wire::EnrolmentOptions EnrolmentOptionsOf(const Job& job, wire::Role role, Enlisting enlisting,
                                          std::string endpoint);

}  // namespace soapstone::apps
