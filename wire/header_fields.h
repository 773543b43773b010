// HeaderFields: the fields of a header on the wire that bodies of messages share, each of them of
// one type or of several. Every form of a header is made from them and read into them, so that a
// body's fields are told once where they go.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::wire {

// What no body of the message's type has stays as it is here.
struct HeaderFields {
  BucketId bucket{};
  MicroBatchRange micro_batches;
  uint32_t micro_batch_count = 0;
  uint64_t samples = 0;
  uint64_t batch_samples = 0;
  uint32_t pushes = 0;
  Clock oldest = kNoClock;
  uint64_t version = 0;
  uint64_t checksum = 0;
  bool final = false;
  Nanos parked_ns = 0;
  Nanos queued_ns = 0;
};

HeaderFields HeaderFieldsOf(const Message& message);

// The body of such a message where all of it is in the header; none where its type has another
// body or none. Fields of other types are not looked at.
Body BodyFrom(MessageType type, const HeaderFields& fields);

// Takes the fields that are the header's into a body that has others too.
void TakeHeaderFields(const HeaderFields& fields, Body* body);

// Whether the header says all of the body.
bool IsInHeader(const Body& body);

}  // namespace soapstone::wire
