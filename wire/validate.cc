#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "wire/frame.h"

namespace soapstone::wire {
namespace {

constexpr size_t kArithmeticBytesMax = 80;
constexpr size_t kHostBytesMax = 255;

// What belongs to a message type: its name, the body's index in Body, whether the body may be
// absent, and whether payload may follow.
struct TypeRule {
  MessageType type = MessageType::kNone;
  const char* name = "";
  size_t body = 0;
  std::array<size_t, 2> other_bodies = {};  // likewise allowed, where they are not 0
  bool body_optional = false;
  bool payload = false;
};

// Position of T among the alternatives of Body.
template <typename T, typename... Ts>
constexpr size_t PositionIn(const std::variant<Ts...>*) {
  size_t position = 0;
  (void)((std::is_same_v<T, Ts> || (++position, false)) || ...);
  return position;
}
template <typename T>
constexpr size_t kBodyIndex = PositionIn<T>(static_cast<const Body*>(nullptr));

constexpr TypeRule kTypes[] = {
    {.type = MessageType::kHello, .name = "hello", .body = kBodyIndex<Hello>},
    {.type = MessageType::kWelcome, .name = "welcome", .body = kBodyIndex<Welcome>},
    {.type = MessageType::kRefuse, .name = "refuse", .body = kBodyIndex<Notice>},
    {.type = MessageType::kRoster, .name = "roster", .body = kBodyIndex<Roster>},
    {.type = MessageType::kRosterAck, .name = "roster-ack"},
    {.type = MessageType::kStart, .name = "start"},
    {.type = MessageType::kHeartbeat,
     .name = "heartbeat",
     .body = kBodyIndex<Progress>,
     .other_bodies = {kBodyIndex<SlowWork>, kBodyIndex<ServerProgress>},
     .body_optional = true},
    {.type = MessageType::kHeartbeatAck, .name = "heartbeat-ack"},
    {.type = MessageType::kDone, .name = "done", .body = kBodyIndex<Progress>},
    {.type = MessageType::kLeave, .name = "leave", .body = kBodyIndex<Progress>},
    {.type = MessageType::kEvaluate, .name = "evaluate"},
    {.type = MessageType::kEvaluated,
     .name = "evaluated",
     .body = kBodyIndex<Evaluation>,
     .payload = true},
    {.type = MessageType::kSave, .name = "save", .body = kBodyIndex<Save>},
    {.type = MessageType::kSlices, .name = "slices", .body = kBodyIndex<Slices>, .payload = true},
    {.type = MessageType::kSaved, .name = "saved", .body = kBodyIndex<Saved>},
    {.type = MessageType::kCheckpoint, .name = "checkpoint"},
    {.type = MessageType::kWritten,
     .name = "written",
     .body = kBodyIndex<Written>,
     .payload = true},
    {.type = MessageType::kBound, .name = "bound", .body = kBodyIndex<Bound>},
    {.type = MessageType::kBounded, .name = "bounded", .body = kBodyIndex<Bound>},
    {.type = MessageType::kCaptured, .name = "captured"},
    {.type = MessageType::kAskLeave, .name = "ask-leave"},
    {.type = MessageType::kMayLeave, .name = "may-leave"},
    {.type = MessageType::kRecord, .name = "record", .body = kBodyIndex<Record>, .payload = true},
    {.type = MessageType::kRecorded, .name = "recorded", .body = kBodyIndex<Recorded>},
    {.type = MessageType::kShutdown, .name = "shutdown", .body = kBodyIndex<Notice>},
    {.type = MessageType::kBroken, .name = "broken", .body = kBodyIndex<Notice>},
    {.type = MessageType::kNotFinite, .name = "not-finite", .body = kBodyIndex<NotFinite>},
    {.type = MessageType::kLinkLost, .name = "link-lost", .body = kBodyIndex<LostLink>},
    {.type = MessageType::kWait, .name = "wait", .body = kBodyIndex<Notice>},
    {.type = MessageType::kPush, .name = "push", .body = kBodyIndex<Push>, .payload = true},
    {.type = MessageType::kClock, .name = "clock", .body = kBodyIndex<Completion>},
    {.type = MessageType::kPull, .name = "pull", .body = kBodyIndex<Pull>, .payload = true},
    {.type = MessageType::kPullReply,
     .name = "pull-reply",
     .body = kBodyIndex<PullReply>,
     .payload = true},
    {.type = MessageType::kReject, .name = "reject", .body = kBodyIndex<Notice>},
    {.type = MessageType::kHeld, .name = "held"},
    {.type = MessageType::kChosen, .name = "chosen", .body = kBodyIndex<WorkerSet>},
    {.type = MessageType::kParcel, .name = "parcel", .body = kBodyIndex<Parcel>, .payload = true},
    {.type = MessageType::kState, .name = "state", .body = kBodyIndex<Parcel>, .payload = true},
    {.type = MessageType::kStanding, .name = "standing", .body = kBodyIndex<Parcel>},
    {.type = MessageType::kFinished, .name = "finished", .body = kBodyIndex<Parcel>},
    {.type = MessageType::kBlock, .name = "block", .body = kBodyIndex<Block>, .payload = true},
    {.type = MessageType::kLoaded, .name = "loaded"},
};

// Where each number's rule is in kTypes; past its end: there is no such type.
constexpr auto kRuleOfNumber = [] {
  std::array<uint8_t, 256> places = {};
  places.fill(std::size(kTypes));
  for (size_t i = 0; i < std::size(kTypes); ++i) places[static_cast<uint8_t>(kTypes[i].type)] = i;
  return places;
}();

const TypeRule* RuleOf(MessageType type) {
  const size_t place = kRuleOfNumber[static_cast<uint8_t>(type)];
  return place < std::size(kTypes) ? &kTypes[place] : nullptr;
}

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Status CheckClock(Clock clock, const char* what) {
  if (clock < kNoClock || clock > kClockMax) return Invalid(what);
  return absl::OkStatus();
}

absl::Status CheckRole(Role role, const char* what) {
  if (static_cast<uint32_t>(role) > static_cast<uint32_t>(Role::kPeer)) return Invalid(what);
  return absl::OkStatus();
}

struct BodyCheck {
  const FrameLimits& limits;

  int64_t ranks_max() const { return static_cast<int64_t>(limits.roster_entries_max); }

  absl::Status CheckText(const std::string& text, const char* what) const {
    if (text.size() > limits.string_bytes_max) return Invalid(what);
    return absl::OkStatus();
  }

  static absl::Status CheckKey(const std::string& key, const char* what) {
    if (!key.empty() && key.size() != kProcessKeyBytes) return Invalid(what);
    return absl::OkStatus();
  }

  absl::Status operator()(const std::monostate&) const { return absl::OkStatus(); }

  template <HeaderBody B>
  absl::Status operator()(const B&) const {
    return absl::OkStatus();
  }

  absl::Status operator()(const Push& push) const {
    if (push.micro_batches.empty() || push.micro_batches.end > push.micro_batch_count) {
      return Invalid("push: micro-batches out of range");
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const PullReply& reply) const {
    if (reply.parked_ns < 0 || reply.queued_ns < 0) return Invalid("a time is negative");
    return CheckClock(reply.oldest, "oldest clock out of range");
  }

  // Losses may be any number: that training diverges is for its owner to learn.
  template <FlatBody B>
  absl::Status operator()(const B& body) const {
    absl::Status status;
    B::Fields([&](const char* name, auto field) {
      if constexpr (std::is_same_v<std::decay_t<decltype(body.*field)>, std::string>) {
        const bool fits = (body.*field).size() <= limits.string_bytes_max;
        if (!fits) status = Invalid(absl::StrCat(B::kName, ": ", name, " too long"));
      }
    });
    return status;
  }

  absl::Status operator()(const Hello& hello) const {
    SOAP_RETURN_IF_ERROR(CheckRole(hello.role, "hello: unknown role"));
    if (hello.wanted_rank < -1 || hello.wanted_rank >= ranks_max()) {
      return Invalid("hello: wanted rank out of range");
    }
    // It is quoted to others.
    const auto quotable = [](unsigned char c) { return c >= ' ' && c <= '~'; };
    if (hello.arithmetic.size() > kArithmeticBytesMax ||
        !std::all_of(hello.arithmetic.begin(), hello.arithmetic.end(), quotable)) {
      return Invalid("hello: arithmetic is no short line");
    }
    SOAP_RETURN_IF_ERROR(CheckKey(hello.key, "hello: no key of a process"));
    // No run of blanks either, after which a terminal's next line would begin.
    if (hello.host.size() > kHostBytesMax || absl::StrContains(hello.host, "  ") ||
        !std::all_of(hello.host.begin(), hello.host.end(), quotable)) {
      return Invalid("hello: host is no short line");
    }
    return CheckText(hello.endpoint, "hello: endpoint too long");
  }

  absl::Status operator()(const Welcome& welcome) const {
    if (welcome.rank >= ranks_max()) return Invalid("welcome: rank out of range");
    return absl::OkStatus();
  }

  // Actors index arrays by these ranks, so order and range are checked here, once.
  absl::Status operator()(const Roster& roster) const {
    if (roster.workers.size() > limits.roster_entries_max ||
        roster.servers.size() > limits.roster_entries_max ||
        roster.worker_count > limits.roster_entries_max) {
      return Invalid("roster: too many entries");
    }
    if (roster.shards_per_server < 1 || roster.shards_per_server > limits.roster_entries_max) {
      return Invalid("roster: shards per server out of range");
    }
    int64_t last = -1;
    for (const Member& member : roster.workers) {
      if (Index(member.worker) <= last) return Invalid("roster: workers not ascending");
      if (Index(member.worker) >= roster.worker_count) return Invalid("roster: rank out of range");
      if (member.start < 0) return Invalid("roster: start out of range");
      SOAP_RETURN_IF_ERROR(CheckClock(member.start, "roster: start out of range"));
      SOAP_RETURN_IF_ERROR(CheckText(member.endpoint, "roster: endpoint too long"));
      SOAP_RETURN_IF_ERROR(CheckKey(member.key, "roster: no key of a process"));
      last = Index(member.worker);
    }
    last = -1;
    for (const ServerEntry& entry : roster.servers) {
      if (Index(entry.server) <= last) return Invalid("roster: servers not ascending");
      if (Index(entry.server) >= ranks_max()) return Invalid("roster: server out of range");
      SOAP_RETURN_IF_ERROR(CheckText(entry.endpoint, "roster: endpoint too long"));
      SOAP_RETURN_IF_ERROR(CheckKey(entry.key, "roster: no key of a process"));
      last = Index(entry.server);
    }
    SOAP_RETURN_IF_ERROR(CheckChains(roster));
    return CheckShares(roster);
  }

  // Who looks for a shard's server finds one, in the roster.
  absl::Status CheckChains(const Roster& roster) const {
    const uint64_t shards = uint64_t{roster.shards_per_server} * limits.roster_entries_max;
    if (roster.chains.size() > shards) return Invalid("roster: too many chains");
    const auto listed = [&roster](ServerId server) {
      return std::ranges::binary_search(roster.servers, server, {}, &ServerEntry::server);
    };
    for (const Chain& chain : roster.chains) {
      if (chain.links.empty()) return Invalid("roster: a shard that nobody has");
      if (chain.links.size() > roster.servers.size()) return Invalid("roster: chain too long");
      for (size_t i = 0; i < chain.links.size(); ++i) {
        const ServerId server = chain.links[i].server;
        if (!listed(server)) return Invalid("roster: a replica on no server");
        const auto same = [server](const Link& link) { return link.server == server; };
        if (std::any_of(chain.links.begin(), chain.links.begin() + i, same)) {
          return Invalid("roster: two replicas of a shard on one server");
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckShares(const Roster& roster) const {
    if (roster.shares.size() > limits.roster_shares_max) return Invalid("roster: too many shares");
    Clock last = kNoClock;
    for (const Shares& shares : roster.shares) {
      SOAP_RETURN_IF_ERROR(CheckClock(shares.from, "roster: shares' clock out of range"));
      if (shares.from <= last) return Invalid("roster: shares not ascending");
      last = shares.from;
      if (shares.micro_batches.size() != roster.worker_count) {
        return Invalid("roster: shares are not one a rank");
      }
      uint64_t sum = 0;
      for (const uint32_t micro_batches : shares.micro_batches) sum += micro_batches;
      if (sum > std::numeric_limits<uint32_t>::max())
        return Invalid("roster: too many micro-batches");
    }
    // A worker's bound is its clock and this lead: a clock too.
    if (roster.share_lead < 0 || roster.share_lead > kClockMax / 2) {
      return Invalid("roster: share lead out of range");
    }
    return absl::OkStatus();
  }

  // Losses may be any number: that training diverges is for its owner to learn.
  absl::Status operator()(const Progress& progress) const {
    SOAP_RETURN_IF_ERROR(CheckClock(progress.clock, "progress: clock out of range"));
    if (progress.compute_ns < 0 || progress.blocked_ns < 0 || progress.injected_ns < 0 ||
        progress.parked_ns < 0 || progress.queued_ns < 0) {
      return Invalid("progress: a time is negative");
    }
    if (progress.read_lags.size() > limits.read_lags_max) {
      return Invalid("progress: too many read lags");
    }
    if (progress.left_out.size() > Progress::kLeftOutMax) {
      return Invalid("progress: too many tensors");
    }
    for (const LeftOut& entry : progress.left_out) {
      SOAP_RETURN_IF_ERROR(CheckClock(entry.first, "progress: clock of an update out of range"));
      SOAP_RETURN_IF_ERROR(CheckText(entry.tensor, "progress: name of a tensor too long"));
    }
    if (!progress.waiting.has_value()) return absl::OkStatus();
    const Waiting& waiting = *progress.waiting;
    if (waiting.of.role != Role::kShard && waiting.of.role != Role::kPeer &&
        waiting.of.role != Role::kWorker) {
      return Invalid("progress: who is waited for sends nothing");
    }
    if (waiting.for_ns < 0) return Invalid("progress: a time is negative");
    return CheckClock(waiting.clock, "progress: clock waited for out of range");
  }

  // Counts of integers: none can be NaN. Numbers that contradict each other are no counts of reads.
  absl::Status CheckReader(const ReaderState& reader) const {
    if (Index(reader.worker) >= ranks_max()) return Invalid("server progress: rank out of range");
    SOAP_RETURN_IF_ERROR(CheckClock(reader.clock, "server progress: clock out of range"));
    const bool none = reader.lag_max == 0;
    const bool fits = none ? reader.lag_sum == 0
                           : reader.lag_sum >= reader.lag_max &&
                                 (reader.lag_sum - 1) / reader.lag_max < reader.reads;
    return fits ? absl::OkStatus() : Invalid("server progress: lags that no reads add up to");
  }

  absl::Status operator()(const ServerProgress& progress) const {
    if (progress.shards.size() > ServerProgress::kShardsMax) {
      return Invalid("server progress: too many shards");
    }
    int64_t last = -1;
    for (const ShardReads& shard : progress.shards) {
      if (Index(shard.shard) <= last) return Invalid("server progress: shards not ascending");
      last = Index(shard.shard);
      if (last >= ranks_max()) return Invalid("server progress: shard out of range");
      SOAP_RETURN_IF_ERROR(CheckClock(shard.frontier, "server progress: frontier out of range"));
      SOAP_RETURN_IF_ERROR(CheckReaders(shard));
    }
    return absl::OkStatus();
  }

  absl::Status CheckReaders(const ShardReads& shard) const {
    const size_t most = shard.folded() ? ShardReads::kQuantiles.size() : ShardReads::kReadersMax;
    const bool whole = !shard.folded() || shard.readers.size() == most;
    if (!whole || shard.readers.size() > most || shard.readers.size() > shard.reader_count ||
        shard.reader_count > limits.roster_entries_max || shard.parked_count > shard.reader_count) {
      return Invalid("server progress: readers do not add up");
    }
    uint32_t parked = 0;
    int64_t last = -1;
    for (const ReaderState& reader : shard.readers) {
      SOAP_RETURN_IF_ERROR(CheckReader(reader));
      if (!shard.folded() && Index(reader.worker) <= last) {
        return Invalid("server progress: readers not ascending");
      }
      last = Index(reader.worker);
      parked += reader.parked_ms > 0 ? 1 : 0;
    }
    if (!shard.folded() && parked != shard.parked_count) {
      return Invalid("server progress: readers do not add up");
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const NotFinite& what) const {
    if (what.worker < -1 || what.worker >= ranks_max()) {
      return Invalid("not finite: worker out of range");
    }
    return CheckText(what.tensor, "not finite: name of the tensor too long");
  }

  // Looked up by bisection, so order matters.
  absl::Status operator()(const WorkerSet& set) const {
    int64_t last = -1;
    for (const WorkerId worker : set.workers) {
      if (Index(worker) <= last) return Invalid("worker set: not ascending");
      last = Index(worker);
      if (last >= ranks_max()) return Invalid("worker set: rank out of range");
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const Written& written) const {
    SOAP_RETURN_IF_ERROR(CheckClock(written.frontier, "written: frontier out of range"));
    return CheckText(written.error, "written: text too long");
  }

  absl::Status operator()(const Parcel& parcel) const {
    if (parcel.begin > parcel.end) return Invalid("parcel: elements out of order");
    if (!std::isfinite(parcel.weight) || parcel.weight < 0) {
      return Invalid("parcel: weight is no share");
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const LostLink& lost) const {
    if (lost.other.role != Role::kServer && lost.other.role != Role::kWorker) {
      return Invalid("link lost: not to a node");
    }
    return CheckText(lost.why, "link lost: text too long");
  }
};

absl::Status CheckPayload(const Message& message, const FrameLimits& limits) {
  if (message.payload.size() > limits.payload_frames_max) {
    return Invalid("too many payload frames");
  }
  uint64_t left = limits.message_bytes_max;
  for (const Buffer& buffer : message.payload) {
    if (buffer.size() > limits.frame_bytes_max) return Invalid("payload frame too large");
    if (buffer.size() > left) return Invalid("payload too large");
    left -= buffer.size();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Message& message, const FrameLimits& limits) {
  const TypeRule* rule = RuleOf(message.type);
  if (rule == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown message type ", static_cast<uint32_t>(message.type)));
  }
  SOAP_RETURN_IF_ERROR(CheckRole(message.from.role, "unknown role of from"));
  SOAP_RETURN_IF_ERROR(CheckRole(message.to.role, "unknown role of to"));
  SOAP_RETURN_IF_ERROR(CheckClock(message.clock, "clock out of range"));
  const bool absent = message.body.index() == 0;
  const bool other = !absent && std::count(rule->other_bodies.begin(), rule->other_bodies.end(),
                                           message.body.index()) > 0;
  if (message.body.index() != rule->body && !other && !(absent && rule->body_optional)) {
    return Invalid("body does not belong to the message type");
  }
  if (!rule->payload && !message.payload.empty()) {
    return Invalid("payload does not belong to the message type");
  }
  SOAP_RETURN_IF_ERROR(std::visit(BodyCheck{limits}, message.body));
  return CheckPayload(message, limits);
}

bool IsKnown(MessageType type) { return RuleOf(type) != nullptr; }

const char* NameOf(MessageType type) {
  if (type == MessageType::kNone) return "none";
  const TypeRule* rule = RuleOf(type);
  return rule != nullptr ? rule->name : "?";
}

absl::Status ValidateSender(Address from, Address sender) {
  const bool node = sender.role == Role::kScheduler || sender.role == Role::kServer ||
                    sender.role == Role::kWorker;
  if (!node) return Invalid("sender is not a node");
  const bool shard_of_server = from.role == Role::kShard && sender.role == Role::kServer;
  const bool own_peer = from.role == Role::kPeer && sender.role == Role::kWorker &&
                        from.index == sender.index && !sender.IsTemporary();
  if (from != sender && !shard_of_server && !own_peer)
    return Invalid("from is not the sender's to use");
  return absl::OkStatus();
}

}  // namespace soapstone::wire
