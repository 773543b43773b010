#include "experiment/agenda.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "experiment/fake_experiment.h"
#include "experiment/run_json.h"

namespace soapstone::experiment {
namespace {

class AgendaTest : public ::testing::Test {
 protected:
  const Experiment experiment_ = *FakeExperiment();
};

TEST_F(AgendaTest, MakesEveryRunOnce) {
  Agenda agenda(&experiment_, {});
  // 4 policies x 3 stragglers and the one worker, with 9 tuning runs and 7 seeds each.
  EXPECT_EQ(agenda.total(), 13u * 16);
  std::set<std::string> ids;
  while (const auto plan = agenda.Next()) {
    EXPECT_TRUE(ids.insert(plan->id).second);
    agenda.Finish(*plan, FakeOutcome(*plan));
  }
  EXPECT_EQ(agenda.finished(), agenda.total());
  EXPECT_EQ(ids.size(), agenda.total());
}

TEST_F(AgendaTest, SeedsArePairedOverPolicies) {
  std::map<uint64_t, std::set<std::string>> jobs;  // by seed, without the policy
  for (size_t policy = 0; policy < experiment_.policies.size(); ++policy) {
    for (RunPlan plan : MeasuredPlans(experiment_, {0, policy, 1, 4}, 0)) {
      plan.config.clear_policy();
      jobs[plan.config.training().seed()].insert(MeaningOf(plan));
    }
  }
  EXPECT_EQ(jobs.size(), 7u);
  for (const auto& [seed, meanings] : jobs) EXPECT_EQ(meanings.size(), 1u) << seed;
}

TEST_F(AgendaTest, IdsAreOfTheMeaningNotOfTheNames) {
  const Experiment renamed = *FakeExperiment(FakeSpecWith("\"transient\"", "\"stalls\""));
  const Experiment slower = *FakeExperiment(FakeSpecWith("iteration_ms: 10", "iteration_ms: 20"));
  const Cell cell{0, 1, 1, 4};
  const std::string id = TuningPlans(experiment_, cell)[0].id;
  EXPECT_EQ(id.size(), 16u);
  EXPECT_EQ(TuningPlans(renamed, cell)[0].id, id);
  EXPECT_NE(TuningPlans(slower, cell)[0].id, id);
}

TEST_F(AgendaTest, IdsAreOfPathsAsTheyAreWritten) {
  const Experiment far = *ParseExperiment(FakeSpecText(), "far/from/fake.textproto", AnyJob);
  const Experiment other = *FakeExperiment(FakeSpecWith("digits.csv", "others.csv"));
  const Cell cell{0, 1, 1, 4};
  const RunPlan plan = TuningPlans(far, cell)[0];
  EXPECT_EQ(plan.config.data().path(), "far/from/digits.csv");
  EXPECT_EQ(plan.id, TuningPlans(experiment_, cell)[0].id);
  EXPECT_NE(plan.id, TuningPlans(other, cell)[0].id);
}

TEST_F(AgendaTest, MeasuresTheCandidateOfLeastTrainingLoss) {
  const Outcomes outcomes = FakeRuns(experiment_);
  const Cell cell{0, 2, 0, 4};
  EXPECT_EQ(ChosenCandidate(experiment_, cell, outcomes), 1u);
  for (const RunPlan& plan : MeasuredPlans(experiment_, cell, 1)) {
    EXPECT_EQ(plan.config.training().optimizer(), "momentum:lr=0.2,mu=0.9");
    EXPECT_TRUE(outcomes.contains(plan.id));
  }
}

TEST_F(AgendaTest, ADivergedCandidateIsNotChosen) {
  const Outcomes outcomes = FakeRuns(experiment_, [](const RunPlan& plan, RunOutcome* outcome) {
    if (plan.candidate == 1) outcome->train_loss = std::nan("");
  });
  EXPECT_EQ(ChosenCandidate(experiment_, {0, 2, 0, 4}, outcomes), 0u);
}

TEST_F(AgendaTest, MeasuredRunsWaitForTuning) {
  Agenda agenda(&experiment_, {});
  std::vector<RunPlan> started;
  while (const auto plan = agenda.Next()) started.push_back(*plan);
  EXPECT_EQ(started.size(), 13u * 9);
  for (const RunPlan& plan : started) EXPECT_TRUE(plan.tuning);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_FALSE(agenda.Next().has_value());
    agenda.Finish(started[i], FakeOutcome(started[i]));
  }
  EXPECT_FALSE(agenda.Next()->tuning);
}

TEST_F(AgendaTest, GoesOnWithWhatIsMissing) {
  Outcomes outcomes = FakeRuns(experiment_);
  const std::string lost = MeasuredPlans(experiment_, {0, 1, 1, 4}, 1)[2].id;
  ASSERT_EQ(outcomes.erase(lost), 1u);
  Agenda agenda(&experiment_, outcomes);
  EXPECT_EQ(agenda.finished(), agenda.total() - 1);
  const auto plan = agenda.Next();
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->id, lost);
  EXPECT_FALSE(agenda.Next().has_value());
}

TEST_F(AgendaTest, StrongScalingSharesTheIteration) {
  const Experiment scaled =
      *FakeExperiment(FakeSpecWith("workers: 4", "workers: [4, 8] scaling: strong"));
  EXPECT_EQ(MeasuredPlans(scaled, {0, 0, 0, 4}, 0)[0].iteration_ms, 10);
  EXPECT_EQ(MeasuredPlans(scaled, {0, 0, 0, 8}, 0)[0].iteration_ms, 5);
  EXPECT_EQ(MeasuredPlans(scaled, *OneWorkerCell(scaled, 0), 0)[0].iteration_ms, 40);
}

}  // namespace
}  // namespace soapstone::experiment
