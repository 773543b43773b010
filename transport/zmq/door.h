// Door: how much who connects to a node may say before it has proved to belong to its job, that is,
// before something of the job's session has come by its connection. libzmq keeps what a connection
// sends, whole messages and pieces, without a limit of its own, some 64 bytes for each 2 on the
// wire at worst; so what counts is what the kernel received. A value: its owner
// (transport/zmq/door_watch.h) tells it what happens and does what it orders.
//
// Who has said more than may be said unproven is *held*: nothing more is taken from it, TCP makes
// it wait. A member whose proof the node has not come to read is let go on with it; a stranger that
// is held costs nothing more, where one that is sent away comes again. Where many come and go
// (whatever breaks ZeroMQ's language is ended by libzmq itself), the door is *shut*: connections
// are accepted, but begin held, for kShutStay each; what they say in that time they say again, when
// their TCP's time for that is over (200 ms).
//
// Invariants. None depends on how large the job's messages are.
//  1. An unproven connection that has sent more than bytes_max is held, and ended after `patience`.
//  2. There are at most connections_max unproven ones; of those beyond, who has sent too much goes
//     first, then who has said nothing, the oldest of them, then by chance: who must say it again
//     (below) has a chance to come to it however many come behind.
//  3. While all unproven ones together sent more than total_bytes_max, with those that left and
//     whose messages the node may not have read, all are held, whatever they sent, and who would be
//     ended after `patience` is ended after kBlamedAfter.
//  4. A message that may be of who had the descriptor before proves nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "base/steady_clock.h"

namespace soapstone::transport {

struct DoorLimits {
  uint64_t bytes_max = 16 << 10;  // a greeting, minutes of Hellos, a heartbeat
  uint64_t total_bytes_max = 2 << 20;
  size_t connections_max = 256;
  size_t ends_max = 16;  // within Door::kComeAndGoTime; as many shut the door
  absl::Duration patience = absl::Seconds(10);
};

class Door {
 public:
  // Of how many ends shut the door, DoorLimits says.
  static constexpr absl::Duration kComeAndGoTime = absl::Seconds(1);
  static constexpr absl::Duration kShutFor = absl::Seconds(2);
  static constexpr absl::Duration kShutStay = absl::Milliseconds(20);
  // What a node that waits for messages has not been woken for in this time did not reach it.
  static constexpr absl::Duration kSettled = absl::Milliseconds(20);

  // A member is soon heard, and then let go on; who is held for so long, and since when the node
  // has read all that had come, is called a stranger.
  static constexpr absl::Duration kBlamedAfter = absl::Seconds(1);

  // chance_seed: of who goes by chance.
  explicit Door(DoorLimits limits, uint64_t chance_seed = 1)
      : limits_(limits), chance_(chance_seed) {}

  // How far the node has read: odd while it reads, one more when it has found nothing left, and
  // again one more when something has come.
  void Round(uint64_t round, SteadyTime now);

  // The connection `fd` was accepted; `held`: it began so, as the door was shut.
  void Enter(int fd, bool held, SteadyTime now);
  // A connection that ended before it could be looked at: it may have sent what is allowed.
  void EnterUnseen(int fd, SteadyTime now);
  // Something of the session came by it. False: that proves nothing yet (invariant 4).
  bool Prove(int fd);
  void Leave(int fd, SteadyTime now);
  // The connection has received so much, in all.
  void Count(int fd, uint64_t bytes);
  // It has tried to say something, while nothing was taken from it.
  void Tried(int fd);

  // What is to be done now, each once. Who is ended counts as having left.
  struct Orders {
    std::vector<int> hold;
    std::vector<int> let_go_on;
    std::vector<int> end;
  };
  Orders Look(SteadyTime now);

  bool shut(SteadyTime now) const { return now < shut_until_; }
  bool IsUnproven(int fd) const { return visitors_.contains(fd); }
  size_t unproven() const { return visitors_.size(); }
  bool IsHeld(int fd) const;
  size_t unproven_count() const { return visitors_.size(); }
  size_t held_count() const;
  // Connections that were held for what they sent and not soon heard, or ended.
  uint64_t strangers() const { return strangers_; }
  // Connections that ended unproven by themselves, or as they broke ZeroMQ's language.
  uint64_t came_and_went() const { return came_and_went_; }

 private:
  // When something was sent that the node may not have read.
  struct Unread {
    uint64_t round = 0;
    SteadyTime first;
    SteadyTime last;
    uint64_t bytes = 0;
  };
  struct Visitor {
    uint64_t number = 0;  // in the order of arrival
    SteadyTime entered;
    uint64_t bytes = 0;
    bool spoke = false;
    bool held = false;
    bool too_much = false;  // it has sent more than bytes_max
    SteadyTime too_much_since;
    Unread unread;         // since then
    bool doubted = false;  // something of the session came, perhaps by who was here before
    bool counted = false;
  };
  using Visitors = std::map<int, Visitor>;

  bool IsRead(const Unread& unread, SteadyTime now) const;
  void Went(int fd, uint64_t bytes, SteadyTime now);
  void CountOnce(Visitor* visitor);
  Visitors::iterator End(Visitors::iterator visitor, SteadyTime now, Orders* orders);
  bool IsBlamed(const Visitor& visitor, SteadyTime now) const;
  void Judge(int fd, Visitor* visitor, bool full, SteadyTime now, Orders* orders);
  void EndTooMany(SteadyTime now, Orders* orders);

  DoorLimits limits_;
  std::minstd_rand chance_;
  Visitors visitors_;            // unproven
  std::map<int, Unread> left_;   // by descriptors that may have unread messages of who left
  std::deque<Unread> gone_;      // of unproven ones that left
  uint64_t gone_bytes_ = 0;      // of gone_
  std::deque<SteadyTime> ends_;  // the latest
  SteadyTime shut_until_ = SteadyTime::InfinitePast();
  uint64_t round_ = 0;
  uint64_t last_number_ = 0;
  uint64_t strangers_ = 0;
  uint64_t came_and_went_ = 0;
};

}  // namespace soapstone::transport
