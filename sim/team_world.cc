#include "sim/team_world.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "absl/strings/str_cat.h"
#include "cluster/actor_options.h"
#include "server/store/count_store.h"
#include "wire/membership/teams.h"

namespace soapstone::sim {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using worker::SeatOutline;

// A seat's gradient of a bucket, exact in sums.
int64_t DeltaOf(Clock clock, uint32_t seat, ShardId shard, BucketId bucket) {
  const auto place = int64_t{Index(shard)} * 64 + Index(bucket);
  return (int64_t{1} << (8 * seat)) * (clock + 1) * (place + 1);
}

uint64_t BlockId(Clock clock, uint32_t number) {
  return static_cast<uint64_t>(clock + 1) << 32 | number;
}

Buffer BlockOf(Clock clock, uint32_t number, uint64_t bytes) {
  std::string content(bytes, '\0');
  const uint64_t id = BlockId(clock, number);
  std::memcpy(content.data(), &id, std::min<size_t>(bytes, sizeof(id)));
  return Buffer::CopyOf(content);
}

// What a mutant makes of a seat's programs.
worker::EngineOptions OptionsOf(const cluster::TrainingJob& job, WorkerId worker,
                                TeamMutant mutant) {
  worker::EngineOptions options = cluster::EngineOptionsOf(job, worker);
  worker::SeatOptions seat = *options.seat;
  for (auto& of_size : seat.steps) {
    SeatOutline& outline = of_size.second;
    if (mutant == TeamMutant::kNoGrants) outline.awaited.clear();
    if (mutant != TeamMutant::kOrdersWait || Index(worker) != 0) continue;
    const auto find = [&](SeatOutline::Step::Kind kind) {
      return std::find_if(outline.steps.begin(), outline.steps.end(),
                          [&](const SeatOutline::Step& step) { return step.kind == kind; });
    };
    const auto take = find(SeatOutline::Step::Kind::kTake);
    const auto give = find(SeatOutline::Step::Kind::kGive);
    if (give < take && take != outline.steps.end()) std::rotate(give, take, take + 1);
  }
  if (mutant == TeamMutant::kNoGrants) seat.evaluation.awaited.clear();
  if (mutant == TeamMutant::kTooFar && seat.lead > 0) ++seat.lead;
  options.seat = std::make_shared<const worker::SeatOptions>(std::move(seat));
  return options;
}

server::TeamFault FaultOf(TeamMutant mutant) {
  switch (mutant) {
    case TeamMutant::kFirstPush:
      return server::TeamFault::kFirstPush;
    case TeamMutant::kFirstPull:
      return server::TeamFault::kFirstPull;
    default:
      return server::TeamFault::kNone;
  }
}

}  // namespace

TeamWorld::TeamWorld(const TeamWorldOptions& options)
    : job_(options.job),
      mutant_(options.mutant),
      duplicates_left_(options.duplicates),
      losses_left_(options.losses) {
  for (uint32_t w = 0; w < job_->workers; ++w) {
    auto shared = std::make_shared<const worker::EngineOptions>(
        OptionsOf(*job_, WorkerId{w}, options.mutant));
    const Clock lanes = mutant_ == TeamMutant::kNoStash ? 1 : shared->lead() + 1;
    seats_.push_back({.engine = worker::Engine(*shared),
                      .options = shared,
                      .loaded = std::vector<Clock>(static_cast<size_t>(lanes), kNoClock)});
  }
  for (uint32_t k = 0; k < job_->layout->shard_count(); ++k) {
    server::ShardOptions shard = cluster::ShardOptionsOf(*job_, ShardId{k});
    shard.team_fault = FaultOf(options.mutant);
    server::Store store(server::CountStore(job_->layout->bucket_count(ShardId{k})));
    if (options.mutant == TeamMutant::kUpdatesLost) {
      store.SetFault(server::StoreFault::kDropsUpdates);
    }
    shards_.emplace_back(shard, std::move(store));
  }
  const Message roster = RosterNow();
  Message start = roster;
  start.type = MessageType::kStart;
  start.clock = 0;
  start.body = {};
  for (server::Shard& shard : shards_) {
    wire::Outbox out;
    shard.OnMessage(0, roster, &out);
  }
  for (uint32_t w = 0; w < seats_.size(); ++w) {
    channels_[{scheduler(), w}] = {roster, start};
  }
}

Message TeamWorld::RosterNow() const {
  Message roster;
  roster.type = MessageType::kRoster;
  roster.from = Address::Scheduler();
  roster.epoch = epoch_;
  wire::Roster body = {.worker_count = job_->workers};
  for (uint32_t w = 0; w < job_->workers; ++w) {
    if (!seats_[w].gone) body.workers.push_back({.worker = WorkerId{w}, .admitted = 1});
  }
  roster.body = body;
  return roster;
}

uint32_t TeamWorld::NodeOf(Address to) const {
  if (to.role == wire::Role::kWorker) return to.index;
  if (to.role == wire::Role::kShard) return static_cast<uint32_t>(seats_.size()) + to.index;
  return scheduler();
}

bool TeamWorld::Finished() const {
  if (!evaluates_.has_value()) return false;
  const auto first = seats_.begin() + *evaluates_ * job_->team->shape.seats;
  return std::all_of(first, first + job_->team->shape.seats,
                     [](const Seat& seat) { return seat.evaluated; });
}

// Another team goes on.
bool TeamWorld::IsSpared(uint32_t team) const {
  const uint32_t each = job_->team->shape.seats;
  for (uint32_t w = 0; w < seats_.size(); ++w) {
    if (w / each != team && !seats_[w].gone) return !seats_[team * each].gone;
  }
  return false;
}

std::vector<TeamWorld::Choice> TeamWorld::Enabled() const {
  std::vector<Choice> choices;
  if (Finished()) return choices;
  for (const auto& [channel, messages] : channels_) {
    choices.push_back({Choice::Kind::kDeliver, channel.first, channel.second});
    if (duplicates_left_ == 0 || channel.first == scheduler() || channel.second == scheduler()) {
      continue;
    }
    choices.push_back({Choice::Kind::kDuplicate, channel.first, channel.second});
  }
  for (uint32_t team = 0; losses_left_ > 0 && team < job_->team->shape.teams; ++team) {
    if (IsSpared(team)) choices.push_back({Choice::Kind::kLose, team});
  }
  for (uint32_t w = 0; w < seats_.size(); ++w) {
    if (!seats_[w].commands.empty()) choices.push_back({Choice::Kind::kDevice, w});
  }
  return choices;
}

void TeamWorld::Do(const Choice& choice) {
  switch (choice.kind) {
    case Choice::Kind::kDeliver:
      Deliver(choice.from, choice.to);
      break;
    case Choice::Kind::kDevice:
      RunDevice(choice.from);
      break;
    case Choice::Kind::kLose:
      Lose(choice.from);
      break;
    case Choice::Kind::kDuplicate: {
      std::deque<Message>& messages = channels_.at({choice.from, choice.to});
      Message copy = messages.front();
      if (mutant_ == TeamMutant::kBlockTwice && copy.type == MessageType::kBlock) ++copy.clock;
      messages.insert(messages.begin() + 1, std::move(copy));
      --duplicates_left_;
      break;
    }
  }
  if (violation_.has_value()) return;
  if (Finished()) return CheckEnd();
  if (Enabled().empty()) Fail("S5: nothing can happen, and seats wait");
}

void TeamWorld::Send(uint32_t from, wire::Outbox* out) {
  for (Message& message : out->messages) {
    const uint32_t to = NodeOf(message.to);
    if (to == scheduler()) {
      OnScheduler(message);
    } else if (to >= seats_.size() || !seats_[to].gone) {
      channels_[{from, to}].push_back(std::move(message));
    }
  }
}

// Of the scheduler's part the end, and losses: when all are done the first team evaluates.
void TeamWorld::OnScheduler(const Message& message) {
  if (seats_[message.from.index].gone) return;
  if (message.type == MessageType::kEvaluated) seats_[message.from.index].evaluated = true;
  if (message.type != MessageType::kDone) return;
  seats_[message.from.index].done = true;
  EvaluateIfDone();
}

void TeamWorld::EvaluateIfDone() {
  const auto waits = [](const Seat& seat) { return !seat.gone && !seat.done; };
  if (std::any_of(seats_.begin(), seats_.end(), waits)) return;
  const uint32_t each = job_->team->shape.seats;
  uint32_t first = 0;
  while (seats_[first].gone) ++first;
  evaluates_ = first / each;
  for (uint32_t w = first; w < first + each; ++w) {
    Message evaluate;
    evaluate.type = MessageType::kEvaluate;
    evaluate.from = Address::Scheduler();
    channels_[{scheduler(), w}].push_back(std::move(evaluate));
  }
}

// What its seats have sent arrives all the same, before the roster or behind it.
void TeamWorld::Lose(uint32_t team) {
  --losses_left_;
  ++epoch_;
  const uint32_t each = job_->team->shape.seats;
  for (uint32_t w = team * each; w < (team + 1) * each; ++w) {
    seats_[w].gone = true;
    seats_[w].commands.clear();
    std::erase_if(channels_, [&](const auto& channel) { return channel.first.second == w; });
  }
  const Message roster = RosterNow();
  for (uint32_t node = 0; node < scheduler(); ++node) {
    if (node >= seats_.size() || !seats_[node].gone) {
      channels_[{scheduler(), node}].push_back(roster);
    }
  }
  if (!evaluates_.has_value() || *evaluates_ == team) EvaluateIfDone();
}

void TeamWorld::Deliver(uint32_t from, uint32_t to) {
  const auto channel = channels_.find({from, to});
  Message message = std::move(channel->second.front());
  channel->second.pop_front();
  if (channel->second.empty()) channels_.erase(channel);
  wire::Outbox out;
  if (to < seats_.size()) {
    Seat& seat = seats_[to];
    seat.engine.OnMessage(0, message, {.outbox = &out, .commands = &seat.commands});
    if (seat.engine.failure().has_value()) Fail(*seat.engine.failure());
    Send(to, &out);
    return CheckLedgers();
  }
  const auto shard = to - static_cast<uint32_t>(seats_.size());
  shards_[shard].OnMessage(0, std::move(message), &out);
  CheckAnswers(shard, out);
  Send(to, &out);
  CheckLedgers();
}

void TeamWorld::CheckLedgers() {
  for (const server::Shard& shard : shards_) {
    const std::optional<server::Violation>& broken = shard.ledger().first_violation();
    if (broken.has_value()) Fail(absl::StrCat("G1: ", broken->ToString()));
  }
  for (const Seat& seat : seats_) {
    if (seat.engine.replies().violations().count() > 0) Fail("G1: a seat's answers");
  }
}

// T1, where answers are made: those that leave together are of one state, and a read at clock c has
// the team's updates of all clocks before.
void TeamWorld::CheckAnswers(uint32_t shard, const wire::Outbox& out) {
  const std::vector<uint32_t>& holders = cluster::HoldersOf(*job_->team, ShardId{shard});
  const Clock own_lag = cluster::OwnLagOf(*job_->team, ShardId{shard});
  size_t answers = 0;
  for (const Message& message : out.messages) {
    if (message.type == MessageType::kReject && !seats_[NodeOf(message.to)].gone) {
      Fail(absl::StrCat("refused: ", wire::ToString(message)));
    }
    if (message.type != MessageType::kPullReply) continue;
    ++answers;
    const Clock clock =
        wire::As<wire::PullReply>(message).final ? job_->total_clocks : message.clock - own_lag;
    for (const server::CountStore::Count& count : shards_[shard].store().counts()->buckets()) {
      if (static_cast<Clock>(count.applied) >= clock) continue;
      Fail(absl::StrCat("T1: ", wire::ToString(message), " lacks the team's own updates"));
    }
  }
  if (answers % holders.size() != 0) Fail("T1: not all holders are answered together");
}

void TeamWorld::RunDevice(uint32_t w) {
  Seat& seat = seats_[w];
  std::optional<worker::DeviceEvent> event;
  while (!seat.commands.empty() && !event.has_value()) {
    const worker::DeviceCommand command = std::move(seat.commands.front());
    seat.commands.erase(seat.commands.begin());
    worker::DeviceEvent made = {.run = command.run, .instruction = command.instruction};
    RunCommand(w, command, &made);
    if (command.wants_event) event = std::move(made);
  }
  if (!event.has_value()) return;
  wire::Outbox out;
  seat.engine.OnDevice(0, *std::move(event), {.outbox = &out, .commands = &seat.commands});
  Send(w, &out);
}

Clock& TeamWorld::LoadedFor(Seat* seat, Clock clock) const {
  if (clock >= job_->total_clocks) return seat->loaded.front();
  return seat->loaded[static_cast<size_t>(clock) % seat->loaded.size()];
}

void TeamWorld::RunCommand(uint32_t w, const worker::DeviceCommand& command,
                           worker::DeviceEvent* event) {
  Seat& seat = seats_[w];
  const Clock of = std::min(command.clock, job_->total_clocks);
  if (std::holds_alternative<worker::LoadCommand>(command.what)) {
    Clock& loaded = LoadedFor(&seat, command.clock);
    if (mutant_ != TeamMutant::kEarlyLoad || loaded == kNoClock) loaded = of;
  } else if (std::holds_alternative<worker::RunSection>(command.what)) {
    const Clock loaded = LoadedFor(&seat, command.clock);
    if (loaded == of) return;
    Fail(absl::StrCat("B1: seat ", w, " computes clock ", command.clock,
                      " with the parameters of clock ", loaded));
  } else if (const auto* take = std::get_if<worker::TakeCommand>(&command.what)) {
    uint64_t id = 0;
    std::memcpy(&id, take->block.data(), std::min(take->block.size(), sizeof(id)));
    if (id == BlockId(command.clock, take->number)) return;
    Fail(absl::StrCat("B2: seat ", w, " takes at clock ", command.clock, " as block ", take->number,
                      " block ", id & 0xffffffff, " of clock ",
                      static_cast<int64_t>(id >> 32) - 1));
  } else if (const auto* give = std::get_if<worker::GiveBlock>(&command.what)) {
    const SeatOutline::Block& block =
        seat.options->SeatOutlineAt(command.clock)->outgoing[give->index];
    event->frames = {BlockOf(command.clock, block.number, block.bytes)};
  } else if (const auto* collect = std::get_if<worker::CollectBucket>(&command.what)) {
    const ShardId shard = seat.options->seat->shards[Index(collect->shard)];
    const int64_t delta = DeltaOf(command.clock, w, shard, collect->bucket);
    event->frames = {Buffer::CopyOf(&delta, sizeof(delta))};
    event->samples = 1;
  }
}

// What a team's holders of a bucket say of clocks below `clocks`.
int64_t TeamWorld::SumOf(uint32_t team, ShardId shard, BucketId bucket, Clock clocks) const {
  int64_t sum = 0;
  for (Clock clock = 0; clock < clocks; ++clock) {
    for (const uint32_t seat : cluster::HoldersOf(*job_->team, shard)) {
      sum += DeltaOf(clock, team * job_->team->shape.seats + seat, shard, bucket);
    }
  }
  return sum;
}

void TeamWorld::CheckEnd() {
  const Clock clocks = job_->total_clocks;
  for (uint32_t k = 0; k < shards_.size(); ++k) {
    const auto& counts = shards_[k].store().counts()->buckets();
    for (uint32_t b = 0; b < counts.size(); ++b) {
      int64_t left = counts[b].sum;
      std::optional<uint32_t> lost;
      for (uint32_t team = 0; team < job_->team->shape.teams; ++team) {
        if (seats_[team * job_->team->shape.seats].gone) {
          lost = team;
        } else {
          left -= SumOf(team, ShardId{k}, BucketId{b}, clocks);
        }
      }
      Clock of_lost = 0;  // clocks of its that are in
      while (lost.has_value() && of_lost < clocks &&
             SumOf(*lost, ShardId{k}, BucketId{b}, of_lost) != left) {
        ++of_lost;
      }
      if (lost.has_value()) left -= SumOf(*lost, ShardId{k}, BucketId{b}, of_lost);
      if (left == 0) continue;
      Fail(absl::StrCat("E1: bucket ", b, " of shard ", k, " has ", counts[b].applied,
                        " updates that sum to ", counts[b].sum, ": ", left, " too much"));
    }
    if (shards_[k].ledger().violations().count() > 0) {
      Fail(absl::StrCat("L1: ", *shards_[k].ledger().violations().first()));
    }
  }
}

void TeamWorld::Fail(std::string what) {
  if (!violation_.has_value()) violation_ = std::move(what);
}

std::string TeamWorld::Describe(const Choice& choice) const {
  if (choice.kind == Choice::Kind::kDevice) return absl::StrCat("device of seat ", choice.from);
  if (choice.kind == Choice::Kind::kLose) return absl::StrCat("team ", choice.from, " is lost");
  const Message& message = channels_.at({choice.from, choice.to}).front();
  return absl::StrCat(choice.kind == Choice::Kind::kDeliver ? "deliver " : "duplicate ",
                      wire::ToString(message));
}

void TeamWorld::AddTo(Fingerprint* f) const {
  for (const Seat& seat : seats_) {
    seat.engine.AddTo(f);
    f->Add(seat.commands.size());
    for (const worker::DeviceCommand& command : seat.commands) {
      f->Add(command.run);
      f->Add(command.instruction);
    }
    for (const Clock loaded : seat.loaded) f->Add(loaded);
    f->Add(seat.done);
    f->Add(seat.evaluated);
    f->Add(seat.gone);
  }
  for (const server::Shard& shard : shards_) shard.AddTo(f);
  f->Add(channels_.size());
  for (const auto& [channel, messages] : channels_) {
    f->Add(channel.first);
    f->Add(channel.second);
    f->Add(messages.size());
    for (const Message& message : messages) message.AddTo(f);
  }
  f->Add(duplicates_left_);
  f->Add(losses_left_);
}

}  // namespace soapstone::sim
