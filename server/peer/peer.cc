#include "server/peer/peer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "glog/logging.h"
#include "wire/membership/membership.h"

namespace soapstone::server {
namespace {

using consistency::PeerAction;
using consistency::PeerActions;
using consistency::Ticket;
using wire::Address;
using wire::Message;
using wire::MessageType;
using Kind = consistency::PeerActionKind;

// A parcel's frames, one after the other.
Buffer Joined(const Buffers& frames) {
  if (frames.size() == 1) return frames.front();
  std::string bytes;
  for (const Buffer& frame : frames) {
    bytes.append(reinterpret_cast<const char*>(frame.data()), frame.size());
  }
  return Buffer::CopyOf(bytes);
}

}  // namespace

Peer::Peer(PeerOptions options, std::shared_ptr<PeerVectors> vectors)
    : options_(std::move(options)),
      vectors_{std::move(vectors)},
      ledger_(options_.id),
      offsets_(ParamOffsets(options_.worker_layout->params())),
      channels_(options_.held_messages_max),
      final_(options_.shard_layout) {}

bool Peer::IsWithinNode(const Message& message) {
  const wire::Role from = message.from.role, to = message.to.role;
  return (from == wire::Role::kPeer && to == wire::Role::kWorker) ||
         (from == wire::Role::kWorker && to == wire::Role::kPeer);
}

void Peer::OnMessage(Nanos now, Message message, wire::Outbox* out) {
  now_ = now;
  switch (message.type) {
    case MessageType::kRoster:
      return OnRoster(message, out);
    case MessageType::kPush:
    case MessageType::kClock:
    case MessageType::kPull:
      if (message.from == Address::Of(options_.id) && policy_.has_value()) {
        return OnWorker(std::move(message), out);
      }
      break;
    case MessageType::kParcel:
    case MessageType::kState:
    case MessageType::kStanding:
    case MessageType::kFinished:
      if (message.from.role == wire::Role::kPeer) return OnPeer(std::move(message), out);
      break;
    case MessageType::kPullReply:
      if (message.from.role == wire::Role::kShard && wire::As<wire::PullReply>(message).final) {
        return OnFinalReply(message, out);
      }
      break;
    default:
      break;
  }
  ++stats_.rejects;
}

void Peer::OnRoster(const Message& message, wire::Outbox* out) {
  const auto* roster = std::get_if<wire::Roster>(&message.body);
  if (roster == nullptr || message.from != Address::Scheduler() || message.epoch <= epoch_) return;
  const wire::Member* me = FindMember(*roster, options_.id);
  if (me == nullptr || me->joining) return;  // not ours to take part in
  epoch_ = message.epoch;
  const bool whole = !options_.team.has_value();
  roster_ = std::make_shared<const wire::Roster>(
      whole ? *roster : OnlySeat(*roster, SeatOf(options_.id, *options_.team), *options_.team));
  if (!policy_.has_value()) {
    policy_.emplace(options_.policy, options_.id, me->original, options_.total_clocks,
                    consistency::StretchesOf(offsets_.back(), options_.stretch_elements));
    const std::vector<ElementRange>& stretches = policy_->seat().stretches;
    if (policy_->TakesParts() && stretches.size() > 1) gradient_.SetStretches(stretches);
  }
  std::vector<consistency::GroupMember> members;
  for (const wire::Member& member : roster_->workers) {
    if (!member.joining) members.push_back({member.worker, member.admitted});
  }
  ledger_.OnGroup();
  CarryOut(policy_->OnGroup(std::move(members)), out);
  for (Message& early : channels_.TakeEarly()) OnPeer(std::move(early), out);
}

// ---- From the worker

void Peer::OnWorker(Message message, wire::Outbox* out) {
  switch (message.type) {
    case MessageType::kPush:
      CHECK(
          PushedGradient::Fits(message, options_.worker_layout->buckets(kOnly), vectors_.own.get()))
          << "a worker pushed what is not of its layout";
      if (!gradient_.by_stretches()) return gradient_.Add(std::move(message));
      for (const uint32_t stretch : gradient_.AddPart(
               message, options_.worker_layout->buckets(kOnly), offsets_, vectors_.own.get())) {
        CarryOut(policy_->OnPart(stretch, wire::As<wire::Push>(message).samples), out);
      }
      return;
    case MessageType::kClock: {
      const uint64_t samples =
          gradient_.Complete(options_.worker_layout->buckets(kOnly), offsets_, vectors_.own.get());
      return CarryOut(policy_->OnGradient(message.clock - 1, samples), out);
    }
    default:
      break;
  }
  if (wire::As<wire::Pull>(message).final) return OnFinalPull(message, out);
  pulled_at_ = now_;
  CarryOut(policy_->OnPull(message.clock), out);
}

void Peer::OnFinalPull(const Message& pull, wire::Outbox* out) {
  final_.Ask(pull.clock);
  for (uint32_t k = 0; k < options_.shard_layout->shard_count(); ++k) {
    if (!final_.WaitsFor(ShardId{k})) continue;
    Message question;
    question.type = MessageType::kPull;
    question.from = Address::Of(options_.id);
    question.to = AddressOf(ShardId{k});
    question.epoch = epoch_;
    question.worker = options_.id;
    question.clock = 1;
    question.body = wire::Pull{.final = true};
    out->Send(std::move(question));
  }
}

Address Peer::AddressOf(ShardId shard) const {
  return Address::Of(options_.team.has_value() ? options_.shards[Index(shard)] : shard);
}

std::optional<ShardId> Peer::ShardAt(Address address) const {
  if (!options_.team.has_value()) return ShardId{address.index};
  const std::vector<ShardId>& shards = options_.shards;
  const auto at = std::find(shards.begin(), shards.end(), ShardId{address.index});
  if (at == shards.end()) return std::nullopt;
  return ShardId{static_cast<uint32_t>(at - shards.begin())};
}

void Peer::OnFinalReply(const Message& reply, wire::Outbox* out) {
  const std::optional<ShardId> home = ShardAt(reply.from);
  if (!home.has_value() || !final_.WaitsFor(*home)) return;
  const ShardId shard = *home;
  if (vectors_.own != nullptr && !final_.Fits(shard, reply.payload, *vectors_.own)) {
    ++stats_.rejects;
    return;
  }
  ledger_.OnFinalReply(reply);
  final_.Take(shard, reply.payload);
  if (!final_.complete()) return;

  Message answer;
  answer.type = MessageType::kPullReply;
  answer.from = Address::PeerOf(options_.id);
  answer.to = Address::Of(options_.id);
  answer.epoch = epoch_;
  answer.worker = options_.id;
  answer.clock = final_.Finish();
  answer.body = wire::PullReply{.oldest = answer.clock, .final = true};
  if (vectors_.own != nullptr) {
    answer.payload =
        CutSlices(final_.Flat(offsets_, *vectors_.own), options_.worker_layout->slices(kOnly),
                  offsets_, vectors_.own->bytes({0, 1}));
  }
  out->Send(std::move(answer));
}

// ---- From the other peers

void Peer::OnPeer(Message message, wire::Outbox* out) {
  if (message.epoch > epoch_) {
    if (!channels_.KeepEarly(std::move(message))) ++stats_.rejects;
    return;
  }
  TakeFromPeer(std::move(message), out);
}

bool Peer::PayloadFits(const Message& message) const {
  const auto& parcel = std::get<wire::Parcel>(message.body);
  if (vectors_.own == nullptr || message.type == MessageType::kState)
    return true;  // Adopt checks it
  if (parcel.end > vectors_.own->elements()) return false;
  uint64_t bytes = 0;
  for (const Buffer& frame : message.payload) {
    if (frame.size() % vectors_.own->bytes({0, 1}) != 0 || !frame.IsFloatAligned()) return false;
    bytes += frame.size();
  }
  return bytes == vectors_.own->bytes({parcel.begin, parcel.end});
}

// Two rounds' parcels of every member, beyond which somebody repeats himself.
size_t Peer::HeldMax() const {
  const size_t a_round = 2 * policy_->seat().stretches.size() * roster_->workers.size();
  return options_.held_messages_max + 2 * a_round;
}

void Peer::TakeFromPeer(Message message, wire::Outbox* out) {
  const WorkerId from{message.from.index};
  const auto* parcel = std::get_if<wire::Parcel>(&message.body);
  const wire::Member* member = roster_ != nullptr ? FindMember(*roster_, from) : nullptr;
  if (parcel == nullptr || member == nullptr || from == options_.id ||
      message.epoch < member->admitted || message.clock < 0 || !PayloadFits(message) ||
      parcels_.size() >= HeldMax()) {
    ++stats_.rejects;
    return;
  }
  const std::optional<uint64_t> before = channels_.Take(from, parcel->sequence);
  if (!before.has_value()) {
    ++stats_.duplicates;
    return;
  }
  ledger_.OnParcel(from, *before, parcel->sequence);
  ++stats_.parcels_received;
  const bool values = message.type == MessageType::kParcel || message.type == MessageType::kState;
  if (message.epoch < epoch_ && (!values || policy_->lock_step())) return;  // void
  if (parcel->checksum != 0) ledger_.OnOthersValues(from, message.clock, parcel->checksum);
  switch (message.type) {
    case MessageType::kStanding:
      return CarryOut(policy_->OnStanding(from,
                                          {.version = message.clock,
                                           .has_values = parcel->has_values,
                                           .finished = parcel->finished},
                                          parcel->step != 0),
                      out);
    case MessageType::kFinished:
      return CarryOut(policy_->OnFinished(from), out);
    default:
      break;
  }
  const wire::Parcel content = *parcel;
  const Ticket ticket = parcels_.Keep(std::move(message.payload));
  if (message.type == MessageType::kState) {
    return CarryOut(policy_->OnState(from, message.clock, content.weight, ticket), out);
  }
  CarryOut(policy_->OnParcel({.from = from,
                              .round = message.clock,
                              .step = content.step,
                              .range = {content.begin, content.end},
                              .samples = content.samples,
                              .weight = content.weight,
                              .ticket = ticket}),
           out);
}

// ---- What the policy says

void Peer::CarryOut(const PeerActions& actions, wire::Outbox* out) {
  for (const PeerAction& action : actions) {
    switch (action.kind) {
      case Kind::kSendNotice:
      case Kind::kSendValues:
      case Kind::kSendSum:
      case Kind::kSendState:
        CarryOutSend(action, out);
        break;
      case Kind::kReply:
        Reply(action.round, out);
        break;
      case Kind::kRally:
        ToAll(MessageType::kStanding, out);
        break;
      case Kind::kStand:
        Stand(action.to, MessageType::kStanding, out);
        break;
      case Kind::kFinished:
        ToAll(MessageType::kFinished, out);
        break;
      case Kind::kHandIn:
        HandIn(action.weight, out);
        break;
      case Kind::kForget:
        parcels_.Take(action.ticket);
        break;
      default:
        CarryOutOnVectors(action, out);
        break;
    }
  }
  if (vectors_.own == nullptr) return;
  vectors_.own->SetWeight(policy_->weight());
  ledger_.OnMade(vectors_.own->steps(), vectors_.own->order());
}

void Peer::CarryOutSend(const PeerAction& action, wire::Outbox* out) {
  const uint64_t elements = offsets_.back();
  wire::Parcel parcel = {.step = action.step, .weight = action.weight, .samples = action.samples};
  Buffers payload;
  MessageType type = MessageType::kParcel;
  if (action.kind == Kind::kSendSum) {
    parcel.begin = action.range.begin;
    parcel.end = action.range.end;
    if (vectors_.own != nullptr && action.range.size() > 0)
      payload = vectors_.own->Sum(action.range);
    // A round's sums leave before its step: the values are those that it began with.
    if (options_.checks && options_.policy.guarantee.same_replicas && vectors_.own != nullptr) {
      if (!ledger_.KnowsValues(action.round)) ledger_.OnValues(action.round, ContentOfValues());
      parcel.checksum = ledger_.values_sum();
    }
  } else if (action.kind == Kind::kSendValues) {
    parcel.end = elements;
    if (vectors_.own != nullptr) payload = {vectors_.own->Values()};
  } else if (action.kind == Kind::kSendState) {
    type = MessageType::kState;
    parcel.end = elements;
    if (vectors_.own != nullptr) payload = vectors_.own->State();
  }
  ToPeer(action.to,
         {.type = type, .clock = action.round, .body = parcel, .payload = std::move(payload)}, out);
}

void Peer::Adopt(consistency::Ticket ticket) {
  const Buffers state = parcels_.Take(ticket);
  if (vectors_.own != nullptr && !vectors_.own->Adopt(state)) {
    ++stats_.rejects;
    LOG(ERROR) << "peer " << Index(options_.id) << ": a state that does not fit this model";
  }
}

void Peer::CarryOutOnVectors(const PeerAction& action, wire::Outbox* out) {
  const bool takes_parcel = action.kind == Kind::kAddParcel || action.kind == Kind::kSetParcel ||
                            action.kind == Kind::kAddToValues || action.kind == Kind::kMerge ||
                            action.kind == Kind::kMeet;
  if (takes_parcel) ledger_.OnAsked(action.kind, action.range.begin);
  const bool applies = action.kind == Kind::kApplySum || action.kind == Kind::kApplyGradient;
  stats_.rounds += applies ? 1 : 0;
  if (applies) ledger_.OnStep(action.round);
  uint64_t samples = action.samples;
  if (action.kind == Kind::kApplyGradient) samples = gradient_.TakeSamples();
  if (action.kind == Kind::kStage) gradient_.TakeSamples();
  if (action.kind == Kind::kAdopt) return Adopt(action.ticket);
  const Buffers parcel = takes_parcel ? parcels_.Take(action.ticket) : Buffers();
  if (action.kind == Kind::kMeet) {
    Buffers answer;
    if (vectors_.own != nullptr) answer = {vectors_.own->Meet(Joined(parcel))};
    return ToPeer(action.to,
                  {.type = MessageType::kParcel,
                   .clock = action.round,
                   .body = wire::Parcel{.step = action.step, .end = offsets_.back()},
                   .payload = std::move(answer)},
                  out);
  }
  if (vectors_.own == nullptr) return;
  std::optional<uint64_t> odd;
  switch (action.kind) {
    case Kind::kStage:
      return vectors_.own->Stage(action.range);
    case Kind::kDiscard:
      return vectors_.own->Discard();
    case Kind::kClearSum:
      return vectors_.own->ClearSum();
    case Kind::kAddValues:
      return vectors_.own->AddValues(action.factor);
    case Kind::kAddParcel:
      return vectors_.own->AddParcel(action.range, parcel, action.factor);
    case Kind::kSetParcel:
      return vectors_.own->SetParcel(action.range, parcel);
    case Kind::kValuesFromSum:
      return vectors_.own->ValuesFromSum();
    case Kind::kMerge:
      return vectors_.own->Merge(Joined(parcel), action.factor);
    case Kind::kAddToValues:
      return vectors_.own->AddToValues(Joined(parcel), action.factor);
    case Kind::kApplySum:
      odd = vectors_.own->ApplySum(action.round, samples);
      break;
    case Kind::kApplyGradient:
      odd = vectors_.own->ApplyGradient(action.round, samples);
      break;
    default:
      LOG(FATAL) << "no action of a peer: " << static_cast<int>(action.kind);
  }
  if (odd.has_value()) TellNotFinite(action.round, *odd, out);
}

void Peer::AddTo(Fingerprint* f) const {
  f->Add(epoch_);
  f->Add(policy_.has_value());
  if (policy_.has_value()) policy_->AddTo(f);
  f->Add(parcels_.size());
  gradient_.AddTo(f);
  channels_.AddTo(f);
  final_.AddTo(f);
  if (vectors_.own == nullptr) return;
  const Buffer values = vectors_.own->Values();
  f->Add(std::string_view(reinterpret_cast<const char*>(values.data()), values.size()));
}

}  // namespace soapstone::server
