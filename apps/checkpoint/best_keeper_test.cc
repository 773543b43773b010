#include "apps/checkpoint/best_keeper.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "checkpoint/best.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/simulated_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr uint64_t kRun = 7;

std::string SaidOf(const std::string& accuracy, const std::string& loss) {
  return absl::StrCat("{\"test_samples\": 359, \"test_accuracy\": ", accuracy,
                      ", \"test_loss\": ", loss, "}");
}

// What evaluations say, by clock, when they have said it; of a clock that is not there they are
// under way.
using Answers = std::map<int64_t, absl::StatusOr<std::string>>;

class FakeEvaluation : public Evaluation {
 public:
  FakeEvaluation(int64_t clock, const Answers* answers) : clock_(clock), answers_(answers) {}
  std::optional<absl::StatusOr<std::string>> Poll(Nanos /*now*/) override {
    const auto answer = answers_->find(clock_);
    if (answer == answers_->end()) return std::nullopt;
    return answer->second;
  }

 private:
  int64_t clock_;
  const Answers* answers_;
};

struct KeptBest {
  checkpoint::SimulatedDisk disk;
  Answers answers;
  std::vector<int64_t> begun;
  BestKeeper keeper;

  explicit KeptBest(uint32_t early_stop = 0, bool by_loss = false)
      : keeper(&disk, {.folder = "d",
                       .by_loss = by_loss,
                       .early_stop = early_stop,
                       .evaluate = [this](int64_t clock, Nanos) {
                         begun.push_back(clock);
                         return std::make_unique<FakeEvaluation>(clock, &answers);
                       }}) {
    EXPECT_TRUE(disk.MakeFolder("d").ok());
  }
  void Commit(int64_t clock, uint64_t session = kRun) {
    wire::Checkpoint manifest;
    manifest.set_clock(clock);
    manifest.set_session(session);
    manifest.set_meaning("m");
    EXPECT_TRUE(keeper.BeforeCommit(clock).ok());
    EXPECT_TRUE(disk.MakeFolder(checkpoint::UnderWay("d", clock, session)).ok());
    EXPECT_TRUE(checkpoint::Commit(&disk, "d", manifest).ok());
    keeper.Add(clock, session);
  }
  BestKeeper::Verdict Evaluate(int64_t clock, const std::string& accuracy,
                               const std::string& loss = "1") {
    Commit(clock);
    answers.insert_or_assign(clock, SaidOf(accuracy, loss));
    return keeper.Turn(0).value_or(BestKeeper::Verdict{.line = "nothing was evaluated"});
  }
  int64_t Said() {  // 0: nothing
    const auto best = checkpoint::ReadBest(&disk, "d");
    EXPECT_TRUE(best.ok()) << best.status();
    return best.ok() && best->has_value() ? (*best)->clock() : 0;
  }
};

TEST(BestKeeperTest, TheBestSoFarIsSaid) {
  KeptBest job;
  EXPECT_EQ(job.Evaluate(10, "0.8").line,
            "checkpoint 10 is the best so far: accuracy 0.8000 on 359 held-out samples");
  EXPECT_EQ(job.Evaluate(20, "0.9").best->clock(), 20);
  EXPECT_EQ(job.Evaluate(30, "0.9").line, "");
  EXPECT_EQ(job.Said(), 20);
  EXPECT_EQ(checkpoint::ReadBestManifest(&job.disk, "d")->clock(), 20);
}

TEST(BestKeeperTest, ByLossWhereThatCounts) {
  KeptBest job(0, true);
  job.Evaluate(10, "0.9", "0.5");
  EXPECT_EQ(job.Evaluate(20, "0.1", "0.4").best->clock(), 20);
  EXPECT_EQ(job.Evaluate(30, "0.95", "0.6").best->clock(), 20);
}

TEST(BestKeeperTest, EnoughThatAreNotBetterStopTheJob) {
  KeptBest job(2);
  EXPECT_FALSE(job.Evaluate(10, "0.9").stop);
  EXPECT_FALSE(job.Evaluate(20, "0.8").stop);
  EXPECT_FALSE(job.Evaluate(30, "0.91").stop);  // which begins anew
  EXPECT_FALSE(job.Evaluate(40, "0.8").stop);
  EXPECT_TRUE(job.Evaluate(50, "null", "null").stop);  // a loss that is none is not better
  EXPECT_EQ(job.Said(), 30);
}

// One that waits gives way to a newer one; what is evaluated is not to be removed meanwhile.
TEST(BestKeeperTest, CheckpointsComeFasterThanTheyAreEvaluated) {
  KeptBest job;
  job.Commit(10);
  EXPECT_EQ(job.keeper.Turn(0), std::nullopt);
  for (const int64_t clock : {20, 30, 40}) job.Commit(clock);
  EXPECT_EQ(job.keeper.Turn(0), std::nullopt);
  EXPECT_THAT(job.keeper.kept(), UnorderedElementsAre(10, 40));
  job.answers.insert({10, SaidOf("0.5", "1")});
  EXPECT_EQ(job.keeper.Turn(0)->best->clock(), 10);
  EXPECT_TRUE(job.keeper.busy());
  EXPECT_EQ(job.keeper.Turn(0), std::nullopt);
  EXPECT_THAT(job.begun, ElementsAre(10, 40));
  EXPECT_THAT(job.keeper.kept(), UnorderedElementsAre(10, 10, 40));
}

TEST(BestKeeperTest, OneThatFailsChangesNothingAndIsSaidOnce) {
  KeptBest job(1);
  job.Evaluate(10, "0.9");
  job.Commit(20);
  job.answers.insert({20, absl::UnavailableError("it did nothing for 60 s")});
  const auto failed = job.keeper.Turn(0);
  EXPECT_TRUE(failed->warns);
  EXPECT_FALSE(failed->stop);
  EXPECT_EQ(failed->line, "checkpoint 20 is not evaluated: it did nothing for 60 s");
  job.Commit(30);
  job.answers.insert({30, "Segmentation fault"});
  EXPECT_EQ(job.keeper.Turn(0)->line, "");
  EXPECT_EQ(job.Said(), 10);
  EXPECT_EQ(job.Evaluate(40, "0.95").best->clock(), 40);
}

TEST(BestKeeperTest, AResumedJobGoesOnWithTheBest) {
  KeptBest before(3);
  before.Evaluate(10, "0.9");
  before.Evaluate(20, "0.8");
  KeptBest job(3);
  job.disk = before.disk;
  wire::Checkpoint first;
  first.set_clock(20);
  first.set_meaning("m");
  const auto verdict = job.keeper.GoOn(first);
  EXPECT_EQ(verdict.line, "the best checkpoint so far: 10, accuracy 0.9000");
  EXPECT_EQ(verdict.best->not_better(), 1u);
  EXPECT_FALSE(job.keeper.busy());  // it was evaluated
  EXPECT_THAT(job.keeper.kept(), ElementsAre(10, 10));
  EXPECT_FALSE(job.Evaluate(30, "0.8").stop);
  EXPECT_TRUE(job.Evaluate(40, "0.8").stop);
}

// The best of what is given up would be the newest of the folder, and gone on from the next time.
TEST(BestKeeperTest, AJobThatGoesBackGivesUpABestThatIsAfterThat) {
  KeptBest before;
  before.Evaluate(10, "0.8");
  before.Evaluate(20, "0.9");
  KeptBest job;
  job.disk = before.disk;
  wire::Checkpoint first;
  first.set_clock(10);
  first.set_session(kRun);
  first.set_meaning("m");
  EXPECT_EQ(job.keeper.GoOn(first).line,
            "the best checkpoint so far is not known: it is after where this run goes on");
  EXPECT_THAT(job.keeper.kept(), ElementsAre(10));  // to be evaluated again
  job.answers.insert({10, SaidOf("0.8", "1")});
  EXPECT_EQ(job.keeper.Turn(0)->best->clock(), 10);
  EXPECT_EQ(job.Said(), 10);
}

// It ended between the commit and the evaluation.
TEST(BestKeeperTest, WhatAJobGoesOnFromIsEvaluatedIfItWasNot) {
  KeptBest before;
  before.Evaluate(10, "0.9");
  before.Commit(20);
  KeptBest job;
  job.disk = before.disk;
  wire::Checkpoint first;
  first.set_clock(20);
  first.set_session(kRun);
  first.set_meaning("m");
  job.keeper.GoOn(first);
  job.answers.insert({20, SaidOf("0.95", "1")});
  EXPECT_EQ(job.keeper.Turn(0)->best->clock(), 20);
}

TEST(BestKeeperTest, WhereTheBestIsMissingAResumedJobSaysSo) {
  for (const char* gone : {"d/000000010", "d/best"}) {
    KeptBest job;
    job.Evaluate(10, "0.9");
    job.Evaluate(20, "0.8");
    ASSERT_TRUE(job.disk.Remove(gone).ok());
    KeptBest next;
    next.disk = job.disk;
    wire::Checkpoint first;
    first.set_clock(20);
    first.set_session(kRun);
    first.set_meaning("m");
    const auto verdict = next.keeper.GoOn(first);
    const bool known_to_be = std::string(gone) != "d/best";
    EXPECT_EQ(verdict.warns, known_to_be);
    EXPECT_THAT(verdict.line, HasSubstr(known_to_be ? "is not known: the best of d" : ""));
    next.answers.insert({20, SaidOf("0.8", "1")});
    EXPECT_EQ(next.keeper.Turn(0)->best->clock(), 20);
    EXPECT_EQ(next.Said(), 20);
  }
}

// A run that goes on from before the best writes one of its clock.
TEST(BestKeeperTest, AnotherOfTheSameClockIsNotTheBestUntilItIsEvaluated) {
  KeptBest job;
  job.Evaluate(10, "0.9");
  job.Commit(10, kRun + 1);
  EXPECT_EQ(job.Said(), 0);
  job.answers.insert_or_assign(10, SaidOf("0.7", "1"));
  EXPECT_EQ(job.keeper.Turn(0)->best->accuracy(), 0.7);
}

// The folder says the one before until there is room, and both stay.
TEST(BestKeeperTest, OnAFullDiskTheOneBeforeIsSaidAndBothStay) {
  KeptBest job;
  job.Evaluate(10, "0.8");
  job.Commit(20);
  job.answers.insert({20, SaidOf("0.9", "1")});
  job.disk.SetRoom(10);
  EXPECT_THAT(job.keeper.Turn(0)->line, HasSubstr("that 20 is the best is not written: "));
  EXPECT_EQ(job.Said(), 10);
  EXPECT_THAT(job.keeper.kept(), ElementsAre(20, 10));
  job.disk.SetRoom(100000);
  job.Evaluate(30, "0.7");
  EXPECT_EQ(job.Said(), 20);
  EXPECT_THAT(job.keeper.kept(), ElementsAre(20, 20));
}

TEST(BestKeeperTest, AfterItsEndNothingIsEvaluated) {
  KeptBest job;
  job.Commit(10);
  job.keeper.Turn(0);
  job.keeper.Stop();
  job.Commit(20);
  EXPECT_FALSE(job.keeper.busy());
  EXPECT_THAT(job.keeper.kept(), IsEmpty());
}

TEST(FiguresOfTest, WhatIsNoEvaluationIsRefused) {
  EXPECT_EQ(FiguresOf(SaidOf("0.5", "1.25"))->loss(), 1.25);
  for (const char* text : {"", "{}", "[]", "null", "{\"test_samples\": -1}",
                           "{\"test_samples\": 3, \"test_accuracy\": \"x\", \"test_loss\": 1}"}) {
    EXPECT_FALSE(FiguresOf(text).ok()) << text;
  }
}

}  // namespace
}  // namespace soapstone::apps
