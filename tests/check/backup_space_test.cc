// Every reachable state of backup's policy objects, and mutants that must not survive.
#include "tests/check/backup_space.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "consistency/catalogue.h"
#include "gtest/gtest.h"
#include "tests/check/mutant_table.h"

namespace soapstone::check {
namespace {

BackupReport Explore(const BackupOptions& options) {
  BackupReport report = ExploreBackup(options);
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

// What the row's mutant is here; kNone where the space cannot tell it from backup itself: a round
// of one cannot be of fewer, and shards that wait for all choose alike while nobody is lost.
BackupMutant MutantOf(GuaranteeMutant mutant, const BackupOptions& space) {
  switch (mutant) {
    case GuaranteeMutant::kBoundPlusOne:
      return space.workers - space.spare > 1 ? BackupMutant::kOneTooFew : BackupMutant::kOneTooMany;
    case GuaranteeMutant::kOneShardGate:
      return space.shards > 1 && (space.spare > 0 || space.crashes > 0)
                 ? BackupMutant::kEachShardChooses
                 : BackupMutant::kNone;
    case GuaranteeMutant::kUpdateLost:
      return BackupMutant::kUpdateLost;
    case GuaranteeMutant::kUpdateTwice:
      return BackupMutant::kUpdateTwice;
    default:
      ADD_FAILURE() << Name(mutant) << " is none of backup";
      return BackupMutant::kNone;
  }
}

void ExpectSpace(const BackupOptions& options) {
  ExpectClean(options);
  const MutantRow* row = FindRow(absl::StrCat("backup:b=", options.spare));
  ASSERT_NE(row, nullptr);
  ASSERT_GE(options.clocks, row->bound + 2);
  for (const GuaranteeMutant mutant : row->mutants) {
    BackupOptions mutated = options;
    mutated.mutant = MutantOf(mutant, options);
    if (mutated.mutant == BackupMutant::kNone) continue;
    mutated.until_violation = true;
    const BackupReport report = ExploreBackup(mutated);
    EXPECT_FALSE(report.violations.empty())
        << Name(mutant) << " lives in backup:b=" << options.spare;
    std::printf("  backup:b=%u P=%u K=%u %-18s dead after %llu states: %s\n", options.spare,
                options.workers, options.shards, Name(mutant).c_str(),
                static_cast<unsigned long long>(report.states),
                absl::StrJoin(report.violations, ", ").c_str());
  }
}

TEST(BackupSpaceTest, TheSameThroughFaults) {
  for (const uint32_t spare : {0u, 1u}) {
    ExpectSpace({.spare = spare,
                 .workers = 2,
                 .shards = 2,
                 .clocks = 2,
                 .crashes = 1,
                 .joins = 1,
                 .restores = 1});
    ExpectSpace({.spare = spare,
                 .workers = 3,
                 .shards = 1,
                 .clocks = 2,
                 .crashes = 1,
                 .leaves = 1,
                 .duplicates = 1});
    ExpectSpace({.spare = spare, .workers = 2, .shards = 2, .clocks = 2, .duplicates = 2});
  }
}

// A connection breaks, of a worker or of two shards, and is made again; a worker's is lost for
// good.
TEST(BackupSpaceTest, HoldsThroughBrokenAndLostConnections) {
  for (const std::string& spec : SpecsOf(Space::kBackup)) {
    const BackupOptions sizes[] = {{.workers = 2, .shards = 2, .clocks = 2},
                                   {.workers = 3, .shards = 1, .clocks = 2}};
    for (BackupOptions space : sizes) {
      space.spare = consistency::ParsePolicy(spec)->spare();
      const std::string size = absl::StrCat("P=", space.workers, " K=", space.shards);
      for (const LinkMutant mutant : kLinkMutants) {
        const bool resume = mutant == LinkMutant::kNoResume;
        space.breaks = resume ? 1 : 0;
        space.losses = resume ? 0 : 1;
        ExpectSpace(space);
        BackupOptions broken = space;
        broken.mutant = resume ? BackupMutant::kNoResume : BackupMutant::kNoLinkLost;
        broken.until_deadlock = true;
        const BackupReport report = ExploreBackup(broken);
        EXPECT_TRUE(report.violations.contains("S5 deadlock"))
            << Name(mutant) << " lives: " << size;
        EXPECT_LE(report.states, kStatesToHang) << Name(mutant) << ", " << size;
        PrintHang("backup", spec, size, mutant, report.states,
                  absl::StrJoin(report.violations, ", "));
      }
    }
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
