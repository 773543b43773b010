#include "apps/cli/rank_choice.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "apps/cli/listen_choice.h"

namespace soapstone::apps {
namespace {

absl::StatusOr<RankChoice> Choose(const std::string& flag,
                                  const std::map<std::string, std::string>& environment) {
  return ChooseRank(flag, [&](const char* name) -> const char* {
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

TEST(ListenChoice, LoopbackStaysOnThisMachine) {
  EXPECT_EQ(ChooseListen("", "tcp://127.0.0.1:7070", "s")->listen, "tcp://127.0.0.1:0");
}

TEST(ListenChoice, IpcListensBesideTheScheduler) {
  EXPECT_EQ(ChooseListen("", "ipc:///tmp/job", "server-7")->listen, "ipc:///tmp/job.server-7");
}

TEST(ListenChoice, TheFlagIsTaken) {
  EXPECT_EQ(ChooseListen("tcp://10.0.0.7:0", "tcp://10.0.0.1:1", "s")->listen, "tcp://10.0.0.7:0");
  const auto all = ChooseListen("tcp://*:5000", "tcp://127.0.0.1:1", "s");
  EXPECT_EQ(all->listen, "tcp://*:5000");
  EXPECT_EQ(all->advertise_host, "127.0.0.1");
}

TEST(ListenChoice, NoEndpointIsAnError) {
  for (const char* scheduler : {"", "tcp://", "tcp://host", "udp://host:1", "host:1"}) {
    EXPECT_FALSE(ChooseListen("", scheduler, "s").ok()) << scheduler;
  }
}

}  // namespace
}  // namespace soapstone::apps
