#include "apps/report/server_progress.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace soapstone::apps {
namespace {

double MeanLag(const wire::ReaderState& reader) {
  if (reader.reads == 0) return 0;
  return static_cast<double>(reader.lag_sum) / static_cast<double>(reader.reads);
}

// Those that stand for all, by mean lag; of equal ones the lower rank is the lower.
std::vector<wire::ReaderState> Quantiles(std::vector<wire::ReaderState> readers) {
  std::stable_sort(readers.begin(), readers.end(),
                   [](const wire::ReaderState& a, const wire::ReaderState& b) {
                     return MeanLag(a) < MeanLag(b);
                   });
  std::vector<wire::ReaderState> chosen;
  for (const uint64_t hundredths : wire::ShardReads::kQuantiles) {
    chosen.push_back(readers[(hundredths * (readers.size() - 1) + 50) / 100]);
  }
  return chosen;
}

}  // namespace

wire::ServerProgress ProgressOf(std::vector<wire::ShardReads> shards) {
  if (shards.size() > wire::ServerProgress::kShardsMax) {
    shards.resize(wire::ServerProgress::kShardsMax);
  }
  size_t readers = 0;
  for (const wire::ShardReads& shard : shards) readers += shard.readers.size();
  const bool many = readers > wire::ServerProgress::kReadersMax;
  const size_t most = many ? wire::ShardReads::kQuantiles.size() : wire::ShardReads::kReadersMax;
  for (wire::ShardReads& shard : shards) {
    if (shard.readers.size() > most) shard.readers = Quantiles(std::move(shard.readers));
  }
  return {.shards = std::move(shards)};
}

}  // namespace soapstone::apps
