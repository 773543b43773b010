#include "apps/checkpoint/side_process.h"

#include <signal.h>

#include <memory>

#include "absl/time/clock.h"
#include "base/steady_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using testing::HasSubstr;

// What a shell says of a line, at the end of it.
absl::StatusOr<std::string> Shell(const std::string& line, Nanos idle_max = 60 * kSecond,
                                  Nanos all_max = 60 * kSecond) {
  auto process = SideProcess::Start(
      {.command = {"/bin/sh", "-c", line}, .idle_max = idle_max, .all_max = all_max},
      SteadyNow().nanos());
  if (!process.ok()) return process.status();
  for (;;) {
    if (auto said = (*process)->Poll(SteadyNow().nanos()); said.has_value()) return *said;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

TEST(SideProcessTest, WhatItSaysIsItsOutput) {
  EXPECT_EQ(*Shell("echo said; echo complained >&2"), "said\n");
  // More than a pipe holds.
  EXPECT_EQ(Shell("head -c 1000000 /dev/zero")->size(), 1'000'000u);
}

TEST(SideProcessTest, ItIsLessUrgentThanTheJob) {
  const int mine = nice(0);
  EXPECT_EQ(*Shell("cut -d' ' -f19 /proc/self/stat"),
            std::to_string(std::min(19, mine + 10)) + "\n");
}

TEST(SideProcessTest, WhyItFailedIsTheLastLineItComplainedOf) {
  EXPECT_EQ(Shell("echo one >&2; echo two >&2; exit 78").status().message(), "two");
  EXPECT_EQ(
      Shell("echo 'soapstone evaluate: ckpt/10: it is damaged' >&2; exit 78").status().message(),
      "ckpt/10: it is damaged");
  EXPECT_EQ(Shell("exit 78").status().message(), "it ended with exit code 78");
  EXPECT_EQ(Shell("kill -9 $$").status().message(), "it was killed by signal 9");
}

TEST(SideProcessTest, WhatDoesNothingOrTakesTooLongIsKilled) {
  EXPECT_EQ(Shell("sleep 60", kSecond / 10).status().message(), "it did nothing for 0 s");
  EXPECT_EQ(Shell("while :; do :; done", 60 * kSecond, kSecond / 5).status().message(),
            "it took more than 0 s");
}

TEST(SideProcessTest, WhatCannotBeStartedSaysSo) {
  auto process = SideProcess::Start({.command = {"/nowhere/soapstone"}}, SteadyNow().nanos());
  ASSERT_TRUE(process.ok()) << process.status();
  std::optional<absl::StatusOr<std::string>> said;
  while (!said.has_value()) said = (*process)->Poll(SteadyNow().nanos());
  EXPECT_THAT(said->status().message(), HasSubstr("No such file"));
}

// A test that hangs here has waited for it.
TEST(SideProcessTest, ItEndsWithWhoStartedIt) {
  auto process =
      SideProcess::Start({.command = {"/bin/sh", "-c", "sleep 600"}}, SteadyNow().nanos());
  ASSERT_TRUE(process.ok()) << process.status();
  process->reset();
}

}  // namespace
}  // namespace soapstone::apps
