#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "observe/metrics/catalogue.h"
#include "observe/metrics/exposition.h"
#include "observe/metrics/family.h"

namespace soapstone::metrics {
namespace {

using ::testing::HasSubstr;

TEST(MetricsCatalogue, IsInTheOrderOfSeriesAndEachNameIsOnce) {
  std::set<std::string_view> names;
  size_t at = 0;
  for (const Entry& entry : Catalogue()) {
    EXPECT_EQ(static_cast<size_t>(entry.series), at++) << entry.name;
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(entry.kind == Kind::kCounter, entry.name.ends_with("_total")) << entry.name;
    EXPECT_FALSE(entry.help.empty());
  }
}

// "| `name` | labels | of | help |".
TEST(MetricsCatalogue, EverySeriesHasItsRowInThePageAndNoOtherHas) {
  std::ifstream file(std::string(SOAPSTONE_SOURCE_DIR) + "/docs/metrics.md");
  std::set<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `soapstone_") || line.starts_with("| `process_")) rows.insert(line);
  }
  for (const Entry& entry : Catalogue()) {
    std::string labels;
    for (size_t i = 0; i < entry.label_count(); ++i) {
      labels += (labels.empty() ? "" : ", ") + std::string(entry.labels[i]);
    }
    const std::string row = "| `" + std::string(entry.name) + "` | " + labels + " | " +
                            std::string(entry.of) + " | " + std::string(entry.help) + " |";
    EXPECT_EQ(rows.erase(row), 1u) << "docs/metrics.md lacks\n" << row;
  }
  EXPECT_TRUE(rows.empty()) << "no series: " << *rows.begin();
}

TEST(Families, LagsAreCountedByExactEdges) {
  Histogram lags;
  for (uint64_t lag = 0; lag < 70; ++lag) lags.Add(lag);
  Families families;
  families.AddHistogram(Series::kShardReadLag, lags, {"0"});
  const Sample& sample = families.samples().at(Series::kShardReadLag).at(0);
  const double edges[] = {0, 1, 2, 3, 5, 7, 15, 31, 63};
  ASSERT_EQ(sample.at_most.size(), 10u);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(sample.at_most[i].first, edges[i]);
    EXPECT_EQ(sample.at_most[i].second, static_cast<uint64_t>(edges[i]) + 1);
  }
  EXPECT_EQ(sample.at_most.back().second, 70u);
  EXPECT_EQ(families.count(), 12u);
}

TEST(Families, DurationsAreInSeconds) {
  Histogram milliseconds;
  for (const uint64_t took : {0, 0, 3, 4, 1023, 1024}) milliseconds.Add(took);
  Families families;
  families.AddDurations(Series::kLoopTurn, milliseconds, 5 * kSecond / 2);
  const Sample& sample = families.samples().at(Series::kLoopTurn).at(0);
  EXPECT_EQ(sample.value, 2.5);
  const std::vector<std::pair<double, uint64_t>> at_most = {
      {.001, 2}, {.016, 4}, {.256, 4}, {1.024, 5}};
  ASSERT_EQ(sample.at_most.size(), 5u);
  for (size_t i = 0; i < at_most.size(); ++i) EXPECT_EQ(sample.at_most[i], at_most[i]) << i;
  EXPECT_TRUE(std::isinf(sample.at_most[4].first));
  EXPECT_EQ(sample.at_most[4].second, 6u);
}

TEST(Exposition, IsWhatPrometheusReads) {
  Families families;
  families.Add(Series::kJobLoss, 0.5);
  families.Add(Series::kJobInfo, 1, {"onnx:a\"b\\c\nd", "bsp", "worker", "0"});
  Histogram lags;
  lags.Add(4, 3);
  families.AddHistogram(Series::kShardReadLag, lags, {"1"});
  const std::string text = Exposition(families);
  EXPECT_THAT(text, HasSubstr("# TYPE soapstone_job_loss gauge\nsoapstone_job_loss 0.5\n"));
  EXPECT_THAT(text, HasSubstr(R"(model="onnx:a\"b\\c\nd")"));
  EXPECT_THAT(text, HasSubstr(R"(soapstone_shard_read_lag_clocks_bucket{shard="1",le="3"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(soapstone_shard_read_lag_clocks_bucket{shard="1",le="5"} 3)"));
  EXPECT_THAT(text, HasSubstr(R"(soapstone_shard_read_lag_clocks_sum{shard="1"} 12)"));
  EXPECT_THAT(text, HasSubstr(R"(soapstone_shard_read_lag_clocks_count{shard="1"} 3)"));
}

}  // namespace
}  // namespace soapstone::metrics
