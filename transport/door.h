// Door: who of those that connected to a node may stay before they have proved to belong to its
// job, that is, before a message of the job's session has come by their connection. libzmq keeps
// what a connection sends, whole messages and pieces, without a limit of its own, some 64 bytes for
// each 2 on the wire at worst; so what counts is what the kernel received. A value: its owner
// (transport/door_watch.h) tells it what happens and ends the connections that it names.
//
// Invariants
//  1. Nobody unproven stays who sent more than bytes_max, or, where it comes in the place of a
//     proven connection that broke (libzmq connects again by itself, and sends on in the middle of
//     what it has to say), returning_bytes_max. There is one such place for each that broke, for
//     return_patience, and only for the host that it broke from.
//  2. All unproven ones together, those that have left included, sent at most total_bytes_max since
//     the node last had nothing left to read; those in a place of invariant 1 are not in the sum,
//     and who sent little_bytes or less is not sent away for it.
//  3. There are at most connections_max unproven ones; the oldest goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace soapstone::transport {

// A connection's first message may be as large as any of its job, and comes before the proof that
// it is (apps/wire_limits.h knows better than these defaults).
struct DoorLimits {
  uint64_t bytes_max = 64 << 20;
  uint64_t total_bytes_max = 256 << 20;
  size_t connections_max = 64;
  uint64_t returning_bytes_max = uint64_t{1} << 30;
  absl::Duration return_patience = absl::Seconds(60);
  // Who sent no more than this stays whatever others did: a member that connects again, too.
  uint64_t little_bytes = 4096;
};

class Door {
 public:
  explicit Door(DoorLimits limits) : limits_(limits) {}

  // The connection `fd` was accepted, from `host`. False: its proof was there before, so that there
  // is nothing to watch.
  bool Enter(int fd, const std::string& host, absl::Time now);
  // A connection that ended before it could be looked at: it may have sent what is allowed.
  void EnterUnseen(int fd);
  // A message of the session came by it. One that has not been told of yet is remembered. After an
  // end it may be a late message of who had the descriptor before: then it proves nothing.
  void Prove(int fd);
  void Leave(int fd, absl::Time now);
  // The connection has received so much, in all.
  void Count(int fd, uint64_t bytes);
  // The node has read all that came.
  void AllRead();

  // Who has to go, each once; they count as having left.
  std::vector<int> TakeUnwelcome();

  bool IsUnproven(int fd) const { return visitors_.contains(fd); }
  size_t unproven_count() const { return visitors_.size(); }

 private:
  struct Visitor {
    uint64_t number = 0;  // in the order of arrival
    uint64_t bytes = 0;
    bool returns = false;
  };
  struct Place {
    std::string host;
    absl::Time until;
  };

  bool TakePlace(const std::string& host, absl::Time now);
  uint64_t TotalBytes() const;
  void SendAway(std::map<int, Visitor>::iterator visitor, std::vector<int>* fds);

  DoorLimits limits_;
  std::map<int, Visitor> visitors_;     // unproven
  std::map<int, std::string> hosts_;    // of visitors
  std::map<int, std::string> members_;  // proven, with their hosts
  std::set<int> early_;                 // proven, but not told of
  std::set<int> left_;                  // ended since AllRead: what was sent by it may be unread
  std::vector<Place> places_;
  uint64_t gone_bytes_ = 0;  // of unproven ones that left since AllRead
  uint64_t last_number_ = 0;
};

}  // namespace soapstone::transport
