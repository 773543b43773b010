// CompactHeader: a header that says all of its message's body, as fixed bytes, for links within a
// machine: half the cost of a small message over such a link was its protobuf. Who calls: the
// transport, for those links; between machines the header is frame.h's, which other releases and
// languages can read.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "wire/frame.h"
#include "wire/message.h"

namespace soapstone::wire {

// Frame 0 for a link within the machine: compact where the header says all of the body, else as
// EncodeHeader. Replaces what `header` held.
void EncodeLocalHeader(const Message& message, Address sender, std::string* header);

// As Decode, of frames whose header EncodeLocalHeader made; the same checks but for the checksum,
// since no wire was involved.
absl::StatusOr<Received> DecodeLocal(absl::Span<const Buffer> frames,
                                     const FrameLimits& limits = {});

}  // namespace soapstone::wire
