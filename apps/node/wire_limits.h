// What the processes of a job take from each other at most, and from who is not of the job.
#pragma once

#include "cluster/job.h"
#include "transport/node/node_transport.h"

namespace soapstone::apps {

// What is kept for one other node at most, or one message: cluster.link_bytes, else what the
// machine affords.
uint64_t LinkBytesOf(const Job& job);

// Frames are no larger than the job's largest; a model of tables, whose rows have no end, keeps the
// transport's own limits. Who connects is given what all nodes need to connect at the same time.
void LimitToJob(const Job& job, transport::ZmqOptions* options);

// Whether what the job sends can go by these ways. Error: InvalidArgument, with what to do.
absl::Status CheckFrames(const Job& job, const transport::ZmqOptions& options);

}  // namespace soapstone::apps
