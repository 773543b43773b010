// TcpLink: one stream of TcpLinks (transport/tcp/tcp_links.h), from the first note about it to its
// end: how far it is, its channel, its deadlines. TcpLinks decides what becomes of it. It must not
// know other streams, or where notes go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/stream_channel.h"
#include "transport/tcp/stream_dial.h"
#include "transport/tcp/stream_seal.h"
#include "wire/message.h"

namespace soapstone::transport {

// Invariants
//  1. `fd` is a connection that is being made; one that is the channel's is not there.
//  2. `connection` grows by one with each connection of the stream, on both sides.
// Its descriptor is closed with it.
struct TcpLink {
  static constexpr absl::Duration kDialAgainAfter = absl::Milliseconds(20);  // doubled up to
  static constexpr absl::Duration kDialAgainMax = absl::Milliseconds(250);

  enum class State : uint8_t {
    kAsked,       // ours: no answer yet
    kOffered,     // theirs: it has the token
    kConnecting,  // ours
    kGreeting,    // ours: it has been said the token
    kOpen,
    kBroken,  // ours: to be connected again at `dial_at`; theirs: will it connect again?
    kNone,    // not to be had; there is no channel
    kEnded,   // lost, or the other side has ended: to be dropped
  };

  TcpLink() = default;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;
  ~TcpLink() { CloseDialled(); }

  // One side has said that what follows comes by the stream: messages may be on it.
  bool began() const { return said_switch || heard_switch; }
  // Theirs: a connection may yet be it.
  bool may_be_greeted() const { return !ours && channel != nullptr && state != State::kEnded; }
  // What it waits for is overdue, or it has ended.
  bool IsLate(SteadyTime now, absl::Duration link_timeout) const;
  // Begins another connection to `address`. False: errno says why not.
  bool BeginConnection();
  // Of a connection that is kConnecting: 0 once it is there, EINPROGRESS before, else its error.
  int ConnectError() const;
  bool SayHello() const;
  // The stream goes by the channel's connection from now on.
  void Opened();
  void CloseDialled();
  // Bytes are on the way for long and nothing is heard of the other kernel, since when. One whose
  // process does not read says so, and is waited for. Call it now and then while it is kOpen.
  std::optional<SteadyTime> StalledSince(SteadyTime now);
  // Why there will be none, and what can be done about it; empty: there may be one.
  // `unanswered`: the other side would have answered by now.
  std::string WhyNone(bool unanswered);

  std::string peer;
  std::string name;                     // for logs
  std::string why_none;                 // kNone: why not
  wire::Role role = wire::Role::kNone;  // whose key its other side has; kNone: without keys
  bool ours = false;
  State state = State::kNone;
  uint64_t session = 0;
  uint64_t number = 0;
  StreamSeal seal;
  SocketAddress address;    // ours: of the other side
  uint32_t connection = 0;  // the latest
  int fd = -1;              // before it is the channel's
  SteadyTime deadline = SteadyTime::InfiniteFuture();
  SteadyTime broken_since = SteadyTime::InfiniteFuture();
  SteadyTime dial_at = SteadyTime::InfiniteFuture();
  absl::Duration dial_again = kDialAgainAfter;
  StreamPulse pulse;
  SteadyTime pulse_at = SteadyTime::InfiniteFuture();  // when it was as it is first
  char answer[kStreamHelloBytes] = {};
  size_t answer_have = 0;
  std::unique_ptr<StreamChannel> channel;
  bool asked = false;
  bool said_switch = false;
  bool heard_switch = false;
};

}  // namespace soapstone::transport
