// RetiredSockets: sockets in whose place another has come, until they may be closed. libzmq ends
// the process (an assertion in its session_base.cpp, clean_pipes) where a connection breaks just
// when its socket is closed, with a message half sent: and a connection in whose place another
// comes often breaks then. So its connection is ended first, and a socket is closed when libzmq has
// told of that. There is no other connection of it (ZmqSocket), which could break in its turn, or
// take the name of the one that has come: a ROUTER answers by the later of two.
// Included by transport/*.cc only.
#pragma once

#include <cstddef>
#include <deque>

#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "transport/zmq/zmq_socket.h"

namespace soapstone::transport {

// One thread at a time.
class RetiredSockets {
 public:
  // If libzmq tells of no end, which it does of each attempt after a second at most.
  static constexpr absl::Duration kLiveMax = absl::Seconds(30);
  // What they have queued stays in memory. It is shared with the session, which sends it again by
  // the next one.
  static constexpr size_t kCountMax = 64;
  static constexpr absl::Duration kRoomWait = absl::Seconds(1);

  // Closes it at once if its connection has ended, else ends that; what is queued or under way is
  // lost. Where there are too many, libzmq's threads have had no processor for long: waits for them
  // for kRoomWait, and then closes the oldest.
  // REQUIRES: its connection is watched.
  void Take(ZmqSocket socket, SteadyTime now);
  // Closes what can be.
  void Tend(SteadyTime now);
  // Closes all; what is unsent lingers.
  void Close(absl::Duration linger);
  bool empty() const { return retired_.empty(); }
  size_t size() const { return retired_.size(); }

 private:
  struct Retired {
    ZmqSocket socket;
    SteadyTime until;
  };
  std::deque<Retired> retired_;  // the oldest first
};

}  // namespace soapstone::transport
