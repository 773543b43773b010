// Every reachable state of backup's policy objects, and mutants that must not survive.
#include "tests/check/backup_space.h"

#include <cstdio>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace soapstone::check {
namespace {

BackupReport Explore(const BackupOptions& options) {
  const BackupReport report = ExploreBackup(options);
  std::printf("backup:b=%u P=%u K=%u clocks<=%d: %llu states, %llu transitions\n", options.spare,
              options.workers, options.shards, static_cast<int>(options.clocks),
              static_cast<unsigned long long>(report.states),
              static_cast<unsigned long long>(report.transitions));
  return report;
}

void ExpectClean(const BackupOptions& options) {
  const BackupReport report = Explore(options);
  EXPECT_TRUE(report.violations.empty()) << absl::StrJoin(report.violations, ", ");
}

TEST(BackupSpaceTest, RoundsTakeOneSetOnAllShards) {
  ExpectClean({.workers = 2, .shards = 2, .clocks = 4});
  ExpectClean({.workers = 3, .shards = 1, .clocks = 4});
  ExpectClean({.workers = 3, .shards = 2, .clocks = 2});
  ExpectClean({.spare = 2, .workers = 3, .shards = 2, .clocks = 2});
  ExpectClean({.workers = 2, .shards = 2, .clocks = 2, .one_message = false});
}

TEST(BackupSpaceTest, NobodyIsLeftOutWithoutSpares) {
  const BackupReport report = Explore({.spare = 0, .workers = 3, .shards = 2, .clocks = 2});
  EXPECT_TRUE(report.violations.empty()) << absl::StrJoin(report.violations, ", ");
  EXPECT_EQ(report.left_out, 0u);
  EXPECT_EQ(report.jumps, 0u);
}

TEST(BackupSpaceTest, TheSlowAreLeftOutAndGoOn) {
  const BackupReport report = Explore({.workers = 2, .shards = 1, .clocks = 4});
  EXPECT_GT(report.left_out, 0u);
  EXPECT_GT(report.jumps, 0u);
}

TEST(BackupSpaceTest, TheSameThroughFaults) {
  for (const uint32_t spare : {0u, 1u}) {
    ExpectClean({.spare = spare,
                 .workers = 2,
                 .shards = 2,
                 .clocks = 2,
                 .crashes = 1,
                 .joins = 1,
                 .restores = 1});
    ExpectClean({.spare = spare,
                 .workers = 3,
                 .shards = 1,
                 .clocks = 2,
                 .crashes = 1,
                 .leaves = 1,
                 .duplicates = 1});
    ExpectClean({.spare = spare, .workers = 2, .shards = 2, .clocks = 2, .duplicates = 2});
  }
}

TEST(BackupSpaceTest, EveryMutantIsKilled) {
  const BackupOptions plain = {.workers = 3, .shards = 2, .clocks = 1};
  BackupOptions crash = plain;
  crash.crashes = 1;
  BackupOptions duplicate = {.workers = 2, .shards = 2, .clocks = 2, .duplicates = 1};
  BackupOptions longer = {.workers = 2, .shards = 2, .clocks = 2};
  BackupOptions all = {.spare = 0, .workers = 2, .shards = 2, .clocks = 2, .crashes = 1};
  const std::pair<BackupMutant, BackupOptions> cases[] = {
      {BackupMutant::kEachShardChooses, plain},  {BackupMutant::kChoosesOnOwnClock, crash},
      {BackupMutant::kOneTooFew, plain},         {BackupMutant::kOneTooMany, plain},
      {BackupMutant::kChosenLost, plain},        {BackupMutant::kChosenUnchecked, duplicate},
      {BackupMutant::kHeldUnchecked, duplicate}, {BackupMutant::kLateApplied, plain},
      {BackupMutant::kVersionsMixed, longer},    {BackupMutant::kLostForgotten, crash},
      {BackupMutant::kLeaveWakesNobody, all},
  };
  for (const auto& [mutant, options] : cases) {
    BackupOptions mutated = options;
    mutated.mutant = mutant;
    const BackupReport report = ExploreBackup(mutated);
    EXPECT_FALSE(report.violations.empty()) << Name(mutant) << " survived";
    std::printf("%-42s %8llu states  %s\n", Name(mutant).c_str(),
                static_cast<unsigned long long>(report.states),
                absl::StrJoin(report.violations, ", ").c_str());
    BackupOptions real = options;
    EXPECT_TRUE(ExploreBackup(real).violations.empty()) << "without " << Name(mutant);
  }
}

}  // namespace
}  // namespace soapstone::check
