#include "experiment/honesty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "experiment/fake_experiment.h"

namespace soapstone::experiment {
namespace {

using ::testing::HasSubstr;

std::set<int> RulesWith(const std::vector<Finding>& findings, Standing standing) {
  std::set<int> rules;
  for (const Finding& finding : findings) {
    if (finding.standing == standing) rules.insert(finding.rule);
  }
  return rules;
}

// The rules that fail for `text` with runs that `change` altered; the first claim must be withheld
// by exactly those that concern it, and then show no number.
template <typename Change>
std::set<int> FailingWith(const std::string& text, const Change& change) {
  const absl::StatusOr<Experiment> experiment = FakeExperiment(text);
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  const Outcomes outcomes = FakeRuns(*experiment, change);
  const Results results = Summarize(*experiment, outcomes, {});
  const JudgedClaim judged = Judge(results, experiment->claims[0]);
  EXPECT_EQ(judged.verdict == Verdict::kWithheld, judged.evidence.empty());
  EXPECT_EQ(judged.verdict == Verdict::kWithheld,
            !RulesWith(judged.reasons, Standing::kFails).empty());
  return RulesWith(CheckRules(results, {}), Standing::kFails);
}

std::set<int> FailingWith(const std::string& text) {
  return FailingWith(text, [](const RunPlan&, RunOutcome*) {});
}

template <typename Change>
std::set<int> FailingRuns(const Change& change) {
  return FailingWith(FakeSpecText(), [&](const RunPlan& plan, RunOutcome* outcome) {
    if (!plan.tuning) change(plan, outcome);
  });
}

using Rules = std::set<int>;

TEST(Honesty, AnHonestExperimentHasItsClaimsPrinted) {
  const Experiment experiment = *FakeExperiment();
  const Outcomes outcomes = FakeRuns(experiment);
  const Results results = Summarize(experiment, outcomes, {});
  const std::vector<Finding> findings = CheckRules(results, {});
  ASSERT_EQ(findings.size(), static_cast<size_t>(kRules));
  for (int rule = 1; rule <= kRules; ++rule) EXPECT_EQ(findings[rule - 1].rule, rule);
  EXPECT_EQ(RulesWith(findings, Standing::kFails), Rules{});
  EXPECT_EQ(RulesWith(findings, Standing::kMarked), (Rules{6, 16}));
  const JudgedClaim transient = Judge(results, experiment.claims[0]);
  EXPECT_EQ(transient.verdict, Verdict::kSupported);
  EXPECT_THAT(transient.evidence, HasSubstr("ratio 2.00"));
  EXPECT_EQ(Judge(results, experiment.claims[1]).verdict, Verdict::kSupported);
}

TEST(Honesty, AClaimThatTheRunsDoNotBearOutIsNotSupported) {
  const Experiment experiment = *FakeExperiment(FakeSpecWith("at_least: 1.5", "at_least: 3"));
  const Outcomes outcomes = FakeRuns(experiment);
  EXPECT_EQ(Judge(Summarize(experiment, outcomes, {}), experiment.claims[0]).verdict,
            Verdict::kUnsupported);
}

JudgedClaim JudgeLast(const std::string& claim) {
  const Experiment experiment = *FakeExperiment(FakeSpecText() + claim);
  const Outcomes outcomes = FakeRuns(experiment);
  return Judge(Summarize(experiment, outcomes, {}), experiment.claims.back());
}

TEST(Honesty, UpdateRatesAreOfTheWholeRun) {
  const std::string claim =
      "claims { faster: \"ssp:s=2\" than: \"bsp\" under: \"transient\" of: rate ";
  const JudgedClaim judged = JudgeLast(claim + "at_least: 1.9 }");
  EXPECT_EQ(judged.verdict, Verdict::kSupported);
  EXPECT_THAT(judged.text, HasSubstr("has at least 1.9x the update rate of bsp"));
  EXPECT_THAT(judged.evidence, HasSubstr("ratio 2.000"));
  EXPECT_EQ(JudgeLast(claim + "at_least: 2.1 }").verdict, Verdict::kUnsupported);
  EXPECT_EQ(JudgeLast(claim + "at_most: 1.9 }").verdict, Verdict::kUnsupported);
}

// 90 clocks of 10 ms on 4 workers, one of them half as fast: 0.9 s * 4 / 3.5 at best. The run
// took 10.2 s (median).
TEST(Honesty, AShareOfTheIdealRate) {
  const std::string claim =
      "claims { faster: \"bsp\" under: \"persistent\" of: ideal_rate at_least: ";
  const JudgedClaim judged = JudgeLast(claim + "0.09 }");
  EXPECT_EQ(judged.verdict, Verdict::kSupported);
  EXPECT_THAT(judged.text, HasSubstr("bsp has at least 0.09 of the ideal update rate"));
  EXPECT_THAT(judged.evidence, HasSubstr("ratio 0.101"));
  EXPECT_EQ(JudgeLast(claim + "0.11 }").verdict, Verdict::kUnsupported);
}

TEST(Honesty, ALowerFinalAccuracyIsMarked) {
  const Experiment experiment = *FakeExperiment();
  const Outcomes outcomes = FakeRuns(experiment, [](const RunPlan& plan, RunOutcome* outcome) {
    if (plan.config.policy() == "ssp:s=2") outcome->test_accuracy = 0.9;
  });
  const JudgedClaim judged = Judge(Summarize(experiment, outcomes, {}), experiment.claims[0]);
  ASSERT_FALSE(judged.reasons.empty());
  EXPECT_EQ(judged.reasons[0].rule, 1);
  EXPECT_THAT(judged.reasons[0].why, HasSubstr("5.00 points"));
}

TEST(Honesty, OneSeedWithholdsEveryComparison) {  // a planted dishonest file
  EXPECT_EQ(FailingWith(FakeSpecWith("seeds: [1, 2, 3, 4, 5]", "seeds: 1")), Rules{13});
}

TEST(Honesty, TestDataThatAreTheTrainingDataUnderAnotherName) {  // a planted dishonest run
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* outcome) {
              outcome->provenance.test_sha256 = outcome->provenance.train_sha256;
            }),
            Rules{2});
}

TEST(Honesty, HeldOutSamplesThatAreTrainedOn) {
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* o) { o->provenance.test_in_train = 10; }),
            Rules{2});
}

TEST(Honesty, NoTestAccuracy) {
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* o) { o->provenance.test_samples = 0; }),
            (Rules{1, 2}));
}

TEST(Honesty, UnfinishedExperimentsAndBrokenChains) {
  const Experiment experiment = *FakeExperiment();
  Outcomes outcomes = FakeRuns(experiment);
  const RegistryFacts broken{.chain_verified = false};
  EXPECT_EQ(RulesWith(CheckRules(Summarize(experiment, outcomes, broken), {}), Standing::kFails),
            Rules{3});
  outcomes.erase(outcomes.begin());
  EXPECT_TRUE(
      RulesWith(CheckRules(Summarize(experiment, outcomes, {}), {}), Standing::kFails).contains(3));
}

TEST(Honesty, OtherHardwareOrAnotherBuild) {
  EXPECT_EQ(FailingRuns([](const RunPlan& plan, RunOutcome* outcome) {
              if (plan.config.policy() == "bsp") outcome->provenance.hardware = "an older one";
            }),
            Rules{4});
  EXPECT_EQ(FailingRuns([](const RunPlan& plan, RunOutcome* outcome) {
              if (plan.config.policy() == "bsp") outcome->provenance.build = "another";
            }),
            Rules{4});
}

TEST(Honesty, NoTarget) {
  EXPECT_EQ(FailingWith(FakeSpecWith("target_accuracy: 0.8\n", "")), Rules{7});
}

TEST(Honesty, OtherDataForOnePolicy) {
  EXPECT_EQ(FailingRuns([](const RunPlan& plan, RunOutcome* outcome) {
              if (plan.config.policy() == "bsp") outcome->provenance.train_sha256 = "x";
            }),
            Rules{8});
}

TEST(Honesty, UnknownDataAreMarked) {
  const Experiment experiment = *FakeExperiment();
  const Outcomes outcomes = FakeRuns(experiment, [](const RunPlan&, RunOutcome* outcome) {
    outcome->provenance.train_samples = 77;
  });
  const Results results = Summarize(experiment, outcomes, {});
  EXPECT_TRUE(RulesWith(CheckRules(results, {}), Standing::kMarked).contains(9));
}

TEST(Honesty, FewerSamplesForOnePolicy) {
  EXPECT_EQ(FailingRuns([](const RunPlan& plan, RunOutcome* outcome) {
              if (plan.config.policy() == "async") outcome->samples = 900;
            }),
            Rules{10});
}

TEST(Honesty, MissingBaselines) {
  EXPECT_EQ(FailingWith(FakeSpecWith("policies { spec: \"async\" }\n", "")), Rules{12});
  EXPECT_EQ(FailingWith(FakeSpecWith("one_worker: true", "one_worker: false")), Rules{12});
}

TEST(Honesty, NothingTuned) {
  EXPECT_EQ(FailingWith(FakeSpecWith("tuning { learning_rates: [0.1, 0.2] seeds: 100 }", "")),
            (Rules{12, 14}));
}

TEST(Honesty, LagAboveTheBoundAndBrokenGuarantees) {
  EXPECT_EQ(FailingRuns([](const RunPlan& plan, RunOutcome* outcome) {
              if (plan.config.policy() == "ssp:s=2") outcome->read_lags = {1, 1, 1, 1};
            }),
            Rules{15});
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* outcome) { outcome->violations = 1; }),
            Rules{15});
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* outcome) { outcome->read_lags.clear(); }),
            Rules{15});
}

TEST(Honesty, NoBytes) {
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* outcome) { outcome->bytes = 0; }),
            Rules{16});
}

TEST(Honesty, FriendlyStragglers) {
  const std::string text = FakeSpecWith("slow:workers=1,factor=2", "stall:p=0.1,factor=2");
  EXPECT_EQ(FailingWith(text), Rules{17});
}

TEST(Honesty, NoBreakdownOfTime) {
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* outcome) { outcome->compute_s = 0; }),
            Rules{18});
}

TEST(Honesty, AveragingWithoutReplicas) {
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* outcome) { outcome->replicas.reset(); }),
            Rules{19});
  // It withholds claims about averaging policies only.
  const Experiment experiment = *FakeExperiment();
  const Outcomes outcomes =
      FakeRuns(experiment, [](const RunPlan&, RunOutcome* outcome) { outcome->replicas.reset(); });
  const Results results = Summarize(experiment, outcomes, {});
  EXPECT_EQ(Judge(results, experiment.claims[0]).verdict, Verdict::kSupported);
  EXPECT_EQ(Judge(results, {.faster = 3, .than = 0}).verdict, Verdict::kWithheld);
}

TEST(Honesty, TimeThatLeavesOutApart) {
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* outcome) { outcome->duration_s /= 2; }),
            Rules{20});
}

}  // namespace
}  // namespace soapstone::experiment
