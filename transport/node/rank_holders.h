// RankHolders: of a job with keys, which process has which rank, and which process is at the other
// end of which connection. Rosters say the first; the second is proved, once a connection, by the
// secret half of a process's key (security/process_keys.h). Who calls: KnownNodes. It moves
// nothing.
//
// A connection over ZeroMQ is known by its routing id, which its two ends know and nobody else: so
// it stays whose it is however often it is made again.
//
// Invariants
//  1. A connection is a process's for good.
//  2. A rank is one process's at most, and a process has one rank at most. Who was counted out is
//     known by its rank until another process has it: whether it is a member is for actors to say.
//  3. At most connections_max connections, of which unranked_max are of processes without a rank;
//     beyond, the oldest of those is forgotten.
// One thread calls it.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "security/process_keys.h"
#include "transport/tcp/handshake.h"
#include "wire/message.h"

namespace soapstone::transport {

class RankHolders {
 public:
  // Null: the job has no keys, and nothing is asked of anybody.
  explicit RankHolders(std::shared_ptr<const security::ProcessKeys> keys,
                       size_t connections_max = 100'000, size_t unranked_max = 16'384);

  bool asked() const { return keys_ != nullptr; }
  // Empty without keys.
  std::string own_key() const;

  // The process with `key` has the rank of `node` from now on. False: so it was before, or that is
  // no key.
  bool Set(wire::Address node, std::string_view key);
  // By which key who listens as `node` is known. Nothing: nobody is known to have that rank.
  std::optional<security::PublicKey> KeyOf(wire::Address node) const;
  // Who has the rank; kNone: nobody.
  wire::Address HolderOf(const security::PublicKey& key) const;
  // The process may be a member of whom the roster has not come yet: what it says has to wait. Not
  // so who had a rank that another process has now, nor who comes to the scheduler, to say Hello.
  bool IsAwaited(const security::PublicKey& key) const;

  // What this process says first on a connection that it has made to the process with that key:
  // `*note` becomes one of a process. Error: InvalidArgument: that is no key.
  absl::Status Introduce(const std::string& routing_id, const security::PublicKey& listener,
                         Handshake* note) const;
  // The process with the key has made the connection. False: the proof is none, or the connection
  // is another's.
  bool Prove(const std::string& routing_id, const security::PublicKey& key,
             const security::Proof& proof);
  // This process has made the connection, and CURVE speaks with nobody but who has that key.
  void Bind(const std::string& routing_id, const security::PublicKey& key);
  // Null: nobody has proved to have made it. Valid until the next call that changes something.
  const security::PublicKey* KeyAt(const std::string& routing_id) const;
  void Forget(const std::string& routing_id) { connections_.erase(routing_id); }
  size_t connections() const { return connections_.size(); }

 private:
  void ForgetUnranked();

  const std::shared_ptr<const security::ProcessKeys> keys_;
  const size_t connections_max_, unranked_max_;
  std::map<wire::Address, security::PublicKey> keys_of_ranks_;
  absl::flat_hash_map<security::PublicKey, wire::Address> holders_;
  absl::flat_hash_set<security::PublicKey> former_;  // whose rank another process has
  std::unordered_map<std::string, security::PublicKey> connections_;
  // That had no rank when they came, oldest first; some may have one, or be forgotten, by now.
  std::deque<std::string> unranked_;
};

}  // namespace soapstone::transport
