// Where a job keeps the replicas of its shards. The scheduler changes chains, servers make what
// they have of the first ones; all find the same.
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/memory/shared_list.h"
#include "wire/message.h"
#include "wire/shard_places.h"

namespace soapstone::wire {

// The chains that a job begins with: the head of shard k is on server k / shards_per_server, its
// followers on the servers after that, in a ring: each server has as many replicas as any other.
// Chained declustering: Hsiao and DeWitt, ICDE 1990.
// Of one replica there are none.
SharedList<Chain> FirstChains(const ShardPlaces& places, Epoch epoch);

// The shards that `server` has a replica of, ascending, in a job that begins.
std::vector<ShardId> ShardsOn(ServerId server, const ShardPlaces& places);

// The shards whose replicas were all on the server; empty: the job can go on without it.
std::vector<ShardId> OnlyOn(const SharedList<Chain>& chains, ServerId server);

// Takes the server's replicas out, by the roster of `epoch`. REQUIRES: OnlyOn is empty.
void RemoveServer(ServerId server, Epoch epoch, SharedList<Chain>* chains);

}  // namespace soapstone::wire
