#include "wire/compact_header.h"

#include <cstring>
#include <type_traits>

#include "base/status_macros.h"
#include "wire/header_fields.h"

namespace soapstone::wire {
namespace {

constexpr uint32_t kCompactMagic = 0x43414F53;  // "SOAC"
constexpr uint16_t kCompactVersion = 2;

// In the order of size, so that nothing is padded.
struct CompactHeader {
  uint32_t magic;
  uint16_t version;
  uint8_t type;
  uint8_t final;
  uint64_t session;
  uint64_t epoch;
  int64_t clock;
  uint64_t samples;
  uint64_t batch_samples;
  int64_t oldest;
  uint64_t updates;  // HeaderFields::version
  uint64_t checksum;
  int64_t parked_ns;
  int64_t queued_ns;
  uint32_t from_index;
  uint32_t to_index;
  uint32_t sender_index;
  uint32_t worker;
  uint32_t bucket;
  uint32_t micro_batches_begin;
  uint32_t micro_batches_end;
  uint32_t micro_batch_count;
  uint32_t pushes;
  uint8_t from_role;
  uint8_t to_role;
  uint8_t sender_role;
  uint8_t spare;
};
static_assert(std::is_trivially_copyable_v<CompactHeader> && sizeof(CompactHeader) == 128);
static_assert(sizeof(Epoch) == 8 && sizeof(Clock) == 8 && sizeof(Nanos) == 8);

absl::StatusOr<Address> AddressFrom(uint8_t role, uint32_t index) {
  if (role > static_cast<uint8_t>(Role::kPeer)) {
    return absl::InvalidArgumentError("unknown role in a compact header");
  }
  return Address{static_cast<Role>(role), index};
}

HeaderFields FieldsFrom(const CompactHeader& compact) {
  return {.bucket = BucketId{compact.bucket},
          .micro_batches = {compact.micro_batches_begin, compact.micro_batches_end},
          .micro_batch_count = compact.micro_batch_count,
          .samples = compact.samples,
          .batch_samples = compact.batch_samples,
          .pushes = compact.pushes,
          .oldest = compact.oldest,
          .version = compact.updates,
          .checksum = compact.checksum,
          .final = compact.final != 0,
          .parked_ns = compact.parked_ns,
          .queued_ns = compact.queued_ns};
}

}  // namespace

void EncodeLocalHeader(const Message& message, Address sender, std::string* header) {
  if (!IsInHeader(message.body)) {
    *header = EncodeHeader(message, sender);
    return;
  }
  const HeaderFields fields = HeaderFieldsOf(message);
  const CompactHeader compact = {.magic = kCompactMagic,
                                 .version = kCompactVersion,
                                 .type = static_cast<uint8_t>(message.type),
                                 .final = static_cast<uint8_t>(fields.final ? 1 : 0),
                                 .session = message.session,
                                 .epoch = message.epoch,
                                 .clock = message.clock,
                                 .samples = fields.samples,
                                 .batch_samples = fields.batch_samples,
                                 .oldest = fields.oldest,
                                 .updates = fields.version,
                                 .checksum = fields.checksum,
                                 .parked_ns = fields.parked_ns,
                                 .queued_ns = fields.queued_ns,
                                 .from_index = message.from.index,
                                 .to_index = message.to.index,
                                 .sender_index = sender.index,
                                 .worker = Index(message.worker),
                                 .bucket = Index(fields.bucket),
                                 .micro_batches_begin = fields.micro_batches.begin,
                                 .micro_batches_end = fields.micro_batches.end,
                                 .micro_batch_count = fields.micro_batch_count,
                                 .pushes = fields.pushes,
                                 .from_role = static_cast<uint8_t>(message.from.role),
                                 .to_role = static_cast<uint8_t>(message.to.role),
                                 .sender_role = static_cast<uint8_t>(sender.role),
                                 .spare = 0};
  header->assign(reinterpret_cast<const char*>(&compact), sizeof(compact));
}

absl::StatusOr<Received> DecodeLocal(absl::Span<const Buffer> frames, const FrameLimits& limits) {
  CompactHeader compact;
  uint32_t magic = 0;
  if (!frames.empty() && frames[0].size() >= sizeof(magic)) {
    std::memcpy(&magic, frames[0].data(), sizeof(magic));
  }
  if (magic != kCompactMagic) return Decode(frames, limits);
  if (frames[0].size() != sizeof(compact)) {
    return absl::InvalidArgumentError("a compact header of another size");
  }
  std::memcpy(&compact, frames[0].data(), sizeof(compact));
  if (compact.version != kCompactVersion || compact.final > 1 || compact.spare != 0) {
    return absl::InvalidArgumentError(
        "a compact header of another version: run the same release in every process");
  }
  const absl::Span<const Buffer> payload = frames.subspan(1);
  if (payload.size() > limits.payload_frames_max) {
    return absl::InvalidArgumentError("too many payload frames");
  }
  Received received;
  SOAP_ASSIGN_OR_RETURN(received.sender, AddressFrom(compact.sender_role, compact.sender_index));
  Message& message = received.message;
  message.type = static_cast<MessageType>(compact.type);
  SOAP_ASSIGN_OR_RETURN(message.from, AddressFrom(compact.from_role, compact.from_index));
  SOAP_ASSIGN_OR_RETURN(message.to, AddressFrom(compact.to_role, compact.to_index));
  message.session = compact.session;
  message.epoch = compact.epoch;
  message.worker = WorkerId{compact.worker};
  message.clock = compact.clock;
  message.body = BodyFrom(message.type, FieldsFrom(compact));
  message.payload.assign(payload.begin(), payload.end());
  SOAP_RETURN_IF_ERROR(ValidateSender(message.from, received.sender));
  SOAP_RETURN_IF_ERROR(Validate(message, limits));
  return received;
}

}  // namespace soapstone::wire
