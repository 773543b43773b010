#include "experiment/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiment/fake_experiment.h"

namespace soapstone::experiment {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Experiment> parsed = FakeExperiment(text);
  EXPECT_FALSE(parsed.ok());
  std::string message(parsed.status().message());
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  EXPECT_THAT(message, StartsWith("fake.textproto"));
  return message;
}

std::string ErrorWith(const std::string& from, const std::string& to) {
  return ErrorOf(FakeSpecWith(from, to));
}

TEST(ExperimentSpec, FillsInListsAndGrids) {
  const absl::StatusOr<Experiment> experiment = FakeExperiment();
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_EQ(experiment->policies.size(), 4u);
  EXPECT_EQ(experiment->policies[3].name, "easgd:tau=4,beta=0.9,mode=async");
  ASSERT_EQ(experiment->subjects.size(), 1u);
  const ResolvedSubject& subject = experiment->subjects[0];
  EXPECT_EQ(subject.name, "softmax");
  EXPECT_EQ(subject.target_accuracy, 0.8);
  ASSERT_EQ(subject.grids.size(), 4u);
  EXPECT_EQ(subject.grids[0].budget(), 9u);
  EXPECT_EQ(subject.grids[0].candidates[1].optimizer, "momentum:lr=0.2,mu=0.9");
  EXPECT_EQ(experiment->claims.size(), 2u);
  EXPECT_EQ(experiment->claims[1].straggler, 2u);
}

TEST(ExperimentSpec, SubjectsAreMergedOverTheBase) {
  const auto experiment =
      FakeExperiment(FakeSpecText() + "subjects { name: \"a\" }\n" +
                     "subjects { name: \"b\" job { model: \"mlp\" training { epochs: 7 } } "
                     "target_accuracy: 0.9 tuning { learning_rates: [1, 2, 3] seeds: [7, 8] } }");
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_EQ(experiment->subjects[0].config.model(), "softmax");
  EXPECT_EQ(experiment->subjects[1].config.model(), "mlp");
  EXPECT_EQ(experiment->subjects[1].config.training().batch(), 32u);
  EXPECT_EQ(experiment->subjects[1].target_accuracy, 0.9);
  EXPECT_EQ(experiment->subjects[1].grids[2].budget(), 6u);
}

TEST(ExperimentSpec, PathsAreRelativeToTheFile) {
  const std::string text = FakeSpecText() + "subjects { name: \"a\" }\n" +
                           "subjects { job { model: \"onnx:m.onnx\" data { path: \"/root\" } } }";
  const auto near = ParseExperiment(text, "fake.textproto", AnyJob);
  const auto far = ParseExperiment(text, "far/from/fake.textproto", AnyJob);
  ASSERT_TRUE(near.ok() && far.ok()) << near.status() << far.status();
  EXPECT_EQ(near->subjects[0].config.data().path(), "digits.csv");
  EXPECT_EQ(far->subjects[0].config.data().path(), "far/from/digits.csv");
  EXPECT_EQ(far->subjects[1].config.data().path(), "/root");
  EXPECT_EQ(far->subjects[1].config.model(), "onnx:far/from/m.onnx");
  EXPECT_EQ(far->subjects[1].name, "onnx:m.onnx");
  // Where it is started from is no part of what it is.
  EXPECT_EQ(far->digest, near->digest);
  EXPECT_EQ(far->runs_digest, near->runs_digest);
  EXPECT_EQ(far->seeds, near->seeds);
}

TEST(ExperimentSpec, DigestIsOfTheMeaningAndOfTheClaims) {
  const std::string digest = FakeExperiment()->digest;
  EXPECT_EQ(FakeExperiment(FakeSpecText() + "# a comment\n")->digest, digest);
  EXPECT_NE(FakeExperiment(FakeSpecWith("at_most: 1.05", "at_most: 1.5"))->digest, digest);
}

TEST(ExperimentSpec, UnknownKey) {
  EXPECT_THAT(ErrorWith("one_worker", "one_wroker"),
              MatchesRegex("fake.textproto:18:1[01]: .*one_wroker.*"));
  EXPECT_THAT(ErrorWith("epochs: 2", "epoch: 2"), HasSubstr("fake.textproto:5:"));
}

TEST(ExperimentSpec, UnknownPolicyAndStraggler) {
  EXPECT_THAT(ErrorWith("policies { spec: \"async\"", "policies { spec: \"asinc\""),
              StartsWith("fake.textproto:10:12: policies.spec: "));
  EXPECT_THAT(ErrorWith("stall:p=0.02", "stahl:p=0.02"), StartsWith("fake.textproto:13:"));
}

TEST(ExperimentSpec, ListedTwice) {
  EXPECT_THAT(ErrorWith("spec: \"async\"", "spec: \"bsp\""), HasSubstr("bsp is listed twice"));
  EXPECT_THAT(ErrorWith("seed_count: 7", "seeds: [1, 2, 3, 4, 1]"), HasSubstr("seeds: 1"));
  EXPECT_THAT(ErrorWith("name: \"transient\"", "name: \"none\""), HasSubstr("named none"));
  // Their runs would be the same ones.
  EXPECT_THAT(ErrorWith("stall:p=0.02,factor=6", "none"), HasSubstr("is the model of none"));
  EXPECT_THAT(
      ErrorWith("seed_count: 7", "seed_count: 7 subjects { name: \"a\" } subjects { name: \"b\" }"),
      HasSubstr("the runs of b, bsp, 4 workers are those of another row"));
  EXPECT_THAT(ErrorWith("seed_count: 7",
                        "seed_count: 7 subjects { name: \"a\" } subjects { name: \"b\" job { "
                        "cluster { grace_s: 24 } } }"),
              HasSubstr("the runs of b, bsp, 4 workers are those of another row"));
  EXPECT_THAT(ErrorWith("iteration_ms: 10", "iteration_ms: 1e-300"), HasSubstr("iteration_ms"));
}

TEST(ExperimentSpec, TheSameFileIsForBothModes) {
  const auto real = FakeExperiment(FakeSpecText() + "mode: real");
  ASSERT_TRUE(real.ok()) << real.status();
  EXPECT_EQ(real->stragglers.size(), 3u);
  EXPECT_THAT(ErrorWith("iteration_ms: 10", "mode: real latency_us: 10"),
              StartsWith("fake.textproto:20:12: latency_us: only for mode: cosim"));
}

TEST(ExperimentSpec, DelaysOfTheJobAreRefused) {
  EXPECT_THAT(ErrorWith("epochs: 2", "epochs: 2 base_ms: 5"), HasSubstr("it is iteration_ms"));
  EXPECT_THAT(ErrorWith("epochs: 2", "epochs: 2 stragglers: \"slow\""),
              HasSubstr("the list `stragglers`"));
}

TEST(ExperimentSpec, TheOneWorkerBaselineIsBsp) {
  EXPECT_THAT(ErrorWith("policies { spec: \"bsp\" }\n", ""),
              StartsWith("fake.textproto:17:1: one_worker"));
}

TEST(ExperimentSpec, UnequalTuningBudgetIsRefused) {
  const std::string error = ErrorWith(
      "{ spec: \"async\" }", "{ spec: \"async\" tuning { learning_rates: [1, 2, 3] seeds: 9 } }");
  EXPECT_THAT(error, StartsWith("fake.textproto:10:26: "));
  EXPECT_THAT(error, HasSubstr("rule 14"));
}

TEST(ExperimentSpec, OwnGridOfEqualBudgetIsTaken) {
  const auto experiment = FakeExperiment(
      FakeSpecWith("{ spec: \"async\" }",
                   "{ spec: \"async\" tuning { learning_rates: [1, 2, 3] seeds: [7, 8, 9] } }"));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_EQ(experiment->subjects[0].grids[2].candidates[0].optimizer, "momentum:lr=1,mu=0.9");
}

TEST(ExperimentSpec, SeedsAreListedOrDrawnNotBoth) {
  EXPECT_THAT(ErrorWith("seed_count: 7", "seed_count: 7 seeds: 1"), HasSubstr("without seeds"));
  EXPECT_THAT(ErrorWith("seed_count: 7", ""), HasSubstr("seed_count: at least one seed"));
  EXPECT_THAT(ErrorWith("seed_count: 3", ""), HasSubstr("tuning.seed_count: at least one seed"));
  EXPECT_THAT(ErrorWith("seed_count: 3", "seed_count: 3 seeds: 1"), HasSubstr("without seeds"));
}

TEST(ExperimentSpec, TuningSeedThatIsMeasuredIsRefused) {
  EXPECT_THAT(ErrorOf(absl::StrReplaceAll(FakeSpecText(), {{"seed_count: 7", "seeds: [1, 2, 3]"},
                                                           {"seed_count: 3", "seeds: 3"}})),
              HasSubstr("3 is a measured seed"));
}

TEST(ExperimentSpec, NoHeldOutSplitIsRefused) {  // a planted dishonest file
  const std::string error =
      ErrorWith("path: \"digits.csv\"", "path: \"digits.csv\" test_fraction: 0");
  EXPECT_THAT(error, StartsWith("fake.textproto:4:46: "));
  EXPECT_THAT(error, HasSubstr("rule 2"));
}

TEST(ExperimentSpec, TrainingDataAsTestDataAreRefused) {  // a planted dishonest file
  EXPECT_THAT(ErrorWith("path: \"digits.csv\"", "path: \"a.csv\" test_path: \"a.csv\""),
              HasSubstr("rule 2"));
}

TEST(ExperimentSpec, SeveralWorkersNeedTheNameOfTheirScaling) {
  EXPECT_THAT(ErrorWith("workers: 4", "workers: [2, 4]"), HasSubstr("strong"));
  EXPECT_TRUE(FakeExperiment(FakeSpecWith("workers: 4", "workers: [2, 4] scaling: strong")).ok());
}

TEST(ExperimentSpec, WeakScalingGrowsTheBatch) {
  const auto experiment =
      FakeExperiment(FakeSpecWith("workers: 4", "workers: [2, 8] scaling: weak"));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_EQ(JobOf(*experiment, 0, 0, {}, 2).training().batch(), 32u);
  EXPECT_EQ(JobOf(*experiment, 0, 0, {}, 8).training().batch(), 128u);
}

TEST(ExperimentSpec, ClaimsAreAboutWhatIsInTheLists) {
  EXPECT_THAT(ErrorWith("faster: \"ssp:s=2\" than: \"bsp\" under: \"transient\"",
                        "faster: \"ssp:s=3\" than: \"bsp\" under: \"transient\""),
              StartsWith("fake.textproto:21:10: claims.faster"));
  EXPECT_THAT(ErrorWith("under: \"persistent\"", "under: \"bursts\""), HasSubstr("\"bursts\""));
}

TEST(ExperimentSpec, APolicyMayReBalance) {
  const auto experiment = FakeExperiment(
      FakeSpecWith(
          "policies { spec: \"ssp:s=2\" }",
          "policies { spec: \"ssp:s=2\" } policies { spec: \"ssp:s=2\" rebalance: true }") +
      "claims { faster: \"ssp:s=2+rebalance\" than: \"ssp:s=2\" under: \"persistent\" of: rate }");
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_EQ(experiment->policies[2].name, "ssp:s=2+rebalance");
  EXPECT_FALSE(JobOf(*experiment, 0, 1, {}, 4).cluster().rebalance());
  EXPECT_TRUE(JobOf(*experiment, 0, 2, {}, 4).cluster().rebalance());
  EXPECT_EQ(JobOf(*experiment, 0, 2, {}, 4).policy(), "ssp:s=2");
  EXPECT_EQ(experiment->claims.back().faster, 2u);
  EXPECT_THAT(ErrorWith("cluster { servers: 1 }", "cluster { servers: 1 rebalance: true }"),
              HasSubstr("it is a policy's"));
}

// Below 1 it would say of the slower that it is faster.
TEST(ExperimentSpec, ARatioThatIsClaimedIsOneOrMore) {
  const std::string claim = "claims { faster: \"bsp\" than: \"async\" ";
  for (const char* factor : {"at_least: 0.2 }", "at_most: 0.5 }", "at_least: -1 }",
                             "at_least: nan }", "at_most: inf }"}) {
    EXPECT_THAT(ErrorOf(FakeSpecText() + claim + factor), HasSubstr("a ratio of 1 or more"));
  }
  EXPECT_TRUE(FakeExperiment(FakeSpecText() + claim + "at_most: 1 }").ok());
}

TEST(ExperimentSpec, AClaimIsAboutTwoPoliciesAndListedOnce) {
  EXPECT_THAT(ErrorOf(FakeSpecText() + "claims { faster: \"bsp\" than: \"bsp\" at_most: 1.5 }"),
              HasSubstr("faster and than are one policy"));
  const std::string claim = "claims { faster: \"bsp\" than: \"async\" at_most: 1.5 }\n";
  EXPECT_TRUE(FakeExperiment(FakeSpecText() + claim).ok());
  EXPECT_THAT(ErrorOf(FakeSpecText() + claim + claim), HasSubstr("one is listed twice"));
}

TEST(ExperimentSpec, AnIdealRateIsComparedWithNoPolicy) {
  const char* claim = "claims { faster: \"bsp\" of: ideal_rate at_least: 0.9 }\n";
  EXPECT_TRUE(FakeExperiment(FakeSpecText() + claim).ok());
  EXPECT_THAT(ErrorOf(FakeSpecText() +
                      "claims { faster: \"bsp\" than: \"async\" of: ideal_rate at_least: 0.9 }"),
              HasSubstr("goes without than"));
  EXPECT_THAT(ErrorOf(FakeSpecText() + "claims { faster: \"bsp\" of: ideal_rate }"),
              HasSubstr("with at_least"));
  EXPECT_THAT(ErrorOf(FakeSpecWith("iteration_ms: 10", "mode: real") + claim),
              HasSubstr("with iteration_ms"));
}

TEST(ExperimentSpec, FailuresAreCosimulatedAndHaveNoIdealRate) {
  const char* stall = "stall:p=0.02,factor=6";
  const char* failstop = "failstop:p=0.01,down_ms=50";
  EXPECT_TRUE(FakeExperiment(FakeSpecWith(stall, failstop)).ok());
  EXPECT_THAT(ErrorOf(FakeSpecWith(stall, failstop) + "mode: real"),
              HasSubstr("failstop goes with co-simulated runs"));
  const char* claim =
      "claims { faster: \"bsp\" of: ideal_rate at_least: 0.9 under: \"transient\" }\n";
  EXPECT_TRUE(FakeExperiment(FakeSpecText() + claim).ok());
  for (const char* model : {failstop, "link:mbps=10"}) {
    EXPECT_THAT(ErrorOf(FakeSpecWith(stall, model) + claim), HasSubstr("not of link or failstop"));
  }
}

TEST(ExperimentSpec, WhatTheJobCheckSaysIsPassedOn) {
  const auto refuse = [](const wire::JobConfig& config) {
    return config.policy() == "async"
               ? absl::StatusOr<wire::JobConfig>(absl::InvalidArgumentError("not this"))
               : config;
  };
  const auto parsed = ParseExperiment(FakeSpecText(), "fake.textproto", refuse);
  EXPECT_EQ(std::string(parsed.status().message()),
            "fake.textproto:2:1: softmax, async, 4 workers: not this");
}

}  // namespace
}  // namespace soapstone::experiment
