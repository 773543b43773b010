#include "sim/world/world_servers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "wire/membership/chains.h"
#include "wire/membership/membership.h"

namespace soapstone::sim {
namespace {

using wire::Message;
using wire::MessageType;

std::pair<uint64_t, uint64_t> PrintOf(const server::Shard& shard) {
  Fingerprint f;
  shard.AddTo(&f);
  return f.value();
}

std::optional<ShardId> ShardOf(const Message& message) {
  if (message.to.role == wire::Role::kShard) return ShardId{message.to.index};
  if (const auto* record = std::get_if<wire::Record>(&message.body)) return ShardId{record->shard};
  if (const auto* word = std::get_if<wire::Recorded>(&message.body)) return ShardId{word->shard};
  return std::nullopt;
}

}  // namespace

// Keeps what a replica has its shard do.
class WorldServers::Watcher final : public server::ReplicaWatcher {
 public:
  explicit Watcher(std::deque<Event>* events) : events_(events) {}
  void OnRecord(const server::Shard& shard, uint64_t index, const Message& taken,
                absl::Span<const Message> said) override {
    events_->push_back({index, taken, shard, {said.begin(), said.end()}});
  }

 private:
  std::deque<Event>* events_;
};

WorldServers::WorldServers(const ActorFactory& factory, std::optional<server::ImageFault> images)
    : servers_(factory.servers()),
      chained_(factory.job().replicas > 1),
      fault_(images.value_or(server::ImageFault::kNone)) {
  if (images.has_value()) {
    std::map<ShardId, server::Shard> made;
    for (uint32_t k = 0; k < factory.shards(); ++k) {
      made.emplace(ShardId{k}, factory.MakeShard(ShardId{k}));
    }
    made_ = std::make_shared<const std::map<ShardId, server::Shard>>(std::move(made));
  }
  const wire::ShardPlaces places = {.servers = count(),
                                    .shards_per_server = 1,
                                    .replicas = factory.job().replicas,
                                    .idle = count() - factory.shards()};
  for (uint32_t s = 0; s < count(); ++s) {
    for (const ShardId shard : wire::ShardsOn(ServerId{s}, places)) {
      servers_[s].shards.emplace(
          shard, OfShard{.replica = factory.MakeReplica(ServerId{s}, shard), .events = {}});
    }
  }
}

void WorldServers::Deliver(uint32_t at, Message message, bool kept, Checkers* checkers,
                           WorldCut* cut, wire::Outbox* out) {
  Server& server = servers_[at];
  if (server.crashed) return;
  const auto* roster = std::get_if<wire::Roster>(&message.body);
  if (roster != nullptr && message.epoch > server.epoch) {
    server.epoch = message.epoch;
    server.chains = roster->chains;
  }
  if (chained_ && roster != nullptr) {
    for (auto& [id, shard] : server.shards) Feed(at, &shard, message, checkers, out);
    return;
  }
  const std::optional<ShardId> id = ShardOf(message);
  const auto found = id.has_value() ? server.shards.find(*id) : server.shards.end();
  if (found == server.shards.end()) return;
  if (chained_) return Feed(at, &found->second, std::move(message), checkers, out);
  server::Replica& replica = found->second.replica;
  checkers->BeforeShard(replica.shard(), message);
  cut->Before(replica.shard(), message);
  if (!kept) replica.OnMessage(0, std::move(message), out);
  if (made_ != nullptr) PassThroughImage(at, &found->second);
  checkers->AfterShard(replica.shard(), out->messages);
  cut->After(replica.shard(), out);
}

void WorldServers::Feed(uint32_t at, OfShard* shard, Message message, Checkers* checkers,
                        wire::Outbox* out) {
  Watcher watcher(&shard->events);
  shard->replica.OnMessage(0, std::move(message), out, &watcher);
  if (shard->replica.failure().has_value() && !violation_.has_value()) {
    violation_ = *shard->replica.failure();
  }
  Compare(at, *shard);
  Judge(shard, checkers);
}

// R1: against what any other replica keeps of the same record.
void WorldServers::Compare(uint32_t at, const OfShard& shard) {
  if (shard.events.empty() || violation_.has_value()) return;
  const Event& last = shard.events.back();
  const ShardId id = shard.replica.shard().id();
  for (uint32_t s = 0; s < count(); ++s) {
    // One that was counted out goes on by itself, and nobody hears of it.
    if (s == at || servers_[s].noticed || servers_[at].noticed) continue;
    const auto other = servers_[s].shards.find(id);
    if (other == servers_[s].shards.end()) continue;
    for (const Event& event : other->second.events) {
      if (event.index != last.index || PrintOf(event.after) == PrintOf(last.after)) continue;
      violation_ = absl::StrCat("R1: servers ", at, " and ", s, " differ in shard ", Index(id),
                                " after record ", last.index);
    }
  }
}

// R2: by the bytes of the second image, in which everything is. The world goes on with the copy.
void WorldServers::PassThroughImage(uint32_t at, OfShard* shard) {
  const server::Shard& original = shard->replica.shard();
  const server::ShardImage image = server::ImageOf(original);
  server::Shard copy = made_->at(original.id());
  const bool restored = server::Restore(image, &copy, fault_);
  // The others are to be found by what comes of them.
  const bool judged =
      fault_ == server::ImageFault::kNone || fault_ == server::ImageFault::kStatsForgotten;
  const bool same =
      !judged || (PrintOf(copy) == PrintOf(original) && server::ImageOf(copy).books == image.books);
  if ((!restored || !same) && !violation_.has_value()) {
    violation_ = absl::StrCat("R2: shard ", Index(original.id()), " at server ", at,
                              restored ? " is another one" : " cannot be read", " by its image");
  }
  shard->replica = server::Replica({.self = ServerId{at}}, std::move(copy));
}

// What a head knows to be on its whole chain has happened.
void WorldServers::Judge(OfShard* shard, Checkers* checkers) {
  const server::Replica& replica = shard->replica;
  uint64_t& counted = counted_[replica.shard().id()];
  const uint64_t until = replica.is_head() ? replica.acked() : 0;
  while (!shard->events.empty() && shard->events.front().index <= std::max(until, counted)) {
    const Event event = std::move(shard->events.front());
    shard->events.pop_front();
    if (event.index <= counted) continue;
    counted = event.index;
    checkers->BeforeShard(event.after, event.taken);
    checkers->AfterShard(event.after, event.said);
  }
}

bool WorldServers::CanSpare(uint32_t at, const SharedList<wire::Chain>& chains) const {
  if (servers_[at].crashed || servers_[at].noticed) return false;
  return std::ranges::all_of(chains, [&](const wire::Chain& chain) {
    return std::ranges::any_of(chain.links, [&](const wire::Link& link) {
      const uint32_t other = Index(link.server);
      return other != at && !servers_[other].crashed && !servers_[other].noticed;
    });
  });
}

const server::Shard& WorldServers::ShardAt(ShardId shard,
                                           const SharedList<wire::Chain>& chains) const {
  const uint32_t at =
      chains.empty() ? Index(shard) : Index(chains[Index(shard)].links.front().server);
  return servers_[at].shards.at(shard).replica.shard();
}

void WorldServers::AddTo(Fingerprint* f) const {
  for (const Server& server : servers_) {
    f->Add(server.crashed);
    f->Add(server.noticed);
    f->Add(server.epoch);
    if (server.crashed) continue;
    for (const auto& [id, shard] : server.shards) {
      shard.replica.AddTo(f);
      f->Add(shard.events.size());
    }
  }
  for (const auto& [shard, index] : counted_) f->Add(index);
  f->Add(violation_.has_value());
}

}  // namespace soapstone::sim
