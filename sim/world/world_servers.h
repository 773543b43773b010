// WorldServers: the servers of a world (sim/world.h): server k, which is node k of them, has the
// replicas of its shards. What a shard does is judged when it counts: of what one server alone
// knows nobody has heard, and where that server is lost it has not happened.
// R1 a follower does with a record what the head did
// R2 a shard made of another one's image is that one
// A value, of World's. Who looks at what a shard does are the checkers.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "server/replica/replica.h"
#include "server/replica/shard_image.h"
#include "sim/actors.h"
#include "sim/checkers.h"
#include "sim/world/world_cut.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::sim {

class WorldServers {
 public:
  // `images`: each shard without replicas goes through its image, after each message, with that
  // fault.
  explicit WorldServers(const ActorFactory& factory,
                        std::optional<server::ImageFault> images = std::nullopt);

  uint32_t count() const { return static_cast<uint32_t>(servers_.size()); }
  // A message comes to server `at`; for a shard, or of its chain. Appends what is sent. `kept`: its
  // shell keeps it from the shard.
  void Deliver(uint32_t at, wire::Message message, bool kept, Checkers* checkers, WorldCut* cut,
               wire::Outbox* out);
  // It stops; it is counted out, and does not know.
  void Crash(uint32_t at) { servers_[at].crashed = true; }
  void Notice(uint32_t at) { servers_[at].noticed = true; }
  bool crashed(uint32_t at) const { return servers_[at].crashed; }
  bool noticed(uint32_t at) const { return servers_[at].noticed; }
  // Of the newest roster that has come to it.
  Epoch epoch(uint32_t at) const { return servers_[at].epoch; }
  const SharedList<wire::Chain>& chains(uint32_t at) const { return servers_[at].chains; }
  // Every shard that it has is on another server that lives and is counted on, by `chains`.
  bool CanSpare(uint32_t at, const SharedList<wire::Chain>& chains) const;

  // As it is where its messages go.
  const server::Shard& ShardAt(ShardId shard, const SharedList<wire::Chain>& chains) const;

  const std::optional<std::string>& violation() const { return violation_; }
  void AddTo(Fingerprint* f) const;

 private:
  // A record of which it is not known whether it counts.
  struct Event {
    uint64_t index = 0;
    wire::Message taken;
    server::Shard after;
    std::vector<wire::Message> said;
  };
  struct OfShard {
    server::Replica replica;
    std::deque<Event> events;
  };
  struct Server {
    std::map<ShardId, OfShard> shards;
    Epoch epoch = 0;
    SharedList<wire::Chain> chains;
    bool crashed = false;
    bool noticed = false;
  };
  class Watcher;

  void Feed(uint32_t at, OfShard* shard, wire::Message message, Checkers* checkers,
            wire::Outbox* out);
  void Judge(OfShard* shard, Checkers* checkers);
  // The shard as another process would make it from what this one says of it.
  void PassThroughImage(uint32_t at, OfShard* shard);
  void Compare(uint32_t at, const OfShard& shard);

  std::vector<Server> servers_;
  std::map<ShardId, uint64_t> counted_;  // by shard, the last record that has happened
  bool chained_ = false;
  std::shared_ptr<const std::map<ShardId, server::Shard>>
      made_;  // by ActorFactory; null: no images
  server::ImageFault fault_ = server::ImageFault::kNone;
  std::optional<std::string> violation_;
};

}  // namespace soapstone::sim
