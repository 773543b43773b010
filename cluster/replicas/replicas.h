// What a job's replicas are, and which jobs cannot have them.
#pragma once

#include "absl/status/status.h"
#include "cluster/job_config.h"
#include "consistency/traits.h"
#include "wire/shard_places.h"

namespace soapstone::apps {

// On which servers the job's shards may be.
wire::ShardPlaces PlacesOf(const wire::JobConfig& config, const consistency::PolicyTraits& policy);

// Error: InvalidArgument, a line that names the field.
absl::Status CheckReplicas(const wire::JobConfig& config, const consistency::PolicyTraits& policy);

}  // namespace soapstone::apps
