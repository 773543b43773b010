// TcpLinks: TCP connections beside those of ZeroMQ, for the data of nodes that ZeroMQ has
// connected. Notes over ZeroMQ agree on each (transport/tcp/handshake.h): who connected asks, the
// other side offers a port and a token, is connected to, and checks the token. Each side then says
// over ZeroMQ that what follows from it comes by the stream; until that has been heard nothing is
// taken from it, so no message overtakes another. Where no stream comes about all goes on over
// ZeroMQ. A stream's connection that breaks, or on which nothing moves, is made again by who made
// the first, and goes on where the other side is (wire/session.h); one that cannot be made again
// for link_timeout is lost, and TakeLost says so. Who calls: the ZeroMQ transport.
//
// A peer is known by the routing id of its connection, which both ends know.
//
// Invariants
//  1. Whoever has no token of ours is sent away; who is silent is as StreamPort says
//     (transport/tcp/stream_port.h), for half_open_patience.
//  2. What waits for the other side has a deadline, for which time in which nobody called Progress
//     does not count: who was stopped has not listened.
//  3. Of what a stream has taken over nothing is lost, repeated or overtaken by a message of the
//     same priority, but where TakeLost says that all of it is.
//  4. A later connection of a stream takes the place of an earlier; never the other way round.
//  5. Of a job with keys each byte behind the hellos is sealed, and hellos are proved. What is not
//     right ends the connection, and nothing else: it is made again.
// One thread calls it.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
#include "transport/tcp/handshake.h"
#include "transport/tcp/stream_channel.h"
#include "transport/tcp/stream_counts.h"
#include "transport/tcp/stream_port.h"
#include "transport/tcp/stream_turns.h"
#include "transport/tcp/tcp_link.h"

namespace soapstone::transport {

struct StreamOptions {
  uint16_t port = 0;  // to listen at; 0: the system chooses
  // For a connection to come about, and for who connects to say what it is.
  absl::Duration half_open_patience = absl::Seconds(10);
  // Without a connection for this long, a stream is lost.
  absl::Duration link_timeout = absl::Seconds(5);
  // Streams are sealed, by ciphers of this set, and none is made in clear. 0: all are in clear.
  uint8_t ciphers = 0;
  StreamLimits limits;
};

// A channel between two nodes that could not be made again, or found another process at its end.
struct LostLink {
  std::string peer;  // routing id
  std::string why;
};

class TcpLinks {
 public:
  // Sends a note over ZeroMQ to a peer that we connected to (`ours`), or that connected to us.
  using Tell =
      std::function<absl::Status(const std::string& peer, bool ours, const Handshake& note)>;
  TcpLinks(StreamOptions options, Tell tell);
  ~TcpLinks();
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  // Streams are offered from now on, on the interface of `endpoint` ("tcp://1.2.3.4:5", what
  // ZeroMQ is bound to). The port is opened when the first is asked for.
  void OfferAt(const std::string& endpoint) { offered_at_ = endpoint; }
  uint16_t port() const { return port_.port(); }  // 0: not open

  // Asks a peer that we connected to for a stream, unless that was done. `name` is for logs.
  void Ask(const std::string& peer, uint64_t session, const std::string& name);
  // A note came from the peer by the connection `fd` of ZeroMQ (-1: unknown), with the key of
  // `role`.
  void OnNote(const std::string& peer, const Handshake& note, int fd,
              wire::Role role = wire::Role::kNone);
  // Whose key was shown where the stream was agreed on; so what comes by it is from there.
  wire::Role RoleOf(const std::string& peer) const {
    const TcpLink* link = Find(peer);
    return link != nullptr ? link->role : wire::Role::kNone;
  }
  // Forgets the peer; what is queued is lost.
  void Drop(const std::string& peer);

  // Why there is no stream with the peer, and will be none, and what can be done about
  // it; empty: there is one, or may be. `waited`: for an answer, so far.
  std::string WhyNone(const std::string& peer, absl::Duration waited) const {
    TcpLink* link = Find(peer);
    return link != nullptr ? link->WhyNone(waited >= options_.half_open_patience) : "";
  }
  // One has been offered to the peer, which connected to us.
  bool IsMaking(const std::string& peer) const { return Find(peer) != nullptr; }
  // True: messages for the peer go by its stream.
  bool Carries(const std::string& peer) const;
  absl::Status Send(const std::string& peer, std::string_view header,
                    absl::Span<const Buffer> payload, uint32_t priority);
  // The next message of some stream, each in its turn, as StreamChannel::Receive. `ours`: we
  // connected to the peer.
  bool Receive(std::string* peer, bool* ours, Buffers* frames);

  // Writes what is queued.
  void Flush() { turns_.Flush(); }
  // Goes on with what is half done. Call it when something of AddPollItems came, and where
  // unfinished(), now and then.
  void Progress();
  // The same, where it is time to.
  void Tend();
  bool unfinished() const { return unfinished_; }
  // Streams lost since the last call; they carry nothing any more.
  std::vector<LostLink> TakeLost() { return std::exchange(lost_, {}); }
  bool any_open() const { return !turns_.empty(); }
  // Something can be read, or may be. Looks only at the stream that was read last.
  bool LookAtLatest() { return turns_.LookAtLatest(); }
  bool readable() const { return turns_.readable(); }
  void AddPollItems(std::vector<pollfd>* items);
  // The items of the latest AddPollItems, with what the system says; nothing else came between.
  void Polled(absl::Span<const pollfd> items);

  // Both without waiting, for who does not come to wait.
  void Look();

  // Hands over what is queued, until the deadline at most.
  void Close(SteadyTime deadline);

  StreamCounts counts() const;  // since construction

 private:
  bool sealed() const { return options_.ciphers != 0; }
  TcpLink* Find(const std::string& peer) const;
  void Offer(const std::string& peer, const Handshake& ask, wire::Role role);
  void ConnectTo(TcpLink* link, const Handshake& offer, int fd);
  void Greet(int fd, const std::optional<StreamHello>& hello);
  void Advance(TcpLink* link, SteadyTime now);
  void Dial(TcpLink* link, SteadyTime now);
  void ReadAnswer(TcpLink* link, SteadyTime now);
  void Open(TcpLink* link, int fd);
  void GiveUp(TcpLink* link, const char* why);
  static void Shut(TcpLink* link);
  void Fail(TcpLink* link, SteadyTime now, const char* why);
  void Break(TcpLink* link, SteadyTime since);
  void Lose(TcpLink* link, std::string why);
  void End(TcpLink* link);
  void End();

  const StreamOptions options_;
  const Tell tell_;
  BufferPool pool_;
  std::string offered_at_;  // empty: nowhere
  StreamPort port_;
  std::unordered_map<std::string, std::unique_ptr<TcpLink>> links_;
  StreamTurns turns_;
  std::vector<pollfd> looked_at_;     // scratch of Look
  mutable TcpLink* found_ = nullptr;  // of the latest Find: most often the next one's too
  size_t other_items_ = 0;            // than streams, of the latest AddPollItems
  bool unfinished_ = false;
  PauseWatch pauses_;
  SteadyTime next_check_ = SteadyTime::InfinitePast();  // for stalls
  std::vector<LostLink> lost_;
  uint64_t self_ = 0;  // this process, to the others
  uint64_t last_number_ = 0;
  StreamCounts ended_;  // of streams and connections that have ended
};

}  // namespace soapstone::transport
