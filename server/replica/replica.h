// Replica: a shard as one server of its chain has it. The head takes the shard's messages and hands
// each on as a record; a follower takes records, in their order, and does with them what the head
// did: a shard is a function of its messages, so that all replicas are the same one, some records
// apart. Nothing that a message brings about leaves the head before the whole chain has the
// message. So whatever anybody has heard of the shard is in every replica, and any of them may take
// the head's place; what nobody has heard of, who has sent it says again (worker/unanswered.h).
// Chain replication: van Renesse and Schneider, OSDI 2004; acknowledged from the tail to the head.
//
// Who is where in the chain the roster says (wire/replication_bodies.h), and it alone: a head that
// was counted out and lives gets no acknowledgement, and so says nothing any more.
//
// Invariants
//  1. Of two replicas of a chain the later has a prefix of the earlier one's records.
//  2. What record i has the shard send leaves the head alone, in the order of records, and not
//     before all followers of the head's roster have record i. Who is alone by its roster waits for
//     nobody; nobody takes itself to be alone.
//  3. Records come by the link that the roster names, of the epoch since which it is there; those
//     of former links are not taken. What is of a roster to come waits for that.
//  4. Records that are not known to be on the whole chain are kept, and said again to who is next
//     from a later roster on.
// Where a job keeps its shards once a replica is the shard, and no more. Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/fingerprint.h"
#include "server/shard/shard.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::server {

// What a replica does wrong, for tests that have to find it.
enum class ReplicaFault : uint8_t {
  kNone,
  kSaidBeforeAck,   // what a record brings about leaves at once
  kAloneUnasked,    // a head that waits for acknowledgements takes itself to be alone
  kEarlyDropped,    // what is of a roster to come is dropped
  kNotSaidAgain,    // who becomes next is sent new records only
  kRosterUnlogged,  // the head installs rosters by itself, and no record says so
};

struct ReplicaOptions {
  ServerId self{};
  bool chained = false;  // the job keeps more than one of each shard
  // Of messages that are of a roster to come; who sends more would have to be held up.
  uint64_t early_bytes_max = uint64_t{1} << 30;
  ReplicaFault fault = ReplicaFault::kNone;
};

// Sees what a replica has its shard do: `said` is what the shard sends, whether that leaves or not.
class ReplicaWatcher {
 public:
  virtual ~ReplicaWatcher() = default;
  virtual void OnRecord(const Shard& shard, uint64_t index, const wire::Message& taken,
                        absl::Span<const wire::Message> said) = 0;
};

class Replica {
 public:
  Replica(ReplicaOptions options, Shard shard) : options_(options), shard_(std::move(shard)) {}

  // All that is for the shard; where it is chained also kRecord and kRecorded for it, and rosters,
  // which its server hands to each of its replicas.
  void OnMessage(Nanos now, wire::Message message, wire::Outbox* out,
                 ReplicaWatcher* watcher = nullptr);

  const Shard& shard() const { return shard_; }
  // It takes the shard's messages; where it is not chained, always.
  bool is_head() const { return !options_.chained || at_.place == Place::kHead; }
  // Of records: the last that it has, and the last that the whole chain is known to have.
  uint64_t index() const { return index_; }
  uint64_t acked() const { return acked_; }
  // Of what it keeps for those behind it.
  uint64_t kept_bytes() const { return log_.bytes + early_.bytes; }
  // Why it cannot go on.
  const std::optional<std::string>& failure() const { return failure_; }
  void AddTo(Fingerprint* f) const;

 private:
  enum class Place : uint8_t { kOut, kHead, kFollower };
  struct Entry {
    uint64_t index = 0;
    Nanos now = 0;
    wire::Message message;
  };
  struct Held {
    uint64_t index = 0;
    std::vector<wire::Message> said;
  };

  // The shard does what the message says, as record index_. What it says.
  std::vector<wire::Message> Feed(wire::Message message);
  void OnRoster(Nanos now, wire::Message message, wire::Outbox* out);
  void OnRecord(wire::Message message, wire::Outbox* out);
  void OnRecorded(const wire::Message& message, wire::Outbox* out);
  // Of the head.
  void Take(Nanos now, wire::Message message, wire::Outbox* out);
  // Of a follower, the next record. True: it is of those of which no word is said.
  bool Repeat(const wire::Record& record, const Buffers& payload, wire::Outbox* out);
  // The last record is said again, without its payload: whoever is last has it, and says so.
  void AskForWord(wire::Outbox* out) const;
  void KeepEarly(wire::Message message);
  void Keep(Nanos now, const wire::Message& message, wire::Outbox* out);
  void SendRecord(const Entry& entry, wire::Outbox* out) const;
  void SendRecorded(wire::Outbox* out) const;
  // Lets go what the whole chain has.
  void Release(wire::Outbox* out);
  wire::Message To(ServerId server, wire::MessageType type) const;

  // As the newest roster has it.
  struct Position {
    Place place = Place::kOut;
    wire::Chain chain;
    wire::Link own;
    std::optional<ServerId> before;  // of a follower
    std::optional<wire::Link> next;  // none: it is the last
  };
  struct Times {
    Nanos last = 0;    // of the last record
    Nanos offset = 0;  // of this head's clock to that of the one before it
  };
  struct Early {
    std::deque<wire::Message> messages;
    uint64_t bytes = 0;
  };
  struct Log {
    std::deque<Entry> entries;
    uint64_t bytes = 0;
  };

  ReplicaOptions options_;
  Shard shard_;
  Epoch epoch_ = 0;
  Position at_;
  uint64_t index_ = 0;
  uint64_t acked_ = 0;
  Times times_;
  Log log_;                // behind acked_, where somebody is next
  std::deque<Held> held_;  // of a head
  Early early_;
  std::optional<std::string> failure_;
  ReplicaWatcher* watcher_ = nullptr;  // of the message in hand
};

}  // namespace soapstone::server
