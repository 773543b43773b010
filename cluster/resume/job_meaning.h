// What two jobs must have in common so that one can go on from a checkpoint of the other: model,
// data, policy, optimizer, schedule, seed, batch, micro-batches and precision. Not by how many
// processes it is run, where they are, how long they wait, and what they write.
#pragma once

#include <cstdint>
#include <string>

#include "wire/config/job.pb.h"

namespace soapstone::apps {

// The fields that count; the others are cleared. Contents of files are in `data_fingerprint` of
// MeaningDigest.
wire::JobConfig MeaningOf(const wire::JobConfig& config);

// Equal for equal meanings. `data_fingerprint`: as JobDigest's, without the strategy's.
uint64_t MeaningDigest(const wire::JobConfig& config, uint64_t data_fingerprint);

// "training.seed is 1 there, and 2 here" of the first field by which they differ; empty: none.
std::string DifferenceOf(const wire::JobConfig& there, const wire::JobConfig& here);

}  // namespace soapstone::apps
