// What a shard answers unasked, and how its reads stand, for its server's heartbeats.
#include <algorithm>
#include <limits>
#include <optional>

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

}  // namespace soapstone::server
