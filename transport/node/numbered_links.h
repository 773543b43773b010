// NumberedLinks: sessions (wire/session.h) over ZeroMQ's connections, which break without a word,
// losing what was under way, and are made again. Every message has a trailer behind its header:
// its number, and how far its sender is. What is not acknowledged is sent again when the other side
// says that it is missing: on its own, as it sees a gap, or asked, as it says nothing. Who calls:
// the ZeroMQ transport.
//
// A peer is known by the routing id of its connection, which both ends know.
//
// Invariants
//  1. Messages to a peer arrive in the order sent, each once, however often its connection breaks.
//  2. Of a link at most SessionLimits are kept; one more is ResourceExhausted. Acknowledgements,
//     questions and goodbyes are always said and always taken.
//  3. A link on which somebody has been heard, or is expected, and then nobody for link_timeout, is
//     lost, as is one at whose other end another process appears: TakeLost says so. Where nothing
//     is due who connected asks, so that a link that is broken is known before it is needed. Time
//     in which nobody called does not count: who was stopped, or slept with its machine, has not
//     listened. Nor does time in which the kernel moves a message that is larger than the link is
//     fast.
//  4. Of whose messages have to wait none is in hand, and all are asked for again by Release.
//  5. At most links_max links, of which unproven_max are of peers that have not shown that they
//     know the job's session; beyond, the oldest of those is forgotten.
// One thread calls it. Times are the caller's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "base/pause_watch.h"
#include "base/steady_clock.h"
#include "transport/tcp/tcp_links.h"
#include "transport/tcp_watch.h"
#include "wire/session.h"

namespace soapstone::transport {

struct NumberedOptions {
  wire::SessionLimits limits;
  absl::Duration link_timeout = absl::Seconds(5);
  size_t links_max = 100'000;
  size_t unproven_max = 1024;
  // What who connected to us sends is not taken for now; it keeps it. Empty: all is taken.
  std::function<bool(const std::string& peer)> waits = nullptr;
};

class NumberedLinks {
 public:
  static constexpr size_t kTrailerBytes = 40;
  static constexpr size_t kNoteBytes = 40;

  // Hands frames to ZeroMQ, for a peer that we connected to (`ours`) or that connected to us.
  // `again`: they were handed over before. Errors: NotFound (nobody is there), others (not now).
  using Put = std::function<absl::Status(const std::string& peer, bool ours, std::string_view first,
                                         absl::Span<const Buffer> rest, bool again)>;
  // Has ZeroMQ make another connection to a peer that we connected to. Errors: this process can
  // have none now.
  using Redial = std::function<absl::Status(const std::string& peer)>;
  // What the kernel has moved on a peer's latest connection. Empty: that is not known.
  using Moved = std::function<MovedBytes(const std::string& peer, bool ours)>;
  NumberedLinks(NumberedOptions options, Put put, Redial redial, Moved moved = nullptr)
      : options_(std::move(options)),
        put_(std::move(put)),
        redial_(std::move(redial)),
        moved_(std::move(moved)) {}

  // Sends a message, or keeps it until it can be. Errors: ResourceExhausted (invariant 2),
  // NotFound (who had connected to us is gone).
  absl::Status Send(const std::string& peer, bool ours, std::string_view header,
                    absl::Span<const Buffer> payload, SteadyTime now);

  // Frames came.
  enum class Came : uint8_t {
    kMessage,  // the next one; the trailer is off frames[0]
    kOther,    // of the sessions themselves, or a message that is in hand, or not yet due
    kForeign,  // nothing of ours
  };
  Came Receive(const std::string& peer, bool ours, Buffers* frames, SteadyTime now);
  // A connection that we made has ended, or was not to be had: where there is something to say
  // another is made, and what is not in hand is sent again. Call it until it is so.
  void Broke(const std::string& peer, SteadyTime now);
  // The peer, to whom something is on its way, is known to have been there `now`: it counts as lost
  // also where it was never heard.
  void Expect(const std::string& peer, SteadyTime now);
  // Takes what had to wait and has not to any more.
  void Release();
  // The peer has shown that it knows the job's session.
  void Prove(const std::string& peer);
  bool IsProven(const std::string& peer) {
    const Link* link = Find(peer);
    return link != nullptr && link->proven;
  }

  // Goes on with what is due. Cheap where nothing is.
  void Tend(SteadyTime now);
  // Something will be due within tens of milliseconds. Else Tend is called a few times a second.
  bool waiting() const { return waiting_ > 0; }
  std::vector<LostLink> TakeLost() { return std::exchange(lost_, {}); }
  void Drop(const std::string& peer);
  size_t size() const { return links_.size(); }

  // Nothing that was sent to somebody who has been heard is still to be taken.
  bool all_acknowledged() const;
  // Says what is in hand, and asks the same.
  void AskAll(SteadyTime now);
  // Says that nothing is taken from now on.
  void SayBye();

 private:
  struct Sent {
    std::string header;
    Buffers payload;
  };
  struct Link {
    Link(uint64_t self, wire::SessionLimits limits) : session(self, limits) {}
    std::string peer;
    bool ours = false;
    bool proven = false;
    bool expected = false;  // though it was not heard yet
    wire::Session<Sent> session;
    uint64_t next_to_put = 1;
    uint64_t put_once = 0;  // numbers up to here were handed over before
    uint16_t attempt = 0;   // of ours: how often we have gone back
    uint16_t their_attempt = 0;
    uint64_t waiting_number = 0;  // the latest that had to wait; 0: none
    uint64_t told_gap_at = 0;     // received() + 1 when a gap was told of; with their_attempt
    SteadyTime kept_since = SteadyTime::InfiniteFuture();
    SteadyTime heard_at = SteadyTime::InfinitePast();
    SteadyTime asked_since = SteadyTime::InfiniteFuture();  // and not heard
    SteadyTime dialled_at = SteadyTime::InfinitePast();
    absl::Duration dial_again = absl::ZeroDuration();  // so long after that
    SteadyTime undialled_since = SteadyTime::InfiniteFuture();
    std::string undialled;  // why
    // When much was seen to have moved, each way.
    SteadyTime moved_out_at = SteadyTime::InfinitePast();
    SteadyTime moved_in_at = SteadyTime::InfinitePast();
    MovedBytes moved;  // up to looked_at
    SteadyTime looked_at = SteadyTime::InfinitePast();
    SteadyTime ask_at = SteadyTime::InfiniteFuture();
    absl::Duration ask_again;
    SteadyTime tell_at = SteadyTime::InfiniteFuture();
    uint64_t unsaid_messages = 0;
    uint64_t unsaid_bytes = 0;
    bool waits = false;
    // On a connection made anew, until it is answered: only questions are put, for the other side's
    // door (transport/zmq/door.h) takes little of a connection that it does not know.
    bool holds = false;
  };
  enum class Word : uint16_t { kAsk = 1, kTell = 2, kBye = 3 };
  struct Note;
  struct Trailer;

  Link* Find(const std::string& peer);
  Link* Make(const std::string& peer, bool ours);
  absl::Status PutOne(Link* link);
  void PutMore(Link* link);
  bool Greeted(Link* link, const wire::SessionGreeting& theirs, SteadyTime now);
  void AfterAcknowledgement(Link* link, SteadyTime now);
  bool IsNext(Link* link, uint64_t number);
  void Say(Link* link, Word word, uint64_t last);
  void OnNote(Link* link, const Note& note, SteadyTime now);
  void Lose(Link* link, std::string why);
  void TendOne(Link* link, SteadyTime now);
  void ForgivePause(SteadyTime now);
  void LookAtMoved(Link* link, SteadyTime now);
  bool IsSilent(const Link& link, SteadyTime now) const;
  static void Hear(Link* link, SteadyTime now);
  void GoBack(Link* link, uint64_t number);
  void DialAgain(Link* link, SteadyTime now);
  void Ask(Link* link, SteadyTime now);
  void Judge(Link* link);

  const NumberedOptions options_;
  const Put put_;
  const Redial redial_;
  const Moved moved_;
  std::unordered_map<std::string, Link> links_;
  std::deque<std::string> unproven_;  // oldest first; some may be proven or gone by now
  std::vector<LostLink> lost_;
  int said_ = 0;  // of them, since then
  SteadyTime said_since_ = SteadyTime::InfinitePast();
  size_t waiting_ = 0;  // links that something is due on
  SteadyTime tend_at_ = SteadyTime::InfinitePast();
  PauseWatch pauses_;
  Link* found_ = nullptr;
  std::string frame_;  // scratch of PutOne
};

}  // namespace soapstone::transport
