// HandshakeTally: how the handshakes of those go who connect to a socket, by cause. libzmq tells of
// most that fail; of who does not speak its language, or an older one than encryption goes with, it
// tells the end alone. So who came longer ago than a handshake may take, and of whom it has told
// neither, is one of those. A value; its owner (transport/zmq/door_watch.h) tells it of events.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/time/time.h"
#include "base/steady_clock.h"

namespace soapstone::transport {

// By cause. Who is refused for its own key is a ZapHandler's to count
// (transport/zmq/zap_handler.h).
class HandshakeTally {
 public:
  // `patience`: as long as a handshake may take.
  explicit HandshakeTally(absl::Duration patience) : patience_(patience + kGrace) {}

  void Accepted(SteadyTime now);
  void Succeeded() { ++finished_; }
  void WasRefused() { ++finished_; }  // for its own key
  void WasCutOff();                   // it ended, or took too long
  void WasForItsWords();              // its mechanism, or what belongs to it
  void WasUnopened();                 // encrypted for another key than the socket has
  uint64_t unopened() const { return unopened_; }
  uint64_t cut_off() const { return cut_off_; }
  // Of no mechanism that is spoken here. It grows for a while after the last has gone.
  uint64_t mechanisms(SteadyTime now);

 private:
  static constexpr absl::Duration kGrace = absl::Seconds(1);  // from an event to who reads it
  static constexpr absl::Duration kTogether = absl::Milliseconds(100);

  struct Some {
    SteadyTime last;
    uint64_t count = 0;
  };
  absl::Duration patience_;
  std::deque<Some> accepted_;  // of late: at most one for each kTogether
  uint64_t settled_ = 0;       // accepted before those
  uint64_t finished_ = 0;      // of whom libzmq has told how it went
  uint64_t cut_off_ = 0;
  uint64_t unopened_ = 0;
  uint64_t words_ = 0;
  uint64_t silent_ = 0;  // of whom it has not, as far as is known
};

}  // namespace soapstone::transport
