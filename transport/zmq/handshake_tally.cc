#include "transport/zmq/handshake_tally.h"

#include <algorithm>

namespace soapstone::transport {

void HandshakeTally::Accepted(SteadyTime now) {
  if (accepted_.empty() || now - accepted_.back().last >= kTogether) accepted_.push_back({now});
  ++accepted_.back().count;
  mechanisms(now);
}

void HandshakeTally::WasCutOff() {
  ++finished_;
  ++cut_off_;
}

void HandshakeTally::WasUnopened() {
  ++finished_;
  ++unopened_;
}

void HandshakeTally::WasForItsWords() {
  ++finished_;
  ++words_;
}

uint64_t HandshakeTally::mechanisms(SteadyTime now) {
  while (!accepted_.empty() && now - accepted_.front().last >= patience_) {
    settled_ += accepted_.front().count;
    accepted_.pop_front();
  }
  // What is finished may be of later ones: it is too little until those are settled, never too
  // much.
  if (settled_ > finished_) silent_ = std::max(silent_, settled_ - finished_);
  return words_ + silent_;
}

}  // namespace soapstone::transport
