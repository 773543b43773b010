#include "observe/timeline/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "base/steady_clock.h"
#include "observe/timeline/read_events.h"

namespace soapstone::timeline {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class EventFileTest : public testing::Test {
 protected:
  EventFileTest() : folder_(fs::temp_directory_path() / ("events_" + std::to_string(getpid()))) {}
  ~EventFileTest() override { fs::remove_all(folder_); }

  EventFileOptions Options(uint64_t capacity = 64) const {
    return {.folder = folder_.string(),
            .kind = ThreadKind::kWorkerDevice,
            .index = 3,
            .session = 17,
            .names = {"conv1", "fc"},
            .capacity = capacity};
  }
  static Event At(Clock clock) {
    return {.begin_ns = clock * 10,
            .end_ns = clock * 10 + 5,
            .clock = clock,
            .flow = static_cast<uint64_t>(clock),
            .kind = EventKind::kForward,
            .with = 1};
  }
  std::string Path() const { return (folder_ / "worker-device-3.events").string(); }

  fs::path folder_;
};

// What was planned is of no clock: it is there whatever clocks are asked for, all of it.
TEST_F(EventFileTest, WhatWasPlannedComesBackWhole) {
  EventFileOptions options = Options(/*capacity=*/4 + kInHand);
  options.kind = ThreadKind::kPlanned;
  {
    auto file = EventFile::Make(options);
    ASSERT_TRUE(file.ok()) << file.status();
    for (int i = 0; i < 4; ++i) (*file)->Write(At(0));
  }
  const auto folder = ReadFolder(folder_.string(), {.begin = 100, .end = 120});
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_EQ(folder->threads.size(), 1u);
  EXPECT_EQ(folder->threads[0].events.size(), 4u);
  EXPECT_EQ(folder->threads[0].lost, 0u);
  EXPECT_EQ(folder->threads[0].latest, kNoClock);
}

TEST_F(EventFileTest, ComesBack) {
  auto file = EventFile::Make(Options());
  ASSERT_TRUE(file.ok()) << file.status();
  for (Clock clock = 0; clock < 10; ++clock) (*file)->Write(At(clock));
  auto thread = ReadEventFile(Path());
  ASSERT_TRUE(thread.ok()) << thread.status();
  EXPECT_TRUE(thread->written) << "its process still has it";
  file->reset();
  thread = ReadEventFile(Path(), {.begin = 4, .end = 7});
  EXPECT_FALSE(thread->written);
  EXPECT_EQ(thread->kind, ThreadKind::kWorkerDevice);
  EXPECT_EQ(thread->index, 3u);
  EXPECT_EQ(thread->session, 17u);
  EXPECT_EQ(thread->names, (std::vector<std::string>{"conv1", "fc"}));
  EXPECT_EQ(thread->events, (std::vector<Event>{At(4), At(5), At(6)}));
  EXPECT_EQ(thread->latest, 9);
  EXPECT_EQ(thread->lost, 0u);
}

TEST_F(EventFileTest, KeepsItsClocksAlone) {
  EventFileOptions options = Options();
  options.clocks = {.begin = 100, .end = 102};
  auto file = EventFile::Make(options);
  for (Clock clock = 0; clock < 1000; ++clock) (*file)->Write(At(clock));
  EXPECT_EQ(ReadEventFile(Path())->events, (std::vector<Event>{At(100), At(101)}));
}

TEST_F(EventFileTest, KeepsTheLatestAndCountsTheLost) {
  auto file = EventFile::Make(Options(64));
  for (Clock clock = 0; clock < 1000; ++clock) (*file)->Write(At(clock));
  const auto thread = ReadEventFile(Path());
  ASSERT_GT(thread->events.size(), 40u);
  EXPECT_EQ(thread->events.back(), At(999));
  EXPECT_EQ(thread->events.front().clock, static_cast<Clock>(thread->lost));
  EXPECT_EQ(thread->lost + thread->events.size(), 1000u);
}

// Each event's fields agree: one that was read while its slot was written would not.
TEST_F(EventFileTest, IsReadWholeWhileItIsWrittenAndAfterAKill) {
  const pid_t writer = fork();
  if (writer == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto file = EventFile::Make(Options(4096));
    for (Clock clock = 0;; ++clock) {
      (*file)->Write(At(clock));
      if (clock % 16 == 0) sched_yield();  // a ring takes longer to write than to read
    }
  }
  const absl::Cleanup ends = [writer] {
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
  };
  Clock before = 0;
  const SteadyTime deadline = SteadyNow() + absl::Minutes(1);
  for (int look = 0; (look < 1000 || before < 10'000) && SteadyNow() < deadline; ++look) {
    sched_yield();  // a writer that gets no processor writes nothing
    const auto thread = ReadEventFile(Path());
    if (!thread.ok()) continue;  // not there yet
    auto next = static_cast<Clock>(thread->lost);
    for (const Event& event : thread->events) ASSERT_EQ(event, At(next++));
    ASSERT_GE(next, before);
    before = next;
  }
  ASSERT_GE(before, 10'000);
  kill(writer, SIGKILL);
  siginfo_t ended;
  waitid(P_PID, writer, &ended, WEXITED | WNOWAIT);
  const auto thread = ReadEventFile(Path());
  EXPECT_FALSE(thread->written);
  EXPECT_GE(thread->events.back().clock + 1, before);
}

TEST_F(EventFileTest, ASecondProcessOfARankHasItsOwn) {
  const auto first = EventFile::Make(Options());
  (*first)->Write(At(1));
  const auto second = EventFile::Make(Options());
  (*second)->Write(At(2));
  const auto folder = ReadFolder(folder_.string());
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_EQ(folder->threads.size(), 2u);
  EXPECT_TRUE(folder->notes.empty());
}

TEST_F(EventFileTest, AnotherJobTakesThePlaceAndHarmsNoWriter) {
  const auto first = EventFile::Make(Options(1 << 16));
  EventFileOptions later = Options();
  later.session = 18;
  const auto second = EventFile::Make(later);
  for (Clock clock = 0; clock < 100'000; ++clock) (*first)->Write(At(clock));
  (*second)->Write(At(5));
  const auto thread = ReadEventFile(Path());
  EXPECT_EQ(thread->session, 18u);
  EXPECT_EQ(thread->events, std::vector<Event>{At(5)});
}

TEST_F(EventFileTest, OfSeveralJobsTheLastIsRead) {
  { const auto first = EventFile::Make(Options()); }
  EventFileOptions later = Options();
  later.session = 18;
  later.index = 4;
  const auto second = EventFile::Make(later);
  const auto folder = ReadFolder(folder_.string());
  ASSERT_EQ(folder->threads.size(), 1u);
  EXPECT_EQ(folder->threads[0].index, 4u);
  ASSERT_EQ(folder->notes.size(), 1u);
}

TEST_F(EventFileTest, WhatIsDamagedIsNamed) {
  { const auto file = EventFile::Make(Options()); }
  std::string bytes;
  {
    std::ifstream in(Path(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto write = [&](const std::string& text) {
    std::ofstream(Path(), std::ios::binary | std::ios::trunc) << text;
  };
  for (const size_t size : {size_t{0}, size_t{7}, sizeof(FileHeader), bytes.size() - 1}) {
    write(bytes.substr(0, size));
    EXPECT_THAT(std::string(ReadEventFile(Path()).status().message()), HasSubstr(Path())) << size;
  }
  for (size_t at = 0; at < sizeof(FileHeader); ++at) {  // whatever it says: no crash
    std::string other = bytes;
    other[at] = static_cast<char>(other[at] ^ 0xff);
    write(other);
    (void)ReadEventFile(Path());
  }
  write(std::string(bytes.size(), '\xff'));
  const auto folder = ReadFolder(folder_.string());
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("holds no events"));
  EXPECT_FALSE(ReadFolder((folder_ / "none").string()).ok());
}

TEST_F(EventFileTest, AFolderThatCannotBeMadeIsAnError) {
  EventFileOptions options = Options();
  options.folder = "/proc/none";
  EXPECT_THAT(std::string(EventFile::Make(options).status().message()),
              HasSubstr("output.timeline_path: cannot make /proc/none"));
  options.folder = folder_.string();
  options.capacity = uint64_t{1} << 50;  // no disk has that
  EXPECT_THAT(std::string(EventFile::Make(options).status().message()), HasSubstr("cannot write"));
  EXPECT_TRUE(fs::is_empty(folder_)) << "nothing is left behind";
}

}  // namespace
}  // namespace soapstone::timeline
