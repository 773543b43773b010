#include "server/shard/shard.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/shard/message_rules.h"

namespace soapstone::server {
namespace {

using consistency::Action;
using consistency::ActionKind;
using consistency::Actions;
using consistency::Level;
using wire::Address;
using wire::Message;
using wire::MessageType;

Ledger::Update UpdateOf(const Message& push) {
  const auto& body = wire::As<wire::Push>(push);
  return {push.worker, push.clock, body.bucket, body.micro_batches};
}

ShardOptions AtItsLevel(ShardOptions options) {
  const uint32_t shards = options.layout->shard_count();
  options.policy = consistency::TraitsOfLevel(
      options.policy, consistency::LevelOf(options.id, shards, options.policy));
  return options;
}

std::optional<TeamFront> FrontOf(const ShardOptions& options) {
  if (!options.team.has_value()) return std::nullopt;
  return TeamFront(*options.team, options.holders, options.team_fault);
}

}  // namespace

Shard::Shard(ShardOptions options, Store store)
    : options_(AtItsLevel(std::move(options))),
      store_(std::move(store)),
      policy_(options_.policy, options_.layout->bucket_count(options_.id),
              options_.micro_batch_count, {options_.id, options_.layout->shard_count()}),
      ledger_(options_.id, options_.policy.guarantee,
              options_.policy.fixed_tree &&
                  !std::holds_alternative<consistency::BoundedTraits>(options_.policy.gate),
              options_.own_lag),
      members_(options_.id, options_.layout->shard_count(), options_.policy, options_.team,
               FrontOf(options_)),
      rounds_(options_.id, options_.layout->shard_count()),
      seen_(options_.seen_pushes_max),
      held_(options_.held_bytes_max),
      readers_({.bucket_count = options_.layout->bucket_count(options_.id),
                .final_clock = options_.final_clock,
                .subscribed = options_.policy.subscribed(),
                .own_lag = options_.own_lag}) {
  if (members_.level() == Level::kBranch) {
    uplink_.emplace(options_.id, options_.layout->shard_count());
  }
}

void Shard::OnMessage(Nanos now, Message message, wire::Outbox* out) {
  now_ = now;
  switch (message.type) {
    case MessageType::kRoster:
      return OnRoster(message, out);
    case MessageType::kSave:
      return OnSave(message, out);
    case MessageType::kCheckpoint:
      due_.drain = message.clock;
      return Settle(out);
    case MessageType::kHeld:
    case MessageType::kChosen:
      return OnShard(message, out);
    case MessageType::kPullReply:
      OnRoot(std::move(message), out);
      return;
    case MessageType::kPush:
    case MessageType::kClock:
    case MessageType::kPull:
      break;
    default:
      ++stats_.rejects;
      return;
  }
  std::string why = members_.WhyNotTaken(message);
  if (why.empty()) why = WhyMalformed(message, options_, store_, members_.roster().worker_count);
  if (!why.empty()) return Reject(message, std::move(why), out);
  if (message.type == MessageType::kPush) return OnPush(std::move(message), out);
  if (message.type == MessageType::kClock) return OnClock(message, out);
  OnPull(std::move(message), out);
}

void Shard::OnRoster(const Message& message, wire::Outbox* out) {
  const auto* roster = std::get_if<wire::Roster>(&message.body);
  if (roster == nullptr || message.from != Address::Scheduler()) {
    ++stats_.rejects;
    return;
  }
  if (message.epoch > members_.epoch()) {
    const ShardMembers::Change change = members_.Install(*roster, message.epoch, options_.policy);
    if (change.restart.has_value()) {
      uplink_->Restart();
      ledger_.Void();
      CarryOut(policy_.OnRestart(*change.restart), out);
    }
    for (const WorkerId worker : change.gone) Leave(worker, out);
    for (const wire::Member& member : members_.roster().workers) {
      const Clock applied = policy_.clocks().Of(member.worker);
      if (member.joining) {
        // At this shard's own frontier: nobody can run further ahead of it from now on.
        if (applied == kNoClock) {
          const Clock frontier = policy_.clocks().members() == 0 ? 0 : policy_.Frontier();
          Join(member.worker, frontier, out);
        }
      } else if (applied == kNoClock || applied < member.start) {
        Join(member.worker, member.start, out);
      }
    }
  }
  due_.ack = true;
  Settle(out);
}

void Shard::Join(WorkerId worker, Clock clock, wire::Outbox* out) {
  ledger_.OnMember(worker, clock);
  CarryOut(policy_.OnJoin(worker, clock), out);
}

// Its held pushes stay: they are complete updates.
void Shard::Leave(WorkerId worker, wire::Outbox* out) {
  if (TeamFront* front = members_.front()) {
    for (const WorkerId holder : front->HoldersOf(worker)) seen_.Forget(holder);
    front->Forget(worker);
  } else {
    seen_.Forget(worker);
  }
  held_.Take(readers_.Forget(worker));
  ledger_.OnGone(worker);
  CarryOut(policy_.OnLeave(worker), out);
}

// A newcomer counts as started only when every shard has reached its start clock: before that, the
// rounds below it can be supplied by the other members alone (bsp), and if those are all lost the
// scheduler must know that nobody is left.
void Shard::AcknowledgeRoster(wire::Outbox* out) {
  if (!due_.ack) return;
  const Clock start = members_.LatestStart();
  const bool empty = policy_.clocks().members() == 0;
  // Updates that wait for others to be applied with must not hold up who is to start after them: it
  // may be the only one that has any left to send.
  const bool batches = std::holds_alternative<consistency::BatchTraits>(options_.policy.gate);
  if (batches && !empty && policy_.clocks().Min() >= start) CarryOut(policy_.OnDrain(), out);
  const Clock frontier = empty ? 0 : policy_.Frontier();
  // Without parameters nobody speaks to it, and no clock comes.
  if (start > frontier && options_.layout->bucket_count(options_.id) > 0) return;
  due_.ack = false;
  Message ack;
  ack.type = MessageType::kRosterAck;
  ack.from = Address::Of(options_.id);
  ack.to = Address::Scheduler();
  ack.epoch = epoch();
  ack.clock = frontier;
  out->Send(std::move(ack));
}

void Shard::Settle(wire::Outbox* out) {
  const Clock drained = std::min(options_.final_clock, due_.drain);
  if (policy_.clocks().members() > 0 && policy_.clocks().Min() >= drained) {
    due_.drain = kClockMax;
    CarryOut(policy_.OnDrain(), out);
  }
  AnswerFinalPulls(out);
  AnswerSaves(out);
  AcknowledgeRoster(out);
}

// ---- From members

void Shard::OnPush(Message push, wire::Outbox* out) {
  const SeenPushes::Memory memory = seen_.Remember(push);
  if (memory == SeenPushes::Memory::kSeenBefore) {
    ++stats_.duplicates;
    return;
  }
  if (memory == SeenPushes::Memory::kFull) {
    Reject(push,
           absl::StrCat("more than ", options_.seen_pushes_max, " pushes of clock ", push.clock,
                        ", which cannot be told from repeated ones: larger buckets "
                        "(cluster.bucket_bytes) or fewer micro-batches make fewer"),
           out);
    return;
  }
  if (!held_.HasRoomFor(push, ApartBytes())) {
    Reject(push,
           absl::StrCat("more than ", options_.held_bytes_max >> 20,
                        " MiB of updates held; is a member stuck?"),
           out);
    return;
  }
  const WorkerId sender = push.worker;
  if (members_.front() == nullptr) {
    TakePush(std::move(push), out);
  } else if (std::optional<std::vector<Message>> parts =
                 members_.front()->TakePush(std::move(push))) {
    Message whole = std::move((*parts)[0]);
    for (size_t p = 1; p < parts->size(); ++p) store_.AddPart((*parts)[p].payload, &whole.payload);
    TakePush(std::move(whole), out);
  }
  // The worker's clock may have come before this push (channels without order).
  if (const std::optional<Message> clock = seen_.TakeWaiting(sender)) OnClock(*clock, out);
  // A micro-batch taken over comes after all clocks, and may be what the last round waited for.
  Settle(out);
}

void Shard::TakePush(Message push, wire::Outbox* out) {
  const auto& body = wire::As<wire::Push>(push);
  consistency::PushEvent event = {.now = now_,
                                  .worker = push.worker,
                                  .clock = push.clock,
                                  .bucket = body.bucket,
                                  .micro_batches = body.micro_batches,
                                  .staleness = StalenessOf(push)};
  if (std::holds_alternative<consistency::ValueTraits>(options_.policy.gate)) {
    event.mass = store_.MassOf(push.clock, ContributionOf(push, 1));
  }
  ledger_.OnTaken(UpdateOf(push));
  event.ticket = held_.Keep(std::move(push));
  CarryOut(policy_.OnPush(event), out);
}

// A clock counts once the updates it stands for are here: it says how many there are.
void Shard::OnClock(const Message& message, wire::Outbox* out) {
  if (!seen_.Covers(message)) return;
  std::optional<Message> whole;  // of the team
  TeamFront* const front = members_.front();
  if (front != nullptr && !(whole = front->TakeClock(message)).has_value()) return;
  const Message& clock = whole.has_value() ? *whole : message;
  readers_.OnClock(now_, clock);
  ledger_.OnClock(clock.worker, clock.clock);
  CarryOut(policy_.OnClock({now_, clock.worker, clock.clock}), out);
  Settle(out);
}

void Shard::OnPull(Message pull, wire::Outbox* out) {
  if (members_.front() != nullptr) {
    std::optional<Message> whole = members_.front()->TakePull(std::move(pull));
    if (!whole.has_value()) return;
    pull = *std::move(whole);
  }
  readers_.OnPull(now_, pull);
  if (wire::As<wire::Pull>(pull).final) {
    readers_.KeepFinal(std::move(pull));
    AnswerFinalPulls(out);
    return;
  }
  consistency::PullEvent event = {now_, pull.worker, pull.clock};
  event.ticket = held_.Keep(std::move(pull));
  held_.Take(readers_.Replace(event.worker, event.ticket));  // one a worker: the newest
  CarryOut(policy_.OnPull(event), out);
}

// ---- From other shards, and server 0

void Shard::OnShard(const Message& message, wire::Outbox* out) {
  if (!rounds_.Takes(message, members_.roster().worker_count)) {
    ++stats_.rejects;
    return;
  }
  const auto* chosen = std::get_if<wire::WorkerSet>(&message.body);
  CarryOut(message.type == MessageType::kHeld
               ? policy_.OnHeld(ShardId{message.from.index}, message.worker, message.clock)
               : policy_.OnChosen(message.clock, chosen->workers),
           out);
  Settle(out);
}

// Values for a round to come; or the last ones, which the branch's workers wait for.
void Shard::OnRoot(Message message, wire::Outbox* out) {
  if (!uplink_.has_value() || message.from != uplink_->root() ||
      !HoldsSlices(message, options_, store_)) {
    ++stats_.rejects;
    return;
  }
  if (wire::As<wire::PullReply>(message).final) {
    if (!uplink_->TakeFinal()) return;
    store_.Load(std::move(message.payload));
    for (const auto& [worker, pull] : readers_.TakeFinal()) Reply(pull, out);
    return;
  }
  if (!policy_.fetching() || message.clock != policy_.Frontier()) return;  // a second answer
  store_.Load(std::move(message.payload));
  CarryOut(policy_.OnFetched(message.clock), out);
  Settle(out);
}

// ---- What the policy says

void Shard::CarryOut(const Actions& actions, wire::Outbox* out) {
  for (const Action& action : actions) {
    switch (action.kind) {
      case ActionKind::kApplyGathered:
        ApplyGathered(out);
        break;
      case ActionKind::kTellRoot:
        uplink_->Complete(epoch(), action.clock, out);
        break;
      case ActionKind::kFetch:
        // After the last clock there are final pulls only.
        if (action.clock < options_.final_clock) uplink_->Fetch(epoch(), action.clock, out);
        break;
      case ActionKind::kSend:
        SendUnasked(action, out);
        break;
      case ActionKind::kTellHeld:
        rounds_.TellHeld(epoch(), action.worker, action.clock, out);
        break;
      case ActionKind::kTellChosen:
        rounds_.TellChosen(epoch(), policy_.chosen(), action.clock, out);
        break;
      case ActionKind::kHold:
      case ActionKind::kPark:
        break;
      default:
        CarryOutInHand(action, out);
        break;
    }
  }
}

void Shard::CarryOutInHand(const Action& action, wire::Outbox* out) {
  const HeldMessages::Entry entry = held_.Take(action.ticket);
  if (entry.empty()) return;  // replaced by the worker's newer pull
  Message& message = entry.mapped();
  switch (action.kind) {
    case ActionKind::kApply:
    case ActionKind::kGather:
      ledger_.OnApplied(UpdateOf(message), StalenessOf(message));
      if (options_.policy.guarantee.same_replicas && !message.payload.empty()) {
        ledger_.OnHandIn(message.worker, wire::As<wire::Push>(message).bucket,
                         wire::SumOf(message.payload));
      }
      gathered_.Add(std::move(message), action.weight);
      if (action.kind == ActionKind::kApply) ApplyGathered(out);
      break;
    case ActionKind::kDrop:
      ++stats_.duplicates;
      ledger_.OnDropped(UpdateOf(message));
      break;
    case ActionKind::kLeaveOut:
      ++stats_.left_out;
      ledger_.OnLeftOut(UpdateOf(message));
      break;
    case ActionKind::kReply:
      Reply(message, out);
      break;
    default:
      if (message.type == MessageType::kPush) ledger_.OnRefused(UpdateOf(message));
      if (message.type == MessageType::kPull) readers_.OnRefused(message.worker);
      Reject(message,
             absl::StrCat("clock ", message.clock, " is against the order; the shard is at ",
                          policy_.Frontier()),
             out);
      break;
  }
}

void Shard::ApplyGathered(wire::Outbox* out) {
  if (gathered_.empty()) return;
  const BucketId bucket = gathered_.bucket();
  stats_.pushes_applied += gathered_.parts().size();
  readers_.OnUpdated(bucket);
  if (uplink_.has_value()) {
    uplink_->Push(
        epoch(), gathered_,
        store_.Gather(bucket, gathered_.clock(), gathered_.parts(), gathered_.micro_batch_count()),
        out);
  } else {
    const std::optional<uint32_t> odd =
        store_.Apply(bucket, gathered_.clock(), gathered_.parts(), gathered_.micro_batch_count(),
                     policy_.clocks().members());
    if (odd.has_value()) TellNotFinite(*odd, out);
  }
  ledger_.OnStored(bucket, store_.stamp(bucket));
  gathered_.Clear();
}

// ---- What goes out

// Once: the job ends with it. Of several workers that were summed the one whose numbers are the
// greatest; a tree's root does not know them.
void Shard::TellNotFinite(uint32_t tensor, wire::Outbox* out) {
  if (std::exchange(not_finite_told_, true)) return;
  const bool of_table = tensor >= options_.layout->params().size();
  const bool knows = members_.level() != Level::kRoot;
  Message message;
  message.type = MessageType::kNotFinite;
  message.from = Address::Of(options_.id);
  message.to = Address::Scheduler();
  message.epoch = epoch();
  message.clock = gathered_.clock() * options_.policy.period();
  message.body =
      wire::NotFinite{.worker = knows ? int64_t{Index(gathered_.Greatest(of_table))} : -1,
                      .parameters = true,
                      .tensor = options_.layout->NameOf(tensor)};
  out->Send(std::move(message));
}

void Shard::Reply(const Message& pull, wire::Outbox* out) {
  const bool final = wire::As<wire::Pull>(pull).final;
  Message reply;
  reply.type = MessageType::kPullReply;
  reply.from = Address::Of(options_.id);
  reply.to = members_.AddressOf(pull.worker);
  reply.epoch = epoch();
  reply.priority = options_.layout->transfer_stage(options_.id);
  reply.worker = pull.worker;
  reply.clock = pull.clock;
  // Who comes late gets what there is, and goes on from there.
  if (options_.policy.skips() && !final) reply.clock = std::max(pull.clock, policy_.Frontier());
  Store::Answer answer = store_.ReadFor(pull.worker, pull.payload, final);
  reply.payload = std::move(answer.values);
  const Clock oldest = policy_.Oldest();
  reply.body = wire::PullReply{
      .oldest = oldest, .version = answer.version, .checksum = answer.checksum, .final = final};
  const Ledger::Read read = {pull.worker, reply.clock, oldest, answer.version};
  if (final) {
    ledger_.OnFinalRead(read);
  } else {
    ledger_.OnRead(read);
  }
  readers_.OnAnswered(now_, &reply);
  if (members_.front() == nullptr) return out->Send(std::move(reply));
  for (const WorkerId holder : members_.front()->HoldersOf(pull.worker)) {
    reply.to = Address::Of(holder);
    reply.worker = holder;
    out->Send(reply);
  }
}

// A final pull waits until every member's last clock is in the store.
void Shard::AnswerFinalPulls(wire::Outbox* out) {
  if (!readers_.final_waits()) return;
  if (std::min(policy_.Frontier(), policy_.clocks().Min()) < options_.final_clock) return;
  if (uplink_.has_value()) {
    // The root's answer waits for the other groups.
    uplink_->FetchFinal(epoch(), options_.final_clock, out);
    return;
  }
  for (const auto& [worker, pull] : readers_.TakeFinal()) Reply(pull, out);
}

void Shard::Reject(const Message& message, std::string why, wire::Outbox* out) {
  ++stats_.rejects;
  Message reject;
  reject.type = MessageType::kReject;
  reject.from = Address::Of(options_.id);
  reject.to = message.from;
  reject.priority = options_.layout->transfer_stage(options_.id);
  reject.epoch = message.epoch;  // tells a rank's former holder from the present one
  reject.worker = message.worker;
  reject.clock = message.clock;
  reject.body = wire::Notice{0, std::move(why)};
  out->Send(std::move(reject));
}

void Shard::AddTo(Fingerprint* f) const {
  policy_.AddTo(f);
  store_.AddTo(f);
  members_.AddTo(f);
  f->Add(due_.ack);
  f->Add(due_.drain);
  f->Add(due_.saves.size());
  if (uplink_.has_value()) uplink_->AddTo(f);
  seen_.AddTo(f);
  readers_.AddTo(f);
}

}  // namespace soapstone::server
