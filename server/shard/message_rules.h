// What a push, a clock or a pull must look like before a shard takes it, by the job's layout, its
// policy and its store. The shard calls these functions once its members (shard_members.h) have
// said that the sender may speak. They look at one message at a time, and know nothing of what came
// before it.
#pragma once

#include <cstdint>
#include <string>

#include "server/shard/shard_options.h"
#include "server/store/store.h"
#include "wire/message.h"

namespace soapstone::server {

// Empty where the message may be taken, else what is wrong with it, for who sent it.
// `worker_count`: of the members' roster. REQUIRES: it is a kPush, kClock or kPull.
std::string WhyMalformed(const wire::Message& message, const ShardOptions& options,
                         const Store& store, uint32_t worker_count);

// Whether an answer of the root's has a buffer for each slice of the shard, of its size.
bool HoldsSlices(const wire::Message& message, const ShardOptions& options, const Store& store);

}  // namespace soapstone::server
