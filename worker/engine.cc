#include "worker/engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/leaf_tree.h"
#include "glog/logging.h"

namespace soapstone::worker {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

constexpr size_t kLagBuckets = 64;

// Instructions whose completion the engine must hear of: what they hand over is sent, or the run
// ends with them, or the device has to wait after them unless what is to be loaded is here.
bool WantsEvent(const Program& program, uint32_t index) {
  const auto& instructions = program.instructions;
  const OpCode op = instructions[index].op;
  if (op == OpCode::kForward && index + 1 < instructions.size()) {
    return instructions[index + 1].op == OpCode::kLoad;
  }
  return op == OpCode::kCollect || op == OpCode::kUpdate || op == OpCode::kEvaluate ||
         op == OpCode::kKeys;
}

void CountLag(Clock lag, std::vector<uint64_t>* lags) {
  const size_t slot =
      std::min<size_t>(static_cast<size_t>(std::max<Clock>(lag, 0)), kLagBuckets - 1);
  if (lags->size() <= slot) lags->resize(slot + 1);
  ++(*lags)[slot];
}

std::vector<size_t> RowBytes(const wire::Layout& layout) {
  std::vector<size_t> bytes;
  for (const TableSpec& table : layout.tables()) bytes.push_back(table.dim * sizeof(float));
  return bytes;
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      by_stages_(options_.policy.pulls_ahead() && options_.layout->stages() > 1),
      replies_(options_.policy, options_.layout->shard_count(), RowBytes(*options_.layout)) {}

void Engine::OnMessage(Nanos now, const Message& message, EngineOutput out) {
  switch (message.type) {
    case MessageType::kRoster:
      OnRoster(now, message, out);
      break;
    case MessageType::kStart:
      if (phase_ != Phase::kWaiting || roster_ == nullptr) return;
      phase_ = Phase::kRunning;
      clock_ = start_clock_ =
          std::min(message.clock * options_.policy.period, options_.total_clocks);
      // The shards' only clock is the end; where to begin, the peer knows.
      if (options_.policy.decentralised() && message.clock > 0) clock_ = options_.total_clocks;
      BeginNext(now, out);
      break;
    case MessageType::kPullReply:
      OnPullReply(now, message, out);
      break;
    case MessageType::kReject: {
      // It carries the epoch of the message refused: one from before our admission was not ours,
      // but of a worker that is gone and had our rank.
      const wire::Member* me =
          roster_ != nullptr ? wire::FindMember(*roster_, options_.id) : nullptr;
      if (me == nullptr || message.epoch < me->admitted || phase_ == Phase::kLeft) return;
      ++progress_.rejects;
      if (const auto* why = std::get_if<wire::Notice>(&message.body)) {
        failure_ = absl::StrCat(message.from.ToString(), " refused a message: ", why->text);
      }
      break;
    }
    case MessageType::kEvaluate:
      if (phase_ != Phase::kDone || evaluate_requested_ || main_.has_value()) return;
      evaluate_requested_ = true;
      Begin(now, std::make_shared<Program>(BuildFinalEvaluate(Inputs())), out);
      break;
    default:
      break;
  }
}

void Engine::OnRoster(Nanos now, const Message& message, EngineOutput out) {
  const auto* roster = std::get_if<wire::Roster>(&message.body);
  if (roster == nullptr || message.epoch <= epoch_) return;
  epoch_ = message.epoch;
  roster_ = std::make_shared<const wire::Roster>(*roster);
  latest_start_ = 0;
  for (const wire::Member& m : roster_->workers) latest_start_ = std::max(latest_start_, m.start);
  KeepBound(out);
  if (options_.policy.adopts()) TakeOver(now, out);
  if (held_ && !begin_bound_.has_value()) {
    held_ = false;
    BeginNext(now, out);
  }
}

void Engine::KeepBound(EngineOutput out) {
  if (roster_->share_lead == 0) return begin_bound_.reset();
  if (phase_ == Phase::kLeft) return;
  if (!begin_bound_.has_value()) begin_bound_ = ShardClock(clock_) + 1 + roster_->share_lead;
  Message ack = ToScheduler(MessageType::kRosterAck);
  ack.clock = *begin_bound_;
  out.outbox->Send(std::move(ack));
}

ProgramInputs Engine::Inputs() const {
  return {.layout = options_.layout.get(),
          .ops = options_.ops.get(),
          .ordered_reads = options_.policy.ordered_reads(),
          .by_stages = by_stages_,
          .whole_nodes = options_.skip_not_finite,
          .keys_of_leaves = options_.policy.adopts() ? options_.leaf_count : 0};
}

// A step whose values the shards send unasked.
bool Engine::IsSubscribed(const Run& run) const {
  return options_.policy.subscribed() && run.program().kind == Program::Kind::kStep &&
         run.clock > start_clock_;
}

bool Engine::IsComing(const Run& run, ShardId shard) const {
  if (IsSubscribed(run)) return true;
  return !run.final && Index(shard) < asked_.size() && asked_[Index(shard)] == run.shard_clock;
}

void Engine::OnPullReply(Nanos now, const Message& reply, EngineOutput out) {
  const uint32_t shard = reply.from.role == wire::Role::kShard
                             ? reply.from.index % options_.layout->shard_count()
                             : 0;  // the peer's
  if (reply.from != HomeOf(ShardId{shard})) return;
  const auto expected =
      options_.layout->slices(ShardId{shard}).size() + options_.layout->tables().size();
  if (!reply.payload.empty() && reply.payload.size() != expected) {
    failure_ = absl::StrCat(reply.from.ToString(), " answered with ", reply.payload.size(),
                            " frames; the layout has ", expected);
    return;
  }
  replies_.OnReply(shard, reply);
  const Clock next = main_.has_value() ? main_->shard_clock + 1 : ShardClock(clock_);
  const bool asked = shard < asked_.size() && asked_[shard] == reply.clock;
  if ((options_.policy.subscribed() || asked) && !reply.final && reply.clock == next) {
    early_.resize(options_.layout->shard_count());
    early_[shard] = reply;
    return;
  }
  if (!main_.has_value()) return;
  Run& run = *main_;
  if (options_.policy.skips() && !reply.final && reply.clock > run.shard_clock && !run.loaded) {
    if (!FastForward(reply.clock, out)) return BeginNext(now, out);
  } else if (run.jumped && !run.loaded && reply.clock < run.shard_clock) {
    // The answer to a pull that was sent before another shard's answer let us go on from later.
    PullAgain(&run, ShardId{shard}, out);
  }
  if (IsSurplus(run, reply)) return;
  // Replies of an earlier clock (duplicates) must not pass for this one's.
  if (reply.final != run.final || (!run.final && reply.clock != run.shard_clock)) return;
  if (run.program().pulls.empty()) return;
  const uint32_t pull = run.program().pulls[shard];
  if (!run.ready.issued(pull)) return;
  if (run.ready.satisfied(pull)) {
    // Fresher values of a shard that need not be waited for any more, while others must be.
    if (IsSubscribed(run) && !run.loaded && reply.oldest > run.oldest[shard]) {
      TakeReply(&run, ShardId{shard}, reply);
    }
    return;
  }
  if (!HasRowsAskedFor(run, ShardId{shard}, reply)) {
    failure_ = absl::StrCat(reply.from.ToString(), " answered with other rows than asked for");
    return;
  }
  TakeReply(&run, ShardId{shard}, reply);
  // What answers take lately counts, so that a slow way is not filled with repetitions.
  if (shard < run.pulled.size()) {
    answer_ns_ = std::max(now - run.pulled[shard].first, answer_ns_ - answer_ns_ / 4);
  }
  run.ready.Satisfy(pull);
  Advance(now, out);
}

bool Engine::HasRowsAskedFor(const Run& run, ShardId shard, const Message& reply) const {
  const std::vector<TableSpec>& tables = options_.layout->tables();
  const size_t first = reply.payload.empty() ? 0 : reply.payload.size() - tables.size();
  for (size_t t = 0; t < tables.size(); ++t) {
    const size_t at = Index(shard) * tables.size() + t;
    const size_t keys = at < run.keys.size() ? run.keys[at].size() / sizeof(uint64_t) : 0;
    const Buffer rows = reply.payload.empty() ? Buffer() : reply.payload[first + t];
    if (rows.size() != keys * tables[t].dim * sizeof(float) || !rows.IsFloatAligned()) return false;
  }
  return true;
}

bool Engine::FastForward(Clock clock, EngineOutput out) {
  progress_.skipped += static_cast<uint64_t>(std::min(clock, options_.total_clocks) - clock_);
  clock_ = std::min(clock, options_.total_clocks);
  progress_.clock = clock_;
  if (clock_ >= options_.total_clocks) {
    if (!options_.policy.decentralised()) SayEnd(out);
    main_.reset();
    return false;
  }
  Run& run = *main_;
  run.clock = run.shard_clock = clock_;
  run.jumped = true;
  // What other shards have answered is of an earlier version.
  for (const uint32_t pull : run.program().pulls) {
    if (!run.ready.satisfied(pull)) continue;
    run.ready.Unsatisfy(pull);
    PullAgain(&run, run.program().instructions[pull].shard, out);
  }
  return true;
}

bool Engine::IsOutstanding(const Run& run, ShardId shard) {
  if (run.program().pulls.empty()) return false;
  const uint32_t pull = run.program().pulls[Index(shard)];
  return run.ready.issued(pull) && !run.ready.satisfied(pull);
}

void Engine::PullAgain(Run* run, ShardId shard, EngineOutput out) {
  if (!IsOutstanding(*run, shard)) return;
  out.outbox->Send(MessageFor(run, run->program().pulls[Index(shard)]));
}

// The rounds went on to their end without us: no update of ours is to be waited for.
void Engine::SayEnd(EngineOutput out) {
  for (uint32_t k = 0; k < options_.layout->shard_count(); ++k) {
    Message message = ToScheduler(MessageType::kClock);
    message.to = HomeOf(ShardId{k});
    message.worker = options_.id;
    message.clock = clock_;
    out.outbox->Send(std::move(message));
  }
}

void Engine::TakeReply(Run* run, ShardId shard, const Message& reply) {
  run->replies[Index(shard)] = reply.payload;
  run->oldest[Index(shard)] = reply.oldest;
  if (!options_.policy.ordered_reads()) run->parked_ns = run->queued_ns = 0;
  run->parked_ns += reply.parked_ns;
  run->queued_ns += reply.queued_ns;
  progress_.pulled_bytes += reply.payload_bytes();
}

void Engine::OnDevice(Nanos now, DeviceEvent event, EngineOutput out) {
  Run* run = nullptr;
  if (main_.has_value() && main_->id == event.run) run = &*main_;
  for (Run& takeover : takeovers_) {
    if (takeover.id == event.run) run = &takeover;
  }
  if (run == nullptr || run->ready.satisfied(event.instruction) || diverged_) return;
  progress_.samples += event.trained_samples;
  if (event.trained_samples > 0) progress_.loss_sum += event.loss_sum;
  progress_.compute_ns += event.compute_ns;
  progress_.injected_ns += event.injected_ns;
  if (event.not_finite.updates > 0 && !TakeNotFinite(event, run->clock, out)) return;
  const uint32_t instruction = event.instruction;
  const OpCode op = run->program().instructions[instruction].op;
  if (op == OpCode::kForward) {
    // The load behind it is next.
    if (!run->ready.issued(instruction + 1)) run->idle_since = now;
  } else if (op == OpCode::kEvaluate) {
    Message message = ToScheduler(MessageType::kEvaluated);
    message.body = wire::Evaluation{event.samples, event.correct, event.loss_sum};
    out.outbox->Send(std::move(message));
  } else if (op == OpCode::kKeys) {
    run->keys = std::move(event.frames);
  } else {
    run->collected[instruction] = std::move(event);
  }
  run->ready.Satisfy(instruction);
  Advance(now, out);
}

bool Engine::TakeNotFinite(const DeviceEvent& event, Clock clock, EngineOutput out) {
  const DeviceEvent::NotFinite& what = event.not_finite;
  const std::string& tensor = options_.layout->NameOf(what.tensor);
  if (options_.skip_not_finite && !what.parameters) {
    progress_.LeaveOut(tensor, clock, what.updates);
    return true;
  }
  diverged_ = true;
  Message message = ToScheduler(MessageType::kNotFinite);
  message.clock = clock;
  message.body = wire::NotFinite{
      .worker = int64_t{Index(options_.id)}, .parameters = what.parameters, .tensor = tensor};
  out.outbox->Send(std::move(message));
  return false;
}

// What comes after `clock_` completed steps.
void Engine::BeginNext(Nanos now, EngineOutput out) {
  const ProgramInputs inputs = Inputs();
  const bool elastic = options_.policy.exchange == consistency::Exchange::kElastic;
  const bool delta = options_.policy.exchange == consistency::Exchange::kDelta;
  if (leave_requested_ && !at_exchange_ && clock_ < options_.total_clocks) {
    // A reply comes after everything we sent on that channel was taken: then we may go without
    // losing an update to a roster that overtakes it.
    Begin(now, std::make_shared<Program>(BuildFlush(inputs)), out);
    return;
  }
  if (at_exchange_) {
    const MicroBatchRange rank = {Index(options_.id), Index(options_.id) + 1};
    Begin(now,
          std::make_shared<Program>(elastic ? BuildExchange(inputs, rank)
                                            : BuildDeltaPush(inputs, rank)),
          out);
  } else if (clock_ >= options_.total_clocks) {
    Finish(out);
  } else if ((elastic && next_run_ == 1) || (delta && round_ != ShardClock(clock_))) {
    Begin(now, std::make_shared<Program>(BuildInitialPull(inputs)), out);
  } else {
    BeginStep(now, out);
  }
}

void Engine::BeginStep(Nanos now, EngineOutput out) {
  const Clock shard_clock = ShardClock(clock_);
  held_ = begin_bound_.has_value() && shard_clock >= *begin_bound_;
  if (held_) return;
  const wire::Shares* shares = SharesAt(*roster_, shard_clock);
  const Clock shares_from = shares != nullptr ? shares->from : kNoClock;
  // A newcomer of this epoch changes who owns what at its start clock.
  const bool starts_later = latest_start_ > 0 && shard_clock <= latest_start_;
  if (step_program_ == nullptr || step_epoch_ != epoch_ || starts_later ||
      step_shares_from_ != shares_from) {
    wire::OwnedLeaves owned = LeavesOwned(*roster_, options_.id, shard_clock, options_.leaf_count);
    // A round is closed without the lost as it is without the slow.
    if (options_.policy.gate == consistency::Gate::kBackup) owned.adopted.clear();
    const ProgramInputs inputs = Inputs();
    const wire::Member* me = FindMember(*roster_, options_.id);
    // Of a replacement's leaves others may have supplied some.
    const Merge merge = options_.policy.adopts()        ? Merge::kAll
                        : me != nullptr && me->original ? Merge::kOwn
                                                        : Merge::kNone;
    if (options_.policy.keeps_parameters()) {
      step_program_ = std::make_shared<Program>(
          BuildLocalStep(inputs, PlanSingleNode(owned.own, owned.adopted)));
    } else {
      step_program_ = std::make_shared<Program>(BuildStep(
          inputs, options_.policy.fixed_tree
                      ? PlanTreeNodes(owned.own, owned.adopted, options_.leaf_count, merge)
                      : PlanSingleNode(owned.own, owned.adopted)));
    }
    step_epoch_ = epoch_;
    step_shares_from_ = shares_from;
  }
  if (options_.policy.adopts()) {
    planned_before_ = std::move(planned_);
    planned_.assign(options_.leaf_count, false);
    for (const NodePlan& node : step_program_->nodes) {
      std::fill(planned_.begin() + node.node.begin, planned_.begin() + node.node.end, true);
    }
  }
  Begin(now, step_program_, out);
}

Engine::Run Engine::MakeRun(std::shared_ptr<const Program> program) {
  Run run = {.id = next_run_++,
             .clock = clock_,
             .shard_clock = ShardClock(clock_),
             .ready = Readiness(std::move(program))};
  run.replies.resize(options_.layout->shard_count());
  run.oldest.resize(options_.layout->shard_count());
  run.pushes.resize(options_.layout->shard_count());
  run.pulled.resize(options_.layout->shard_count());
  return run;
}

void Engine::Begin(Nanos now, std::shared_ptr<const Program> program, EngineOutput out) {
  CHECK(!main_.has_value());
  main_ = MakeRun(std::move(program));
  main_->idle_since = now;
  switch (main_->program().kind) {
    case Program::Kind::kFinalEvaluate:
      main_->final = true;
      main_->shard_clock = ReadClock(options_.total_clocks);
      break;
    case Program::Kind::kFlush:
      main_->shard_clock = ReadClock(clock_);
      break;
    case Program::Kind::kExchange:
      // After the local steps of round r, clock_ stands at (r+1) tau, or at the end.
      main_->shard_clock = options_.policy.Rounds(clock_) - 1;
      main_->clock = clock_ - 1;
      break;
    default:
      break;
  }
  Advance(now, out);
}

void Engine::Advance(Nanos now, EngineOutput out) {
  // Takeovers of an earlier clock stand before the main run's load in the device queue.
  for (size_t i = 0; i < takeovers_.size();) {
    Issue(now, &takeovers_[i], out);
    if (takeovers_[i].ready.complete()) {
      takeovers_.erase(takeovers_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (!main_.has_value()) return;
  const bool was_loaded = main_->loaded;
  Issue(now, &*main_, out);
  if (main_->loaded && !was_loaded) {
    if (main_->program().kind == Program::Kind::kStep && options_.policy.adopts()) {
      // Leaves that became ours while we waited belong to this clock too.
      BeginTakeover(now, main_->clock, &planned_, out);
    }
  }
  if (main_->ready.complete()) EndRun(now, out);
}

// What shards say of their part can be more than we waited: values may be due before they are
// asked, and asked before they are waited for.
void Engine::CountWait(Nanos now, Run* run) {
  if (run->idle_since < 0) return;
  const Nanos blocked = now - std::exchange(run->idle_since, -1);
  const Nanos parked = std::min(run->parked_ns, blocked);
  progress_.blocked_ns += blocked;
  progress_.parked_ns += parked;
  progress_.queued_ns += std::min(run->queued_ns, blocked - parked);
}

void Engine::NoteLoad(Nanos now, Run* run) {
  CountWait(now, run);
  if (++run->loads_issued < run->program().loads) return;
  run->loaded = true;
  for (const Clock oldest : run->oldest) {
    if (!run->final) CountLag(run->shard_clock - oldest, &progress_.read_lags);
  }
  if (by_stages_ && options_.policy.adopts()) former_ = std::move(run->replies);
  run->replies.assign(options_.layout->shard_count(), {});
}

// REQUIRES: not loaded. So what the device was given are loads, and forward passes between them.
void Engine::Rewind(Run* run) {
  run->id = next_run_++;  // the device's answers to what it was given are nobody's
  run->ready.RewindDevice();
  run->loads_issued = 0;
  run->idle_since = -1;
}

void Engine::Issue(Nanos now, Run* run, EngineOutput out) {
  while (const std::optional<uint32_t> next = run->ready.Next()) IssueOne(now, run, *next, out);
}

void Engine::IssueOne(Nanos now, Run* run, uint32_t index, EngineOutput out) {
  const Instruction& instruction = run->program().instructions[index];
  if (!IsDeviceOp(instruction.op)) {
    // Of pulls that are sent in turn the first one's time, which Begin has set, counts.
    const uint32_t shard = Index(instruction.shard);
    if (instruction.op == OpCode::kPull && !options_.policy.ordered_reads()) run->idle_since = now;
    if (instruction.op == OpCode::kPull) NotePull(now, run, instruction.shard, out);
    if (instruction.op == OpCode::kPull && IsComing(*run, instruction.shard)) {
      if (shard >= early_.size() || early_[shard].clock != run->shard_clock) return;
      TakeReply(run, instruction.shard, early_[shard]);
      early_[shard] = {};
      run->ready.Satisfy(index);
      return;
    }
    const bool ahead = instruction.op == OpCode::kPrefetch;
    // After the last clock there are final pulls only.
    if (ahead && run->clock + 1 >= options_.total_clocks) return run->ready.Satisfy(index);
    if (ahead) {
      asked_.resize(options_.layout->shard_count(), kNoClock);
      asked_[shard] = run->shard_clock + 1;
    }
    out.outbox->Send(MessageFor(run, index));
    if (instruction.op != OpCode::kPull) run->ready.Satisfy(index);
    return;
  }
  out.commands->push_back(CommandFor(*run, index));
  const bool load = instruction.op == OpCode::kLoad || instruction.op == OpCode::kElastic;
  if (load && run->program().kind != Program::Kind::kTakeover) NoteLoad(now, run);
  if (!WantsEvent(run->program(), index)) run->ready.Satisfy(index);
}

DeviceCommand Engine::CommandFor(const Run& run, uint32_t index) const {
  const Instruction& instruction = run.program().instructions[index];
  DeviceCommand command = {.run = run.id,
                           .instruction = index,
                           .what = {.op = instruction.op,
                                    .index = instruction.index,
                                    .shard = instruction.shard,
                                    .all = instruction.all,
                                    .bucket = instruction.bucket,
                                    .node = instruction.node,
                                    .part = instruction.part},
                           .wants_event = WantsEvent(run.program(), index),
                           .clock = run.clock,
                           .leaf_count = options_.leaf_count,
                           .tree_sum = options_.policy.fixed_tree,
                           .first_part = instruction.first_part,
                           .last_part = instruction.last_part};
  if (instruction.op == OpCode::kKeys) {
    const std::vector<Instruction>& instructions = run.program().instructions;
    const auto is_keys = [&](uint32_t i) {
      return i < instructions.size() && instructions[i].op == OpCode::kKeys;
    };
    command.first_part = index == 0;
    command.last_part = !is_keys(index + 1);
  }
  if (instruction.op == OpCode::kElastic) command.frames = run.replies;
  if (instruction.op == OpCode::kLoad && instruction.all) {
    command.frames = run.program().kind == Program::Kind::kTakeover ? former_ : run.replies;
  } else if (instruction.op == OpCode::kLoad) {
    command.frames.resize(run.replies.size());
    command.frames[Index(instruction.shard)] = run.replies[Index(instruction.shard)];
  }
  if (instruction.op == OpCode::kLoad &&
      options_.policy.exchange == consistency::Exchange::kDelta) {
    command.starts_round = true;
    command.fresh_momentum = options_.policy.fresh_momentum;
  }
  if (instruction.op == OpCode::kElastic) {
    // alpha = beta / P (Zhang et al., NIPS 2015), with the P there is now.
    const size_t replicas = ActiveWorkers(*roster_, run.shard_clock).size();
    command.alpha = options_.policy.beta / static_cast<double>(std::max<size_t>(replicas, 1));
  }
  return command;
}

Message Engine::MessageFor(Run* run, uint32_t index) {
  const Instruction& instruction = run->program().instructions[index];
  Message message;
  message.from = Address::Of(options_.id);
  message.to = HomeOf(instruction.shard);
  message.epoch = epoch_;
  message.worker = options_.id;
  message.clock = run->shard_clock;
  message.priority = options_.layout->stage(instruction.shard);
  switch (instruction.op) {
    case OpCode::kPull:
      message.type = MessageType::kPull;
      message.final = run->final;
      if (!run->keys.empty()) {
        const size_t tables = options_.layout->tables().size();
        const auto first =
            run->keys.begin() + static_cast<ptrdiff_t>(Index(instruction.shard) * tables);
        message.payload.assign(first, first + static_cast<ptrdiff_t>(tables));
      }
      break;
    case OpCode::kPrefetch:
      message.type = MessageType::kPull;
      message.clock = run->shard_clock + 1;
      break;
    case OpCode::kPush: {
      message.type = MessageType::kPush;
      message.bucket = instruction.bucket;
      message.leaves = instruction.node;
      const bool elastic = run->program().kind == Program::Kind::kExchange;
      message.leaf_count = elastic ? roster_->worker_count : options_.leaf_count;
      DeviceEvent& handed = run->collected[instruction.deps.front()];
      message.samples = handed.samples;
      message.batch_samples = BatchSamples(run->clock);
      message.payload = std::move(handed.frames);
      run->collected.erase(instruction.deps.front());
      progress_.pushed_bytes += message.payload_bytes();
      ++run->pushes[Index(instruction.shard)];
      replies_.OnPush(Index(instruction.shard), message.clock);
      break;
    }
    default:
      message.type = MessageType::kClock;
      message.clock = run->shard_clock + 1;
      message.pushes = run->pushes[Index(instruction.shard)];
      break;
  }
  return message;
}

void Engine::EndRun(Nanos now, EngineOutput out) {
  const Program::Kind kind = main_->program().kind;
  surplus_clock_ = main_->shard_clock;
  surplus_.clear();
  for (const Run::Pulled& pulled : main_->pulled) surplus_.push_back(pulled.asked);
  main_.reset();
  switch (kind) {
    case Program::Kind::kStep:
      ++clock_;
      break;
    case Program::Kind::kLocalStep:
      ++clock_;
      at_exchange_ = clock_ % options_.policy.period == 0 || clock_ == options_.total_clocks ||
                     leave_requested_;
      break;
    case Program::Kind::kExchange:
      at_exchange_ = false;
      break;
    case Program::Kind::kInitialPull:
      round_ = ShardClock(clock_);
      break;
    case Program::Kind::kFinalEvaluate:
      evaluate_requested_ = false;
      planned_.clear();  // every update is in, and these are other parameters
      return;
    case Program::Kind::kFlush:
      Leave(out);
      return;
    default:
      break;
  }
  progress_.clock = clock_;
  BeginNext(now, out);
}

void Engine::Leave(EngineOutput out) {
  phase_ = Phase::kLeft;
  Message message = ToScheduler(MessageType::kLeave);
  message.clock = clock_;
  message.body = progress_;
  out.outbox->Send(std::move(message));
}

void Engine::Finish(EngineOutput out) {
  phase_ = Phase::kDone;
  former_.clear();
  progress_.clock = clock_;
  Message message = ToScheduler(MessageType::kDone);
  message.clock = clock_;
  message.body = progress_;
  out.outbox->Send(std::move(message));
}

void Engine::TakeOver(Nanos now, EngineOutput out) {
  const bool stepping = main_.has_value() && main_->program().kind == Program::Kind::kStep;
  const bool flushing = main_.has_value() && main_->program().kind == Program::Kind::kFlush;
  const bool ended = phase_ == Phase::kDone && (!main_.has_value() || !main_->loaded);
  if (phase_ == Phase::kRunning && stepping && main_->loaded) {
    BeginTakeover(now, main_->clock, &planned_, out);
  } else if (phase_ == Phase::kRunning && stepping && main_->clock > start_clock_) {
    // Waiting for the next version: the step before may lack leaves, and its parameters are here.
    const bool mixed = main_->loads_issued > 0;
    if (BeginTakeover(now, main_->clock - 1, &planned_before_, out, mixed) && mixed) {
      Rewind(&*main_);
      Advance(now, out);
    }
  } else if (clock_ > start_clock_ && (flushing || ended || held_)) {
    BeginTakeover(now, clock_ - 1, &planned_, out);
  }
}

// Computes and pushes those leaves of `clock` that are ours under the new roster and that we have
// not planned yet (`planned`, by leaf, is brought up to date).
bool Engine::BeginTakeover(Nanos now, Clock clock, std::vector<bool>* planned, EngineOutput out,
                           bool reload) {
  if (planned->size() != options_.leaf_count) return false;
  std::vector<uint32_t> leaves;
  for (uint32_t leaf : LeavesOwned(*roster_, options_.id, clock, options_.leaf_count).adopted) {
    if ((*planned)[leaf]) continue;
    (*planned)[leaf] = true;
    leaves.push_back(leaf);
  }
  if (leaves.empty()) return false;
  const ProgramInputs inputs = Inputs();
  Run run = MakeRun(std::make_shared<Program>(
      BuildTakeover(inputs, PlanTreeNodes({}, leaves, options_.leaf_count, Merge::kAll), reload)));
  run.clock = run.shard_clock = clock;
  takeovers_.push_back(std::move(run));
  Issue(now, &takeovers_.back(), out);
  return true;
}

// Samples of the global batch at a step: the last batch of an epoch may be smaller.
uint64_t Engine::BatchSamples(Clock step) const {
  const uint64_t per_epoch = (options_.train_samples + options_.batch - 1) / options_.batch;
  const uint64_t index = static_cast<uint64_t>(step) % per_epoch;
  return std::min(options_.batch, options_.train_samples - index * options_.batch);
}

Message Engine::ToScheduler(MessageType type) const {
  Message message;
  message.type = type;
  message.from = Address::Of(options_.id);
  message.to = Address::Scheduler();
  message.epoch = epoch_;
  message.worker = options_.id;
  return message;
}

void Engine::AddTo(Fingerprint* f) const {
  f->Add(phase_);
  f->Add(epoch_);
  f->Add(clock_);
  f->Add(start_clock_);
  f->Add(at_exchange_);
  f->Add(leave_requested_);
  f->Add(begin_bound_.value_or(kNoClock));
  f->Add(held_);
  f->Add(evaluate_requested_);
  f->Add(failure_.has_value());
  f->Add(diverged_);
  f->Add(round_);
  f->Add(answer_ns_);
  const bool surplus =
      std::any_of(surplus_.begin(), surplus_.end(), [](uint32_t n) { return n > 0; });
  f->Add(surplus ? surplus_clock_ : kNoClock);
  for (const uint32_t answers : surplus_) {
    if (surplus) f->Add(answers);
  }
  f->Add(early_.size());
  for (const Message& early : early_) {
    f->Add(early.clock);
    f->Add(early.oldest);
  }
  f->Add(latest_start_);
  f->Add(step_program_ != nullptr ? step_epoch_ : 0);
  for (const Clock asked : asked_) f->Add(asked);
  const auto add_run = [&](const Run& run) {
    f->Add(run.id);
    f->Add(run.clock);
    f->Add(run.program().kind);
    f->Add(run.jumped);
    run.ready.AddTo(f);
    for (const Clock oldest : run.oldest) f->Add(oldest);
    for (const uint32_t pushes : run.pushes) f->Add(pushes);
    f->Add(run.loads_issued);
    f->Add(run.loaded);
  };
  f->Add(main_.has_value());
  if (main_.has_value()) add_run(*main_);
  f->Add(takeovers_.size());
  for (const Run& run : takeovers_) add_run(run);
  for (bool planned : planned_) f->Add(planned);
  for (bool planned : planned_before_) f->Add(planned);
}

}  // namespace soapstone::worker
