// Who keeps a shard, and what its replicas tell each other; bodies as message.h has them, which
// includes this.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace soapstone::wire {

// One replica of a shard, and since which epoch it has been where it is: behind the one before it
// in the chain, or, of the first, alone to take messages.
struct Link {
  ServerId server{};
  Epoch since = 0;
  friend bool operator==(const Link&, const Link&) = default;
};

// A shard's replicas: the head, which takes its messages, then its followers, each of which has the
// records of the one before.
struct Chain {
  std::vector<Link> links;
  friend bool operator==(const Chain&, const Chain&) = default;
};

// A message that the replica before has taken. It is the payload: its own header
// (wire/frame.h EncodeHeader), then its frames.
struct Record {
  uint32_t shard = 0;
  uint64_t since = 0;  // of the link that it comes by
  uint64_t index = 0;  // from 1, without gaps
  uint64_t acked = 0;  // the whole chain has those up to it
  int64_t now_ns = 0;  // when the head took it, by the head's clock
  static constexpr char kName[] = "record";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("shard", &Record::shard);
    visit("since", &Record::since);
    visit("index", &Record::index);
    visit("acked", &Record::acked);
    visit("now_ns", &Record::now_ns);
  }
  friend bool operator==(const Record&, const Record&) = default;
};

// The last of a chain has all records up to `index`.
struct Recorded {
  uint32_t shard = 0;
  uint64_t index = 0;
  static constexpr char kName[] = "recorded";
  template <class Visit>
  static void Fields(const Visit& visit) {
    visit("shard", &Recorded::shard);
    visit("index", &Recorded::index);
  }
  friend bool operator==(const Recorded&, const Recorded&) = default;
};

}  // namespace soapstone::wire
