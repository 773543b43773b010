#include "wire/message.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/frame_sums.h"
#include "glog/logging.h"
#include "wire/header_fields.h"

namespace soapstone::wire {
namespace {

const char* RoleName(Role role) {
  switch (role) {
    case Role::kNone:
      return "none";
    case Role::kScheduler:
      return "scheduler";
    case Role::kServer:
      return "server";
    case Role::kWorker:
      return "worker";
    case Role::kShard:
      return "shard";
    case Role::kPeer:
      return "peer";
  }
  return "?";
}

void AddField(double x, Fingerprint* f) { f->Add(std::bit_cast<uint64_t>(x)); }
void AddField(const std::string& x, Fingerprint* f) { f->Add(x); }
template <std::integral Number>
void AddField(Number x, Fingerprint* f) {
  f->Add(x);
}

void AddAddress(Address address, Fingerprint* f) {
  f->Add(address.role);
  f->Add(address.index);
}

// Adds every field.
struct BodyAdder {
  Fingerprint* f;

  void operator()(const std::monostate&) const {}
  template <HeaderBody B>
  void operator()(const B&) const {}  // added with the header's
  template <FlatBody B>
  void operator()(const B& body) const {
    B::Fields([&](const char*, auto field) { AddField(body.*field, f); });
  }
  void operator()(const Hello& body) const {
    f->Add(body.role);
    f->Add(body.wanted_rank);
    f->Add(body.endpoint);
    f->Add(body.nonce);
    f->Add(body.config_digest);
    f->Add(body.arithmetic);
    f->Add(body.key);
    f->Add(body.host);
  }
  void operator()(const Roster& body) const {
    f->Add(body.workers.size());
    for (const Member& member : body.workers) {
      f->Add(member.worker);
      f->Add(member.start);
      f->Add(member.admitted);
      f->Add(member.joining);
      f->Add(member.original);
      f->Add(member.endpoint);
      f->Add(member.key);
    }
    f->Add(body.servers.size());
    for (const ServerEntry& entry : body.servers) {
      f->Add(entry.server);
      f->Add(entry.endpoint);
      f->Add(entry.key);
    }
    f->Add(body.worker_count);
    f->Add(body.shards_per_server);
    f->Add(body.shares.size());
    for (const Shares& shares : body.shares) {
      f->Add(shares.from);
      for (uint32_t micro_batches : shares.micro_batches) f->Add(micro_batches);
    }
    f->Add(body.share_lead);
    f->Add(body.chains.size());
    for (const Chain& chain : body.chains) {
      f->Add(chain.links.size());
      for (const Link& link : chain.links) {
        f->Add(link.server);
        f->Add(link.since);
      }
    }
  }
  void operator()(const Progress& body) const {
    f->Add(body.clock);
    f->Add(body.samples);
    AddField(body.loss_sum, f);
    f->Add(body.pushed_bytes);
    f->Add(body.pulled_bytes);
    f->Add(body.compute_ns);
    f->Add(body.blocked_ns);
    f->Add(body.rejects);
    f->Add(body.read_lags.size());
    for (uint64_t count : body.read_lags) f->Add(count);
    f->Add(body.injected_ns);
    f->Add(body.parked_ns);
    f->Add(body.queued_ns);
    f->Add(body.skipped);
    f->Add(body.left_out.size());
    for (const LeftOut& left_out : body.left_out) {
      f->Add(left_out.tensor);
      f->Add(left_out.updates);
      f->Add(left_out.first);
    }
    // Not `violations`: the node counts them beside its engine, which a replay has alone.
    f->Add(body.waiting.has_value());
    if (!body.waiting.has_value()) return;
    AddAddress(body.waiting->of, f);
    f->Add(body.waiting->clock);
    f->Add(body.waiting->for_ns);
    f->Add(body.waiting->asked);
  }
  void operator()(const LostLink& body) const {
    f->Add(body.other.role);
    f->Add(body.other.index);
    f->Add(body.why);
  }
  void operator()(const Parcel& body) const {
    f->Add(body.sequence);
    f->Add(body.step);
    f->Add(body.begin);
    f->Add(body.end);
    AddField(body.weight, f);
    f->Add(uint32_t{body.has_values} | uint32_t{body.finished} << 1);
  }
  void operator()(const WorkerSet& body) const {
    f->Add(body.workers.size());
    for (const WorkerId worker : body.workers) f->Add(worker);
  }
  void operator()(const ServerProgress& body) const {
    f->Add(body.shards.size());
    for (const ShardReads& shard : body.shards) {
      f->Add(shard.shard);
      f->Add(shard.frontier);
      f->Add(shard.reader_count);
      f->Add(shard.parked_count);
      f->Add(shard.readers.size());
      for (const ReaderState& reader : shard.readers) {
        f->Add(reader.worker);
        f->Add(reader.clock);
        f->Add(reader.reads);
        f->Add(reader.lag_sum);
        f->Add(reader.lag_max);
        f->Add(reader.parked_ms);
      }
    }
  }
};

// What a reader of a log looks for in a body; of a flat one that has no text of its own, all.
struct BodyText {
  std::string operator()(const std::monostate&) const { return ""; }
  template <HeaderBody B>
  std::string operator()(const B&) const {
    return "";
  }
  std::string operator()(const Push& body) const {
    return absl::StrCat(" bucket ", Index(body.bucket), " leaves [", body.micro_batches.begin, ",",
                        body.micro_batches.end, ")");
  }
  template <FlatBody B>
  std::string operator()(const B& body) const {
    std::string text;
    B::Fields(
        [&](const char* name, auto field) { absl::StrAppend(&text, " ", name, " ", body.*field); });
    return text;
  }
  std::string operator()(const Hello& body) const {
    return absl::StrCat(" wants ", RoleName(body.role), " ", body.wanted_rank, " at '",
                        body.endpoint, "'");
  }
  std::string operator()(const Welcome& body) const { return absl::StrCat(" rank ", body.rank); }
  std::string operator()(const Roster& body) const {
    return absl::StrCat(" ", body.workers.size(), " workers ", body.servers.size(), " servers");
  }
  std::string operator()(const Progress& body) const {
    return absl::StrCat(" at clock ", body.clock, " samples ", body.samples,
                        body.waiting.has_value() ? " waits " + ToString(*body.waiting) : "");
  }
  std::string operator()(const SlowWork& body) const {
    return absl::StrCat(" ", body.done_bytes, " of ", body.total_bytes, " bytes");
  }
  std::string operator()(const Evaluation& body) const {
    return absl::StrCat(" correct ", body.correct, "/", body.samples);
  }
  std::string operator()(const Saved& body) const { return absl::StrCat(" '", body.path, "'"); }
  std::string operator()(const Notice& body) const {
    return absl::StrCat(" code ", body.code, " '", body.text, "'");
  }
  std::string operator()(const LostLink& body) const {
    return absl::StrCat(" to ", body.other.ToString(), " '", body.why, "'");
  }
  std::string operator()(const Parcel& body) const {
    return absl::StrCat(" step ", body.step, " [", body.begin, ",", body.end, ")",
                        body.has_values ? " has values" : "", body.finished ? " finished" : "");
  }
  std::string operator()(const WorkerSet& body) const {
    return absl::StrCat(" ", body.workers.size(), " workers");
  }
  std::string operator()(const ServerProgress& body) const {
    return absl::StrCat(" reads of ", body.shards.size(), " shards");
  }
  std::string operator()(const Written& body) const {
    return absl::StrCat(" ", body.bytes, " bytes, frontier ", body.frontier, " '", body.error, "'");
  }
  std::string operator()(const NotFinite& body) const {
    return absl::StrCat(body.parameters ? " parameters '" : " gradient '", body.tensor,
                        "' of worker ", body.worker);
  }
};

}  // namespace

std::string Address::ToString() const {
  if (*this == Scheduler()) return "scheduler";
  return absl::StrCat(RoleName(role), "-", index);
}

void Message::AddTo(Fingerprint* f) const {
  f->Add(type);
  AddAddress(from, f);
  AddAddress(to, f);
  f->Add(session);
  f->Add(epoch);
  f->Add(worker);
  f->Add(clock);
  const HeaderFields fields = HeaderFieldsOf(*this);
  f->Add(fields.bucket);
  f->Add(fields.micro_batches.begin);
  f->Add(fields.micro_batches.end);
  f->Add(fields.micro_batch_count);
  f->Add(fields.samples);
  f->Add(fields.batch_samples);
  f->Add(fields.pushes);
  f->Add(fields.oldest);
  f->Add(fields.version);
  f->Add(fields.checksum);
  f->Add(fields.final);
  f->Add(fields.parked_ns);
  f->Add(fields.queued_ns);
  f->Add(IsInHeader(body) ? size_t{0} : body.index());  // what is there is said already
  std::visit(BodyAdder{f}, body);
  f->Add(payload.size());
  for (const Buffer& buffer : payload) {
    f->Add(std::string_view(reinterpret_cast<const char*>(buffer.data()), buffer.size()));
  }
}

std::string ToString(const Waiting& waiting) {
  if (waiting.of.role == Role::kWorker) {
    return absl::StrFormat("%.1f s for %s: a block of clock %d",
                           static_cast<double>(waiting.for_ns) / kSecond, waiting.of.ToString(),
                           waiting.clock);
  }
  return absl::StrFormat("%.1f s for %s: values of clock %d, asked for again %d times",
                         static_cast<double>(waiting.for_ns) / kSecond, waiting.of.ToString(),
                         waiting.clock, waiting.asked);
}

void Progress::Add(const Progress& other) {
  samples += other.samples;
  loss_sum += other.loss_sum;
  pushed_bytes += other.pushed_bytes;
  pulled_bytes += other.pulled_bytes;
  compute_ns += other.compute_ns;
  blocked_ns += other.blocked_ns;
  rejects += other.rejects;
  if (read_lags.size() < other.read_lags.size()) read_lags.resize(other.read_lags.size());
  for (size_t i = 0; i < other.read_lags.size(); ++i) read_lags[i] += other.read_lags[i];
  injected_ns += other.injected_ns;
  parked_ns += other.parked_ns;
  queued_ns += other.queued_ns;
  skipped += other.skipped;
  violations += other.violations;
  for (const LeftOut& entry : other.left_out) LeaveOut(entry.tensor, entry.first, entry.updates);
}

void Progress::LeaveOut(const std::string& tensor, Clock clock, uint64_t updates) {
  auto entry = std::find_if(left_out.begin(), left_out.end(),
                            [&](const LeftOut& known) { return known.tensor == tensor; });
  if (entry == left_out.end() && left_out.size() < kLeftOutMax) {
    left_out.push_back({.tensor = tensor, .first = clock});
    entry = std::prev(left_out.end());
  } else if (entry == left_out.end()) {
    entry = std::prev(left_out.end());
  }
  entry->updates += updates;
  entry->first = std::min(entry->first, clock);
}

bool operator==(const Message& a, const Message& b) {
  const auto fields = [](const Message& m) {
    return std::tie(m.type, m.from, m.to, m.session, m.epoch, m.worker, m.clock, m.body, m.payload);
  };
  return fields(a) == fields(b);
}

void DieOfBody(const Message& message) {
  LOG(FATAL) << "a message whose body (" << message.body.index()
             << ") is another type's: " << ToString(message);
}

uint64_t Message::payload_bytes() const {
  uint64_t bytes = 0;
  for (const Buffer& buffer : payload) bytes += buffer.size();
  return bytes;
}

uint64_t SumOf(const Buffers& frames, absl::Span<const size_t> row_bytes) {
  FrameSums all;
  const size_t tensors = frames.size() - std::min(frames.size(), row_bytes.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    const Buffer& frame = frames[i];
    if (i < tensors) {
      all.Add(ContentSum(frame.data(), frame.size()));
      continue;
    }
    const size_t row = row_bytes[i - tensors];
    for (size_t at = 0; at < frame.size(); at += row) {
      all.Add(ContentSum(frame.data() + at, std::min(row, frame.size() - at)));
    }
  }
  return all.value();
}

std::string ToString(const Message& message) {
  std::string text = absl::StrCat(NameOf(message.type), " ", message.from.ToString(), " -> ",
                                  message.to.ToString());
  if (message.clock != kNoClock) absl::StrAppend(&text, " clock ", message.clock);
  absl::StrAppend(&text, std::visit(BodyText{}, message.body));
  return text;
}

}  // namespace soapstone::wire
