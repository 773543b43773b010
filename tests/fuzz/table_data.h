// What the targets of data sets do with what was read: every sample is copied out once.
#pragma once

#include <numeric>
#include <vector>

#include "models/data/dataset.h"
#include "tests/fuzz/fuzz_input.h"

namespace soapstone::fuzz {

inline void ReadSamples(const models::Dataset& data) {
  constexpr uint64_t kSamplesMax = 1000;
  std::vector<uint64_t> all(std::min<uint64_t>(data.size(), kSamplesMax));
  std::iota(all.begin(), all.end(), 0);
  models::MiniBatch feed;
  data.Gather(all, &feed);
  CHECK_EQ(feed.samples, static_cast<int64_t>(all.size()));
}

inline void LoadAll(const models::DataOptions& options) {
  const absl::StatusOr<models::TrainTest> data = models::LoadData(options);
  if (!data.ok()) return CheckError(data.status(), "");
  ReadSamples(data->train);
  ReadSamples(data->test);
}

}  // namespace soapstone::fuzz
