// Bodies of messages for checkpoints, flat ones as message.h has them, which includes this.
#pragma once

#include <cstdint>
#include <string>

namespace soapstone::wire {

struct Written {
  uint64_t bytes = 0;     // of its file
  int64_t frontier = -1;  // the shard was past that clock already, and came to this one; -1: not so
  std::string error;      // empty: it is written, or was past it
  static constexpr char kName[] = "written";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("bytes", &Written::bytes);
    visit("frontier", &Written::frontier);
    visit("error", &Written::error);
  }
  friend bool operator==(const Written&, const Written&) = default;
};

// An order to begin no clock from the message's on. It takes the place of all of lesser numbers;
// one at the job's end holds nobody.
struct Bound {
  uint32_t number = 0;  // grows with each order of a run; from 1
  static constexpr char kName[] = "bound";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("number", &Bound::number);
  }
  friend bool operator==(const Bound&, const Bound&) = default;
};

}  // namespace soapstone::wire
