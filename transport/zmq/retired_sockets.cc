#include "transport/zmq/retired_sockets.h"

#include <utility>

#include "absl/time/clock.h"

namespace soapstone::transport {

void RetiredSockets::Take(ZmqSocket socket, SteadyTime now) {
  if (!socket.open() || socket.HasEnded()) return;  // closed on leaving
  socket.EndConnection();
  for (const SteadyTime end = SteadyNow() + kRoomWait; retired_.size() >= kCountMax;) {
    Tend(now);
    if (retired_.size() < kCountMax) break;
    if (SteadyNow() >= end) {
      retired_.pop_front();
    } else {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  retired_.push_back({std::move(socket), now + kLiveMax});
}

void RetiredSockets::Tend(SteadyTime now) {
  std::erase_if(retired_, [now](Retired& retired) {
    if (now >= retired.until || retired.socket.HasEnded()) return true;
    retired.socket.EndConnection();  // that it was still about to make
    return false;
  });
}

void RetiredSockets::Close(absl::Duration linger) {
  for (Retired& retired : retired_) retired.socket.Close(linger);
  retired_.clear();
}

}  // namespace soapstone::transport
