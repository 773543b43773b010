#include "apps/cli/rank_choice.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace soapstone::apps {
namespace {

absl::StatusOr<RankChoice> Choose(const std::string& flag,
                                  const std::map<std::string, std::string>& environment) {
  return ChooseRank(flag, "trainer-server-7", [&](const char* name) -> const char* {
    const auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  });
}

TEST(RankChoice, TheFlagWins) {
  const auto choice = Choose("3", {{"SLURM_PROCID", "1"}});
  EXPECT_EQ(choice->rank, 3);
  EXPECT_EQ(choice->source, "--rank");
}

TEST(RankChoice, EnvironmentInItsOrder) {
  const auto choice = Choose("", {{"RANK", "9"}, {"SLURM_PROCID", "2"}});
  EXPECT_EQ(choice->rank, 2);
  EXPECT_EQ(choice->source, "SLURM_PROCID");
  EXPECT_EQ(Choose("", {{"JOB_COMPLETION_INDEX", "0"}, {"RANK", "9"}})->rank, 0);
}

TEST(RankChoice, ElseTheSchedulerHandsOneOut) {
  EXPECT_EQ(Choose("", {})->rank, -1);
  EXPECT_EQ(Choose("", {{"RANK", ""}})->rank, -1);
}

TEST(RankChoice, NoRankIsAnErrorThatNamesItsSource) {
  EXPECT_EQ(Choose("99999", {})->rank, 99'999);
  EXPECT_EQ(Choose("100000", {}).status().message(),
            "--rank=100000: a rank is a whole number from 0, and below 100000");
  EXPECT_EQ(Choose("-1", {}).status().message(), "--rank=-1: a rank is a whole number from 0");
  EXPECT_EQ(Choose("", {{"RANK", "two"}}).status().message(),
            "RANK=two: a rank is a whole number from 0");
}

TEST(RankChoice, AStatefulSetsPodMayTakeItsNumber) {
  EXPECT_EQ(Choose("hostname", {{"RANK", "2"}})->rank, 7);
  EXPECT_EQ(Choose("hostname", {})->source, "hostname trainer-server-7");
  EXPECT_FALSE(ChooseRank("hostname", "localhost", [](const char*) { return nullptr; }).ok());
}

TEST(RankChoice, ItsOwnVariableIsNamedAsTheSource) {
  EXPECT_EQ(Choose("3", {{"SOAPSTONE_RANK", "3"}})->source, "SOAPSTONE_RANK");
  EXPECT_EQ(Choose("3", {{"SOAPSTONE_RANK", "4"}})->source, "--rank");
}

// Launchers that count over all roles set such.
TEST(RankChoice, ARankThatTheJobDoesNotHaveNamesItsSourceAndWhatToDo) {
  EXPECT_TRUE(CheckRank({1, "SLURM_PROCID"}, "worker", 2).ok());
  EXPECT_TRUE(CheckRank({-1, "the scheduler"}, "worker", 2).ok());
  EXPECT_EQ(CheckRank({2, "--rank"}, "worker", 2).message(), "--rank=2: the job has 2 workers");
  EXPECT_EQ(CheckRank({4, "SLURM_PROCID"}, "server", 2).message(),
            "SLURM_PROCID=4: the job has 2 servers; unset it or set SOAPSTONE_RANK, or let "
            "`soapstone node` take it as a number over all roles");
}

}  // namespace
}  // namespace soapstone::apps
