// What a peer says: to its worker, to other peers, to the shards and to the scheduler.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/frame_sums.h"
#include "server/peer/peer.h"
#include "wire/membership/membership.h"

namespace soapstone::server {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

constexpr double kWeightUnit = 1 << 20;  // of a hand-in's samples: shares of omega to a millionth

}  // namespace

void Peer::Reply(Clock clock, wire::Outbox* out) {
  Message reply;
  reply.type = MessageType::kPullReply;
  reply.from = Address::PeerOf(options_.id);
  reply.to = Address::Of(options_.id);
  reply.epoch = epoch_;
  reply.worker = options_.id;
  reply.clock = clock;
  wire::PullReply body = {
      .oldest = clock, .version = ledger_.steps(), .parked_ns = now_ - pulled_at_};
  if (vectors_.own != nullptr) {
    reply.payload = CutSlices(vectors_.own->Values(), options_.worker_layout->slices(kOnly),
                              offsets_, vectors_.own->bytes({0, 1}));
    body.version = vectors_.own->version();
    if (options_.checks) body.checksum = ContentOfValues();
  }
  ledger_.OnRead(clock, body.version);
  reply.body = body;
  out->Send(std::move(reply));
}

// As a reply's frames hold them.
uint64_t Peer::ContentOfValues() const {
  FrameSums all;
  for (const wire::Slice& slice : options_.worker_layout->slices(kOnly)) {
    const uint64_t begin = offsets_[Index(slice.param)] + slice.begin;
    all.Add(vectors_.own->SumOf({begin, begin + slice.elements()}));
  }
  return all.value();
}

// As pushes of clock 0, the shards' only one.
void Peer::HandIn(double weight, wire::Outbox* out) {
  Buffer flat;
  if (vectors_.own != nullptr) flat = vectors_.own->Values();
  const uint32_t rank =
      Index(options_.team.has_value() ? wire::TeamOf(options_.id, *options_.team) : options_.id);
  const auto samples = static_cast<uint64_t>(std::max(1.0, std::round(weight * kWeightUnit)));
  for (uint32_t k = 0; k < options_.shard_layout->shard_count(); ++k) {
    const auto& buckets = options_.shard_layout->buckets(ShardId{k});
    Message message;
    message.from = Address::Of(options_.id);
    message.to = AddressOf(ShardId{k});
    message.epoch = epoch_;
    message.worker = options_.id;
    for (uint32_t b = 0; b < buckets.size(); ++b) {
      Message push = message;
      push.type = MessageType::kPush;
      push.clock = 0;
      push.body = wire::Push{.bucket = BucketId{b},
                             .micro_batches = {rank, rank + 1},
                             .micro_batch_count = roster_->worker_count,
                             .samples = samples,
                             .batch_samples = samples};
      if (vectors_.own != nullptr) {
        push.payload = CutSlices(flat, buckets[b].slices, offsets_, vectors_.own->bytes({0, 1}));
      }
      out->Send(std::move(push));
    }
    message.type = MessageType::kClock;
    message.clock = 1;
    message.body = wire::Completion{.pushes = static_cast<uint32_t>(buckets.size())};
    out->Send(std::move(message));
  }
}

void Peer::TellNotFinite(Clock round, uint64_t element, wire::Outbox* out) {
  if (std::exchange(not_finite_told_, true)) return;
  const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), element);
  Message message;
  message.type = MessageType::kNotFinite;
  message.from = Address::Of(options_.id);
  message.to = Address::Scheduler();
  message.epoch = epoch_;
  message.clock = round;
  message.body = wire::NotFinite{.worker = int64_t{Index(options_.id)},
                                 .parameters = true,
                                 .tensor = options_.worker_layout->NameOf(
                                     static_cast<uint32_t>(after - offsets_.begin() - 1))};
  out->Send(std::move(message));
}

void Peer::ToPeer(WorkerId to, Message message, wire::Outbox* out) {
  message.from = Address::PeerOf(options_.id);
  message.to = Address::PeerOf(to);
  message.epoch = epoch_;
  message.worker = options_.id;
  // Another process of this rank began at a later epoch: its numbers are greater.
  const Epoch admitted = FindMember(*roster_, options_.id)->admitted;
  std::get<wire::Parcel>(message.body).sequence = channels_.NextNumber(to, admitted);
  ++stats_.parcels_sent;
  stats_.parcel_bytes_sent += message.payload_bytes();
  out->Send(std::move(message));
}

void Peer::ToAll(MessageType type, wire::Outbox* out) {
  for (const consistency::GroupMember& member : policy_->group()) {
    if (member.worker != options_.id) Stand(member.worker, type, out);
  }
}

void Peer::Stand(WorkerId to, MessageType type, wire::Outbox* out) {
  const consistency::Standing standing = policy_->said_standing();
  ToPeer(to,
         {.type = type,
          .clock = standing.version,
          .body = wire::Parcel{.step = policy_->HasHeard(to) ? 1u : 0u,
                               .has_values = standing.has_values,
                               .finished = standing.finished}},
         out);
}

}  // namespace soapstone::server
