#include "apps/loop/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cluster/recording.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;

class RecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/recorder-" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
    job_.digest = 5;
    job_.config.set_model("mlp");
    job_.config.mutable_output()->set_record_path(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<Recorder> Open(wire::Address actor) {
    absl::StatusOr<std::unique_ptr<Recorder>> recorder = Recorder::Open(job_, actor, 9);
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    return *std::move(recorder);
  }
  static sim::RecordedEvent Event(Nanos now) {
    return {.kind = sim::EventKind::kTimer, .index = 1, .now = now};
  }
  sim::Recording Read() {
    absl::StatusOr<sim::Recording> recording = sim::ReadRecording(dir_);
    EXPECT_TRUE(recording.ok()) << recording.status();
    return *std::move(recording);
  }

  std::string dir_;
  Job job_;
};

TEST_F(RecorderTest, WhatIsWrittenIsRead) {
  constexpr Nanos kEvents = 10'000;  // more than two windows
  ASSERT_TRUE(BeginRecording(job_.config).ok());
  {
    const auto recorder = Open(wire::Address::Scheduler());
    for (Nanos now = 1; now <= kEvents; ++now) recorder->Write(Event(now));
  }
  const std::string hash(64, 'a');
  ASSERT_TRUE(WriteRecordedHash(job_.config, hash).ok());
  const sim::Recording recording = Read();
  ASSERT_EQ(recording.actors.size(), 1u);
  const sim::RecordedActor& actor = recording.actors[0];
  EXPECT_EQ(actor.state, sim::RecordingState::kClosed);
  ASSERT_EQ(actor.events.size(), static_cast<size_t>(kEvents));
  for (Nanos now = 1; now <= kEvents; ++now) ASSERT_EQ(actor.events[now - 1], Event(now));
  EXPECT_EQ(recording.bytes, (kEvents + 1) * sim::kEventBytes);  // nothing is left reserved
  EXPECT_EQ(recording.session, 9u);
  EXPECT_EQ(recording.job_digest, 5u);
  EXPECT_EQ(recording.sha256, hash);
  EXPECT_THAT(recording.job_text, HasSubstr("mlp"));
  EXPECT_THAT(recording.job_text, ::testing::Not(HasSubstr("record_path")));
}

TEST_F(RecorderTest, AKilledProcessLeavesAllItWrote) {
  ASSERT_TRUE(BeginRecording(job_.config).ok());
  const pid_t child = fork();
  if (child == 0) {
    absl::StatusOr<std::unique_ptr<Recorder>> recorder =
        Recorder::Open(job_, wire::Address::Of(WorkerId{1}), 9);
    for (Nanos now = 1; now <= 5000; ++now) (*recorder)->Write(Event(now));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const sim::Recording recording = Read();
  EXPECT_EQ(recording.actors[0].events.size(), 5000u);
  EXPECT_EQ(recording.actors[0].state, sim::RecordingState::kOpen);
}

TEST_F(RecorderTest, AServerThatIsReplacedBeforeTheStartLeavesNothing) {
  ASSERT_TRUE(BeginRecording(job_.config).ok());
  const wire::Address shard = wire::Address::Of(ShardId{0});
  (*Recorder::Open(job_, shard, 9))->Write(Event(1));
  (*Recorder::Open(job_, shard, 9))->Write(Event(2));
  const sim::Recording recording = Read();
  ASSERT_EQ(recording.actors.size(), 1u);
  ASSERT_EQ(recording.actors[0].events.size(), 1u);
  EXPECT_EQ(recording.actors[0].events[0], Event(2));
}

TEST_F(RecorderTest, OnAFullDiskTheRecordingEndsAndTheProcessGoesOn) {
  ASSERT_TRUE(BeginRecording(job_.config).ok());
  // A limit on the size of files stands for a full disk.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  {
    const auto recorder = Open(wire::Address::Scheduler());
    const rlimit small = {300'000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    for (Nanos now = 1; now <= 10'000; ++now) recorder->Write(Event(now));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  const sim::Recording recording = Read();
  EXPECT_EQ(recording.actors[0].state, sim::RecordingState::kCutShort);
  EXPECT_GT(recording.actors[0].events.size(), 1000u);
  EXPECT_LT(recording.actors[0].events.size(), 10'000u);
}

TEST_F(RecorderTest, AFolderThatCannotHoldTheFirstEventsIsAnError) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto recorder = Recorder::Open(job_, wire::Address::Scheduler(), 9);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(std::string(recorder.status().message()),
              HasSubstr("output.record_path: cannot write"));
}

TEST_F(RecorderTest, NothingIsOverwritten) {
  ASSERT_TRUE(BeginRecording(job_.config).ok());
  { const auto recorder = Open(wire::Address::Of(ShardId{0})); }
  EXPECT_THAT(std::string(BeginRecording(job_.config).message()),
              HasSubstr("holds a recording already"));
  EXPECT_THAT(std::string(CheckRecordingFolder(job_.config).message()),
              HasSubstr("holds a recording already"));
  const auto again = Recorder::Open(job_, wire::Address::Of(ShardId{0}), 10);  // another job's
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("shard-0.events: File exists"));
}

TEST_F(RecorderTest, AReplacementOfAWorkerHasAFileOfItsOwn) {
  ASSERT_TRUE(BeginRecording(job_.config).ok());
  for (int i = 0; i < 2; ++i) Open(wire::Address::Of(WorkerId{1}))->Write(Event(i + 1));
  const sim::Recording recording = Read();
  ASSERT_EQ(recording.actors.size(), 2u);
  for (const sim::RecordedActor& actor : recording.actors) {
    EXPECT_EQ(actor.address, wire::Address::Of(WorkerId{1}));
    EXPECT_EQ(actor.events.size(), 1u);
  }
}

TEST_F(RecorderTest, ABadFolderIsOneLine) {
  job_.config.mutable_output()->set_record_path("/proc/nowhere");
  for (const absl::Status& status :
       {CheckRecordingFolder(job_.config), BeginRecording(job_.config),
        Recorder::Open(job_, wire::Address::Scheduler(), 9).status()}) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("output.record_path: cannot make /proc/nowhere"));
  }
}

TEST_F(RecorderTest, WithoutAFolderNothingIsRecorded) {
  job_.config.clear_output();
  EXPECT_EQ(*Recorder::Open(job_, wire::Address::Scheduler(), 9), nullptr);
}

}  // namespace
}  // namespace soapstone::apps
