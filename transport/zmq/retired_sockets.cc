#include "transport/zmq/retired_sockets.h"

#include <utility>

namespace soapstone::transport {

void RetiredSockets::Take(ZmqSocket socket, SteadyTime now) {
  if (!socket.open() || !socket.IsConnected()) return;  // closed on leaving
  socket.ForgetEnds();
  socket.EndConnection();
  if (retired_.size() >= kCountMax) retired_.pop_front();
  retired_.push_back({std::move(socket), now + kLiveMax});
}

void RetiredSockets::Tend(SteadyTime now) {
  std::erase_if(retired_, [now](Retired& retired) {
    if (now >= retired.until) return true;
    if (!retired.socket.HasEnded()) return false;
    // One that libzmq has connected again would take the routing id of the present one.
    if (!retired.socket.IsConnected()) return true;
    retired.socket
        .ForgetEnds();  // nobody came to look in time: that connection is to end first too
    retired.socket.EndConnection();
    return false;
  });
}

void RetiredSockets::Close(absl::Duration linger) {
  for (Retired& retired : retired_) retired.socket.Close(linger);
  retired_.clear();
}

}  // namespace soapstone::transport
