#include "wire/frame_bodies.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::wire {
namespace {

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
    out->set_key(body.key);
    out->set_host(body.host);
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
      entry->set_key(member.key);
    }
    for (const ServerEntry& server : body.servers) {
      frame::ServerEntry* entry = out->add_servers();
      entry->set_server(Index(server.server));
      entry->set_endpoint(server.endpoint);
      entry->set_key(server.key);
    }
    out->set_worker_count(body.worker_count);
    out->set_shards_per_server(body.shards_per_server);
    for (const Shares& shares : body.shares) {
      frame::Shares* entry = out->add_shares();
      entry->set_from(shares.from);
      entry->mutable_micro_batches()->Add(shares.micro_batches.begin(), shares.micro_batches.end());
    }
    out->set_share_lead(body.share_lead);
    for (const Chain& chain : body.chains) {
      frame::Chain* entry = out->add_chains();
      for (const Link& link : chain.links) {
        entry->add_servers(Index(link.server));
        entry->add_since(link.since);
      }
    }
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
  void operator()(const ServerProgress& body) const {
    frame::ServerProgress* out = header->mutable_server_progress();
    for (const ShardReads& shard : body.shards) {
      frame::ShardReads* entry = out->add_shards();
      entry->set_shard(Index(shard.shard));
      entry->set_frontier(shard.frontier);
      entry->set_reader_count(shard.reader_count);
      entry->set_parked_count(shard.parked_count);
      for (const ReaderState& reader : shard.readers) {
        entry->add_workers(Index(reader.worker));
        entry->add_clocks(reader.clock);
        entry->add_reads(reader.reads);
        entry->add_lag_sums(reader.lag_sum);
        entry->add_lag_maxima(reader.lag_max);
        entry->add_parked_ms(reader.parked_ms);
      }
    }
  }
  void operator()(const LostLink& body) const {
    frame::LostLink* out = header->mutable_lost_link();
    out->set_other_role(static_cast<uint32_t>(body.other.role));
    out->set_other_index(body.other.index);
    out->set_why(body.why);
  }
};

absl::StatusOr<Body> ReadHello(const frame::Hello& in) {
  Hello body;
  SOAP_ASSIGN_OR_RETURN(body.role, ReadRole(in.role()));
  body.wanted_rank = in.wanted_rank();
  body.endpoint = in.endpoint();
  body.nonce = in.nonce();
  body.config_digest = in.config_digest();
  body.arithmetic = in.arithmetic();
  body.key = in.key();
  body.host = in.host();
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
                            .endpoint = entry.endpoint(),
                            .key = entry.key()});
  }
  body.servers.reserve(in.servers_size());
  for (const frame::ServerEntry& entry : in.servers()) {
    body.servers.push_back(
        {.server = ServerId{entry.server()}, .endpoint = entry.endpoint(), .key = entry.key()});
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
  for (const frame::Chain& entry : in.chains()) {
    Chain chain;
    for (int i = 0; i < std::min(entry.servers_size(), entry.since_size()); ++i) {
      chain.links.push_back({.server = ServerId{entry.servers(i)}, .since = entry.since(i)});
    }
    body.chains.push_back(std::move(chain));
  }
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

// Nothing is made of lists that Validate would refuse for their length, or that are not of one.
absl::StatusOr<Body> ReadServerProgress(const frame::ServerProgress& in) {
  if (static_cast<size_t>(in.shards_size()) > ServerProgress::kShardsMax) {
    return absl::InvalidArgumentError("server progress: too many shards");
  }
  ServerProgress body;
  for (const frame::ShardReads& entry : in.shards()) {
    const int readers = entry.workers_size();
    if (static_cast<size_t>(readers) > ShardReads::kReadersMax || entry.clocks_size() != readers ||
        entry.reads_size() != readers || entry.lag_sums_size() != readers ||
        entry.lag_maxima_size() != readers || entry.parked_ms_size() != readers) {
      return absl::InvalidArgumentError("server progress: too many readers, or lists that differ");
    }
    ShardReads& shard = body.shards.emplace_back(ShardReads{.shard = ShardId{entry.shard()},
                                                            .frontier = entry.frontier(),
                                                            .reader_count = entry.reader_count(),
                                                            .parked_count = entry.parked_count()});
    for (int i = 0; i < readers; ++i) {
      shard.readers.push_back({.worker = WorkerId{entry.workers(i)},
                               .clock = entry.clocks(i),
                               .reads = entry.reads(i),
                               .lag_sum = entry.lag_sums(i),
                               .lag_max = entry.lag_maxima(i),
                               .parked_ms = entry.parked_ms(i)});
    }
  }
  return body;
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

}  // namespace

void WriteBody(const Body& body, frame::Header* header) { std::visit(BodyWriter{header}, body); }

absl::StatusOr<Role> ReadRole(uint32_t number) {
  if (number > static_cast<uint32_t>(Role::kPeer)) {
    return absl::InvalidArgumentError(absl::StrCat("unknown role ", number));
  }
  return static_cast<Role>(number);
}

absl::StatusOr<Body> ReadBody(const frame::Header& header) {
  switch (header.body_case()) {
    case frame::Header::kHello:
      return ReadHello(header.hello());
    case frame::Header::kRoster:
      return ReadRoster(header.roster());
    case frame::Header::kProgress:
      return ReadProgress(header.progress());
    case frame::Header::kServerProgress:
      return ReadServerProgress(header.server_progress());
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

}  // namespace soapstone::wire
