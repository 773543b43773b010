#include "sim/peer_world.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "consistency/catalogue.h"

namespace soapstone::sim {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;
using PeerKind = PeerWorld::Choice::Kind;

bool IsPeerMessage(const Message& message) {
  return message.from.role == Role::kPeer && message.to.role == Role::kPeer;
}

}  // namespace

absl::StatusOr<PeerWorld> PeerWorld::Make(const PeerWorldOptions& options) {
  PeerWorld world(options);
  SOAP_ASSIGN_OR_RETURN(world.traits_, consistency::ParsePolicy(options.policy));
  if (!world.traits_.decentralised()) {
    return absl::InvalidArgumentError("servers keep the parameters of this policy");
  }
  std::vector<ParamSpec> params(options.two_stretches ? 2 : 1,
                                {.name = "x", .shape = {static_cast<int64_t>(options.elements)}});
  SOAP_ASSIGN_OR_RETURN(wire::Layout layout,
                        wire::Layout::Build(std::move(params), {.bucket_bytes = 1}));
  world.layout_ = std::make_shared<const wire::Layout>(std::move(layout));
  world.epoch_ = 1;
  for (uint32_t w = 0; w < options.workers; ++w) world.AddProcess(WorkerId{w}, true);
  world.epoch_ = 0;
  world.PublishRoster();
  return world;
}

void PeerWorld::AddProcess(WorkerId rank, bool original) {
  // The last element counts gradients, so that sums and their sample counts can be compared.
  const auto apply = [](Clock, uint64_t samples, absl::Span<const double> sum,
                        absl::Span<double> values) {
    for (size_t e = 0; e < sum.size(); ++e) values[e] += sum[e];
    if (sum.back() != static_cast<double>(samples)) values.back() = std::nan("");
  };
  std::unique_ptr<server::PeerVectors> vectors =
      server::MakeDoubleVectors(std::vector<double>(Elements()), apply);
  vectors->SetFault(options_.store_fault);
  processes_.push_back({.rank = rank,
                        .peer = server::Peer({.id = rank,
                                              .worker_layout = layout_,
                                              .shard_layout = layout_,
                                              .policy = traits_,
                                              .total_clocks = options_.clocks,
                                              .stretch_elements = options_.elements,
                                              .checks = true},
                                             std::move(vectors)),
                        .replies = worker::ReplyLedger(traits_, 1),
                        .admitted = epoch_,
                        .original = original,
                        .born = !options_.births});
}

void PeerWorld::PublishRoster() {
  ++epoch_;
  Message message;
  message.type = MessageType::kRoster;
  message.from = Address::Scheduler();
  message.epoch = epoch_;
  wire::Roster roster = {.worker_count = options_.workers};
  for (uint32_t w = 0; w < options_.workers; ++w) {
    // A crash is not known before it is noticed.
    const auto known = std::find_if(processes_.rbegin(), processes_.rend(), [&](const Process& p) {
      return Index(p.rank) == w && !p.expelled && (!p.gone || (p.crashed && !p.noticed));
    });
    if (known == processes_.rend()) continue;
    roster.workers.push_back(
        {.worker = WorkerId{w}, .admitted = known->admitted, .original = known->original});
  }
  message.body = roster;
  for (uint32_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].gone && !processes_[i].expelled)
      connections_.Send({kScheduler, i + 1}, message);
  }
}

std::optional<uint32_t> PeerWorld::ProcessOf(WorkerId rank) const {
  for (uint32_t i = static_cast<uint32_t>(processes_.size()); i > 0; --i) {
    if (processes_[i - 1].rank == rank && !processes_[i - 1].gone) return i - 1;
  }
  return std::nullopt;
}

uint32_t PeerWorld::Live() const {
  return static_cast<uint32_t>(std::count_if(processes_.begin(), processes_.end(),
                                             [](const Process& p) { return p.Counts(); }));
}

// ---- What can happen

std::vector<PeerWorld::Choice> PeerWorld::Enabled() const {
  std::vector<Choice> choices;
  if (violation_.has_value() || Finished()) return choices;
  for (const auto& [ends, messages] : connections_.channels()) {
    // The scheduler waits for a birth; others know nothing of it.
    if (ends.first == kScheduler && !processes_[ends.second - 1].born) continue;
    choices.push_back({PeerKind::kDeliver, ends.first, ends.second});
    if (options_.duplicates > 0 && IsPeerMessage(messages.front())) {
      choices.push_back({PeerKind::kDuplicate, ends.first, ends.second});
    }
  }
  for (uint32_t i = 0; i < processes_.size(); ++i) {
    const Process& p = processes_[i];
    if (p.crashed && !p.noticed) choices.push_back({PeerKind::kNotice, i});
    if (p.gone) continue;
    if (!p.born) choices.push_back({PeerKind::kBirth, i});
    if (p.computing.has_value()) choices.push_back({PeerKind::kCompute, i});
    if (Live() < 2 || p.handed_in || p.expelled) continue;
    if (options_.crashes > 0) choices.push_back({PeerKind::kCrash, i});
    if (options_.leaves > 0 && !p.leaving && p.computing.has_value()) {
      choices.push_back({PeerKind::kLeave, i});
    }
  }
  AddLinkChoices(&choices);
  if (options_.joins > 0) {
    for (uint32_t w = 0; w < options_.workers; ++w) {
      const bool taken = std::any_of(processes_.begin(), processes_.end(), [&](const Process& p) {
        return Index(p.rank) == w && (!p.gone || (p.crashed && !p.noticed));
      });
      if (!taken) choices.push_back({PeerKind::kJoin, w});
    }
  }
  return choices;
}

bool PeerWorld::Finished() const {
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const Process& p) { return p.gone || p.handed_in; });
}

void PeerWorld::Do(const Choice& choice) {
  switch (choice.kind) {
    case PeerKind::kDeliver:
      Deliver(choice.from, choice.to);
      break;
    case PeerKind::kCompute:
      Compute(choice.from);
      break;
    case PeerKind::kBirth:
      processes_[choice.from].born = true;
      break;
    case PeerKind::kCrash:
      --options_.crashes;
      processes_[choice.from].crashed = true;
      Remove(choice.from);
      break;
    case PeerKind::kNotice:
      processes_[choice.from].noticed = true;
      PublishRoster();
      break;
    case PeerKind::kLeave:
      --options_.leaves;
      processes_[choice.from].leaving = true;
      break;
    case PeerKind::kJoin:
      --options_.joins;
      ++epoch_;
      AddProcess(WorkerId{choice.from}, false);
      --epoch_;
      PublishRoster();
      break;
    case PeerKind::kDuplicate:
      --options_.duplicates;
      Duplicate(choice.from, choice.to);
      break;
    case PeerKind::kBreak:
      --options_.breaks;
      connections_.Break(choice.from, choice.to, options_.mutant != PeerMutant::kNoResume);
      break;
    case PeerKind::kResume:
      connections_.Resume(choice.from, choice.to);
      break;
    case PeerKind::kLose:
      --options_.losses;
      Lose(choice.from, choice.to);
      break;
    case PeerKind::kSettle:
      SettleLinks();
      break;
  }
  if (Live() > 0) Check();
  for (const Process& p : processes_) {
    if (!options_.ledgers) break;
    const auto made = p.peer.ledger().violations().first();
    const auto read = p.replies.violations().first();
    if (made.has_value()) Fail(absl::StrCat("L1: ", *made));
    if (read.has_value()) Fail(absl::StrCat("L1: ", *read));
  }
}

// ---- How it happens

void PeerWorld::Duplicate(uint32_t from, uint32_t to) {
  duplicated_ = true;
  Connections::Messages& messages = connections_.Change({from, to});
  Message twin = messages.front();
  if (options_.mutant == PeerMutant::kDuplicateUnseen) {
    std::get<wire::Parcel>(messages.front().body).sequence -= 1;
    for (size_t i = 1; i < messages.size(); ++i) {
      if (auto* parcel = std::get_if<wire::Parcel>(&messages[i].body)) parcel->sequence += 1;
    }
  }
  messages.insert(messages.begin() + 1, std::move(twin));
}

void PeerWorld::Remove(uint32_t index) {
  members_changed_ = true;
  processes_[index].gone = true;
  processes_[index].computing.reset();
  connections_.CutAllTo(index + 1);
}

void PeerWorld::Deliver(uint32_t from, uint32_t to) {
  Message message = connections_.Take({from, to});
  if (!processes_[to - 1].born) return;
  if (message.type == MessageType::kShutdown) return Remove(to - 1);
  if (options_.mutant == PeerMutant::kLostParcel && message.type == MessageType::kParcel &&
      ++delivered_[{from, to}] == 2) {
    return;
  }
  if (options_.mutant == PeerMutant::kNoState && message.type == MessageType::kState) return;
  if (options_.mutant == PeerMutant::kWeightStays && message.type == MessageType::kParcel) {
    std::get<wire::Parcel>(message.body).weight = 0;
  }
  if (options_.mutant == PeerMutant::kStretchesMixed && message.type == MessageType::kParcel) {
    std::get<wire::Parcel>(message.body).step %= 2;  // the hops of two members
  }
  if (options_.mutant == PeerMutant::kStaleRounds && message.type == MessageType::kParcel) {
    message.epoch = epoch_;
  }
  if (options_.mutant == PeerMutant::kHalfMeeting && message.type == MessageType::kParcel &&
      std::get<wire::Parcel>(message.body).step == 1) {
    const std::vector<double> nothing(Elements());
    message.payload = {Buffer::CopyOf(absl::MakeConstSpan(nothing))};
  }
  Take(to - 1, std::move(message));
}

void PeerWorld::Take(uint32_t index, Message message) {
  const bool roster = message.type == MessageType::kRoster;
  wire::Outbox outbox;
  processes_[index].peer.OnMessage(0, std::move(message), &outbox);
  Flush(index, &outbox);
  if (roster && !processes_[index].started) {
    processes_[index].started = true;
    Pull(index, 0);
  }
}

void PeerWorld::Flush(uint32_t index, wire::Outbox* outbox) {
  const Epoch admitted = processes_[index].admitted;
  for (Message& message : outbox->messages) {
    if (message.to.role == Role::kWorker) {
      ToWorker(index, message);
    } else if (message.to.role == Role::kShard) {
      if (const auto* push = std::get_if<wire::Push>(&message.body)) {
        processes_[index].handed_weight = static_cast<double>(push->samples) / (1 << 20);
      }
      processes_[index].handed_in = true;
    } else if (const auto to = ProcessOf(WorkerId{message.to.index}); to.has_value()) {
      if (options_.mutant == PeerMutant::kSequencesRestart) {
        std::get<wire::Parcel>(message.body).sequence -= admitted << 40;
      }
      if (options_.mutant == PeerMutant::kEarlyHandIn && message.type == MessageType::kStanding) {
        std::get<wire::Parcel>(message.body).finished = true;
      }
      connections_.Send({index + 1, *to + 1}, std::move(message));
    }
  }
}

void PeerWorld::ToWorker(uint32_t index, const Message& reply) {
  Process& p = processes_[index];
  p.replies.OnReply(0, reply);
  if (p.leaving) {  // its gradient was taken: it goes
    Remove(index);
    PublishRoster();
    return;
  }
  if (reply.clock < options_.clocks) p.computing = reply.clock;
}

void PeerWorld::Pull(uint32_t index, Clock clock) {
  Message pull;
  pull.type = MessageType::kPull;
  pull.from = Address::Of(processes_[index].rank);
  pull.clock = clock;
  pull.body = wire::Pull{};
  Take(index, std::move(pull));
}

double PeerWorld::DigitOf(uint32_t index, Clock clock) const {
  return std::ldexp(1.0, 2 * static_cast<int>(index * options_.clocks + clock));
}

void PeerWorld::Compute(uint32_t index) {
  const Clock clock = *processes_[index].computing;
  // The last parameter's gradient is there first.
  if (options_.two_stretches && !std::exchange(processes_[index].half_pushed, true)) {
    return PushPart(index, clock, 0);
  }
  processes_[index].half_pushed = false;
  processes_[index].computing.reset();
  processes_[index].computed.push_back(clock);
  Message done = {
      .type = MessageType::kClock, .from = Address::Of(processes_[index].rank), .clock = clock + 1};
  done.body = wire::Completion{};
  processes_[index].replies.OnPush(0, clock);
  processes_[index].applied += processes_[index].peer.policy()->weight() * DigitOf(index, clock);
  PushPart(index, clock, options_.two_stretches ? 1 : 0);
  Take(index, std::move(done));
  if (clock + 1 < options_.clocks || processes_[index].leaving) Pull(index, clock + 1);
}

void PeerWorld::PushPart(uint32_t index, Clock clock, uint32_t bucket) {
  const bool first = index == 0 && clock == 0;
  const bool lost = options_.mutant == PeerMutant::kGradientLost ||
                    (options_.mutant == PeerMutant::kPartLost && bucket == 1);
  const bool twice = options_.mutant == PeerMutant::kGradientTwice;
  const double times = first && lost ? 0 : first && twice ? 2 : 1;
  std::vector<double> gradient(options_.elements, times * DigitOf(index, clock));
  if (bucket == 0) gradient.back() = 1;
  Message push;
  push.type = MessageType::kPush;
  push.from = Address::Of(processes_[index].rank);
  push.clock = clock;
  push.body = wire::Push{.bucket = BucketId{bucket}, .samples = 1};
  push.payload = {Buffer::CopyOf(absl::MakeConstSpan(gradient))};
  Take(index, std::move(push));
}

std::string PeerWorld::Describe(const Choice& choice) const {
  switch (choice.kind) {
    case PeerKind::kDeliver:
      return absl::StrCat("deliver ", wire::ToString(connections_.Head({choice.from, choice.to})));
    case PeerKind::kDuplicate:
      return absl::StrCat("DUPLICATE ",
                          wire::ToString(connections_.Head({choice.from, choice.to})));
    case PeerKind::kCompute:
      return absl::StrCat("process ", choice.from, " has its gradient");
    case PeerKind::kBirth:
      return absl::StrCat("BIRTH of process ", choice.from);
    case PeerKind::kCrash:
      return absl::StrCat("CRASH of process ", choice.from);
    case PeerKind::kNotice:
      return absl::StrCat("the scheduler notices the loss of process ", choice.from);
    case PeerKind::kLeave:
      return absl::StrCat("LEAVE asked of process ", choice.from);
    case PeerKind::kJoin:
      return absl::StrCat("JOIN of rank ", choice.from);
    case PeerKind::kBreak:
      return absl::StrCat("BREAK between nodes ", choice.from, " and ", choice.to);
    case PeerKind::kResume:
      return absl::StrCat("nodes ", choice.from, " and ", choice.to, " are connected again");
    case PeerKind::kLose:
      return absl::StrCat("LOST: the link between nodes ", choice.from, " and ", choice.to);
    case PeerKind::kSettle:
      return "the scheduler acts upon lost links";
  }
  return "?";
}

void PeerWorld::AddTo(Fingerprint* f) const {
  for (const uint32_t left : {options_.crashes, options_.leaves, options_.joins,
                              options_.duplicates, options_.breaks, options_.losses}) {
    f->Add(left);
  }
  f->Add(epoch_);
  for (const Process& p : processes_) {
    f->Add(p.rank);
    f->Add(uint32_t{p.gone} | uint32_t{p.crashed} << 1 | uint32_t{p.noticed} << 2 |
           uint32_t{p.leaving} << 3 | uint32_t{p.started} << 4 | uint32_t{p.handed_in} << 5 |
           uint32_t{p.born} << 6 | uint32_t{p.expelled} << 7);
    f->Add(p.computing.value_or(kNoClock));
    f->Add(p.half_pushed);
    f->Add(p.computed.size());
    for (const Clock clock : p.computed) f->Add(clock);
    if (!p.gone && options_.mutant != PeerMutant::kForgetfulPrint) p.peer.AddTo(f);
  }
  connections_.AddTo(f);
  links_to_settle_.AddTo(f);
  f->Add(violation_.has_value());
}

}  // namespace soapstone::sim
