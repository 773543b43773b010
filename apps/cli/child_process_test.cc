#include "apps/cli/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <fstream>
#include <sstream>

#include "apps/loop/node_loop.h"
#include "base/stop_signals.h"

namespace soapstone::apps {
namespace {

using ::testing::ElementsAre;

constexpr Nanos kPatience = 20 * kSecond;

struct Seen {
  std::vector<std::string> out, err;
};

// Waits until the child has ended and its pipes are at their end.
Seen WaitFor(ChildProcess* child) {
  Seen seen;
  const Nanos deadline = NodeLoop::Now() + kPatience;
  while (NodeLoop::Now() < deadline &&
         (!child->ending().has_value() || child->stdout_fd() >= 0 || child->stderr_fd() >= 0)) {
    pollfd fds[] = {{.fd = child->stdout_fd(), .events = POLLIN},
                    {.fd = child->stderr_fd(), .events = POLLIN}};
    poll(fds, 2, 20);
    child->ReadStdout([&](const std::string& line) { seen.out.push_back(line); });
    child->ReadStderr([&](const std::string& line) { seen.err.push_back(line); });
    child->Poll();
  }
  return seen;
}

std::unique_ptr<ChildProcess> Shell(const std::string& script, const std::string& log) {
  auto child = ChildProcess::Start({.name = "child-0",
                                    .command = {"/bin/sh", "-c", script},
                                    .log_path = ::testing::TempDir() + "/" + log});
  EXPECT_TRUE(child.ok()) << child.status();
  return *std::move(child);
}

TEST(ChildProcess, LinesOfBothPipesAndTheLog) {
  const auto child = Shell("echo out; echo one >&2; echo two >&2; exit 7", "lines.log");
  const Seen seen = WaitFor(child.get());
  EXPECT_THAT(seen.out, ElementsAre("out"));
  EXPECT_THAT(seen.err, ElementsAre("one", "two"));
  EXPECT_EQ(child->ending(), (Ending{.by_signal = false, .number = 7}));
  std::ifstream log(child->log_path());
  std::stringstream text;
  text << log.rdbuf();
  EXPECT_EQ(text.str(), "one\ntwo\n");
}

TEST(EndedProcess, GoesByASignalsValue) {
  for (const bool is_worker : {false, true}) {
    for (const uint32_t rank : {0u, 1u, 77u, kEndedRankMax}) {
      for (const int code : {1, 78, 138, 255}) {
        const EndedProcess ended = {.is_worker = is_worker, .rank = rank, .code = code};
        EXPECT_EQ(EndedProcessOf(SignalValueOf(ended)), ended);
      }
    }
  }
  EXPECT_EQ(EndedProcessOf(0), std::nullopt);  // `kill` sends none
  EXPECT_EQ(EndedProcessOf(1), std::nullopt);  // of a process that ended well
}

TEST(ChildProcess, KeepsTheLastLines) {
  const auto child = Shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i >&2; done", "last.log");
  WaitFor(child.get());
  ASSERT_EQ(child->last_lines().size(), 10u);
  EXPECT_EQ(child->last_lines().front(), "3");
  EXPECT_EQ(child->last_lines().back(), "12");
}

TEST(ChildProcess, EndingBySignal) {
  const auto child = Shell("kill -9 $$", "signal.log");
  WaitFor(child.get());
  ASSERT_TRUE(child->ending().has_value());
  EXPECT_EQ(child->ending()->ToString(), "killed by SIGKILL");
}

TEST(ChildProcess, DestructionKills) {
  auto child = Shell("exec sleep 1000", "kill.log");
  const pid_t pid = child->pid();
  child.reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(ChildProcess, MissingProgramEndsWith127) {
  auto child = ChildProcess::Start({.name = "x",
                                    .command = {"/nowhere/program"},
                                    .log_path = ::testing::TempDir() + "/missing.log"});
  ASSERT_TRUE(child.ok());
  const Seen seen = WaitFor(child->get());
  EXPECT_EQ((*child)->ending(), (Ending{.by_signal = false, .number = 127}));
  EXPECT_THAT(seen.err, ElementsAre("No such file or directory"));
}

TEST(LineSplitter, PiecesCutsAndRests) {
  std::vector<std::string> lines;
  const auto take = [&](const std::string& line) { lines.push_back(line); };
  LineSplitter splitter(5);
  splitter.Add("ab", take);
  splitter.Add("c\n\nabcdefgh\nre", take);
  splitter.Add("st", take);
  splitter.Flush(take);
  EXPECT_THAT(lines, ElementsAre("abc", "", "abcde", "rest"));
}

}  // namespace
}  // namespace soapstone::apps
