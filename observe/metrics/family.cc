#include "observe/metrics/family.h"

#include <limits>

#include "glog/logging.h"

namespace soapstone::metrics {
namespace {

// Last numbers of base/histogram.h's buckets, so that counts are exact.
constexpr uint64_t kLagEdges[] = {0, 1, 2, 3, 5, 7, 15, 31, 63};

}  // namespace

void Families::Add(Series series, double value, std::vector<std::string> labels) {
  CHECK_EQ(labels.size(), EntryOf(series).label_count()) << EntryOf(series).name;
  CHECK(EntryOf(series).kind != Kind::kHistogram) << EntryOf(series).name;
  samples_[series].push_back({.labels = std::move(labels), .value = value});
}

void Families::AddHistogram(Series series, const Histogram& histogram,
                            std::vector<std::string> labels) {
  CHECK_EQ(labels.size(), EntryOf(series).label_count()) << EntryOf(series).name;
  CHECK(EntryOf(series).kind == Kind::kHistogram) << EntryOf(series).name;
  Sample sample = {.labels = std::move(labels)};
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    sample.value += static_cast<double>(Histogram::First(i) * histogram.CountIn(i));
  }
  uint64_t below = 0;
  size_t bucket = 0;
  for (const uint64_t edge : kLagEdges) {
    for (; bucket < Histogram::kBuckets && Histogram::First(bucket) <= edge; ++bucket) {
      below += histogram.CountIn(bucket);
    }
    sample.at_most.emplace_back(static_cast<double>(edge), below);
  }
  sample.at_most.emplace_back(std::numeric_limits<double>::infinity(), histogram.count());
  samples_[series].push_back(std::move(sample));
}

void Families::Add(const Families& other) {
  for (const auto& [series, samples] : other.samples_) {
    std::vector<Sample>& own = samples_[series];
    own.insert(own.end(), samples.begin(), samples.end());
  }
}

size_t Families::count() const {
  size_t lines = 0;
  for (const auto& [series, samples] : samples_) {
    for (const Sample& sample : samples) {
      lines += sample.at_most.empty() ? 1 : sample.at_most.size() + 2;
    }
  }
  return lines;
}

}  // namespace soapstone::metrics
