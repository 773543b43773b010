#include "observe/metrics/family.h"

#include <limits>
#include <span>

#include "glog/logging.h"

namespace soapstone::metrics {
namespace {

// Last numbers of base/histogram.h's buckets, so that counts are exact.
constexpr uint64_t kLagEdges[] = {0, 1, 2, 3, 5, 7, 15, 31, 63};
constexpr uint64_t kMillisecondEdges[] = {0, 15, 255, 1023};

// Numbers of at most each edge, and all of them.
std::vector<std::pair<double, uint64_t>> AtMost(const Histogram& histogram,
                                                std::span<const uint64_t> edges) {
  std::vector<std::pair<double, uint64_t>> at_most;
  uint64_t below = 0;
  size_t bucket = 0;
  for (const uint64_t edge : edges) {
    for (; bucket < Histogram::kBuckets && Histogram::First(bucket) <= edge; ++bucket) {
      below += histogram.CountIn(bucket);
    }
    at_most.emplace_back(static_cast<double>(edge), below);
  }
  at_most.emplace_back(std::numeric_limits<double>::infinity(), histogram.count());
  return at_most;
}

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
  sample.at_most = AtMost(histogram, kLagEdges);
  samples_[series].push_back(std::move(sample));
}

void Families::AddDurations(Series series, const Histogram& milliseconds, Nanos sum) {
  CHECK_EQ(EntryOf(series).label_count(), 0u) << EntryOf(series).name;
  CHECK(EntryOf(series).kind == Kind::kHistogram) << EntryOf(series).name;
  Sample sample = {.value = static_cast<double>(sum) / kSecond,
                   .at_most = AtMost(milliseconds, kMillisecondEdges)};
  // What is counted as n ms is less than n + 1.
  for (auto& [edge, count] : sample.at_most) edge = (edge + 1) / 1000;
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
