#include "sim/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cluster/worker_recipients.h"
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

constexpr uint32_t kHoursMax = 16;  // what hangs for so long hangs for ever

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
      servers_(*factory_, options.images),
      checkers_({.policy = options.claimed.value_or(factory_->policy()),
                 .shards = factory_->shards(),
                 .root_shards = factory_->layout().shard_count(),
                 .workers = factory_->job().workers,
                 .micro_batch_count = factory_->job().micro_batches,
                 .rounds = factory_->rounds()}),
      cut_({.kind = options.cut,
            .shards = factory_->shards(),
            .clocks = factory_->job().total_clocks,
            .by_rounds = server::ChangesByRounds(factory_->policy()),
            .all_micro_batches = factory_->policy().takes_over(),
            .micro_batch_count = factory_->job().micro_batches,
            .mutant = options.mutant}) {
  wire::Outbox timers;  // time stands still
  coordinator_.Start(0, &timers);
  for (uint32_t k = 0; k < servers_.count(); ++k) {
    Send(NodeOfServer(k), {factory_->MakeHello(Address::Of(ServerId{k}), k, k + 1)});
  }
  for (uint32_t w = 0; w < factory_->job().workers; ++w) AddSlot(w);
}

void World::AddSlot(int64_t wanted_rank) {
  const uint32_t index = static_cast<uint32_t>(slots_.size());
  slots_.emplace_back();
  const Address from = {Role::kWorker, kUnranked + index};
  Send(NodeOfSlot(index), {factory_->MakeHello(from, wanted_rank, kUnranked + index)});
}

void World::RunRegistration() {
  // What goes to the scheduler, comes from it, or is between servers.
  const auto registers = [this](const auto& channel) {
    const auto [from, to] = channel.first;
    return from == kScheduler || to == kScheduler || (from < NodeOfSlot(0) && to < NodeOfSlot(0));
  };
  for (;;) {
    const auto& channels = connections_.channels();
    const auto it = std::find_if(channels.begin(), channels.end(), registers);
    if (it == channels.end()) return;
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

const SharedList<wire::Chain>& World::ChainsOf(NodeIndex node) const {
  if (node == kScheduler) return coordinator_.roster().chains;
  if (node < NodeOfSlot(0)) return servers_.chains(node - NodeOfServer(0));
  return slots_[node - NodeOfSlot(0)].chains;
}

std::optional<World::NodeIndex> World::Route(NodeIndex from, Address to) const {
  switch (to.role) {
    case Role::kScheduler:
      return kScheduler;
    case Role::kServer:
      return NodeOfServer(to.index);
    case Role::kShard: {
      const SharedList<wire::Chain>& chains = ChainsOf(from);
      if (to.index >= chains.size()) return NodeOfServer(to.index);
      return NodeOfServer(Index(chains[to.index].links.front().server));
    }
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
    // One that was counted out and lives on has its worker and its peer, whoever has the rank now.
    const auto to = server::Peer::IsWithinNode(message) ? from : Route(from, message.to);
    if (to.has_value() && message.type == MessageType::kWelcome && *to >= NodeOfSlot(0)) {
      // From here on the connection is known by its rank.
      WorldSlot& slot = slots_[*to - NodeOfSlot(0)];
      slot.rank = WorkerId{std::get<wire::Welcome>(message.body).rank};
      for (const WorldSlot& other : slots_) slot.ranked = std::max(slot.ranked, other.ranked + 1);
    }
    if (!to.has_value()) continue;
    const bool overtakes =
        message.type == MessageType::kClock &&
        (mutant_ == WorldMutant::kClockOvertakes || mutant_ == WorldMutant::kUncountedClock);
    connections_.Send({from, *to}, std::move(message), overtakes);
  }
}

// ---- What can happen

// Some other worker is started and will carry on.
bool World::CanSpare(uint32_t index) const {
  if (!slots_[index].running() || slots_[index].leaving) return false;
  if (coordinator_.phase() != scheduler::Coordinator::Phase::kRunning &&
      coordinator_.phase() != scheduler::Coordinator::Phase::kEvaluating) {
    return false;
  }
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const WorldSlot& other = slots_[i];
    if (i != index && other.started && !other.gone && !other.leaving) return true;
  }
  return false;
}

bool World::CanJoin() const {
  if (coordinator_.phase() != scheduler::Coordinator::Phase::kRunning) return false;
  const auto holds_rank = [](const WorldSlot& s) { return s.crashed ? !s.noticed : !s.gone; };
  return static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(), holds_rank)) <
         factory_->job().workers;
}

std::vector<Choice> World::Enabled() const {
  std::vector<Choice> choices;
  if (Finished() || Violation().has_value()) return choices;
  for (const auto& [ends, messages] : connections_.channels()) {
    const auto [from, to] = ends;
    choices.push_back({Kind::kDeliver, from, to});
    const bool of_cut = WorldCut::IsOf(messages.front());
    if (faults_.duplicates > 0 && (of_cut || IsData(messages.front()))) {
      choices.push_back({Kind::kDuplicate, from, to});
    }
    const bool of_server = from != kScheduler && from < NodeOfSlot(0);
    if (of_server ? servers_.crashed(from - NodeOfServer(0))
                  : from != kScheduler && slots_[from - NodeOfSlot(0)].crashed) {
      choices.push_back({Kind::kCut, from, to});
    }
    if (faults_.forgets > 0 && (of_cut || IsAnswer(messages.front()))) {
      choices.push_back({Kind::kForget, from, to});
    }
  }
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const WorldSlot& slot = slots_[i];
    if (!slot.device.idle()) choices.push_back({Kind::kDevice, i});
    if (slot.crashed && !slot.noticed) choices.push_back({Kind::kNotice, i});
    if (!CanSpare(i)) continue;
    if (faults_.crashes > 0) choices.push_back({Kind::kCrash, i});
    if (faults_.leaves > 0 && slot.started && !slot.engine->done()) {
      choices.push_back({Kind::kLeave, i});
    }
  }
  AddLinkChoices(&choices);
  AddServerChoices(&choices);
  AddTimerChoices(&choices);
  const bool steps = coordinator_.phase() == scheduler::Coordinator::Phase::kRunning;
  if (cut_.may_begin() && steps) choices.push_back({Kind::kCheckpoint});
  if (faults_.joins > 0 && CanJoin()) choices.push_back({Kind::kJoin});
  for (uint32_t i = 0; i < slots_.size() && faults_.reports > 0; ++i) {
    if (!slots_[i].running() || !slots_[i].started) continue;
    for (uint32_t slowness = 1; slowness <= 4; slowness *= 2) {
      choices.push_back({Kind::kReport, i, slowness});
    }
  }
  if (choices.empty() && watched_ && hours_ < kHoursMax) choices.push_back({Kind::kWatch});
  for (uint32_t i = 0; i < slots_.size() && faults_.asks > 0 && !choices.empty(); ++i) {
    if (slots_[i].waits()) choices.push_back({Kind::kAsk, i});
  }
  return choices;
}

bool World::IsAnswer(const Message& message) const {
  return message.type == MessageType::kPullReply && message.from.role == Role::kShard &&
         message.to.role == Role::kWorker;
}

void World::Do(const Choice& choice) {
  if (uint32_t* left = faults_.Of(choice.kind)) --*left;
  if (choice.is_fault() && choice.kind != Kind::kDuplicate) cut_.Excuse();
  CarryOut(choice);
  LookAtCut();
  CheckEnd();
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
      return connections_.Cut({choice.from, choice.to});
    case Kind::kDuplicate:
      return Duplicate(choice.from, choice.to);
    case Kind::kLeave:
      return Leave(choice.from);
    case Kind::kJoin:
      return AddSlot(-1);
    case Kind::kReport:
      return Report(choice.from, choice.to);
    case Kind::kBreak:
      return connections_.Break(choice.from, choice.to, mutant_ != WorldMutant::kNoResume);
    case Kind::kResume:
      return connections_.Resume(choice.from, choice.to);
    case Kind::kLose:
      return Lose(choice.from, choice.to);
    case Kind::kLateWord:
      return LateWord(choice.from, choice.to);
    case Kind::kSettle:
      return SettleLinks();
    case Kind::kForget:
      connections_.Take({choice.from, choice.to});
      return;
    case Kind::kAsk:
      ++hours_;
      return Ask(choice.from);
    case Kind::kWatch:
      return Watch();
    case Kind::kServerCrash:
    case Kind::kServerNotice:
    case Kind::kServerSuspect:
      return LoseServer(choice.kind, choice.from);
    case Kind::kCheckpoint:
      return cut_.Begin();
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
  if (violation_.has_value()) return violation_;
  return servers_.violation().has_value() ? servers_.violation() : checkers_.violation();
}

// ---- How it happens

void World::Notice(uint32_t index) {
  WorldSlot& slot = slots_[index];
  slot.noticed = true;
  wire::Outbox outbox;
  coordinator_.OnLost(now_, Address::Of(*slot.rank), kLastEpoch, &outbox);
  Send(kScheduler, std::move(outbox.messages));
}

void World::Duplicate(NodeIndex from, NodeIndex to) {
  Connections::Messages& messages = connections_.Change({from, to});
  const bool late = WorldCut::IsOf(messages.front());
  messages.insert(late ? messages.end() : messages.begin(), Message(messages.front()));
  // Another range of micro-batches: the shard takes it for another push.
  if (mutant_ != WorldMutant::kDuplicateUnseen) return;
  if (auto* push = std::get_if<wire::Push>(&messages.front().body)) --push->micro_batches.end;
}

void World::Leave(uint32_t index) {
  members_change_ = true;
  slots_[index].leaving = true;
  slots_[index].engine->RequestLeave();
}

void World::Deliver(NodeIndex from, NodeIndex to) {
  Message message = connections_.Take({from, to});
  const bool frees =
      message.type == MessageType::kBound && message.clock >= factory_->job().total_clocks;
  if ((frees && mutant_ == WorldMutant::kNeverReleased) || !Mutate(mutant_, &message)) return;
  if (to == kScheduler && WorldCut::IsOf(message)) {
    cut_.OnMessage(std::move(message));
  } else if (to == kScheduler) {
    wire::Outbox outbox;
    const bool changing = coordinator_.roster().share_lead > 0;
    coordinator_.OnMessage(now_, message, &outbox);
    share_changes_ += changing && coordinator_.roster().share_lead == 0 ? 1 : 0;
    Send(kScheduler, std::move(outbox.messages));
  } else if (to < NodeOfSlot(0)) {
    DeliverToServer(to - NodeOfServer(0), std::move(message));
  } else {
    DeliverToSlot(to - NodeOfSlot(0), message);
  }
}

void World::DeliverToServer(uint32_t server, Message message) {
  wire::Outbox outbox;
  const bool kept =
      mutant_ == WorldMutant::kNeverDrained && message.type == MessageType::kCheckpoint;
  servers_.Deliver(server, std::move(message), kept, &checkers_, &cut_, &outbox);
  Send(NodeOfServer(server), std::move(outbox.messages));
}

void World::DeliverToSlot(uint32_t index, const Message& message) {
  WorldSlot& slot = slots_[index];
  if (slot.gone) return;
  if (message.type == MessageType::kWelcome && !slot.engine.has_value()) {
    slot.session = message.session;
    slot.engine = factory_->MakeEngine(*slot.rank);
    if (factory_->policy().decentralised()) slot.peer = factory_->MakePeer(*slot.rank);
    return;
  }
  // Time stands still here: who is to wait for its place gives up.
  if (message.type == MessageType::kShutdown || message.type == MessageType::kRefuse ||
      message.type == MessageType::kWait) {
    slot.gone = true;
    slot.device.Stop();
    if (slot.rank.has_value() && SlotOf(*slot.rank) == index && !slot.expelled) {
      checkers_.OnWorkerGone(*slot.rank);
    }
    return;
  }
  if (!slot.engine.has_value()) return;
  if (const auto* roster = std::get_if<wire::Roster>(&message.body)) {
    slot.epoch = message.epoch;
    slot.chains = roster->chains;
  }
  const cluster::WorkerRecipients to = cluster::RecipientsOf(message, slot.peer.has_value());
  if (to.peer) DeliverToPeer(index, message);
  if (!to.engine) return;
  if (message.type == MessageType::kStart && !slot.started) {
    slot.started = true;
    checkers_.OnWorkerStart(*slot.rank, message.clock);
  }
  wire::Outbox outbox;
  slot.engine->OnMessage(0, message, {&outbox, slot.device.commands()});
  AfterEngine(index, &outbox);
}

void World::DeliverToPeer(uint32_t index, const Message& message) {
  WorldSlot& slot = slots_[index];
  wire::Outbox outbox;
  slot.peer->OnMessage(0, message, &outbox);
  const auto made = slot.peer->ledger().violations().first();
  if (made.has_value() && !Violation().has_value()) Fail(absl::StrCat("L1: ", *made));
  for (Message& sent : outbox.messages) sent.session = slot.session;
  Send(NodeOfSlot(index), std::move(outbox.messages));
}

void World::AfterEngine(uint32_t index, wire::Outbox* outbox) {
  WorldSlot& slot = slots_[index];
  for (Message& message : outbox->messages) message.session = slot.session;
  if (!slot.expelled) checkers_.AfterWorker(*slot.rank, outbox->messages);
  if (factory_->job().rebalance) {
    for (const Message& message : outbox->messages) supply_.Record(message);
  }
  if (slot.expelled && slot.engine->failure().has_value()) {
    slot.gone = true;  // refused, it ends
    slot.device.Stop();
    return;
  }
  if (slot.engine->failure().has_value()) {
    Fail(absl::StrCat("S6: an honest worker failed: ", *slot.engine->failure()));
  }
  const auto read = slot.engine->replies().violations().first();
  if (read.has_value() && !Violation().has_value()) Fail(absl::StrCat("L1: ", *read));
  if (slot.engine->left() && !slot.expelled) checkers_.OnWorkerGone(*slot.rank);
  Send(NodeOfSlot(index), std::move(outbox->messages));
  while (instant_device_ && !slot.device.idle()) RunDevice(index);
}

// Up to the first command that is to be answered.
void World::RunDevice(uint32_t index) {
  WorldSlot& slot = slots_[index];
  ScriptedDevice::Outcome done =
      slot.device.Run(*factory_, {.process = kUnranked + index,
                                  .rank = *slot.rank,
                                  .reloads = mutant_ != WorldMutant::kNoReload});
  if (done.violation.has_value()) Fail(*std::move(done.violation));
  if (!done.event.has_value()) return;
  wire::Outbox outbox;
  slot.engine->OnDevice(0, *done.event, {&outbox, slot.device.commands()});
  AfterEngine(index, &outbox);
}

// What it tells need not be true: shares may be anything, as long as all agree on them.
void World::Report(uint32_t index, uint32_t slowness) {
  WorldSlot& slot = slots_[index];
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

void World::Crash(uint32_t index) {
  WorldSlot& slot = slots_[index];
  members_change_ = true;
  slot.crashed = slot.gone = true;
  slot.device.Stop();
  slot.engine.reset();
  slot.peer.reset();
  checkers_.OnWorkerGone(*slot.rank);
  connections_.CutAllTo(NodeOfSlot(index));
}

void World::Fail(std::string what) {
  if (!violation_.has_value()) violation_ = std::move(what);
}

std::string World::Describe(const Choice& choice) const {
  const auto head = [&] { return wire::ToString(connections_.Head({choice.from, choice.to})); };
  const auto slot = [&] { return slots_[choice.from].Name(choice.from); };
  return sim::Describe(choice, head, slot, slots_.size());
}

void World::AddTo(Fingerprint* f) const {
  if (mutant_ != WorldMutant::kForgetfulPrint) faults_.AddTo(f);
  f->Add(members_change_);
  f->Add(now_);
  f->Add(timed_out_);
  supply_.AddTo(f);
  cut_.AddTo(f);
  coordinator_.AddTo(f);
  servers_.AddTo(f);
  for (const WorldSlot& slot : slots_) slot.AddTo(f);
  connections_.AddTo(f);
  f->Add(hours_);
  checkers_.AddTo(f);
  f->Add(Violation().has_value());
}

}  // namespace soapstone::sim
