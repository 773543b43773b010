#include "apps/daemon/listen_choice.h"

#include <gtest/gtest.h>

#include <string>

namespace soapstone::apps {
namespace {

TEST(ListenChoice, ANameThatDoesNotResolveYetIsTriedAgainAndThenToldToBeTriedAgain) {
  const std::string nowhere = "tcp://soapstone.invalid:7070";
  EXPECT_TRUE(absl::IsUnavailable(ChooseListen("", nowhere, "s").status()));
  int times = 0;
  const auto count = [&times] { ++times; };
  const auto waited = AwaitListen("", nowhere, "s", absl::Milliseconds(600), count);
  EXPECT_GE(times, 1);
  EXPECT_TRUE(absl::IsUnavailable(waited.status()));
  EXPECT_NE(waited.status().message().find("does not resolve, tried for"), std::string::npos);
  const auto never = AwaitListen("", "host:1", "s", absl::Seconds(9), count);
  EXPECT_TRUE(absl::IsInvalidArgument(never.status()));
}

TEST(ListenChoice, LoopbackStaysOnThisMachine) {
  EXPECT_EQ(ChooseListen("", "tcp://127.0.0.1:7070", "s")->listen, "tcp://127.0.0.1:0");
}

TEST(ListenChoice, IpcListensBesideTheScheduler) {
  EXPECT_EQ(ChooseListen("", "ipc:///tmp/job", "server-7")->listen, "ipc:///tmp/job.server-7");
  const ListenChoice bound = *ChooseListen("tcp://*:7071", "ipc:///tmp/job", "server-7");
  EXPECT_EQ(bound.listen, "tcp://*:7071");
  EXPECT_EQ(bound.advertise_host, "127.0.0.1");
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
