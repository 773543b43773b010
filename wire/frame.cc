#include "wire/frame.h"

#include <zlib.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "wire/frame.pb.h"
#include "wire/frame_bodies.h"
#include "wire/header_fields.h"

namespace soapstone::wire {
namespace {

void StoreLittle(uint64_t value, int bytes, char* at) {
  for (int i = 0; i < bytes; ++i) at[i] = static_cast<char>(value >> (8 * i));
}

uint32_t LoadLittle(const std::byte* at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(at[i]) << (8 * i);
  return value;
}

uint32_t Crc(const void* data, size_t size) {
  return static_cast<uint32_t>(crc32_z(0, static_cast<const Bytef*>(data), size));
}

void FillHeader(const Message& message, Address sender, frame::Header* header) {
  header->set_type(static_cast<uint32_t>(message.type));
  header->set_from_role(static_cast<uint32_t>(message.from.role));
  header->set_from_index(message.from.index);
  header->set_to_role(static_cast<uint32_t>(message.to.role));
  header->set_to_index(message.to.index);
  header->set_sender_role(static_cast<uint32_t>(sender.role));
  header->set_sender_index(sender.index);
  header->set_session(message.session);
  header->set_epoch(message.epoch);
  header->set_worker(Index(message.worker));
  header->set_clock(message.clock);
  const HeaderFields fields = HeaderFieldsOf(message);
  header->set_bucket(Index(fields.bucket));
  header->set_micro_batches_begin(fields.micro_batches.begin);
  header->set_micro_batches_end(fields.micro_batches.end);
  header->set_micro_batch_count(fields.micro_batch_count);
  header->set_samples(fields.samples);
  header->set_batch_samples(fields.batch_samples);
  header->set_pushes(fields.pushes);
  header->set_oldest(fields.oldest);
  header->set_version(fields.version);
  header->set_checksum(fields.checksum);
  header->set_final(fields.final);
  header->set_parked_ns(fields.parked_ns);
  header->set_queued_ns(fields.queued_ns);
  WriteBody(message.body, header);
  for (const Buffer& buffer : message.payload) header->add_payload_bytes(buffer.size());
}

HeaderFields FieldsFrom(const frame::Header& header) {
  return {.bucket = BucketId{header.bucket()},
          .micro_batches = {header.micro_batches_begin(), header.micro_batches_end()},
          .micro_batch_count = header.micro_batch_count(),
          .samples = header.samples(),
          .batch_samples = header.batch_samples(),
          .pushes = header.pushes(),
          .oldest = header.oldest(),
          .version = header.version(),
          .checksum = header.checksum(),
          .final = header.final(),
          .parked_ns = header.parked_ns(),
          .queued_ns = header.queued_ns()};
}

absl::StatusOr<Received> FromHeader(const frame::Header& header) {
  if (header.type() > std::numeric_limits<uint8_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("unknown message type ", header.type()));
  }
  Received received;
  SOAP_ASSIGN_OR_RETURN(received.sender.role, ReadRole(header.sender_role()));
  received.sender.index = header.sender_index();
  Message& message = received.message;
  message.type = static_cast<MessageType>(header.type());
  SOAP_ASSIGN_OR_RETURN(message.from.role, ReadRole(header.from_role()));
  message.from.index = header.from_index();
  SOAP_ASSIGN_OR_RETURN(message.to.role, ReadRole(header.to_role()));
  message.to.index = header.to_index();
  message.session = header.session();
  message.epoch = header.epoch();
  message.worker = WorkerId{header.worker()};
  message.clock = header.clock();
  const HeaderFields fields = FieldsFrom(header);
  if (header.body_case() == frame::Header::BODY_NOT_SET) {
    message.body = BodyFrom(message.type, fields);
    return received;
  }
  SOAP_ASSIGN_OR_RETURN(message.body, ReadBody(header));
  TakeHeaderFields(fields, &message.body);
  return received;
}

// The protobuf bytes of frame 0, after every check that needs no parsing.
absl::StatusOr<absl::Span<const std::byte>> CheckPrefix(const Buffer& frame,
                                                        const FrameLimits& limits) {
  if (frame.size() < kFramePrefixBytes) return absl::InvalidArgumentError("frame 0 too short");
  const std::byte* at = frame.data();
  if (LoadLittle(at, 4) != kFrameMagic) return absl::InvalidArgumentError("not a Soapstone frame");
  if (const uint32_t version = LoadLittle(at + 4, 2); version != kFrameVersion) {
    return absl::InvalidArgumentError(absl::StrCat("frame version ", version, ", this program has ",
                                                   kFrameVersion,
                                                   ": run the same release on every machine"));
  }
  if (LoadLittle(at + 6, 2) != 0) return absl::InvalidArgumentError("unknown frame flags");
  const size_t header_bytes = frame.size() - kFramePrefixBytes;
  if (LoadLittle(at + 8, 4) != header_bytes) {
    return absl::InvalidArgumentError("header length differs from the frame's");
  }
  if (header_bytes > limits.header_bytes_max) return absl::InvalidArgumentError("header too large");
  const std::byte* header = at + kFramePrefixBytes;
  if (LoadLittle(at + 12, 4) != Crc(header, header_bytes)) {
    return absl::InvalidArgumentError("header checksum differs");
  }
  return absl::MakeConstSpan(header, header_bytes);
}

absl::Status CheckPayloadFrames(const frame::Header& header, absl::Span<const Buffer> payload) {
  if (static_cast<size_t>(header.payload_bytes_size()) != payload.size()) {
    return absl::InvalidArgumentError("number of payload frames differs from the header's");
  }
  for (size_t i = 0; i < payload.size(); ++i) {
    if (header.payload_bytes(static_cast<int>(i)) != payload[i].size()) {
      return absl::InvalidArgumentError("payload frame's size differs from the header's");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeHeader(const Message& message, Address sender) {
  frame::Header header;
  FillHeader(message, sender, &header);
  const size_t header_bytes = header.ByteSizeLong();
  CHECK_LE(header_bytes, size_t{std::numeric_limits<int32_t>::max()});
  std::string out(kFramePrefixBytes + header_bytes, '\0');
  CHECK(header.SerializeToArray(out.data() + kFramePrefixBytes, static_cast<int>(header_bytes)));
  StoreLittle(kFrameMagic, 4, out.data());
  StoreLittle(kFrameVersion, 2, out.data() + 4);
  StoreLittle(0, 2, out.data() + 6);
  StoreLittle(header_bytes, 4, out.data() + 8);
  StoreLittle(Crc(out.data() + kFramePrefixBytes, header_bytes), 4, out.data() + 12);
  return out;
}

absl::StatusOr<Received> Decode(absl::Span<const Buffer> frames, const FrameLimits& limits) {
  if (frames.empty()) return absl::InvalidArgumentError("no frames");
  const absl::Span<const Buffer> payload = frames.subspan(1);
  if (payload.size() > limits.payload_frames_max) {
    return absl::InvalidArgumentError("too many payload frames");
  }
  SOAP_ASSIGN_OR_RETURN(const absl::Span<const std::byte> bytes, CheckPrefix(frames[0], limits));
  frame::Header header;
  if (!header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("header is not a protobuf of ours");
  }
  SOAP_RETURN_IF_ERROR(CheckPayloadFrames(header, payload));
  SOAP_ASSIGN_OR_RETURN(Received received, FromHeader(header));
  received.message.payload.assign(payload.begin(), payload.end());
  SOAP_RETURN_IF_ERROR(ValidateSender(received.message.from, received.sender));
  SOAP_RETURN_IF_ERROR(Validate(received.message, limits));
  return received;
}

}  // namespace soapstone::wire
