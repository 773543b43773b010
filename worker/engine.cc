#include "worker/engine.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "wire/membership/membership.h"

namespace soapstone::worker {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

// Who keeps engines in a vector moves them: a copy would be another engine.
static_assert(std::is_nothrow_move_constructible_v<Engine>);

std::vector<size_t> RowBytes(const wire::Layout& layout) {
  std::vector<size_t> bytes;
  for (const TableSpec& table : layout.tables()) bytes.push_back(table.dim * sizeof(float));
  return bytes;
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::make_shared<const EngineOptions>(std::move(options))),
      schedule_(options_),
      pulls_(options_),
      asked_{PullWatch(options_->patience_ns, options_->layout->shard_count()),
             Unanswered(options_->says_again ? options_->layout->shard_count() : 0)},
      takeover_(options_),
      team_{TeamBlocks(options_), TeamTakeover(options_)},
      replies_(options_->policy, options_->layout->shard_count(), RowBytes(*options_->layout),
               options_->own_lags()) {}

void Engine::OnMessage(Nanos now, const Message& message, EngineOutput out) {
  switch (message.type) {
    case MessageType::kRoster:
      OnRoster(now, message, out);
      break;
    case MessageType::kStart:
      OnStart(now, message, out);
      break;
    case MessageType::kBound:
      OnBound(now, message, out);
      break;
    case MessageType::kPullReply:
      OnPullReply(now, message, out);
      break;
    case MessageType::kReject:
      OnReject(message);
      break;
    case MessageType::kBlock:
      OnBlock(now, message, out);
      break;
    case MessageType::kLoaded:
      OnLoaded(now, message, out);
      break;
    case MessageType::kEvaluate:
      if (phase_ != Phase::kDone || main_.has_value()) return;
      Begin(now, schedule_.FinalEvaluation(), out);
      break;
    default:
      break;
  }
}

void Engine::OnRoster(Nanos now, const Message& message, EngineOutput out) {
  const auto* roster = std::get_if<wire::Roster>(&message.body);
  if (roster == nullptr || message.epoch <= epoch_) return;
  epoch_ = message.epoch;
  const auto before = std::exchange(roster_, std::make_shared<const wire::Roster>(*roster));
  if (before != nullptr) SayAgain(*before, out);
  schedule_.OnRoster(*roster_);
  const wire::Member* me = FindMember(*roster_, options_->id);
  if (me != nullptr) team_.blocks.OnAdmitted(me->admitted);
  if (roster_->share_lead > 0 && phase_ != Phase::kLeft) {
    Message ack = ToScheduler(MessageType::kRosterAck);
    ack.clock = schedule_.Bind(*roster_);
    out.outbox->Send(std::move(ack));
  }
  if (options_->takes_over()) TakeOver(now, out);
  if (options_->team_takes_over()) OnRosterOfTeam(now, out);
  if (schedule_.TakeReleased()) BeginNext(now, out);
}

void Engine::OnStart(Nanos now, const Message& message, EngineOutput out) {
  if (phase_ != Phase::kWaiting || roster_ == nullptr) return;
  phase_ = Phase::kRunning;
  schedule_.Start(message.clock);
  BeginNext(now, out);
}

void Engine::OnReject(const Message& message) {
  // It carries the epoch of the message refused: one from before our admission was not ours, but of
  // a worker that is gone and had our rank.
  const wire::Member* me = roster_ != nullptr ? FindMember(*roster_, options_->id) : nullptr;
  if (me == nullptr || message.epoch < me->admitted || phase_ == Phase::kLeft) return;
  ++progress_.rejects;
  if (const auto* why = std::get_if<wire::Notice>(&message.body)) {
    failure_ = absl::StrCat(message.from.ToString(), " refused a message: ", why->text);
  }
}

bool Engine::FitsLayout(ShardId shard, const Message& reply) {
  const wire::Layout& layout = *options_->layout;
  const size_t expected = layout.slices(shard).size() + layout.tables().size();
  if (reply.payload.empty() || reply.payload.size() == expected) return true;
  failure_ = absl::StrCat(reply.from.ToString(), " answered with ", reply.payload.size(),
                          " frames; the layout has ", expected);
  return false;
}

void Engine::OnPullReply(Nanos now, const Message& reply, EngineOutput out) {
  const std::optional<ShardId> home = options_->ShardAt(reply.from);
  if (!home.has_value() || IsOfFormerHead(*home, reply) || !FitsLayout(*home, reply)) return;
  const ShardId shard = *home;
  if (HoldsLoads()) return team_.takeover.Defer(shard, reply);
  replies_.OnReply(Index(shard), reply);
  asked_.unanswered.OnAnswered(shard, reply);
  const Clock next = main_.has_value() ? main_->read_clock() + 1 : schedule_.shard_clock();
  if (pulls_.KeepEarly(shard, next, reply) || !main_.has_value()) return;
  const bool late = reply.clock < main_->read_clock();
  if (options_->policy.skips() && !wire::As<wire::PullReply>(reply).final &&
      reply.clock > main_->read_clock() && !pulls_.loaded()) {
    if (!FastForward(reply.clock, out)) return BeginNext(now, out);
  } else if (main_->fast_forwarded() && !pulls_.loaded() && late) {
    // The answer to a pull that was sent before another shard's answer let us go on from later.
    PullAgain(shard, out);
  }
  if (!asked_.watch.TakeSurplus(*main_, shard, reply)) TakeReply(now, shard, reply, out);
}

void Engine::TakeReply(Nanos now, ShardId shard, const Message& reply, EngineOutput out) {
  ProgramRun& run = *main_;
  // Replies of an earlier clock (duplicates) must not pass for this one's.
  if (wire::As<wire::PullReply>(reply).final != run.final() ||
      (!run.final() && reply.clock != run.read_clock()))
    return;
  if (run.IsAnswered(shard)) {
    // Fresher values of a shard that need not be waited for any more, while others must be.
    if (pulls_.IsFresher(shard, reply)) pulls_.Take(shard, reply, &progress_);
    return;
  }
  if (!run.IsOutstanding(shard)) return;
  if (!pulls_.HasRowsAskedFor(run, shard, reply)) {
    failure_ = absl::StrCat(reply.from.ToString(), " answered with other rows than asked for");
    return;
  }
  pulls_.Take(shard, reply, &progress_);
  asked_.watch.OnAnswered(now, shard);
  run.Answer(shard);
  Advance(now, out);
}

// Blocks come when their senders have them: before this worker has begun their clock, too.
void Engine::OnBlock(Nanos now, const Message& message, EngineOutput out) {
  if (!team_.blocks.Keep(message, schedule_.next_clock(), phase_ != Phase::kWaiting)) {
    ++progress_.rejects;
    return;
  }
  const auto& block = wire::As<wire::Block>(message);
  ProgramRun* run = main_.has_value() ? &*main_ : nullptr;
  if (!block.micro_batches.empty()) run = team_.takeover.FindOf(block.micro_batches);
  if (run == nullptr) return;
  const auto waiting = run->AwaitedBlock(message.clock, block.number);
  if (!waiting.has_value()) return;
  run->Satisfy(*waiting);
  Advance(now, out);
}

void Engine::PullAgain(ShardId shard, EngineOutput out) {
  if (!main_->IsOutstanding(shard)) return;
  Say(shard, MessageFor(&*main_, main_->program().pulls[Index(shard)]), out);
}

bool Engine::waits() const {
  const uint32_t shards = main_.has_value() ? options_->layout->shard_count() : 0;
  for (uint32_t k = 0; k < shards; ++k) {
    if (main_->IsOutstanding(ShardId{k})) return true;
  }
  return false;
}

void Engine::OnTimer(Nanos now, EngineOutput out) {
  const PullWatch::Repeats repeats =
      asked_.watch.OnTimer(now, main_.has_value() ? &*main_ : nullptr);
  for (const ShardId shard : repeats.shards) PullAgain(shard, out);
  if (repeats.timer.has_value()) out.outbox->SetTimer(kWatch, *repeats.timer);
}

wire::Progress Engine::ProgressAt(Nanos now) const {
  wire::Progress progress = progress_;
  std::optional<PullWatch::Wait> wait;
  if (main_.has_value()) wait = asked_.watch.Longest(now, *main_);
  if (!wait.has_value()) {
    if (main_.has_value()) progress.waiting = team_.blocks.WaitsFor(now);
    return progress;
  }
  progress.waiting = wire::Waiting{.of = options_->HomeOf(wait->shard),
                                   .clock = main_->read_clock(),
                                   .for_ns = wait->for_ns,
                                   .asked = wait->asked};
  return progress;
}

void Engine::OnDevice(Nanos now, DeviceEvent event, EngineOutput out) {
  ProgramRun* run = takeover_.Find(event.run);
  if (run == nullptr) run = team_.takeover.Find(event.run);
  if (main_.has_value() && main_->id() == event.run) run = &*main_;
  if (run == nullptr || run->satisfied(event.instruction) || diverged_) return;
  progress_.samples += event.trained_samples;
  if (event.trained_samples > 0) progress_.loss_sum += event.loss_sum;
  progress_.compute_ns += event.compute_ns;
  progress_.injected_ns += event.injected_ns;
  if (event.not_finite.updates > 0 && !TakeNotFinite(event, run->ClockOf(event.instruction), out)) {
    return;
  }
  const Instruction& instruction = run->instruction(event.instruction);
  if (As<RunForward>(instruction)) {
    // The load behind it is next.
    if (!run->issued(event.instruction + 1)) pulls_.OnIdle(now);
  } else if (As<EvaluateModel>(instruction)) {
    Message message = ToScheduler(MessageType::kEvaluated);
    message.body = wire::Evaluation{event.samples, event.correct, event.loss_sum};
    message.payload = event.frames;
    out.outbox->Send(std::move(message));
  }
  const uint32_t done = event.instruction;
  run->OnEvent(std::move(event));
  const auto next = run->WaitsFor(done);
  const bool main = main_.has_value() && run == &*main_;
  if (main && next.has_value()) team_.blocks.OnWaiting(now, next->first, next->second);
  Advance(now, out);
}

bool Engine::TakeNotFinite(const DeviceEvent& event, Clock clock, EngineOutput out) {
  const DeviceEvent::NotFinite& what = event.not_finite;
  const std::string& tensor = options_->layout->NameOf(what.tensor);
  if (options_->skip_not_finite && !what.parameters) {
    progress_.LeaveOut(tensor, clock, what.updates);
    return true;
  }
  diverged_ = true;
  Message message = ToScheduler(MessageType::kNotFinite);
  message.clock = clock;
  message.body = wire::NotFinite{
      .worker = int64_t{Index(options_->id)}, .parameters = what.parameters, .tensor = tensor};
  out.outbox->Send(std::move(message));
  return false;
}

void Engine::BeginNext(Nanos now, EngineOutput out) {
  // Who holds no parameters waits for nobody's answer before it begins a step.
  if (HoldsLoads() && options_->layout->shard_count() == 0) return;
  std::shared_ptr<const Program> next = schedule_.Next(*roster_, epoch_);
  if (next == nullptr) {
    if (schedule_.finished()) Finish(out);
    return;
  }
  if (next->kind == Program::Kind::kStep && options_->takes_over()) takeover_.OnStep(*next);
  Begin(now, std::move(next), out);
}

void Engine::Begin(Nanos now, std::shared_ptr<const Program> program, EngineOutput out) {
  CHECK(!main_.has_value());
  const Program::Kind kind = program->kind;
  main_.emplace(std::move(program), next_run_++, schedule_.ClocksOf(kind),
                options_->layout->shard_count());
  const bool unasked = options_->policy.subscribed() && kind == Program::Kind::kStep &&
                       !schedule_.IsFirst(main_->clock());
  pulls_.Begin(now, unasked);
  asked_.watch.OnRunBegun();
  Advance(now, out);
}

void Engine::Advance(Nanos now, EngineOutput out) {
  // Takeovers of an earlier clock stand before the main run's load in the device queue.
  for (ProgramRun& run : takeover_.runs()) Issue(now, &run, out);
  takeover_.DropCompleted();
  if (options_->team_takes_over()) AdvanceTakeover(now, out);
  if (!main_.has_value()) return;
  const bool was_loaded = pulls_.loaded();
  Issue(now, &*main_, out);
  if (pulls_.loaded() && !was_loaded) {
    if (main_->program().kind == Program::Kind::kStep && options_->takes_over()) {
      // Micro-batches that became ours while we waited belong to this clock too.
      BeginTakeover(now, Takeover::Step::kThis, main_->clock(), out);
    }
    if (options_->team_takes_over()) AdvanceTakeover(now, out);
  }
  if (main_->complete()) EndRun(now, out);
}

void Engine::Issue(Nanos now, ProgramRun* run, EngineOutput out) {
  while (const std::optional<uint32_t> next = run->Next()) {
    if (IsOfDevice(run->instruction(*next))) {
      IssueToDevice(now, run, *next, out);
    } else {
      IssueToNetwork(now, run, *next, out);
    }
  }
}

void Engine::IssueToDevice(Nanos now, ProgramRun* run, uint32_t index, EngineOutput out) {
  DeviceCommand& command = out.commands->emplace_back(CommandFor(*run, index));
  if (auto* take = std::get_if<TakeCommand>(&command.what)) {
    take->block = team_.blocks.Take(command.clock, take->number, command.taken_over);
    if (command.taken_over.empty()) team_.blocks.OnTaken();
  }
  if (!command.wants_event) run->Satisfy(index);
  const bool loads = std::holds_alternative<LoadCommand>(command.what) ||
                     std::holds_alternative<ElasticCommand>(command.what);
  if (!loads) return;
  if (run->program().kind == Program::Kind::kTakeover) return;
  if (!pulls_.OnLoad(now, *run, &progress_)) return;
  const bool reloads = options_->by_transfer_stages() && options_->takes_over();
  if (reloads) {
    takeover_.Keep(pulls_.TakeValues());
  } else if (options_->team_takes_over() && run->program().kind == Program::Kind::kStep) {
    team_.takeover.OnLoad(run->clock(), pulls_.TakeValues());
  } else {
    pulls_.DropValues();
  }
}

void Engine::IssueToNetwork(Nanos now, ProgramRun* run, uint32_t index, EngineOutput out) {
  const Instruction& instruction = run->instruction(index);
  if (const auto* pull = As<SendPull>(instruction)) {
    return IssuePull(now, run, index, pull->shard, out);
  }
  if (const auto* receive = As<ReceiveBlock>(instruction)) {
    const MicroBatchRange of = run->program().taken_over;
    if (team_.blocks.IsHere(run->ClockOf(index), receive->number, of)) run->Satisfy(index);
    return;
  }
  if (const auto* ahead = As<SendPrefetch>(instruction)) {
    // After the last clock there are final pulls only; what may not be begun is not asked for.
    const bool last = run->clock() + 1 >= options_->total_clocks;
    if (last || run->shard_clock() + 1 >= schedule_.bound()) return run->Satisfy(index);
    pulls_.OnAskedAhead(ahead->shard, run->shard_clock() + 1);
  }
  const bool to_seat = As<SendBlock>(instruction) != nullptr;
  Message message = MessageFor(run, index);
  if (to_seat) {
    out.outbox->Send(std::move(message));
  } else {
    Say(ShardOf(std::get<NetworkInstruction>(instruction.what)), std::move(message), out);
  }
  run->Satisfy(index);
}

void Engine::IssuePull(Nanos now, ProgramRun* run, uint32_t index, ShardId shard,
                       EngineOutput out) {
  pulls_.OnDue(now);
  const std::optional<Nanos> timer = asked_.watch.OnAsked(now, shard);
  if (timer.has_value()) out.outbox->SetTimer(kWatch, *timer);
  if (!pulls_.IsComing(*run, shard)) {
    Say(shard, MessageFor(run, index), out);
  } else if (!HoldsLoads() && pulls_.TakeEarly(shard, run->read_clock(), &progress_)) {
    run->Satisfy(index);
  }
}

DeviceCommand Engine::CommandFor(const ProgramRun& run, uint32_t index) const {
  const consistency::PolicyTraits& policy = options_->policy;
  DeviceCommand command = run.CommandFor(index);
  command.micro_batch_count = options_->micro_batch_count;
  command.tree_sum = policy.fixed_tree;
  if (auto* elastic = std::get_if<ElasticCommand>(&command.what)) {
    elastic->frames = pulls_.values();
    // alpha = beta / P (Zhang et al., NIPS 2015), with the P there is now.
    const size_t replicas = options_->ReplicasAt(*roster_, run.shard_clock());
    const double beta = std::get<consistency::ElasticExchange>(policy.exchange).beta;
    elastic->alpha = beta / static_cast<double>(std::max<size_t>(replicas, 1));
  } else if (auto* load = std::get_if<LoadCommand>(&command.what)) {
    if (run.program().kind == Program::Kind::kTakeover) {
      load->frames =
          options_->team_takes_over() ? team_.takeover.ValuesOf(run.clock()) : takeover_.values();
    } else {
      load->frames = load->shard.has_value() ? pulls_.ValuesOf(*load->shard) : pulls_.values();
    }
    const auto* delta = std::get_if<consistency::DeltaExchange>(&policy.exchange);
    load->starts_round = delta != nullptr;
    load->fresh_momentum = delta != nullptr && delta->fresh_momentum;
  }
  return command;
}

Message Engine::MessageFor(ProgramRun* run, uint32_t index) {
  Message message = run->MessageFor(index);
  message.from = Address::Of(options_->id);
  message.epoch = epoch_;
  message.worker = options_->id;
  if (const auto* block = As<SendBlock>(run->instruction(index))) {
    const wire::TeamShape& team = options_->seat->team;
    message.to = Address::Of(wire::WorkerAt(wire::TeamOf(options_->id, team), block->seat, team));
    return message;
  }
  const ShardId shard = ShardOf(std::get<NetworkInstruction>(run->instruction(index).what));
  message.to = options_->HomeOf(shard);
  message.priority = options_->layout->transfer_stage(shard);
  if (message.type == MessageType::kPush) {
    const bool exchange = run->program().kind == Program::Kind::kExchange;
    auto& push = wire::As<wire::Push>(&message);
    push.micro_batch_count = exchange ? options_->RankCount(*roster_) : options_->micro_batch_count;
    push.batch_samples = options_->BatchSamples(run->clock());
    progress_.pushed_bytes += message.payload_bytes();
    replies_.OnPush(Index(shard), message.clock);
  }
  return message;
}

void Engine::EndRun(Nanos now, EngineOutput out) {
  const Program::Kind kind = main_->program().kind;
  asked_.watch.OnRunEnded(main_->read_clock());
  pulls_.End();
  main_.reset();
  schedule_.OnEnd(kind);
  team_.blocks.DropBefore(schedule_.next_clock(), team_.takeover.first_wanted());
  if (kind == Program::Kind::kFinalEvaluate || kind == Program::Kind::kEvaluateBatch) {
    std::shared_ptr<const Program> next = schedule_.NextEvaluation();
    return next != nullptr ? Begin(now, std::move(next), out) : takeover_.Close();
  }
  if (kind == Program::Kind::kFlush) return Leave(out);
  progress_.clock = schedule_.clock();
  BeginNext(now, out);
}

void Engine::Leave(EngineOutput out) {
  phase_ = Phase::kLeft;
  Message message = ToScheduler(MessageType::kLeave);
  message.clock = schedule_.clock();
  message.body = progress_;
  out.outbox->Send(std::move(message));
}

void Engine::Finish(EngineOutput out) {
  phase_ = Phase::kDone;
  takeover_.DropValues();
  progress_.clock = schedule_.clock();
  Message message = ToScheduler(MessageType::kDone);
  message.clock = schedule_.clock();
  message.body = progress_;
  out.outbox->Send(std::move(message));
}

Message Engine::ToScheduler(MessageType type) const {
  Message message;
  message.type = type;
  message.from = Address::Of(options_->id);
  message.to = Address::Scheduler();
  message.epoch = epoch_;
  message.worker = options_->id;
  return message;
}

void Engine::AddTo(Fingerprint* f) const {
  f->Add(phase_);
  f->Add(epoch_);
  f->Add(failure_.has_value());
  f->Add(diverged_);
  schedule_.AddTo(f);
  f->Add(main_.has_value());
  if (main_.has_value()) main_->AddTo(f);
  pulls_.AddTo(f);
  asked_.watch.AddTo(f);
  asked_.unanswered.AddTo(f);
  takeover_.AddTo(f);
  if (options_->seat == nullptr) return;
  team_.blocks.AddTo(f);
  if (options_->team_takes_over()) team_.takeover.AddTo(f);
}

}  // namespace soapstone::worker
