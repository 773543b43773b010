#include "wire/membership/chains.h"

#include <algorithm>

namespace soapstone::wire {

SharedList<Chain> FirstChains(const ShardPlaces& places, Epoch epoch) {
  SharedList<Chain> chains;
  if (places.replicas < 2) return chains;
  for (uint32_t shard = 0; shard < places.shards(); ++shard) {
    Chain chain;
    for (uint32_t i = 0; i < places.replicas; ++i) {
      const uint32_t home = shard / places.shards_per_server;
      chain.links.push_back({ServerId{(home + i) % places.servers}, epoch});
    }
    chains.push_back(std::move(chain));
  }
  return chains;
}

std::vector<ShardId> ShardsOn(ServerId server, const ShardPlaces& places) {
  std::vector<ShardId> shards;
  const uint32_t last = (Index(server) + 1) * places.shards_per_server;
  for (uint32_t shard = 0; shard < (places.replicas < 2 ? last : places.shards()); ++shard) {
    if (places.MayBeOn(server, ShardId{shard})) shards.push_back(ShardId{shard});
  }
  return shards;
}

std::vector<ShardId> OnlyOn(const SharedList<Chain>& chains, ServerId server) {
  std::vector<ShardId> only;
  for (uint32_t shard = 0; shard < chains.size(); ++shard) {
    const std::vector<Link>& links = chains[shard].links;
    if (links.size() == 1 && links[0].server == server) only.push_back(ShardId{shard});
  }
  return only;
}

void RemoveServer(ServerId server, Epoch epoch, SharedList<Chain>* chains) {
  for (Chain& chain : chains->Mutable()) {
    const auto at = std::ranges::find(chain.links, server, &Link::server);
    if (at == chain.links.end()) continue;
    const auto next = chain.links.erase(at);
    if (next != chain.links.end()) next->since = epoch;  // behind another one, or the head
  }
}

}  // namespace soapstone::wire
