#include "scheduler/job_progress.h"

#include "gtest/gtest.h"

namespace soapstone::scheduler {
namespace {

constexpr WorkerId kWorker{0}, kOther{1};

wire::Progress At(Clock clock, uint64_t samples) {
  wire::Progress progress;
  progress.clock = clock;
  progress.samples = samples;
  return progress;
}

TEST(JobProgressTest, ASuccessorsCountersAreAddedToTheFormers) {
  JobProgress progress;
  progress.Record(0, kWorker, At(3, 30));
  progress.Succeed(kWorker);
  progress.Succeed(kOther);  // never reported
  progress.Record(1, kWorker, At(4, 10));
  progress.Record(2, kWorker, At(5, 20));
  EXPECT_EQ(progress.workers().at(kWorker).samples, 50u);
  EXPECT_EQ(progress.ClockOf(kWorker), 5);
  EXPECT_EQ(progress.ClockOf(kOther), 0);
}

TEST(JobProgressTest, OnlyOtherCountersAreAMove) {
  JobProgress progress;
  progress.Begin(100);
  progress.Record(200, kWorker, At(1, 10));
  progress.Record(500, kWorker, At(1, 10));
  EXPECT_EQ(progress.Still(600), 400);
  progress.ForgivePause(300);
  EXPECT_EQ(progress.Still(600), 100);
}

TEST(JobProgressTest, AllWaitOnlyWhereNobodyThatIsNotDoneComputes) {
  Members members(2, 1);
  members.AddOriginal({.worker = kWorker}, 1);
  members.AddOriginal({.worker = kOther}, 1);
  JobProgress progress;
  wire::Progress waiting = At(1, 10);
  waiting.waiting = wire::Waiting{};
  progress.Record(0, kWorker, waiting);
  EXPECT_EQ(progress.AllWait(members), "") << "the other has not said what it does";
  progress.Record(0, kOther, At(1, 10));
  EXPECT_EQ(progress.AllWait(members), "") << "the other computes";
  ASSERT_TRUE(members.MarkDone(kOther));
  EXPECT_EQ(progress.AllWait(members).find("worker 0 has waited"), 0u);
}

TEST(JobProgressTest, AServersWorkComesForwardByItsBytes) {
  JobProgress progress;
  const wire::Address server = wire::Address::Of(ServerId{0});
  const wire::SlowWork begun = {.done_bytes = 0, .total_bytes = 200'000'000};
  const wire::SlowWork half = {.done_bytes = 100'000'000, .total_bytes = 200'000'000};
  EXPECT_FALSE(progress.RecordWork(server, &begun));
  EXPECT_TRUE(progress.RecordWork(server, &half));
  EXPECT_FALSE(progress.RecordWork(server, &half));
  EXPECT_EQ(progress.WorkText(false), "server 0 makes its parameters: 50% of 200.0 MB");
  const wire::SlowWork unknown;
  EXPECT_FALSE(progress.RecordWork(server, &unknown));
  EXPECT_EQ(progress.WorkText(true), "server 0 saves the model");
  EXPECT_FALSE(progress.RecordWork(server, nullptr));
  EXPECT_EQ(progress.WorkText(true), "");
}

}  // namespace
}  // namespace soapstone::scheduler
