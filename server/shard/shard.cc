#include "server/shard/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/leaf_tree.h"
#include "glog/logging.h"

namespace soapstone::server {
namespace {

using consistency::Action;
using consistency::ActionKind;
using consistency::Actions;
using consistency::Level;
using consistency::Ticket;
using wire::Address;
using wire::Message;
using wire::MessageType;

Contribution ContributionOf(Message push, float weight) {
  return {push.worker,        push.leaves, push.samples,
          push.batch_samples, weight,      std::move(push.payload)};
}

Ledger::Update UpdateOf(const Message& push) {
  return {push.worker, push.clock, push.bucket, push.leaves};
}

ShardOptions AtItsLevel(ShardOptions options) {
  const uint32_t shards = options.layout->shard_count();
  options.policy = consistency::TraitsOfLevel(
      options.policy, consistency::LevelOf(options.id, shards, options.policy));
  return options;
}

}  // namespace

Shard::Shard(ShardOptions options, Store store)
    : options_(AtItsLevel(std::move(options))),
      level_(LevelOf(options_.id, options_.layout->shard_count(), options_.policy)),
      store_(std::move(store)),
      policy_(options_.policy, options_.layout->bucket_count(options_.id), options_.leaf_count,
              {options_.id, options_.layout->shard_count()}),
      ledger_(options_.id, options_.policy.guarantee,
              options_.policy.fixed_tree && options_.policy.gate != consistency::Gate::kBounded),
      versions_(options_.layout->bucket_count(options_.id)) {
  if (level_ == Level::kBranch) uplink_.emplace(options_.id, options_.layout->shard_count());
}

void Shard::OnMessage(Nanos now, Message message, wire::Outbox* out) {
  now_ = now;
  switch (message.type) {
    case MessageType::kRoster:
      OnRoster(message, out);
      return;
    case MessageType::kSave:
      OnSave(message, out);
      return;
    case MessageType::kHeld:
    case MessageType::kChosen:
      OnShard(message, out);
      return;
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
  std::string why = WhyNotTaken(message);
  if (why.empty() && message.type == MessageType::kPush) why = WhyPushIsMalformed(message);
  if (why.empty() && message.type == MessageType::kPull) why = WhyPullIsMalformed(message);
  if (!why.empty()) {
    Reject(message, std::move(why), out);
    return;
  }
  if (message.type == MessageType::kPush) {
    OnPush(now, std::move(message), out);
  } else if (message.type == MessageType::kClock) {
    OnClock(now, message, out);
  } else {
    OnPull(now, std::move(message), out);
  }
}

void Shard::OnRoster(const Message& message, wire::Outbox* out) {
  const auto* roster = std::get_if<wire::Roster>(&message.body);
  if (roster == nullptr || message.from != Address::Scheduler()) {
    ++stats_.rejects;
    return;
  }
  if (message.epoch > epoch_) {
    epoch_ = message.epoch;
    const wire::Roster before = std::exchange(roster_, MembersOf(*roster, message.epoch, out));
    for (const wire::Member& member : before.workers) {
      const wire::Member* now_member = FindMember(roster_, member.worker);
      // A replacement under the same rank is another member: the former one leaves first.
      if (now_member != nullptr && now_member->admitted == member.admitted) continue;
      ForgetWorker(member.worker);
      CarryOut(policy_.OnLeave(member.worker), out);
    }
    for (const wire::Member& member : roster_.workers) {
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
  ack_due_ = true;
  Settle(out);
}

void Shard::Join(WorkerId worker, Clock clock, wire::Outbox* out) {
  ledger_.OnMember(worker, clock);
  CarryOut(policy_.OnJoin(worker, clock), out);
}

// A newcomer counts as started only when every shard has reached its start clock: before that, the
// rounds below it can be supplied by the other members alone (bsp), and if those are all lost the
// scheduler must know that nobody is left.
void Shard::AcknowledgeRoster(wire::Outbox* out) {
  if (!ack_due_) return;
  Clock start = 0;
  for (const wire::Member& member : roster_.workers) {
    if (!member.joining) start = std::max(start, member.start);
  }
  const bool empty = policy_.clocks().members() == 0;
  // Updates that wait for others to be applied with must not hold up who is to start after them: it
  // may be the only one that has any left to send.
  const bool batches = options_.policy.gate == consistency::Gate::kBatched;
  if (batches && !empty && policy_.clocks().Min() >= start) CarryOut(policy_.OnDrain(), out);
  const Clock frontier = empty ? 0 : policy_.Frontier();
  if (start > frontier) return;
  ack_due_ = false;
  Message ack;
  ack.type = MessageType::kRosterAck;
  ack.from = Address::Of(options_.id);
  ack.to = Address::Scheduler();
  ack.epoch = epoch_;
  ack.clock = frontier;
  out->Send(std::move(ack));
}

void Shard::Settle(wire::Outbox* out) {
  if (policy_.clocks().members() > 0 && policy_.clocks().Min() >= options_.final_clock) {
    CarryOut(policy_.OnDrain(), out);
  }
  AnswerFinalPulls(out);
  AcknowledgeRoster(out);
}

// What a worker that is gone has in hand here. Its held pushes stay: they are complete updates.
void Shard::ForgetWorker(WorkerId worker) {
  in_hand_.erase(SeenOf(worker).pull);
  SeenOf(worker) = Seen{};
  final_pulls_.erase(worker);
  ledger_.OnGone(worker);
}

Shard::Seen& Shard::SeenOf(WorkerId worker) {
  if (Index(worker) >= seen_.size()) seen_.resize(Index(worker) + 1);
  return seen_[Index(worker)];
}

std::string Shard::WhyNotTaken(const Message& message) const {
  const wire::Member* member = FindMember(roster_, message.worker);
  if (member == nullptr) {
    return absl::StrCat("worker ", Index(message.worker), " is not a member in epoch ", epoch_);
  }
  if (message.from != AddressOf(message.worker)) return "sent in another worker's name";
  if (message.epoch < member->admitted) {
    return absl::StrCat("stale epoch ", message.epoch, "; the worker was admitted in epoch ",
                        member->admitted);
  }
  if (message.clock < 0 || message.clock > options_.final_clock) {
    return absl::StrCat("clock ", message.clock, " is outside [0, ", options_.final_clock, "]");
  }
  return "";
}

std::string Shard::WhyPushIsMalformed(const Message& push) const {
  if (Index(push.bucket) >= options_.layout->bucket_count(options_.id)) {
    return absl::StrCat("no bucket ", Index(push.bucket), " on this shard");
  }
  const bool gradient = options_.policy.exchange == consistency::Exchange::kGradient;
  const uint32_t leaf_count = gradient ? options_.leaf_count : roster_.worker_count;
  if (push.leaf_count != leaf_count || push.leaves.empty() || push.leaves.end > leaf_count) {
    return absl::StrCat("leaves [", push.leaves.begin, ", ", push.leaves.end, ") of ",
                        push.leaf_count, "; the job has ", leaf_count);
  }
  if (options_.policy.fixed_tree && !IsCanonicalNode(push.leaves, leaf_count)) {
    return "the leaves are not a node of the summation tree";
  }
  if (gradient && (push.batch_samples == 0 || push.samples > push.batch_samples)) {
    return absl::StrCat(push.samples, " samples of a batch of ", push.batch_samples);
  }
  if (!store_.checks_payload()) return "";
  if (const auto table = options_.layout->TableOf(options_.id, push.bucket)) {
    return store_.tables()->WhyNotRows(*table, push.payload);
  }
  const auto& slices = options_.layout->buckets(options_.id)[Index(push.bucket)].slices;
  if (push.payload.size() != slices.size()) {
    return absl::StrCat(push.payload.size(), " payload frames for ", slices.size(), " slices");
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    if (push.payload[i].size() != slices[i].elements() * sizeof(float)) {
      return absl::StrCat("payload frame ", i, " has ", push.payload[i].size(),
                          " bytes; slice has ", slices[i].elements() * sizeof(float));
    }
    if (!push.payload[i].IsFloatAligned()) {
      return absl::StrCat("payload frame ", i, " is not aligned for floats");
    }
  }
  return "";
}

std::string Shard::WhyPullIsMalformed(const Message& pull) const {
  if (store_.tables() != nullptr) return store_.tables()->WhyNotKeys(pull.payload);
  return pull.payload.empty() ? "" : "the model has no table to take rows of";
}

Shard::Memory Shard::RememberPush(const Message& push) {
  Seen& seen = SeenOf(push.worker);
  if (push.clock < seen.clock) return Memory::kSeenBefore;
  if (push.clock > seen.clock) {
    seen.clock = push.clock;
    seen.pushes.clear();
    seen.pushes_digest = 0;
  }
  const PushKey key = {push.bucket, push.leaves};
  if (seen.pushes.contains(key)) return Memory::kSeenBefore;
  if (seen.pushes.size() >= options_.seen_pushes_max) return Memory::kFull;
  seen.pushes.insert(key);
  Fingerprint digest;
  digest.Add(key.bucket);
  digest.Add(key.leaves.begin);
  digest.Add(key.leaves.end);
  seen.pushes_digest += digest.value().first;
  return Memory::kNew;
}

void Shard::OnPush(Nanos now, Message push, wire::Outbox* out) {
  const Memory memory = RememberPush(push);
  if (memory == Memory::kSeenBefore) {
    ++stats_.duplicates;
    return;
  }
  if (memory == Memory::kFull) {
    Reject(push,
           absl::StrCat("more than ", options_.seen_pushes_max, " pushes of clock ", push.clock,
                        ", which cannot be told from repeated ones: larger buckets "
                        "(cluster.bucket_bytes) or fewer micro-batches make fewer"),
           out);
    return;
  }
  if (held_bytes_ + push.payload_bytes() > options_.held_bytes_max) {
    Reject(push,
           absl::StrCat("more than ", options_.held_bytes_max >> 20,
                        " MiB of updates held; is a member stuck?"),
           out);
    return;
  }
  const Ticket ticket{next_ticket_++};
  consistency::PushEvent event = {.now = now,
                                  .worker = push.worker,
                                  .clock = push.clock,
                                  .bucket = push.bucket,
                                  .leaves = push.leaves,
                                  .ticket = ticket,
                                  .staleness = StalenessOf(push)};
  const WorkerId worker = push.worker;
  if (options_.policy.gate == consistency::Gate::kValue) {
    event.mass = store_.MassOf(push.clock, ContributionOf(push, 1));
  }
  held_bytes_ += push.payload_bytes();
  ledger_.OnTaken(UpdateOf(push));
  in_hand_.emplace(ticket, std::move(push));
  CarryOut(policy_.OnPush(event), out);
  // The worker's clock may have come before this push (channels without order).
  if (SeenOf(worker).clock_waiting.has_value()) {
    const Message clock = *std::exchange(SeenOf(worker).clock_waiting, std::nullopt);
    OnClock(now, clock, out);
  }
  // An adopted leaf comes after all clocks, and may be what the last round waited for.
  Settle(out);
}

// Gradient staleness: the bucket's updates since its worker read it; all where it never did.
uint64_t Shard::StalenessOf(const Message& push) const {
  const size_t bucket = Index(push.bucket);
  const std::vector<uint64_t>& read = seen_[Index(push.worker)].versions;
  return versions_[bucket] - (bucket < read.size() ? read[bucket] : 0);
}

void Shard::OnClock(Nanos now, const Message& message, wire::Outbox* out) {
  Seen& seen = SeenOf(message.worker);
  // A clock counts once the updates it stands for are here: it says how many there are.
  const size_t here = seen.clock == message.clock - 1 ? seen.pushes.size() : 0;
  if (seen.clock < message.clock && here < message.pushes) {
    seen.clock_waiting = message;
    return;
  }
  if (options_.policy.subscribed()) NoteAsked(message);
  ledger_.OnClock(message.worker, message.clock);
  CarryOut(policy_.OnClock({now, message.worker, message.clock}), out);
  Settle(out);
}

void Shard::NoteAsked(const Message& message) {
  Seen& seen = SeenOf(message.worker);
  seen.asked_at = now_;
  seen.queued_ns = message.queued_ns;
}

void Shard::OnPull(Nanos now, Message pull, wire::Outbox* out) {
  NoteAsked(pull);
  if (pull.final) {
    final_pulls_.insert_or_assign(pull.worker, std::move(pull));
    AnswerFinalPulls(out);
    return;
  }
  const Ticket ticket{next_ticket_++};
  const consistency::PullEvent event = {now, pull.worker, pull.clock, ticket};
  in_hand_.erase(std::exchange(SeenOf(pull.worker).pull, ticket));  // one a worker: the newest
  in_hand_.emplace(ticket, std::move(pull));
  CarryOut(policy_.OnPull(event), out);
}

void Shard::CarryOut(const Actions& actions, wire::Outbox* out) {
  for (const Action& action : actions) {
    if (action.kind == ActionKind::kApplyGathered) {
      ApplyGathered(out);
    } else if (action.kind == ActionKind::kTellRoot) {
      uplink_->Complete(epoch_, action.clock, out);
    } else if (action.kind == ActionKind::kFetch) {
      // After the last clock there are final pulls only.
      if (action.clock < options_.final_clock) uplink_->Fetch(epoch_, action.clock, false, out);
    } else if (action.kind == ActionKind::kSend) {
      SendUnasked(action.worker, action.clock, out);
    } else if (action.kind == ActionKind::kTellHeld || action.kind == ActionKind::kTellChosen) {
      TellShards(action, out);
    } else {
      CarryOutInHand(action, out);
    }
  }
}

void Shard::CarryOutInHand(const Action& action, wire::Outbox* out) {
  const auto it = in_hand_.find(action.ticket);
  if (it == in_hand_.end()) return;  // replaced by the worker's newer pull
  switch (action.kind) {
    case ActionKind::kHold:
    case ActionKind::kPark:
      break;
    case ActionKind::kApply:
    case ActionKind::kGather: {
      Message push = std::move(it->second);
      in_hand_.erase(it);
      held_bytes_ -= push.payload_bytes();
      ledger_.OnApplied(UpdateOf(push), StalenessOf(push));
      if (options_.policy.guarantee.same_replicas && !push.payload.empty()) {
        ledger_.OnHandIn(push.worker, push.bucket, wire::SumOf(push.payload));
      }
      gathered_bucket_ = push.bucket;
      gathered_clock_ = push.clock;
      gathered_leaf_count_ = push.leaf_count;
      gathered_.push_back(ContributionOf(std::move(push), action.weight));
      if (action.kind == ActionKind::kApply) ApplyGathered(out);
      break;
    }
    case ActionKind::kDrop:
      ++stats_.duplicates;
      held_bytes_ -= it->second.payload_bytes();
      ledger_.OnDropped(UpdateOf(it->second));
      in_hand_.erase(it);
      break;
    case ActionKind::kLeaveOut:
      ++stats_.left_out;
      held_bytes_ -= it->second.payload_bytes();
      ledger_.OnLeftOut(UpdateOf(it->second));
      in_hand_.erase(it);
      break;
    case ActionKind::kReply:
      Reply(it->second, out);
      in_hand_.erase(it);
      break;
    default: {
      const Message refused = std::move(it->second);
      if (refused.type == MessageType::kPush) {
        held_bytes_ -= refused.payload_bytes();
        ledger_.OnRefused(UpdateOf(refused));
      }
      in_hand_.erase(it);
      Reject(refused,
             absl::StrCat("clock ", refused.clock, " is against the order; the shard is at ",
                          policy_.Frontier()),
             out);
      break;
    }
  }
}

void Shard::ApplyGathered(wire::Outbox* out) {
  if (gathered_.empty()) return;
  stats_.pushes_applied += gathered_.size();
  ++versions_[Index(gathered_bucket_)];
  if (uplink_.has_value()) {
    uplink_->Push(epoch_, {gathered_clock_, gathered_bucket_, gathered_leaf_count_}, gathered_,
                  store_.Gather(gathered_bucket_, gathered_clock_, gathered_, gathered_leaf_count_),
                  out);
    ledger_.OnStored(gathered_bucket_, store_.stamp(gathered_bucket_));
    gathered_.clear();
    return;
  }
  const std::optional<uint32_t> odd =
      store_.Apply(gathered_bucket_, gathered_clock_, gathered_, gathered_leaf_count_,
                   policy_.clocks().members());
  if (odd.has_value()) TellNotFinite(*odd, out);
  ledger_.OnStored(gathered_bucket_, store_.stamp(gathered_bucket_));
  gathered_.clear();
}

// Once: the job ends with it. Of several workers that were summed the one whose numbers are the
// greatest; a tree's root does not know them.
void Shard::TellNotFinite(uint32_t tensor, wire::Outbox* out) {
  if (std::exchange(not_finite_told_, true)) return;
  const bool of_table = tensor >= options_.layout->params().size();
  const auto worst =
      std::max_element(gathered_.begin(), gathered_.end(), [&](const auto& a, const auto& b) {
        return GreatestMagnitude(a, of_table) < GreatestMagnitude(b, of_table);
      });
  Message message;
  message.type = MessageType::kNotFinite;
  message.from = Address::Of(options_.id);
  message.to = Address::Scheduler();
  message.epoch = epoch_;
  message.clock = gathered_clock_ * options_.policy.period;
  const bool knows = level_ != Level::kRoot;
  message.body = wire::NotFinite{.worker = knows ? int64_t{Index(worst->worker)} : -1,
                                 .parameters = true,
                                 .tensor = options_.layout->NameOf(tensor)};
  out->Send(std::move(message));
}

void Shard::Reply(const Message& pull, wire::Outbox* out) {
  Message reply;
  reply.type = MessageType::kPullReply;
  reply.from = Address::Of(options_.id);
  reply.to = AddressOf(pull.worker);
  reply.epoch = epoch_;
  reply.priority = options_.layout->stage(options_.id);
  reply.worker = pull.worker;
  reply.clock = pull.clock;
  // Who comes late gets what there is, and goes on from there.
  if (options_.policy.skips() && !pull.final)
    reply.clock = std::max(pull.clock, policy_.Frontier());
  reply.final = pull.final;
  reply.oldest = policy_.Oldest();
  Seen& seen = SeenOf(pull.worker);
  reply.parked_ns = now_ - seen.asked_at;
  reply.queued_ns = seen.queued_ns;
  Store::Answer answer = store_.ReadFor(pull.worker, pull.payload, pull.final);
  reply.payload = std::move(answer.values);
  reply.version = answer.version;
  reply.checksum = answer.checksum;
  const Ledger::Read read = {pull.worker, reply.clock, reply.oldest, reply.version};
  if (pull.final) {
    ledger_.OnFinalRead(read);
  } else {
    ledger_.OnRead(read);
  }
  seen.versions = versions_;
  out->Send(std::move(reply));
}

// To a subscriber. There is nothing to read for after the last clock.
void Shard::SendUnasked(WorkerId worker, Clock clock, wire::Outbox* out) {
  if (clock >= options_.final_clock) return;
  Message pull;
  pull.worker = worker;
  pull.clock = clock;
  Reply(pull, out);
}

// A final pull waits until every member's last clock is in the store.
void Shard::AnswerFinalPulls(wire::Outbox* out) {
  if (final_pulls_.empty()) return;
  if (std::min(policy_.Frontier(), policy_.clocks().Min()) < options_.final_clock) return;
  if (uplink_.has_value()) {
    // The root's answer waits for the other groups.
    if (std::exchange(final_fetched_, true)) return;
    return uplink_->Fetch(epoch_, options_.final_clock, /*final=*/true, out);
  }
  for (const auto& [worker, pull] : final_pulls_) Reply(pull, out);
  final_pulls_.clear();
}

void Shard::Reject(const Message& message, std::string why, wire::Outbox* out) {
  ++stats_.rejects;
  Message reject;
  reject.type = MessageType::kReject;
  reject.from = Address::Of(options_.id);
  reject.to = message.from;
  reject.priority = options_.layout->stage(options_.id);
  reject.epoch = message.epoch;  // tells a rank's former holder from the present one
  reject.worker = message.worker;
  reject.clock = message.clock;
  reject.bucket = message.bucket;
  reject.body = wire::Notice{0, std::move(why)};
  out->Send(std::move(reject));
}

void Shard::AddTo(Fingerprint* f) const {
  policy_.AddTo(f);
  store_.AddTo(f);
  f->Add(epoch_);
  f->Add(ack_due_);
  f->Add(final_fetched_);
  for (const wire::Member& member : roster_.workers) {
    f->Add(member.worker);
    f->Add(member.admitted);
  }
  for (const Seen& seen : seen_) {
    f->Add(seen.clock);
    f->Add(seen.clock_waiting.has_value() ? seen.clock_waiting->clock : kNoClock);
    f->Add(seen.clock_waiting.has_value() ? seen.clock_waiting->pushes : 0);
    f->Add(seen.pushes.size());
    f->Add(seen.pushes_digest);
  }
  f->Add(final_pulls_.size());
  for (const auto& [worker, pull] : final_pulls_) f->Add(worker);
}

}  // namespace soapstone::server
