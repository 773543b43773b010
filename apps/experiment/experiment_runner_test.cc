#include "apps/experiment/experiment_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "apps/experiment/experiment_command.h"
#include "experiment/fake_experiment.h"

namespace soapstone::apps {
namespace {

using experiment::RunOutcome;
using experiment::RunPlan;
using experiment::RunProgress;

class ExperimentRunnerTest : public ::testing::TestWithParam<unsigned> {
 protected:
  RunnerOptions Options() {
    return {
        .jobs = GetParam(),
        .run = [](const RunPlan& plan, const RunProgress& progress) -> absl::StatusOr<RunOutcome> {
          if (!progress(0.5)) return absl::CancelledError("");
          return experiment::FakeOutcome(plan);
        },
        .keep =
            [this](const RunPlan& plan, const RunOutcome&) {
              kept_.insert(plan.id);
              return absl::OkStatus();
            },
        .progress = [this](const ExperimentProgress& progress) { seen_.push_back(progress); },
        .wall_seconds = [this] { return static_cast<double>(++ticks_); }};
  }

  const experiment::Experiment experiment_ = *experiment::FakeExperiment();
  experiment::Agenda agenda_{&experiment_, {}};
  std::set<std::string> kept_;
  std::vector<ExperimentProgress> seen_;
  std::atomic<int> ticks_ = 0;
};

TEST_P(ExperimentRunnerTest, MakesAndKeepsEveryRun) {
  ExperimentRunner runner(Options(), &agenda_);
  const ExperimentRunner::End end = runner.Run();
  EXPECT_TRUE(end.status.ok()) << end.status;
  EXPECT_TRUE(end.ended);
  EXPECT_EQ(agenda_.finished(), agenda_.total());
  EXPECT_EQ(kept_.size(), agenda_.total());
  EXPECT_EQ(seen_.back().finished, agenda_.total());
  EXPECT_NEAR(seen_.back().eta_s, 0, 1e-6);
}

TEST_P(ExperimentRunnerTest, StopsAtTheFirstError) {
  RunnerOptions options = Options();
  options.run = [](const RunPlan& plan, const RunProgress&) -> absl::StatusOr<RunOutcome> {
    if (plan.config.policy() == "async") return absl::InternalError("no such luck");
    return experiment::FakeOutcome(plan);
  };
  ExperimentRunner runner(options, &agenda_);
  const ExperimentRunner::End end = runner.Run();
  EXPECT_EQ(std::string(end.status.message()), "no such luck");
  EXPECT_LT(agenda_.finished(), agenda_.total());
  EXPECT_EQ(agenda_.finished(), kept_.size());
}

TEST_P(ExperimentRunnerTest, ARunThatCannotBeKeptDoesNotCount) {
  RunnerOptions options = Options();
  options.keep = [](const RunPlan&, const RunOutcome&) { return absl::DataLossError("full"); };
  ExperimentRunner runner(options, &agenda_);
  EXPECT_EQ(std::string(runner.Run().status.message()), "full");
  EXPECT_EQ(agenda_.finished(), 0u);
}

TEST_P(ExperimentRunnerTest, StopKeepsWhatIsFinished) {
  RunnerOptions options = Options();
  ExperimentRunner* running = nullptr;
  options.keep = [&](const RunPlan& plan, const RunOutcome&) {
    kept_.insert(plan.id);
    return absl::OkStatus();
  };
  options.run = [&](const RunPlan& plan,
                    const RunProgress& progress) -> absl::StatusOr<RunOutcome> {
    if (plan.config.policy() == "async") running->Stop();
    if (!progress(0.1)) return absl::CancelledError("");
    return experiment::FakeOutcome(plan);
  };
  ExperimentRunner runner(options, &agenda_);
  running = &runner;
  const ExperimentRunner::End end = runner.Run();
  EXPECT_TRUE(absl::IsCancelled(end.status)) << end.status;
  EXPECT_TRUE(end.ended);
  EXPECT_EQ(agenda_.finished(), kept_.size());
  EXPECT_LT(agenda_.finished(), agenda_.total());
}

INSTANTIATE_TEST_SUITE_P(Jobs, ExperimentRunnerTest, ::testing::Values(0u, 1u, 4u));

TEST(ProgressText, HasBarCountRunAndEta) {
  const ExperimentProgress progress{.finished = 5, .total = 20, .share = 0.25, .eta_s = 72};
  EXPECT_EQ(ProgressText(progress, "bsp", true),
            "[######------------------]  5/20 runs  bsp  ETA 1:12");
  EXPECT_EQ(ProgressText(progress, "bsp", false), "5/20 runs  bsp  ETA 1:12");
}

}  // namespace
}  // namespace soapstone::apps
