// The bodies of messages that have a message of their own in the header's oneof, to protobuf and
// back. frame.cc alone calls it; bodies whose fields are the header's own are header_fields.h's.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "wire/frame.pb.h"
#include "wire/message.h"

namespace soapstone::wire {

// Fills the oneof of `header`; nothing where the body is the header's, or none.
void WriteBody(const Body& body, frame::Header* header);

// The body in the oneof; none where it is not set. InvalidArgument where it is no body of ours.
absl::StatusOr<Body> ReadBody(const frame::Header& header);

// InvalidArgument where there is no such role.
absl::StatusOr<Role> ReadRole(uint32_t number);

}  // namespace soapstone::wire
