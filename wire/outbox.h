// Outbox: everything an actor may ask of the outside: messages to send and timers to set. The
// shell (or the simulator) empties it after each call.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::wire {

// An actor's own names for its timers. Setting a timer again replaces its time.
enum class TimerId : uint32_t {};

struct TimerRequest {
  TimerId id{};
  Nanos at = 0;
};

struct Outbox {
  std::vector<Message> messages;
  std::vector<TimerRequest> timers;

  void Send(Message message) { messages.push_back(std::move(message)); }
  void SetTimer(TimerId id, Nanos at) { timers.push_back({id, at}); }
};

}  // namespace soapstone::wire
