#include "sim/team/team_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "cluster/actor_options.h"
#include "server/store/count_store.h"

namespace soapstone::sim {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;
using TeamKind = TeamWorld::Choice::Kind;

namespace {

scheduler::Coordinator CoordinatorOf(const cluster::TrainingJob& job) {
  const uint32_t sets = job.team->sets();
  return scheduler::Coordinator({.servers = job.layout->shard_count() / sets,
                                 .workers = job.workers,
                                 .shards_per_server = sets,
                                 .evaluate = true,
                                 .save = false,
                                 .team = job.team->shape,
                                 .needs_all_teams = job.specs.policy.takes_over(),
                                 .beside_workers = job.team->plan.owned});
}

Message HelloOf(Address from, int64_t rank, uint64_t nonce) {
  Message hello;
  hello.type = MessageType::kHello;
  hello.from = from;
  hello.to = Address::Scheduler();
  hello.body = wire::Hello{.role = from.role, .wanted_rank = rank, .nonce = nonce};
  return hello;
}

}  // namespace

TeamWorld::TeamWorld(const TeamWorldOptions& options)
    : job_(options.job),
      slow_scheduler_(options.slow_scheduler),
      may_end_(options.may_end),
      mutant_(options.mutant),
      faults_(options.faults),
      coordinator_(std::make_shared<const scheduler::Coordinator>(CoordinatorOf(*options.job))),
      holders_(options.job->workers),
      truth_(options.job) {
  for (uint32_t k = 0; k < job_->layout->shard_count(); ++k) {
    server::Store store(server::CountStore(job_->layout->bucket_count(ShardId{k})));
    if (mutant_ == TeamMutant::kUpdatesLost) store.SetFault(server::StoreFault::kDropsUpdates);
    shards_.emplace_back(ShardOptionsWith(mutant_, *job_, ShardId{k}), std::move(store));
  }
  Register();
}

// Registration and start, in one fixed order; what seats are sent after kWelcome is under way.
void TeamWorld::Register() {
  const uint32_t servers = job_->layout->shard_count() / job_->team->sets();
  for (uint32_t server = 0; server < servers; ++server) {
    const Message hello = HelloOf(Address::Of(ServerId{server}), server, server + 1);
    Schedule(false, [&](scheduler::Coordinator* coordinator, wire::Outbox* out) {
      coordinator->OnMessage(0, hello, out);
    });
  }
  for (uint32_t rank = 0; rank < job_->workers; ++rank) AddProcess(rank);
  for (;;) {
    const auto& channels = connections_.channels();
    const auto next = std::find_if(channels.begin(), channels.end(), [&](const auto& channel) {
      return channel.first.second < NodeOfProcess(0) ||
             channel.second.front().type == MessageType::kWelcome;
    });
    if (next == channels.end()) return;
    Deliver(next->first.first, next->first.second);
  }
}

void TeamWorld::AddProcess(uint32_t rank) {
  const auto process = static_cast<uint32_t>(processes_.size());
  processes_.emplace_back().rank = WorkerId{rank};
  const uint64_t nonce = process + 1;
  Send(NodeOfProcess(process), {HelloOf(Address::Temporary(Role::kWorker, nonce), rank, nonce)});
}

std::optional<uint32_t> TeamWorld::HolderOf(uint32_t rank) const { return holders_[rank]; }

std::optional<TeamWorld::NodeIndex> TeamWorld::Route(Address to) const {
  if (to.role == Role::kScheduler) return kScheduler;
  if (to.role == Role::kShard) return NodeOfShard(to.index);
  if (to.role != Role::kWorker) return std::nullopt;
  if (to.IsTemporary()) return NodeOfProcess((to.index & ~Address::kTemporaryBit) - 1);
  const std::optional<uint32_t> holder = HolderOf(to.index);
  return holder.has_value() ? std::optional(NodeOfProcess(*holder)) : std::nullopt;
}

// ---- What can happen

std::vector<TeamWorld::Choice> TeamWorld::Enabled() const {
  std::vector<Choice> choices;
  if (Finished() || violation_.has_value()) return choices;
  for (const auto& [ends, messages] : connections_.channels()) {
    const TeamProcess* to = ProcessAt(ends.second);
    // Who does not know the session yet holds what others than the scheduler send
    // (transport/node/early_guests_test.cc).
    const bool held = to != nullptr && !to->engine.has_value() && ends.first != kScheduler;
    if (held || (to != nullptr && to->gone)) continue;
    choices.push_back({TeamKind::kDeliver, ends.first, ends.second});
  }
  for (uint32_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].commands.empty()) choices.push_back({TeamKind::kDevice, i});
    if (processes_[i].crashed && !processes_[i].noticed) choices.push_back({TeamKind::kNotice, i});
  }
  // What goes on by a fault alone stands still: none is offered then.
  if (!choices.empty()) AddFaults(&choices);
  return choices;
}

void TeamWorld::Do(const Choice& choice) {
  switch (choice.kind) {
    case TeamKind::kDeliver:
      Deliver(choice.from, choice.to);
      break;
    case TeamKind::kDevice:
      RunDevice(choice.from);
      break;
    case TeamKind::kNotice:
      TellLost(choice.from);
      break;
    default:
      CarryOutFault(choice);
      break;
  }
  if (violation_.has_value()) return;
  if (Finished()) return CheckEnd();
  if (Enabled().empty()) Fail("S5: nothing can happen, and seats wait");
}

// ---- How it happens

void TeamWorld::Send(NodeIndex from, std::vector<Message> messages) {
  for (Message& message : messages) {
    const std::optional<NodeIndex> to = Route(message.to);
    if (!to.has_value()) continue;
    if (from == kScheduler) NoteSent(&message, *to);
    if (*to == kScheduler && !slow_scheduler_) {
      OnScheduler(from, message);
      continue;
    }
    const TeamProcess* process = ProcessAt(*to);
    const bool waits_for_successor = faults_.joins > 0 && message.type == MessageType::kBlock;
    if (process != nullptr && process->gone && !waits_for_successor) continue;
    connections_.Send({from, *to}, std::move(message));
  }
}

// The scheduler's word to a process.
void TeamWorld::NoteSent(Message* message, NodeIndex to) {
  TeamProcess* process = ProcessAt(to);
  if (process == nullptr) return;
  const uint32_t index = to - NodeOfProcess(0);
  if (message->type == MessageType::kWelcome) {
    std::optional<uint32_t>& holder = holders_[Index(process->rank)];
    const std::optional<uint32_t> former = std::exchange(holder, index);
    if (former.has_value() && *former != index) HandOn(*former, index);
  } else if (message->type == MessageType::kStart) {
    process->let_in = true;
    if (message->epoch > 1 && wire::SeatOf(process->rank, job_->team->shape) == 0) {
      ++told_.teams_back;
    }
  } else if (message->type == MessageType::kShutdown) {
    process->out = true;
  }
}

void TeamWorld::Schedule(bool ends,
                         const std::function<void(scheduler::Coordinator*, wire::Outbox*)>& what) {
  auto next = std::make_shared<scheduler::Coordinator>(*coordinator_);
  wire::Outbox out;
  what(next.get(), &out);
  const auto& ended = next->ended();
  const bool is_over = ended.has_value() && ended->code != kExitOk;
  if (is_over != ends && !coordinator_->ended().has_value()) {
    Fail(is_over ? absl::StrCat("end: the job ends with ", ended->code, ": ", ended->text)
                 : "end: the job goes on without a team that it needs");
  }
  told_.ended_early = told_.ended_early || is_over;
  coordinator_ = std::move(next);
  Send(kScheduler, std::move(out.messages));
  for (const wire::Member& member : coordinator_->roster().workers) {
    processes_[*HolderOf(Index(member.worker))].admitted = member.admitted;
  }
}

void TeamWorld::OnScheduler(NodeIndex from, const Message& message) {
  const TeamProcess* process = ProcessAt(from);
  const bool leaves = message.type == MessageType::kLeave && !process->out;
  const bool ends = leaves && process->let_in && EndsWithout(TeamOf(*process));
  if (leaves) NoteLost(*process);
  Schedule(ends, [&](scheduler::Coordinator* coordinator, wire::Outbox* out) {
    coordinator->OnMessage(0, message, out);
  });
}

void TeamWorld::Deliver(NodeIndex from, NodeIndex to) {
  Message message = connections_.Take({from, to});
  Mutate(mutant_, &message);
  if (to == kScheduler) return OnScheduler(from, message);
  if (to < NodeOfProcess(0)) return DeliverToShard(to - NodeOfShard(0), from, std::move(message));
  DeliverToProcess(to, from, message);
}

void TeamWorld::DeliverToShard(uint32_t shard, NodeIndex from, Message message) {
  const TeamProcess* sender = ProcessAt(from);
  told_.former_words += sender != nullptr && sender->out ? 1 : 0;
  truth_.BeforeShard(ShardId{shard}, message, sender != nullptr ? sender->holder() : SeatHolder());
  wire::Outbox out;
  shards_[shard].OnMessage(0, std::move(message), &out);
  const std::optional<server::Violation>& broken = shards_[shard].ledger().first_violation();
  if (broken.has_value()) Fail(absl::StrCat("G1: ", broken->ToString()));
  truth_.AfterShard(shards_[shard], out.messages);
  if (truth_.violation().has_value()) Fail(*truth_.violation());
  Send(NodeOfShard(shard), std::move(out.messages));
}

void TeamWorld::DeliverToProcess(NodeIndex node, NodeIndex from, const Message& message) {
  const uint32_t index = node - NodeOfProcess(0);
  TeamProcess& process = processes_[index];
  switch (message.type) {
    case MessageType::kWelcome:
      if (!process.engine.has_value()) process.Begin(*job_, mutant_);
      return;
    case MessageType::kShutdown:
    case MessageType::kRefuse:
    case MessageType::kWait:  // time stands still: it gives up
      return StopProcess(index);
    default:
      break;
  }
  if (!process.engine.has_value()) return;
  if (message.type == MessageType::kRoster) process.heard = message.epoch;
  if (message.type == MessageType::kStart) process.started = true;
  if (const TeamProcess* sender = ProcessAt(from); sender != nullptr) {
    told_.former_blocks += sender->admitted != process.admitted ? 1 : 0;
  }
  wire::Outbox out;
  process.engine->OnMessage(0, message, {.outbox = &out, .commands = &process.commands});
  AfterEngine(index, &out);
}

void TeamWorld::RunDevice(uint32_t index) {
  TeamProcess& process = processes_[index];
  TeamProcess::Outcome done = process.RunDevice(*job_, mutant_);
  if (done.violation.has_value()) Fail(*std::move(done.violation));
  if (!done.event.has_value()) return;
  wire::Outbox out;
  process.engine->OnDevice(0, *std::move(done.event),
                           {.outbox = &out, .commands = &process.commands});
  AfterEngine(index, &out);
}

void TeamWorld::AfterEngine(uint32_t index, wire::Outbox* out) {
  const TeamProcess& process = processes_[index];
  const bool refused = process.engine->failure().has_value();
  if (refused && !process.out) Fail(absl::StrCat("G1: refused: ", *process.engine->failure()));
  const auto broken = process.engine->replies().violations().first();
  if (broken.has_value()) Fail(absl::StrCat("G1: ", *broken));
  const bool ends = refused || process.engine->left();
  Send(NodeOfProcess(index), std::move(out->messages));
  if (ends) StopProcess(index);
}

// What is on its way to it is lost, but what a successor's links may bring.
void TeamWorld::StopProcess(uint32_t index) {
  if (processes_[index].gone) return;
  processes_[index].Stop();
  const NodeIndex node = NodeOfProcess(index);
  std::vector<std::pair<Connections::Ends, Message>> kept;
  for (const auto& [ends, messages] : connections_.channels()) {
    for (const Message& message : messages) {
      const bool block = ends.second == node && message.type == MessageType::kBlock;
      if (block && faults_.joins > 0) kept.emplace_back(ends, message);
    }
  }
  connections_.CutAllTo(node);
  for (auto& [ends, message] : kept) connections_.Send(ends, std::move(message));
}

// ---- The end

void TeamWorld::CheckEnd() {
  if (told_.ended_early) return;
  truth_.CheckEnd(coordinator_->roster());
  if (truth_.violation().has_value()) return Fail(*truth_.violation());
  for (const server::Shard& shard : shards_) {
    if (shard.ledger().violations().count() == 0) continue;
    Fail(absl::StrCat("G1: ", *shard.ledger().violations().first()));
  }
}

void TeamWorld::Fail(std::string what) {
  if (!violation_.has_value()) violation_ = std::move(what);
}

std::string TeamWorld::Describe(const Choice& choice) const {
  const auto head = [&] { return wire::ToString(connections_.Head({choice.from, choice.to})); };
  const auto process = [&] {
    return absl::StrCat("worker ", Index(processes_[choice.from].rank), " (process ", choice.from,
                        ")");
  };
  switch (choice.kind) {
    case TeamKind::kDeliver:
      return absl::StrCat("deliver ", head());
    case TeamKind::kDevice:
      return absl::StrCat("device of ", process());
    case TeamKind::kNotice:
      return absl::StrCat("the scheduler misses ", process());
    case TeamKind::kDuplicate:
      return absl::StrCat("twice ", head());
    case TeamKind::kLose:
      return absl::StrCat("team ", choice.from, " is lost");
    case TeamKind::kCrash:
      return absl::StrCat("crash of ", process());
    case TeamKind::kCut:
      return absl::StrCat("the rest is lost of ", head());
    case TeamKind::kLeave:
      return absl::StrCat(process(), " is to leave");
    case TeamKind::kExpel:
      return absl::StrCat(process(), " is counted out, and lives");
    case TeamKind::kJoin:
      break;
  }
  return absl::StrCat("another worker ", choice.from, " asks to join");
}

void TeamWorld::AddTo(Fingerprint* f) const {
  coordinator_->AddTo(f);
  for (const TeamProcess& process : processes_) process.AddTo(f);
  for (const auto& holder : holders_) f->Add(holder.has_value() ? int64_t{*holder} : int64_t{-1});
  for (const server::Shard& shard : shards_) shard.AddTo(f);
  connections_.AddTo(f);
  truth_.AddTo(f);
  for (const uint32_t left : {faults_.duplicates, faults_.losses, faults_.crashes, faults_.cuts,
                              faults_.leaves, faults_.expulsions, faults_.joins}) {
    f->Add(left);
  }
  f->Add(told_.ended_early);
}

}  // namespace soapstone::sim
