// RetiredSockets: sockets in whose place another has come, until they may be closed. libzmq ends
// the process (an assertion in its session_base.cpp, clean_pipes) where a connection breaks just
// when its socket is closed, with a message half sent: and a connection in whose place another
// comes often breaks then. So its connection is ended first, and a socket is closed when libzmq has
// told of that; not later, for libzmq connects it again, and a ROUTER answers by the later of two
// connections of one name.
// A hole is left: libzmq's threads carry a close out, and connect again after 100 ms. Where they
// get no processor for that long (twelve of the test of breaks at once on two cores: one in three),
// the assertion is met all the same. Sockets that never connect again by themselves would close it.
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
  static constexpr absl::Duration kLiveMax = absl::Seconds(5);  // if libzmq tells of no end
  // What they have queued stays in memory. It is shared with the session, which sends it again by
  // the next one.
  static constexpr size_t kCountMax = 16;

  // Closes it at once if it has no connection, else ends that; what is queued or under way is lost.
  // The oldest is closed where there are too many.
  // REQUIRES: its connection is watched.
  void Take(ZmqSocket socket, SteadyTime now);
  // Closes what can be. To be called before libzmq connects again by itself: it does after 100 ms.
  // Where it has, because the thread did not run for so long, that connection is ended as well.
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
