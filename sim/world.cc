#include "sim/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::sim {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;
using Kind = Choice::Kind;

bool IsData(const Message& message) {
  if (server::Peer::IsWithinNode(message)) return false;
  if (message.from.role == Role::kPeer) return true;
  return message.type == MessageType::kPush || message.type == MessageType::kClock ||
         message.type == MessageType::kPull || message.type == MessageType::kPullReply ||
         message.type == MessageType::kHeld || message.type == MessageType::kChosen;
}

constexpr Nanos kHour = 3600 * kSecond;
constexpr uint32_t kHoursMax = 16;  // what hangs for so long hangs for ever

// One leaf's gradient as an integer: a function of what a gradient is a function of.
int64_t LeafDelta(Clock clock, ShardId shard, BucketId bucket, uint32_t leaf) {
  const CounterRandom random(Index(shard), RandomUse::kTest, Index(bucket));
  const uint64_t at = static_cast<uint64_t>(clock) << 20 | leaf;
  return static_cast<int64_t>(random.Bits(at) >> 16);  // sums stay exact
}

}  // namespace

absl::StatusOr<World> World::Make(const WorldOptions& options) {
  if (options.shape.workers >= kUnranked) {
    return absl::InvalidArgumentError(
        absl::StrCat("a world has at most ", kUnranked - 1, " workers; use the virtual cluster"));
  }
  SOAP_ASSIGN_OR_RETURN(ActorFactory factory, ActorFactory::Make(options.shape));
  World world(options, std::move(factory));
  if (options.start_registered) world.RunRegistration();
  return world;
}

World::World(const WorldOptions& options, ActorFactory factory)
    : factory_(std::make_shared<const ActorFactory>(std::move(factory))),
      instant_device_(options.instant_device),
      watched_(options.watched),
      mutant_(options.mutant),
      faults_(options.faults),
      coordinator_(factory_->MakeCoordinator(/*evaluate=*/true)),
      checkers_({.policy = options.claimed.value_or(factory_->shape().policy),
                 .shards = factory_->shards(),
                 .root_shards = factory_->shape().shards,
                 .workers = factory_->shape().workers,
                 .leaf_count = factory_->shape().leaf_count,
                 .rounds = factory_->rounds()}) {
  wire::Outbox timers;  // time stands still
  coordinator_.Start(0, &timers);
  server_epochs_.resize(factory_->shards());
  for (uint32_t k = 0; k < factory_->shards(); ++k) {
    shards_.push_back(factory_->MakeShard(ShardId{k}));
    Send(NodeOfShard(k), {factory_->MakeHello(Address::Of(ServerId{k}), k, k + 1)});
  }
  for (uint32_t w = 0; w < factory_->shape().workers; ++w) AddSlot(w);
}

void World::AddSlot(int64_t wanted_rank) {
  const uint32_t index = static_cast<uint32_t>(slots_.size());
  slots_.emplace_back();
  const Address from = {Role::kWorker, kUnranked + index};
  Send(NodeOfSlot(index), {factory_->MakeHello(from, wanted_rank, kUnranked + index)});
}

void World::RunRegistration() {
  const auto touches_scheduler = [](const auto& channel) {
    return channel.first.first == kScheduler || channel.first.second == kScheduler;
  };
  for (;;) {
    const auto it = std::find_if(channels_.begin(), channels_.end(), touches_scheduler);
    if (it == channels_.end()) return;
    const auto [from, to] = it->first;
    Deliver(from, to);
  }
}

std::optional<uint32_t> World::SlotOf(WorkerId rank) const {
  std::optional<uint32_t> latest;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].rank != rank) continue;
    if (!latest.has_value() || slots_[i].ranked > slots_[*latest].ranked) latest = i;
  }
  return latest;
}

std::optional<World::NodeIndex> World::Route(Address to) const {
  switch (to.role) {
    case Role::kScheduler:
      return kScheduler;
    case Role::kServer:
    case Role::kShard:
      return NodeOfShard(to.index);
    case Role::kPeer:
    case Role::kWorker: {
      const std::optional<uint32_t> slot =
          to.index >= kUnranked ? to.index - kUnranked : SlotOf(WorkerId{to.index});
      if (!slot.has_value() || slots_[*slot].gone) return std::nullopt;
      return NodeOfSlot(*slot);
    }
    default:
      return std::nullopt;
  }
}

void World::Send(NodeIndex from, std::vector<Message> messages) {
  for (Message& message : messages) {
    const std::optional<NodeIndex> to = Route(message.to);
    if (to.has_value() && message.type == MessageType::kWelcome && *to >= NodeOfSlot(0)) {
      // From here on the connection is known by its rank.
      Slot& slot = slots_[*to - NodeOfSlot(0)];
      slot.rank = WorkerId{std::get<wire::Welcome>(message.body).rank};
      for (const Slot& other : slots_) slot.ranked = std::max(slot.ranked, other.ranked + 1);
    }
    if (!to.has_value() || lost_.contains(PairOf(from, *to))) continue;
    const auto broken = broken_.find(PairOf(from, *to));
    std::vector<Message>& channel =
        (broken == broken_.end() ? channels_ : broken->second)[{from, *to}];
    const bool overtakes =
        message.type == MessageType::kClock &&
        (mutant_ == WorldMutant::kClockOvertakes || mutant_ == WorldMutant::kUncountedClock);
    channel.insert(overtakes ? channel.begin() : channel.end(), std::move(message));
  }
}

// What the mutant does to a message on its arrival. False: it is lost.
bool World::Mutate(Message* message) const {
  const bool roster_of_a_loss = message->type == MessageType::kRoster && message->epoch > 1;
  switch (mutant_) {
    case WorldMutant::kNoAdoption:
      return !(roster_of_a_loss && message->to.role == Role::kWorker);
    case WorldMutant::kNoRelease:
      return !(roster_of_a_loss && message->to.role == Role::kShard);
    case WorldMutant::kSharesTooEarly:
      if (auto* roster = std::get_if<wire::Roster>(&message->body);
          roster != nullptr && message->to.role == Role::kWorker && !roster->shares.empty()) {
        for (wire::Shares& shares : roster->shares.Mutable()) shares.from -= 2;
      }
      return true;
    case WorldMutant::kUncountedClock:
      if (message->type == MessageType::kClock) message->pushes = 0;
      return true;
    default:
      return true;
  }
}

// ---- What can happen

// Some other worker is started and will carry on.
bool World::CanSpare(uint32_t index) const {
  if (!IsRunning(slots_[index]) || slots_[index].leaving) return false;
  if (coordinator_.phase() != scheduler::Coordinator::Phase::kRunning &&
      coordinator_.phase() != scheduler::Coordinator::Phase::kEvaluating) {
    return false;
  }
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const Slot& other = slots_[i];
    if (i != index && other.started && !other.gone && !other.leaving) return true;
  }
  return false;
}

bool World::CanJoin() const {
  if (coordinator_.phase() != scheduler::Coordinator::Phase::kRunning) return false;
  const auto holds_rank = [](const Slot& slot) {
    return slot.crashed ? !slot.noticed : !slot.gone;
  };
  return static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(), holds_rank)) <
         factory_->shape().workers;
}

std::vector<Choice> World::Enabled() const {
  std::vector<Choice> choices;
  if (Finished() || Violation().has_value()) return choices;
  for (const auto& [ends, messages] : channels_) {
    const auto [from, to] = ends;
    choices.push_back({Kind::kDeliver, from, to});
    if (faults_.duplicates > 0 && IsData(messages.front())) {
      choices.push_back({Kind::kDuplicate, from, to});
    }
    if (from >= NodeOfSlot(0) && slots_[from - NodeOfSlot(0)].crashed) {
      choices.push_back({Kind::kCut, from, to});
    }
    if (faults_.forgets > 0 && IsAnswer(messages.front())) {
      choices.push_back({Kind::kForget, from, to});
    }
  }
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!slot.commands.empty()) choices.push_back({Kind::kDevice, i});
    if (slot.crashed && !slot.noticed) choices.push_back({Kind::kNotice, i});
    if (!CanSpare(i)) continue;
    if (faults_.crashes > 0) choices.push_back({Kind::kCrash, i});
    if (faults_.leaves > 0 && slot.started && !slot.engine->done()) {
      choices.push_back({Kind::kLeave, i});
    }
  }
  AddLinkChoices(&choices);
  AddTimerChoices(&choices);
  if (faults_.joins > 0 && CanJoin()) choices.push_back({Kind::kJoin});
  for (uint32_t i = 0; i < slots_.size() && faults_.reports > 0; ++i) {
    if (!IsRunning(slots_[i]) || !slots_[i].started) continue;
    for (uint32_t slowness = 1; slowness <= 4; slowness *= 2) {
      choices.push_back({Kind::kReport, i, slowness});
    }
  }
  if (choices.empty() && watched_ && hours_ < kHoursMax) choices.push_back({Kind::kWatch});
  for (uint32_t i = 0; i < slots_.size() && faults_.asks > 0 && !choices.empty(); ++i) {
    if (Waits(slots_[i])) choices.push_back({Kind::kAsk, i});
  }
  return choices;
}

bool World::IsAnswer(const Message& message) const {
  return message.type == MessageType::kPullReply && message.from.role == Role::kShard &&
         message.to.role == Role::kWorker;
}

void World::Ask(uint32_t index) {
  wire::Outbox outbox;
  slots_[index].engine->OnTimer(hours_ * kHour, {&outbox, &slots_[index].commands});
  AfterEngine(index, &outbox);
}

void World::Do(const Choice& choice) {
  if (uint32_t* left = BudgetOf(choice.kind)) --*left;
  CarryOut(choice);
  CheckEnd();
}

// What is left of a kind of which there are only so many; null: of the others.
uint32_t* World::BudgetOf(Kind kind) {
  switch (kind) {
    case Kind::kCrash:
      return &faults_.crashes;
    case Kind::kLeave:
      return &faults_.leaves;
    case Kind::kJoin:
      return &faults_.joins;
    case Kind::kDuplicate:
      return &faults_.duplicates;
    case Kind::kReport:
      return &faults_.reports;
    case Kind::kBreak:
      return &faults_.breaks;
    case Kind::kLose:
      return &faults_.losses;
    case Kind::kForget:
      return &faults_.forgets;
    case Kind::kAsk:
      return &faults_.asks;
    case Kind::kLateWord:
      return &faults_.late_words;
    case Kind::kSilence:
    case Kind::kDeadline:
      return &faults_.timers;
    default:
      return nullptr;
  }
}

void World::CarryOut(const Choice& choice) {
  switch (choice.kind) {
    case Kind::kDeliver:
      return Deliver(choice.from, choice.to);
    case Kind::kDevice:
      return RunDevice(choice.from);
    case Kind::kCrash:
      return Crash(choice.from);
    case Kind::kNotice:
      return Notice(choice.from);
    case Kind::kCut:
      channels_.erase({choice.from, choice.to});
      return;
    case Kind::kDuplicate:
      return Duplicate(choice.from, choice.to);
    case Kind::kLeave:
      return Leave(choice.from);
    case Kind::kJoin:
      return AddSlot(-1);
    case Kind::kReport:
      return Report(choice.from, choice.to);
    case Kind::kBreak:
      return Break(choice.from, choice.to);
    case Kind::kResume:
      return Resume(choice.from, choice.to);
    case Kind::kLose:
      return Lose(choice.from, choice.to);
    case Kind::kLateWord:
      return LateWord(choice.from, choice.to);
    case Kind::kSettle:
      return SettleLinks();
    case Kind::kForget:
      return Forget(choice.from, choice.to);
    case Kind::kAsk:
      ++hours_;
      return Ask(choice.from);
    case Kind::kWatch:
      return Watch();
    case Kind::kSilence:
      return PassSilence(choice.from);
    case Kind::kDeadline:
      return PassDeadline();
    case Kind::kHeartbeat:
      slots_[choice.from].silent = false;
      return Send(NodeOfSlot(choice.from), {HeartbeatOf(NodeOfSlot(choice.from))});
  }
}

std::optional<std::string> World::Violation() const {
  return violation_.has_value() ? violation_ : checkers_.violation();
}

// ---- How it happens

void World::Notice(uint32_t index) {
  Slot& slot = slots_[index];
  slot.noticed = true;
  wire::Outbox outbox;
  coordinator_.OnLost(now_, Address::Of(*slot.rank), kLastEpoch, &outbox);
  Send(kScheduler, std::move(outbox.messages));
}

void World::Duplicate(NodeIndex from, NodeIndex to) {
  auto& messages = channels_.at({from, to});
  messages.insert(messages.begin(), Message(messages.front()));
  // Another range of leaves: the shard takes it for another push.
  if (mutant_ == WorldMutant::kDuplicateUnseen) --messages.front().leaves.end;
}

void World::Leave(uint32_t index) {
  members_change_ = true;
  slots_[index].leaving = true;
  slots_[index].engine->RequestLeave();
}

void World::Forget(NodeIndex from, NodeIndex to) {
  auto& messages = channels_.at({from, to});
  messages.erase(messages.begin());
  if (messages.empty()) channels_.erase({from, to});
}

void World::Watch() {
  ++hours_;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (Waits(slots_[i])) Ask(i);
  }
}

void World::Deliver(NodeIndex from, NodeIndex to) {
  const auto it = channels_.find({from, to});
  CHECK(it != channels_.end());
  Message message = std::move(it->second.front());
  it->second.erase(it->second.begin());
  if (it->second.empty()) channels_.erase(it);
  if (mutant_ != WorldMutant::kNone && !Mutate(&message)) return;
  if (to == kScheduler) {
    wire::Outbox outbox;
    const bool changing = coordinator_.roster().share_lead > 0;
    coordinator_.OnMessage(now_, message, &outbox);
    share_changes_ += changing && coordinator_.roster().share_lead == 0 ? 1 : 0;
    Send(kScheduler, std::move(outbox.messages));
  } else if (to < NodeOfSlot(0)) {
    if (message.type == MessageType::kRoster) server_epochs_[to - 1] = message.epoch;
    if (message.to.role == Role::kShard) DeliverToShard(to - 1, std::move(message));
  } else {
    DeliverToSlot(to - NodeOfSlot(0), message);
  }
}

void World::DeliverToShard(uint32_t shard, Message message) {
  wire::Outbox outbox;
  checkers_.BeforeShard(shards_[shard], message);
  shards_[shard].OnMessage(0, std::move(message), &outbox);
  checkers_.AfterShard(shards_[shard], outbox.messages);
  Send(NodeOfShard(shard), std::move(outbox.messages));
}

void World::DeliverToSlot(uint32_t index, const Message& message) {
  Slot& slot = slots_[index];
  if (slot.gone) return;
  if (message.type == MessageType::kWelcome && !slot.engine.has_value()) {
    slot.session = message.session;
    slot.engine = factory_->MakeEngine(*slot.rank);
    if (factory_->shape().policy.decentralised()) slot.peer = factory_->MakePeer(*slot.rank);
    return;
  }
  if (message.type == MessageType::kShutdown || message.type == MessageType::kRefuse) {
    slot.gone = true;
    slot.commands.clear();
    if (slot.rank.has_value() && SlotOf(*slot.rank) == index && !slot.expelled) {
      checkers_.OnWorkerGone(*slot.rank);
    }
    return;
  }
  if (!slot.engine.has_value()) return;
  if (message.type == MessageType::kRoster) slot.epoch = message.epoch;
  if (message.to.role == Role::kPeer || (slot.peer.has_value() && server::Peer::Wants(message))) {
    DeliverToPeer(index, message);
    if (message.type != MessageType::kRoster) return;
  }
  if (message.type == MessageType::kStart && !slot.started) {
    slot.started = true;
    checkers_.OnWorkerStart(*slot.rank, message.clock);
  }
  wire::Outbox outbox;
  slot.engine->OnMessage(0, message, {&outbox, &slot.commands});
  AfterEngine(index, &outbox);
}

void World::DeliverToPeer(uint32_t index, const Message& message) {
  Slot& slot = slots_[index];
  if (!slot.peer.has_value()) return;
  wire::Outbox outbox;
  slot.peer->OnMessage(0, message, &outbox);
  const auto made = slot.peer->ledger().violations().first();
  if (made.has_value() && !Violation().has_value()) Fail(absl::StrCat("L1: ", *made));
  for (Message& sent : outbox.messages) sent.session = slot.session;
  Send(NodeOfSlot(index), std::move(outbox.messages));
}

void World::AfterEngine(uint32_t index, wire::Outbox* outbox) {
  Slot& slot = slots_[index];
  for (Message& message : outbox->messages) message.session = slot.session;
  if (!slot.expelled) checkers_.AfterWorker(*slot.rank, outbox->messages);
  for (const Message& message : outbox->messages) RecordSupply(message);
  if (slot.expelled && slot.engine->failure().has_value()) {
    slot.gone = true;  // refused, it ends
    slot.commands.clear();
    return;
  }
  if (slot.engine->failure().has_value()) {
    Fail(absl::StrCat("S6: an honest worker failed: ", *slot.engine->failure()));
  }
  const auto read = slot.engine->replies().violations().first();
  if (read.has_value() && !Violation().has_value()) Fail(absl::StrCat("L1: ", *read));
  if (slot.engine->left() && !slot.expelled) checkers_.OnWorkerGone(*slot.rank);
  Send(NodeOfSlot(index), std::move(outbox->messages));
  while (instant_device_ && !slot.commands.empty()) RunDevice(index);
}

// Runs commands up to the first that is to be answered, and answers it.
void World::RunDevice(uint32_t index) {
  Slot& slot = slots_[index];
  while (!slot.commands.empty()) {
    const worker::DeviceCommand command = std::move(slot.commands.front());
    slot.commands.erase(slot.commands.begin());
    RunCommand(&slot, command);
    if (!command.wants_event) continue;
    wire::Outbox outbox;
    slot.engine->OnDevice(0, Answer(slot, command), {&outbox, &slot.commands});
    AfterEngine(index, &outbox);
    return;
  }
}

void World::RunCommand(Slot* slot, const worker::DeviceCommand& command) {
  slot->loaded.resize(factory_->worker_layout().shard_count(), kNoClock);
  const auto* load = std::get_if<worker::LoadCommand>(&command.what);
  const bool load_all = load != nullptr && !load->shard.has_value();
  if (mutant_ == WorldMutant::kNoReload && load_all) return;
  if (load_all) slot->loaded.assign(slot->loaded.size(), command.clock);
  if (load != nullptr && !load_all) slot->loaded[Index(*load->shard)] = command.clock;
  if (factory_->shape().policy.keeps_parameters()) return;
  if (const auto* forward = std::get_if<worker::RunForward>(&command.what)) {
    CheckLoaded(*slot, command.clock, forward->op, forward->part);
  } else if (const auto* backward = std::get_if<worker::RunBackward>(&command.what)) {
    CheckLoaded(*slot, command.clock, backward->op, backward->part);
  }
}

// An operator's parameters are those of its stage.
void World::CheckLoaded(const Slot& slot, Clock clock, uint32_t op, MicroBatchRange part) {
  for (uint32_t k = 0; k < slot.loaded.size(); ++k) {
    if (factory_->worker_layout().stage(ShardId{k}) != op) continue;
    if (slot.loaded[k] == clock) continue;
    Fail(absl::StrCat("B1: worker ", Index(*slot.rank), " computes leaves [", part.begin, ", ",
                      part.end, ") of clock ", clock, " with the parameters of clock ",
                      slot.loaded[k], " of shard ", k));
  }
}

worker::DeviceEvent World::Answer(const Slot& slot, const worker::DeviceCommand& command) const {
  worker::DeviceEvent event = {.run = command.run, .instruction = command.instruction};
  if (const auto* collect = std::get_if<worker::CollectBucket>(&command.what)) {
    const int64_t delta = DeltaFor(slot, command.clock, *collect);
    event.frames = {Buffer::CopyOf(&delta, sizeof(delta))};
    event.samples = collect->node.size();
  }
  return event;
}

// With the tree a gradient depends on its leaves alone, else on who computed it as well.
int64_t World::DeltaFor(const Slot& slot, Clock clock, const worker::CollectBucket& what) const {
  int64_t delta = 0;
  if (factory_->shape().policy.fixed_tree) {
    for (uint32_t leaf = what.node.begin; leaf < what.node.end; ++leaf) {
      delta += LeafDelta(clock, what.shard, what.bucket, leaf);
    }
    return delta;
  }
  const auto incarnation = static_cast<uint32_t>(&slot - slots_.data());
  return LeafDelta(clock, what.shard, what.bucket, kUnranked + incarnation);
}

// What it tells need not be true: shares may be anything, as long as all agree on them.
void World::Report(uint32_t index, uint32_t slowness) {
  Slot& slot = slots_[index];
  ++slot.told.clock;
  slot.told.samples += 1000;
  slot.told.compute_ns += 1000 * Nanos{slowness};
  Message message;
  message.type = MessageType::kHeartbeat;
  message.from = Address::Of(*slot.rank);
  message.to = Address::Scheduler();
  message.session = slot.session;
  message.body = slot.told;
  Send(NodeOfSlot(index), {std::move(message)});
}

void World::RecordSupply(const Message& push) {
  const bool first_bucket = push.to == Address::Of(ShardId{0}) && Index(push.bucket) == 0;
  if (factory_->shape().rebalance.leaf_count == 0) return;
  if (push.type != MessageType::kPush || !first_bucket) return;
  for (uint32_t leaf = push.leaves.begin; leaf < push.leaves.end; ++leaf) {
    ++supplied_[{push.clock, leaf}];
  }
}

void World::Crash(uint32_t index) {
  Slot& slot = slots_[index];
  members_change_ = true;
  slot.crashed = slot.gone = true;
  slot.commands.clear();
  slot.engine.reset();
  slot.peer.reset();
  checkers_.OnWorkerGone(*slot.rank);
  const auto to_it = [&](const auto& channel) { return channel.first.second == NodeOfSlot(index); };
  std::erase_if(channels_, to_it);
  for (auto& [ends, kept] : broken_) std::erase_if(kept, to_it);
}

// ---- The end

void World::CheckEnd() {
  if (Violation().has_value()) return;
  if (!Finished()) {
    if (channels_.empty() && Enabled().empty())
      Fail("S5: deadlock: nothing can happen, and the job is not over");
    return;
  }
  if (timed_out_ && coordinator_.ended()->code == kExitPeerLost) return;
  if (coordinator_.ended()->code != 0) {
    return Fail(absl::StrCat("end: the job ended with code ", coordinator_.ended()->code, ": ",
                             coordinator_.ended()->text));
  }
  const JobShape& shape = factory_->shape();
  // While nobody comes or goes, each leaf is computed once at every clock, by whatever shares.
  const bool recorded = shape.rebalance.leaf_count > 0 && !members_change_;
  for (Clock c = 0; c < shape.clocks && recorded; ++c) {
    for (uint32_t leaf = 0; leaf < shape.leaf_count; ++leaf) {
      const auto it = supplied_.find({c, leaf});
      const uint32_t times = it == supplied_.end() ? 0 : it->second;
      if (times == 1) continue;
      return Fail(
          absl::StrCat("S6: leaf ", leaf, " of clock ", c, " was computed ", times, " times"));
    }
  }
  if (!shape.policy.adopts()) return;
  // Whatever happened, each leaf of each clock is in the store once.
  for (const server::Shard& shard : shards_) {
    const auto& counts = shard.store().counts()->buckets();
    for (uint32_t b = 0; b < counts.size(); ++b) {
      int64_t due = 0;
      for (Clock c = 0; c < shape.clocks; ++c) {
        for (uint32_t leaf = 0; leaf < shape.leaf_count; ++leaf) {
          due += LeafDelta(c, shard.id(), BucketId{b}, leaf);
        }
      }
      if (counts[b].sum == due) continue;
      return Fail(absl::StrCat("S6: shard ", Index(shard.id()), " bucket ", b,
                               " does not hold each leaf once at the end (version ",
                               shard.policy().Frontier(), " of ", shape.clocks, ")"));
    }
  }
}

void World::Fail(std::string what) {
  if (!violation_.has_value()) violation_ = std::move(what);
}

std::string World::Describe(const Choice& choice) const {
  const auto head = [&] { return wire::ToString(channels_.at({choice.from, choice.to}).front()); };
  const auto slot = [&] {
    const auto& rank = slots_[choice.from].rank;
    return absl::StrCat(rank.has_value() ? absl::StrCat("worker-", Index(*rank)) : "unranked",
                        " (process ", choice.from, ")");
  };
  switch (choice.kind) {
    case Kind::kDeliver:
      return absl::StrCat("deliver ", head());
    case Kind::kDevice:
      return absl::StrCat("device of ", slot(), " answers");
    case Kind::kCrash:
      return absl::StrCat("CRASH of ", slot());
    case Kind::kNotice:
      return absl::StrCat("the coordinator notices the loss of ", slot());
    case Kind::kCut:
      return absl::StrCat("CUT: lost from ", head(), " on");
    case Kind::kDuplicate:
      return absl::StrCat("DUPLICATE ", head());
    case Kind::kLeave:
      return absl::StrCat("LEAVE asked of ", slot());
    case Kind::kJoin:
      return absl::StrCat("JOIN of process ", slots_.size());
    case Kind::kReport:
      return absl::StrCat("REPORT of ", slot(), ": ", choice.to, " ns a sample");
    case Kind::kBreak:
      return absl::StrCat("BREAK between nodes ", choice.from, " and ", choice.to);
    case Kind::kResume:
      return absl::StrCat("nodes ", choice.from, " and ", choice.to, " are connected again");
    case Kind::kLose:
      return absl::StrCat("LOST: the link between nodes ", choice.from, " and ", choice.to);
    case Kind::kLateWord:
      return absl::StrCat("LATE: node ", choice.to, " finds its link to ", slot(), " lost");
    case Kind::kSettle:
      return "the coordinator acts upon lost links";
    case Kind::kForget:
      return absl::StrCat("FORGOTTEN by its server: ", head());
    case Kind::kAsk:
      return absl::StrCat("ASKED AGAIN by ", slot());
    case Kind::kWatch:
      return "an hour later all that wait ask again";
    case Kind::kSilence:
      return absl::StrCat("TIMEOUT of ", slot(), ", which lives");
    case Kind::kDeadline:
      return "DEADLINE of what the coordinator waits for";
    case Kind::kHeartbeat:
      return absl::StrCat(slot(), " is heard again");
  }
  return "?";
}

void World::AddTo(Fingerprint* f) const {
  for (const uint32_t left : {faults_.crashes, faults_.leaves, faults_.joins, faults_.duplicates,
                              faults_.reports, faults_.breaks, faults_.losses, faults_.late_words,
                              faults_.forgets, faults_.asks, faults_.timers}) {
    if (mutant_ != WorldMutant::kForgetfulPrint) f->Add(left);
  }
  f->Add(members_change_);
  f->Add(now_);
  f->Add(timed_out_);
  for (const auto& [leaf, times] : supplied_) {
    f->Add(leaf.first);
    f->Add(leaf.second);
    f->Add(times);
  }
  coordinator_.AddTo(f);
  for (const server::Shard& shard : shards_) shard.AddTo(f);
  for (const Slot& slot : slots_) {
    f->Add(slot.rank.has_value() ? Index(*slot.rank) : kUnranked);
    f->Add(uint32_t{slot.started} | uint32_t{slot.leaving} << 1 | uint32_t{slot.crashed} << 2 |
           uint32_t{slot.noticed} << 3 | uint32_t{slot.gone} << 4 | uint32_t{slot.expelled} << 5 |
           uint32_t{slot.silent} << 6);
    f->Add(slot.ranked);
    f->Add(slot.epoch);
    for (const Clock loaded : slot.loaded) f->Add(loaded);
    f->Add(slot.told.clock);
    f->Add(slot.told.samples);
    f->Add(slot.told.compute_ns);
    if (slot.engine.has_value()) slot.engine->AddTo(f);
    if (slot.peer.has_value()) slot.peer->AddTo(f);
    f->Add(slot.commands.size());
    for (const worker::DeviceCommand& command : slot.commands) {
      f->Add(command.run);
      f->Add(command.instruction);
    }
  }
  for (const auto& [ends, messages] : channels_) {
    f->Add(ends.first);
    f->Add(ends.second);
    f->Add(messages.size());
    for (const Message& message : messages) message.AddTo(f);
  }
  f->Add(broken_.size());
  for (const auto& [ends, kept] : broken_) {
    f->Add(ends.first);
    f->Add(ends.second);
    for (const auto& [channel, messages] : kept) {
      f->Add(channel.first);
      f->Add(messages.size());
      for (const Message& message : messages) message.AddTo(f);
    }
  }
  for (const Epoch epoch : server_epochs_) f->Add(epoch);
  f->Add(hours_);
  f->Add(lost_.size());
  for (const auto& [a, b] : lost_) {
    f->Add(a);
    f->Add(b);
  }
  checkers_.AddTo(f);
  f->Add(Violation().has_value());
}

}  // namespace soapstone::sim
