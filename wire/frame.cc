#include "wire/frame.h"

#include <zlib.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "wire/frame.pb.h"
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

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;

const FieldDescriptor* FieldNamed(const ProtoMessage& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  CHECK(field != nullptr) << message.GetTypeName() << " of frame.proto has no field " << name;
  return field;
}

// A field of a flat body goes to its message, and comes from it, by its name.
class FlatFieldWriter {
 public:
  FlatFieldWriter(ProtoMessage* message, const char* name)
      : message_(message), field_(FieldNamed(*message, name)) {}

  void Set(bool x) const { reflection().SetBool(message_, field_, x); }
  void Set(int32_t x) const { reflection().SetInt32(message_, field_, x); }
  void Set(int64_t x) const { reflection().SetInt64(message_, field_, x); }
  void Set(uint32_t x) const { reflection().SetUInt32(message_, field_, x); }
  void Set(uint64_t x) const { reflection().SetUInt64(message_, field_, x); }
  void Set(double x) const { reflection().SetDouble(message_, field_, x); }
  void Set(const std::string& x) const { reflection().SetString(message_, field_, x); }

 private:
  const google::protobuf::Reflection& reflection() const { return *message_->GetReflection(); }
  ProtoMessage* message_;
  const FieldDescriptor* field_;
};

class FlatFieldReader {
 public:
  FlatFieldReader(const ProtoMessage& message, const char* name)
      : message_(message), field_(FieldNamed(message, name)) {}

  void Get(bool* x) const { *x = reflection().GetBool(message_, field_); }
  void Get(int32_t* x) const { *x = reflection().GetInt32(message_, field_); }
  void Get(int64_t* x) const { *x = reflection().GetInt64(message_, field_); }
  void Get(uint32_t* x) const { *x = reflection().GetUInt32(message_, field_); }
  void Get(uint64_t* x) const { *x = reflection().GetUInt64(message_, field_); }
  void Get(double* x) const { *x = reflection().GetDouble(message_, field_); }
  void Get(std::string* x) const { *x = reflection().GetString(message_, field_); }

 private:
  const google::protobuf::Reflection& reflection() const { return *message_.GetReflection(); }
  const ProtoMessage& message_;
  const FieldDescriptor* field_;
};

// Fills the oneof of a header.
struct BodyWriter {
  frame::Header* header;

  void operator()(const std::monostate&) const {}
  template <HeaderBody B>
  void operator()(const B&) const {}  // FillHeader's
  template <FlatBody B>
  void operator()(const B& body) const {
    ProtoMessage* out =
        header->GetReflection()->MutableMessage(header, FieldNamed(*header, B::kName));
    B::Fields([&](const char* name, auto field) { FlatFieldWriter(out, name).Set(body.*field); });
  }
  void operator()(const Hello& body) const {
    frame::Hello* out = header->mutable_hello();
    out->set_role(static_cast<uint32_t>(body.role));
    out->set_wanted_rank(body.wanted_rank);
    out->set_endpoint(body.endpoint);
    out->set_nonce(body.nonce);
    out->set_config_digest(body.config_digest);
    out->set_arithmetic(body.arithmetic);
  }
  void operator()(const Roster& body) const {
    frame::Roster* out = header->mutable_roster();
    for (const Member& member : body.workers) {
      frame::Member* entry = out->add_workers();
      entry->set_worker(Index(member.worker));
      entry->set_start(member.start);
      entry->set_admitted(member.admitted);
      entry->set_joining(member.joining);
      entry->set_original(member.original);
      entry->set_endpoint(member.endpoint);
    }
    for (const ServerEntry& server : body.servers) {
      frame::ServerEntry* entry = out->add_servers();
      entry->set_server(Index(server.server));
      entry->set_endpoint(server.endpoint);
    }
    out->set_worker_count(body.worker_count);
    out->set_shards_per_server(body.shards_per_server);
    for (const Shares& shares : body.shares) {
      frame::Shares* entry = out->add_shares();
      entry->set_from(shares.from);
      entry->mutable_micro_batches()->Add(shares.micro_batches.begin(), shares.micro_batches.end());
    }
    out->set_share_lead(body.share_lead);
  }
  void operator()(const Progress& body) const {
    frame::Progress* out = header->mutable_progress();
    out->set_clock(body.clock);
    out->set_samples(body.samples);
    out->set_loss_sum(body.loss_sum);
    out->set_pushed_bytes(body.pushed_bytes);
    out->set_pulled_bytes(body.pulled_bytes);
    out->set_compute_ns(body.compute_ns);
    out->set_blocked_ns(body.blocked_ns);
    out->set_rejects(body.rejects);
    out->mutable_read_lags()->Add(body.read_lags.begin(), body.read_lags.end());
    out->set_injected_ns(body.injected_ns);
    out->set_parked_ns(body.parked_ns);
    out->set_queued_ns(body.queued_ns);
    out->set_skipped(body.skipped);
    out->set_violations(body.violations);
    for (const LeftOut& left_out : body.left_out) {
      frame::LeftOut* entry = out->add_left_out();
      entry->set_tensor(left_out.tensor);
      entry->set_updates(left_out.updates);
      entry->set_first(left_out.first);
    }
    if (!body.waiting.has_value()) return;
    frame::Waiting* waiting = out->mutable_waiting();
    waiting->set_role(static_cast<uint32_t>(body.waiting->of.role));
    waiting->set_index(body.waiting->of.index);
    waiting->set_clock(body.waiting->clock);
    waiting->set_for_ns(body.waiting->for_ns);
    waiting->set_asked(body.waiting->asked);
  }
  void operator()(const Parcel& body) const {
    frame::Parcel* out = header->mutable_parcel();
    out->set_sequence(body.sequence);
    out->set_step(body.step);
    out->set_begin(body.begin);
    out->set_end(body.end);
    out->set_weight(body.weight);
    out->set_has_values(body.has_values);
    out->set_finished(body.finished);
  }
  void operator()(const WorkerSet& body) const {
    frame::WorkerSet* out = header->mutable_worker_set();
    for (const WorkerId worker : body.workers) out->add_workers(Index(worker));
  }
  void operator()(const LostLink& body) const {
    frame::LostLink* out = header->mutable_lost_link();
    out->set_other_role(static_cast<uint32_t>(body.other.role));
    out->set_other_index(body.other.index);
    out->set_why(body.why);
  }
};

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
  std::visit(BodyWriter{header}, message.body);
  for (const Buffer& buffer : message.payload) header->add_payload_bytes(buffer.size());
}

absl::StatusOr<Role> ReadRole(uint32_t number) {
  if (number > static_cast<uint32_t>(Role::kPeer)) {
    return absl::InvalidArgumentError(absl::StrCat("unknown role ", number));
  }
  return static_cast<Role>(number);
}

absl::StatusOr<Body> ReadHello(const frame::Hello& in) {
  Hello body;
  SOAP_ASSIGN_OR_RETURN(body.role, ReadRole(in.role()));
  body.wanted_rank = in.wanted_rank();
  body.endpoint = in.endpoint();
  body.nonce = in.nonce();
  body.config_digest = in.config_digest();
  body.arithmetic = in.arithmetic();
  return body;
}

Body ReadRoster(const frame::Roster& in) {
  Roster body;
  body.workers.Mutable().reserve(in.workers_size());
  for (const frame::Member& entry : in.workers()) {
    body.workers.push_back({.worker = WorkerId{entry.worker()},
                            .start = entry.start(),
                            .admitted = entry.admitted(),
                            .joining = entry.joining(),
                            .original = entry.original(),
                            .endpoint = entry.endpoint()});
  }
  body.servers.reserve(in.servers_size());
  for (const frame::ServerEntry& entry : in.servers()) {
    body.servers.push_back({.server = ServerId{entry.server()}, .endpoint = entry.endpoint()});
  }
  body.worker_count = in.worker_count();
  body.shards_per_server = in.shards_per_server();
  if (in.shares_size() > 0) body.shares.Mutable().reserve(in.shares_size());
  for (const frame::Shares& entry : in.shares()) {
    body.shares.push_back(
        {.from = entry.from(),
         .micro_batches = {entry.micro_batches().begin(), entry.micro_batches().end()}});
  }
  body.share_lead = in.share_lead();
  return body;
}

std::optional<Waiting> ReadWaiting(const frame::Progress& in) {
  if (!in.has_waiting()) return std::nullopt;
  const frame::Waiting& waiting = in.waiting();
  const bool known = waiting.role() <= static_cast<uint32_t>(Role::kPeer);
  return Waiting{.of = {known ? static_cast<Role>(waiting.role()) : Role::kNone, waiting.index()},
                 .clock = waiting.clock(),
                 .for_ns = waiting.for_ns(),
                 .asked = waiting.asked()};
}

Body ReadProgress(const frame::Progress& in) {
  std::vector<LeftOut> left_out;
  for (const frame::LeftOut& entry : in.left_out()) {
    left_out.push_back(
        {.tensor = entry.tensor(), .updates = entry.updates(), .first = entry.first()});
  }
  return Progress{.clock = in.clock(),
                  .samples = in.samples(),
                  .loss_sum = in.loss_sum(),
                  .pushed_bytes = in.pushed_bytes(),
                  .pulled_bytes = in.pulled_bytes(),
                  .compute_ns = in.compute_ns(),
                  .blocked_ns = in.blocked_ns(),
                  .rejects = in.rejects(),
                  .read_lags = {in.read_lags().begin(), in.read_lags().end()},
                  .injected_ns = in.injected_ns(),
                  .parked_ns = in.parked_ns(),
                  .queued_ns = in.queued_ns(),
                  .skipped = in.skipped(),
                  .left_out = std::move(left_out),
                  .waiting = ReadWaiting(in),
                  .violations = in.violations()};
}

// `body` where its message is the header's.
template <class B>
void ReadIfThere(const frame::Header& header, const FieldDescriptor* there, Body* body) {
  if constexpr (FlatBody<B>) {
    if (there != FieldNamed(header, B::kName)) return;
    const ProtoMessage& in = header.GetReflection()->GetMessage(header, there);
    B flat;
    B::Fields([&](const char* name, auto field) { FlatFieldReader(in, name).Get(&(flat.*field)); });
    *body = std::move(flat);
  }
}

template <class... Bodies>
Body ReadFlat(const frame::Header& header, const std::variant<Bodies...>* /*all*/) {
  const FieldDescriptor* there =
      header.GetDescriptor()->FindFieldByNumber(static_cast<int>(header.body_case()));
  Body body;
  (ReadIfThere<Bodies>(header, there, &body), ...);
  return body;
}

absl::StatusOr<Body> ReadBody(const frame::Header& header) {
  switch (header.body_case()) {
    case frame::Header::kHello:
      return ReadHello(header.hello());
    case frame::Header::kRoster:
      return ReadRoster(header.roster());
    case frame::Header::kProgress:
      return ReadProgress(header.progress());
    case frame::Header::kLostLink: {
      const frame::LostLink& in = header.lost_link();
      if (in.other_role() > static_cast<uint32_t>(Role::kPeer)) break;
      return LostLink{{static_cast<Role>(in.other_role()), in.other_index()}, in.why()};
    }
    case frame::Header::kParcel: {
      const frame::Parcel& in = header.parcel();
      return Parcel{.sequence = in.sequence(),
                    .step = in.step(),
                    .begin = in.begin(),
                    .end = in.end(),
                    .weight = in.weight(),
                    .has_values = in.has_values(),
                    .finished = in.finished()};
    }
    case frame::Header::kWorkerSet: {
      WorkerSet body;
      for (const uint32_t worker : header.worker_set().workers()) {
        body.workers.push_back(WorkerId{worker});
      }
      return body;
    }
    case frame::Header::BODY_NOT_SET:
      break;
    default:
      return ReadFlat(header, static_cast<const Body*>(nullptr));
  }
  return Body{};
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
