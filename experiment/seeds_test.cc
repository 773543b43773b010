#include "experiment/seeds.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "experiment/fake_experiment.h"

namespace soapstone::experiment {
namespace {

using Seeds = std::vector<uint64_t>;

Seeds SeedsWith(const std::string& from, const std::string& to) {
  const std::string text = FakeSpecWith(from, to);
  EXPECT_NE(text, FakeSpecText()) << from;
  const absl::StatusOr<Experiment> experiment = FakeExperiment(text);
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  return experiment->seeds;
}

TEST(Seeds, AreDrawnDistinctAndApartFromThoseOfTuning) {
  const Experiment experiment = *FakeExperiment();
  EXPECT_TRUE(experiment.seeds_drawn);
  ASSERT_EQ(experiment.seeds.size(), 7u);
  std::set<uint64_t> all(experiment.seeds.begin(), experiment.seeds.end());
  for (const Grid& grid : experiment.subjects[0].grids) {
    EXPECT_TRUE(grid.drawn);
    EXPECT_EQ(grid.seeds, experiment.subjects[0].grids[0].seeds);
  }
  for (const uint64_t seed : experiment.subjects[0].grids[0].seeds) all.insert(seed);
  EXPECT_EQ(all.size(), 10u);
  for (const uint64_t seed : all) EXPECT_LT(seed, uint64_t{1} << 32);
}

// What an author could change to draw again, without changing what is run.
TEST(Seeds, StayTheSameWhereTheRunsDo) {
  const Seeds seeds = FakeExperiment()->seeds;
  EXPECT_EQ(FakeExperiment(FakeSpecText() + "# a comment\n")->seeds, seeds);
  EXPECT_EQ(SeedsWith("title: \"Fake\"", "title: \"Other\" about: \"words\""), seeds);
  EXPECT_EQ(SeedsWith("at_least: 1.5", "at_least: 1.4"), seeds);
  EXPECT_EQ(SeedsWith("\"transient\"", "\"stalls\""), seeds);
  EXPECT_EQ(SeedsWith("target_accuracy: 0.8", "target_accuracy: 0.81"), seeds);
  EXPECT_EQ(SeedsWith("[0.1, 0.2, 0.4]", "[0.4, 0.10, 2e-1]"), seeds);
  EXPECT_EQ(SeedsWith("momentum:lr=0.1,mu=0.9", "momentum:mu=0.90,lr=0.3"), seeds);
  EXPECT_EQ(SeedsWith("path: \"digits.csv\"", "path: \"./data/../digits.csv\""), seeds);
  EXPECT_EQ(SeedsWith("model: \"softmax\"", "model: \"softmax\" output { log_dir: \"x\" }"), seeds);
  for (const char* field :
       {"heartbeat_s: 0.25", "grace_s: 24", "link_timeout_s: 7", "link_bytes: 99999999",
        "heartbeat_timeout_s: 6", "isa: \"avx2\"", "security: \"off\"", "table_rows_max: 1000"}) {
    EXPECT_EQ(SeedsWith("servers: 1", absl::StrCat("servers: 1 ", field)), seeds) << field;
  }
  EXPECT_EQ(SeedsWith("stall:p=0.02,factor=6", "stall:factor=6.0,p=0.020"), seeds);
  EXPECT_EQ(SeedsWith("policies { spec: \"bsp\" }\npolicies { spec: \"ssp:s=2\" }",
                      "policies { spec: \"ssp:s=2\" }\npolicies { spec: \"bsp\" }"),
            seeds);
}

TEST(Seeds, AreOthersWhereTheRunsAreOthers) {
  const Seeds seeds = FakeExperiment()->seeds;
  EXPECT_NE(SeedsWith("epochs: 2", "epochs: 3"), seeds);
  EXPECT_NE(SeedsWith("[0.1, 0.2, 0.4]", "[0.1, 0.2, 0.5]"), seeds);
  EXPECT_NE(SeedsWith("factor=6", "factor=7"), seeds);
  EXPECT_NE(SeedsWith("iteration_ms: 10", "iteration_ms: 11"), seeds);
  EXPECT_NE(SeedsWith("ssp:s=2", "ssp:s=3"), seeds);
  EXPECT_NE(SeedsWith("workers: 4", "workers: 5"), seeds);
}

TEST(Seeds, ListedOnesAreKeptAndNotDrawnForTuning) {
  const Experiment listed = *FakeExperiment(FakeSpecWith("seed_count: 7", "seeds: [1, 2, 3]"));
  EXPECT_FALSE(listed.seeds_drawn);
  EXPECT_EQ(listed.seeds, (Seeds{1, 2, 3}));
  EXPECT_TRUE(listed.subjects[0].grids[0].drawn);
}

}  // namespace
}  // namespace soapstone::experiment
