#include "cluster/recording_format.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/fingerprint.h"
#include "wire/header_fields.h"

namespace soapstone::sim {
namespace {

using wire::Message;
using wire::MessageType;

constexpr size_t kWordsOfABuffer = 8;

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
uint64_t Join(MicroBatchRange halves) { return uint64_t{halves.end} << 32 | halves.begin; }

// The scheduler compares arithmetics and nothing else: 32 bits that stand for one serve as well.
constexpr char kRecordedArithmetic[] = "recorded arithmetic ";
uint32_t StandInFor(absl::string_view arithmetic) {
  if (arithmetic.empty()) return 0;
  uint32_t recorded = 0;  // of one that has been recorded already
  if (absl::ConsumePrefix(&arithmetic, kRecordedArithmetic) &&
      absl::SimpleAtoi(arithmetic, &recorded)) {
    return recorded;
  }
  Fingerprint f;
  f.Add(std::string_view(arithmetic.data(), arithmetic.size()));
  return std::max(Low(f.value().first), 1u);
}
std::string ArithmeticOf(uint32_t stand_in) {
  return stand_in == 0 ? "" : absl::StrCat(kRecordedArithmetic, stand_in);
}

// Words at even distances, the first and the last among them.
void AddSample(const Buffer& buffer, Fingerprint* f) {
  f->Add(buffer.size());
  const size_t words = buffer.size() / sizeof(uint64_t);
  const size_t looked_at = std::min(words, kWordsOfABuffer);
  for (size_t i = 0; i < looked_at; ++i) {
    const size_t at = looked_at == 1 ? 0 : i * (words - 1) / (looked_at - 1);
    uint64_t word = 0;
    std::memcpy(&word, buffer.data() + at * sizeof(word), sizeof(word));
    f->AddWord(word);
  }
}

void AddBody(const wire::Body& body, Fingerprint* f) {
  if (const auto* progress = std::get_if<wire::Progress>(&body)) {
    f->Add(progress->clock);
    f->Add(progress->samples);
    f->AddWord(std::bit_cast<uint64_t>(progress->loss_sum));
    f->Add(progress->compute_ns);
    f->Add(progress->blocked_ns);
  } else if (const auto* evaluation = std::get_if<wire::Evaluation>(&body)) {
    f->AddWord(std::bit_cast<uint64_t>(evaluation->correct));
    f->AddWord(std::bit_cast<uint64_t>(evaluation->loss_sum));
  } else if (const auto* saved = std::get_if<wire::Saved>(&body)) {
    f->Add(saved->sha256);
  } else if (const auto* parcel = std::get_if<wire::Parcel>(&body)) {
    f->Add(parcel->sequence);
    f->Add(parcel->step);
    f->Add(parcel->begin);
    f->Add(parcel->end);
    f->AddWord(std::bit_cast<uint64_t>(parcel->weight));
  } else if (const auto* odd = std::get_if<wire::NotFinite>(&body)) {
    f->Add(odd->worker);
    f->Add(odd->parameters);
    f->Add(odd->tensor);
  } else if (const auto* set = std::get_if<wire::WorkerSet>(&body)) {
    for (const WorkerId worker : set->workers) f->Add(worker);
  }
}

// A heartbeat of a server: of those that have slow work in hand the event keeps it.
bool IsOfServer(const RecordedEvent& event) {
  return event.type == MessageType::kHeartbeat && event.role == wire::Role::kServer;
}

// What tells a message apart from others of its type, sender and clock.
wire::HeaderFields NamesOf(const Message& message) {
  wire::HeaderFields fields = wire::HeaderFieldsOf(message);
  // A shard says it of each worker in turn.
  if (message.type == MessageType::kHeld) {
    fields.micro_batches = {Index(message.worker), Index(message.worker) + 1};
  }
  return fields;
}

}  // namespace

std::string EventsFileName(wire::Address actor, uint32_t instance) {
  if (instance == 1) return absl::StrCat(actor.ToString(), kEventsSuffix);
  return absl::StrCat(actor.ToString(), ".", instance, kEventsSuffix);
}

RecordedEvent EventOf(Nanos now, const Message& message) {
  const wire::HeaderFields named = NamesOf(message);
  RecordedEvent event = {.kind = EventKind::kMessage,
                         .type = message.type,
                         .role = message.from.role,
                         .final = named.final,
                         .index = message.from.index,
                         .now = now,
                         .clock = message.clock,
                         .epoch = Low(message.epoch),
                         .bucket = Index(named.bucket),
                         .micro_batches = named.micro_batches};
  if (const auto* hello = std::get_if<wire::Hello>(&message.body)) {
    event.clock = hello->wanted_rank;
    event.check = hello->nonce;
    event.bucket = static_cast<uint32_t>(hello->role);
    event.micro_batches = {Low(hello->config_digest), High(hello->config_digest)};
    event.epoch = StandInFor(hello->arithmetic);
  } else if (const auto* work = std::get_if<wire::SlowWork>(&message.body)) {
    event.clock = static_cast<Clock>(work->done_bytes);
    event.check = work->total_bytes;
  } else if (const auto* bound = std::get_if<wire::Bound>(&message.body)) {
    event.check = bound->number;
  } else {
    event.check = ContentOf(message);
  }
  return event;
}

RecordedEvent EventOf(Nanos now, const worker::DeviceEvent& event) {
  return {.kind = EventKind::kDevice,
          .now = now,
          .clock = event.compute_ns,
          .check = static_cast<uint64_t>(event.injected_ns),
          .epoch = event.instruction,
          .bucket = CheckOf(event.frames),
          .micro_batches = {Low(event.run), High(event.run)}};
}

RecordedEvent ToldEvent(Nanos now, const Message& message) {
  RecordedEvent event = EventOf(now, message);
  event.kind = EventKind::kTold;
  return event;
}

Message MessageOf(const RecordedEvent& event, wire::Address to) {
  Message message;
  message.type = event.type;
  message.from = event.from();
  message.to = to;
  message.epoch = event.epoch;
  if (event.type == MessageType::kHello) {
    message.body = wire::Hello{.role = static_cast<wire::Role>(event.bucket),
                               .wanted_rank = event.clock,
                               .nonce = event.check,
                               .config_digest = Join(event.micro_batches),
                               .arithmetic = ArithmeticOf(event.epoch)};
    message.epoch = 0;
    return message;
  }
  if (IsOfServer(event) && event.clock != kNoClock) {
    message.body = wire::SlowWork{.done_bytes = static_cast<uint64_t>(event.clock),
                                  .total_bytes = event.check};
    return message;
  }
  message.clock = event.clock;
  if (event.type == MessageType::kBound) {
    message.body = wire::Bound{.number = Low(event.check)};
    return message;
  }
  message.body = wire::BodyFrom(event.type, {.bucket = BucketId{event.bucket},
                                             .micro_batches = event.micro_batches,
                                             .final = event.final != 0});
  return message;
}

// In recordings of before, a Reject's event has the bucket that was refused.
bool IsNamed(const RecordedEvent& event, const Message& message) {
  const wire::HeaderFields named = NamesOf(message);
  return event.type == message.type && event.from() == message.from &&
         event.epoch == Low(message.epoch) && event.clock == message.clock &&
         (event.bucket == Index(named.bucket) || event.type == MessageType::kReject) &&
         event.micro_batches == named.micro_batches && (event.final != 0) == named.final;
}

uint64_t RunOf(const RecordedEvent& device_event) { return Join(device_event.micro_batches); }

uint64_t ContentOf(const Message& message) {
  const wire::HeaderFields fields = wire::HeaderFieldsOf(message);
  Fingerprint f;
  f.Add(message.worker);
  f.Add(fields.micro_batch_count);
  f.Add(fields.samples);
  f.Add(fields.batch_samples);
  f.Add(fields.pushes);
  f.Add(fields.oldest);
  AddBody(message.body, &f);
  f.Add(message.payload.size());
  for (const Buffer& buffer : message.payload) AddSample(buffer, &f);
  return f.value().first;
}

uint32_t CheckOf(const Buffers& frames) {
  Fingerprint f;
  for (const Buffer& buffer : frames) AddSample(buffer, &f);
  return Low(f.value().first);
}

}  // namespace soapstone::sim
