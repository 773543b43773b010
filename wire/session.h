// Session: what makes a channel between two processes out of connections that break. Each end
// numbers what it sends, from 1, keeps it until the other end has it in hand, and counts what it
// has in hand itself. A connection that is made anew begins with a greeting: who each end is, whom
// it takes the other for, and how much it has in hand; from there the channel goes on as if nothing
// had happened. A value without sockets and time: the transports carry it
// (transport/tcp/stream_channel.h, transport/node/numbered_links.h), sim/ and
// tests/check/session_space_test.cc explore it.
//
// Invariants
//  1. What one end is told to send arrives at the other once, in that order, or not at all: and
//  then
//     nothing after it does, and OnGreeting says kSuccessor, or the owner gives the session up.
//  2. What is kept is bounded by the owner: HasRoom says when to wait. What it is asked for, and
//     what answers (acknowledgements, greetings), is never refused, so that two ends that are both
//     full still come on.
//  3. An end is known by its incarnation, a random number that is never 0: the same process goes
//     on, a successor begins anew.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

namespace soapstone::wire {

struct SessionLimits {
  uint64_t bytes_max = uint64_t{512} << 20;  // kept, or one item
  uint64_t items_max = 10'000;
};

// What each end says first on a connection.
struct SessionGreeting {
  uint64_t self = 0;      // incarnation of who speaks
  uint64_t other = 0;     // whom it takes the other end for; 0: not known yet
  uint64_t received = 0;  // items of the other end that are in its hand
  friend bool operator==(const SessionGreeting&, const SessionGreeting&) = default;
};

template <typename Item, template <typename> class Allocator = std::allocator>
class Session {
 public:
  struct Kept {
    Item item;
    uint64_t bytes = 0;
  };
  using Items = std::deque<Kept, Allocator<Kept>>;

  enum class Greeted : uint8_t {
    kGoesOn,     // send what is kept() again, in that order
    kSuccessor,  // another process: what was kept is lost, both count from the start
    kMistaken,   // it takes this end for another: let it hear our greeting, and take nothing
    kLies,       // it has in hand what was never sent, or less than it had
  };
  enum class Arrival : uint8_t {
    kNext,   // take it
    kAgain,  // in hand already
    kGap,    // what is before it was lost: ask for it (a greeting)
  };

  Session(uint64_t incarnation, SessionLimits limits) : self_(incarnation), limits_(limits) {}

  // ---- Sending

  bool HasRoom(uint64_t bytes) const {
    return kept_.empty() ||
           (kept_.size() < limits_.items_max && kept_bytes_ + bytes <= limits_.bytes_max);
  }
  // Keeps an item that is sent now; its number.
  uint64_t Keep(Item item, uint64_t bytes) {
    kept_.push_back({std::move(item), bytes});
    kept_bytes_ += bytes;
    return ++sent_;
  }
  // The other end has items up to `received` in hand. False: that cannot be.
  bool OnAcknowledged(uint64_t received) {
    if (received > sent_) return false;
    while (first_kept() <= received) Forget();
    return true;
  }

  // ---- Receiving

  Arrival OnArrival(uint64_t number) {
    if (number <= received_) return Arrival::kAgain;
    if (number != received_ + 1) return Arrival::kGap;
    ++received_;
    return Arrival::kNext;
  }
  uint64_t received() const { return received_; }

  // ---- A connection that is made

  SessionGreeting greeting() const { return {self_, other_, received_}; }
  Greeted OnGreeting(const SessionGreeting& theirs) {
    if (theirs.self == 0) return Greeted::kLies;
    const bool successor = other_ != 0 && theirs.self != other_;
    if (successor) {
      Restart();
      other_ = theirs.self;
      return Greeted::kSuccessor;
    }
    if (theirs.other != 0 && theirs.other != self_) return Greeted::kMistaken;
    if (!OnAcknowledged(theirs.received)) return Greeted::kLies;
    if (theirs.received + 1 < first_kept()) return Greeted::kLies;
    other_ = theirs.self;
    return Greeted::kGoesOn;
  }
  // Another process is at the other end, or nobody: both count from the start.
  void Restart() {
    kept_.clear();
    kept_bytes_ = sent_ = received_ = other_ = 0;
  }
  uint64_t self() const { return self_; }
  uint64_t other() const { return other_; }

  // Not yet in the other end's hand, oldest first; the first has the number first_kept().
  const Items& kept() const { return kept_; }
  // The same, out of the session: to be sent and kept anew.
  Items TakeBack() {
    sent_ -= kept_.size();
    kept_bytes_ = 0;
    return std::exchange(kept_, {});
  }
  uint64_t first_kept() const { return sent_ - kept_.size() + 1; }
  uint64_t kept_bytes() const { return kept_bytes_; }
  uint64_t sent() const { return sent_; }

 private:
  void Forget() {
    kept_bytes_ -= kept_.front().bytes;
    kept_.pop_front();
  }

  uint64_t self_;
  uint64_t other_ = 0;
  SessionLimits limits_;
  Items kept_;
  uint64_t kept_bytes_ = 0;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

}  // namespace soapstone::wire
