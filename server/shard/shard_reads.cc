// What a shard answers unasked, how its reads stand, for its server's heartbeats, and what it hands
// to who saves the model.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "server/shard/shard.h"

namespace soapstone::server {

wire::ShardReads Shard::Reads(Nanos now) const {
  wire::ShardReads reads = {.shard = options_.id,
                            .frontier = policy_.clocks().members() == 0 ? 0 : policy_.Frontier()};
  const std::vector<Ledger::Row>& rows = ledger_.rows();
  const size_t ranks = std::max({rows.size(), readers_.size(), size_t{policy_.clocks().ranks()}});
  for (size_t w = 0; w < ranks; ++w) {
    const WorkerId worker{static_cast<uint32_t>(w)};
    const std::optional<Nanos> since = readers_.WaitsSince(worker);
    wire::ReaderState reader = {.worker = worker, .clock = policy_.clocks().Of(worker)};
    if (w < rows.size()) {
      reader.reads = rows[w].read_lags.count();
      reader.lag_sum = rows[w].lag_sum;
      reader.lag_max = rows[w].read_lags.max();
    }
    if (since.has_value()) {
      reader.parked_ms = static_cast<uint32_t>(
          std::clamp<Nanos>((now - *since) / kMillisecond, 1, std::numeric_limits<int32_t>::max()));
      ++reads.parked_count;
    }
    const bool member = reader.clock != kNoClock;
    if (member || reader.reads > 0 || since.has_value()) reads.readers.push_back(reader);
  }
  reads.reader_count = static_cast<uint32_t>(reads.readers.size());
  return reads;
}

void Shard::SendUnasked(const consistency::Action& action, wire::Outbox* out) {
  const std::optional<wire::Message> pull = readers_.PullOfSubscriber(action.worker, action.clock);
  TeamFront* const front = members_.front();
  if (!pull.has_value()) return;
  if (front == nullptr || front->TakeUnasked(pull->worker, pull->clock)) Reply(*pull, out);
}

// Who saves the model asks for bucket after bucket. Of a branch the root has the values.
void Shard::OnSave(const wire::Message& message, wire::Outbox* out) {
  const BucketId bucket = wire::As<wire::Save>(message).bucket;
  if (message.from != wire::Address::Of(members_.saver()) || uplink_.has_value() ||
      Index(bucket) >= options_.layout->bucket_count(options_.id)) {
    ++stats_.rejects;
    return;
  }
  std::erase_if(due_.saves, [bucket](const wire::Message& save) {
    return wire::As<wire::Save>(save).bucket == bucket;
  });
  due_.saves.push_back(message);
  AnswerSaves(out);
}

// The job is over for who is to save it once workers have said so: their last updates may be on the
// way still.
void Shard::AnswerSaves(wire::Outbox* out) {
  const bool pushed = policy_.clocks().members() > 0 && !options_.policy.decentralised();
  if (pushed && std::min(policy_.Frontier(), policy_.clocks().Min()) < options_.final_clock) return;
  for (const wire::Message& save : std::exchange(due_.saves, {})) {
    wire::Message slices;
    slices.type = wire::MessageType::kSlices;
    slices.from = wire::Address::Of(options_.id);
    slices.to = save.from;
    slices.epoch = epoch();
    const BucketId bucket = wire::As<wire::Save>(save).bucket;
    Store::Answer answer = store_.ReadToSave(bucket);
    slices.body = wire::Slices{.bucket = bucket, .checksum = answer.checksum};
    slices.payload = std::move(answer.values);
    out->Send(std::move(slices));
  }
}

}  // namespace soapstone::server
