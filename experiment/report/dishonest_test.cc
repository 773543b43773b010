// Experiments that were bent to come out as somebody wished. Each must have its claims withheld, or
// not supported, or marked, by the rule that is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "experiment/fake_experiment.h"
#include "experiment/report/claims.h"

namespace soapstone::experiment {
namespace {

using ::testing::HasSubstr;
using Change = std::function<void(const RunPlan&, RunOutcome*)>;
using Edits = std::vector<std::pair<std::string, std::string>>;

std::string Edited(const Edits& edits) {
  std::string text = FakeSpecText();
  for (const auto& [from, to] : edits) {
    EXPECT_THAT(text, HasSubstr(from));
    text = absl::StrReplaceAll(text, {{from, to}});
  }
  return text;
}

std::vector<JudgedClaim> JudgedWith(const Edits& edits, const Change& change = nullptr) {
  const absl::StatusOr<Experiment> experiment = FakeExperiment(Edited(edits));
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  const Outcomes outcomes = FakeRuns(*experiment, [&](const RunPlan& plan, RunOutcome* outcome) {
    if (change) change(plan, outcome);
  });
  return JudgeClaims(Summarize(*experiment, outcomes, {}));
}

// What the rule says of the claim; empty where it says nothing.
std::string Said(const JudgedClaim& claim, int rule) {
  for (const Finding& finding : claim.reasons) {
    if (finding.rule == rule) return finding.why;
  }
  return "";
}

// Accuracy that climbs to `top`, and no further.
void ClimbTo(double top, RunOutcome* outcome) {
  const auto points = static_cast<double>(outcome->curve.size());
  for (size_t i = 0; i < outcome->curve.size(); ++i) {
    outcome->curve[i].test_accuracy = top * static_cast<double>(i + 1) / points;
  }
  outcome->test_accuracy = top;
}

void Diverge(RunOutcome* outcome) {
  for (CurvePoint& point : outcome->curve) {
    point.train_loss = point.test_loss = std::nan("");
    point.test_accuracy = 0.1;
  }
  outcome->train_loss = std::nan("");
  outcome->test_accuracy = 0.1;
}

const Edits kSmallRatesForBsp = {
    {"{ spec: \"bsp\" }", "{ spec: \"bsp\" tuning { learning_rates: [0.002, 0.003] } }"},
    {"[0.1, 0.2, 0.4]", "[0.2, 0.4]"}};

TEST(Dishonest, ABaselineOfSmallRatesUnderStragglersOfFactor1) {
  Edits edits = kSmallRatesForBsp;
  edits.push_back({"stall:p=0.02,factor=6", "stall:p=0.02,factor=1.0001"});
  edits.push_back({"slow:workers=1,factor=2", "slow:workers=1,factor=1.0001"});
  const JudgedClaim claim = JudgedWith(edits, [](const RunPlan& plan, RunOutcome* outcome) {
    if (Is(plan, "bsp")) ClimbTo(0.117, outcome);
  })[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_THAT(Said(claim, 12), HasSubstr("no better than guessing"));
  EXPECT_THAT(Said(claim, 14), HasSubstr("chose from different grids"));
  EXPECT_THAT(Said(claim, 17), HasSubstr("missing: transient, persistent"));
}

TEST(Dishonest, ABaselineThatDivergesWhateverItsRate) {
  const JudgedClaim claim = JudgedWith({{"[0.1, 0.2, 0.4]", "[1e5, 2e5, 1e6]"}},
                                       [](const RunPlan& plan, RunOutcome* outcome) {
                                         if (Is(plan, "bsp")) Diverge(outcome);
                                       })[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_THAT(Said(claim, 12), HasSubstr("bsp, under transient: 7 of 7 runs diverged"));
}

TEST(Dishonest, TheBestSeedsOfManyInAFreshFile) {
  const JudgedClaim five = JudgedWith({{"seed_count: 7", "seeds: [3, 8, 11, 17, 23]"}})[0];
  EXPECT_EQ(five.verdict, Verdict::kWithheld);
  EXPECT_EQ(Said(five, 13), "5 seeds, of 7 that 2 claims need");
  const JudgedClaim seven = JudgedWith({{"seed_count: 7", "seeds: [3, 8, 11, 17, 19, 21, 23]"}})[0];
  EXPECT_EQ(Said(seven, 13), "the 7 seeds were chosen by the author");
}

TEST(Dishonest, IdenticalRunsThatGainNothing) {
  const JudgedClaim claim = JudgedWith({}, [](const RunPlan& plan, RunOutcome* outcome) {
    // As a bound that is never reached, and one worker: bsp by another name.
    outcome->parameters_sha256 = absl::StrCat("seed ", plan.config.training().seed());
  })[1];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_THAT(Said(claim, 13), HasSubstr("no evidence: runs of ssp:s=2 and bsp are identical"));
}

TEST(Dishonest, OneResultInTwoRows) {
  const JudgedClaim claim = JudgedWith({}, [](const RunPlan& plan, RunOutcome* outcome) {
    // As a straggler model that comes after the end, or a subject with another timeout.
    outcome->parameters_sha256 = absl::StrCat(plan.config.policy(), plan.config.training().seed());
    outcome->duration_s = 7;
    for (CurvePoint& point : outcome->curve) point = {};
  })[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_THAT(Said(claim, 13), HasSubstr("are those of another row"));
}

// A straggler that is rare has not come in it.
TEST(Dishonest, OneSeedOfTwoRowsMayBeAlike) {
  const uint64_t first = FakeExperiment(Edited({}))->seeds[0];
  const JudgedClaim claim = JudgedWith({}, [first](const RunPlan& plan, RunOutcome* outcome) {
    const uint64_t seed = plan.config.training().seed();
    if (seed != first) return;
    outcome->parameters_sha256 = absl::StrCat(plan.config.policy(), seed);
    outcome->duration_s = 7;
    for (CurvePoint& point : outcome->curve) point = {};
  })[0];
  EXPECT_THAT(Said(claim, 13), Not(HasSubstr("another row")));
}

// Of my own making, from here on.
TEST(Dishonest, SeedsThatDecideNothing) {
  const JudgedClaim claim = JudgedWith({}, [](const RunPlan& plan, RunOutcome* outcome) {
    const uint64_t seed = plan.config.training().seed();
    const double jitter = 1 + 0.01 * static_cast<double>(seed % 5);
    for (CurvePoint& point : outcome->curve) point.time_s = std::round(point.time_s / jitter);
    outcome->duration_s = std::round(outcome->duration_s / jitter);
    outcome->parameters_sha256 = plan.config.policy();
  })[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_THAT(Said(claim, 13), HasSubstr("no evidence: runs of ssp:s=2 are identical, seeds "));
}

TEST(Dishonest, ManyClaimsOverFewSeeds) {
  const JudgedClaim claim = JudgedWith({{"seed_count: 7", "seed_count: 6"}})[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_EQ(Said(claim, 13), "6 seeds, of 7 that 2 claims need");
}

TEST(Dishonest, StallsThatNeverHappen) {
  const JudgedClaim claim = JudgedWith({{"stall:p=0.02,factor=6", "stall:p=0.00001,factor=6"}})[0];
  EXPECT_THAT(Said(claim, 17), HasSubstr("missing: transient"));
}

TEST(Dishonest, PersistentStragglersThatTakeTurns) {
  const JudgedClaim claim =
      JudgedWith({{"slow:workers=1,factor=2", "rotating:workers=4,every=1,factor=2"}})[0];
  EXPECT_THAT(Said(claim, 17), HasSubstr("missing: persistent"));
}

TEST(Dishonest, NoStragglersThatAreThemselvesStragglers) {
  const JudgedClaim claim = JudgedWith({{"model: \"none\"", "model: \"jitter:sigma=1.5\""}})[0];
  EXPECT_THAT(Said(claim, 17), HasSubstr("missing: none"));
}

TEST(Dishonest, ATargetThatGuessingReaches) {
  const JudgedClaim claim = JudgedWith({{"target_accuracy: 0.8", "target_accuracy: 0.12"}})[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_EQ(Said(claim, 7), "the target, 0.12, is what guessing comes to");
}

// On few held-out samples a curve comes above every line once.
TEST(Dishonest, ATargetThatANoisyCurveTouchesOnce) {
  const JudgedClaim claim = JudgedWith({}, [](const RunPlan& plan, RunOutcome* outcome) {
    if (!Is(plan, "ssp:s=2")) return;
    ClimbTo(0.79, outcome);
    outcome->curve[2].test_accuracy = 0.81;
  })[0];
  EXPECT_EQ(claim.verdict, Verdict::kUnsupported);
  EXPECT_THAT(claim.evidence, HasSubstr("reached by 0 of 7 and 7 of 7"));
}

TEST(Dishonest, ABaselineThatMissesTheTargetInMostRuns) {
  const JudgedClaim claim = JudgedWith({}, [](const RunPlan& plan, RunOutcome* outcome) {
    if (Is(plan, "bsp")) ClimbTo(0.78, outcome);
  })[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_EQ(Said(claim, 12), "bsp, under transient: reached the target in 0 of 7 runs");
}

TEST(Dishonest, ATargetThatNeitherSideReaches) {
  const JudgedClaim claim = JudgedWith({{"target_accuracy: 0.8", "target_accuracy: 0.99"}})[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_EQ(claim.evidence, "");
}

// Tuned on files that were spoiled, and measured on the true ones after a break.
TEST(Dishonest, TuningOnOtherData) {
  for (const bool last : {false, true}) {  // the last tuning runs may be on the true ones already
    const JudgedClaim claim = JudgedWith({}, [&](const RunPlan& plan, RunOutcome* outcome) {
      const bool spoiled = plan.tuning && !(last && plan.candidate == 2);
      if (spoiled) outcome->provenance.files_sha256 = "spoiled";
    })[0];
    EXPECT_EQ(claim.verdict, Verdict::kWithheld);
    EXPECT_THAT(Said(claim, 8), HasSubstr("tuning runs among them"));
  }
}

// The trace was another while the baseline ran.
TEST(Dishonest, BaselinesUnderAnotherTrace) {
  const JudgedClaim claim = JudgedWith({}, [&](const RunPlan& plan, RunOutcome* outcome) {
    if (!plan.tuning && plan.cell.policy == 0) outcome->provenance.traces_sha256 = "slower";
  })[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_THAT(Said(claim, 8), HasSubstr("other traces"));
}

TEST(Dishonest, OneGridForAllThatStopsShortOfTheBaselinesBestRate) {
  // The rate of least loss is the second listed: here the smallest, then the greatest.
  for (const char* rates : {"[0.2, 0.1, 0.4]", "[0.2, 0.4, 0.1]"}) {
    const JudgedClaim claim = JudgedWith({{"[0.1, 0.2, 0.4]", rates}})[0];
    EXPECT_EQ(claim.verdict, Verdict::kWithheld);
    EXPECT_THAT(Said(claim, 12), HasSubstr("is at the edge of its grid"));
  }
}

// Two absurd rates beside the one that the baseline is held to.
TEST(Dishonest, AGridWithAHoleAroundTheBaselinesRate) {
  for (const char* rates : {"[1e-7, 0.2, 1e5]", "[0.1, 0.2, 2.1]", "[0.019, 0.2, 0.4]"}) {
    const JudgedClaim claim = JudgedWith({{"[0.1, 0.2, 0.4]", rates}})[0];
    EXPECT_EQ(claim.verdict, Verdict::kWithheld) << rates;
    EXPECT_THAT(Said(claim, 12), HasSubstr("ten times from the next rate"));
  }
  EXPECT_EQ(Said(JudgedWith({{"[0.1, 0.2, 0.4]", "[0.02, 0.2, 2]"}})[0], 12), "");
}

// The best rate once more, in other digits: no other one was tried on that side.
TEST(Dishonest, TheBaselinesBestRateTwice) {
  for (const char* rates : {"[0.1, 0.2, 0.20001]", "[0.1, 0.2, 0.22]", "[0.199, 0.2, 0.4]"}) {
    const JudgedClaim claim = JudgedWith({{"[0.1, 0.2, 0.4]", rates}})[0];
    EXPECT_EQ(claim.verdict, Verdict::kWithheld) << rates;
    EXPECT_THAT(Said(claim, 12), HasSubstr("is at the edge of its grid")) << rates;
  }
}

// Rates far apart, and the same number of candidates: no better one of its own kind was tried.
TEST(Dishonest, ACandidateThatStandsAlone) {
  const JudgedClaim claim =
      JudgedWith({{"learning_rates: [0.1, 0.2, 0.4]",
                   "candidates { optimizer: \"momentum:lr=0.1,mu=0.9\" } candidates { optimizer: "
                   "\"sgd:lr=0.2\" } candidates { optimizer: \"momentum:lr=0.4,mu=0.9\" }"}})[0];
  EXPECT_THAT(Said(claim, 12), HasSubstr("sgd:lr=0.2, is at the edge"));
}

// "Gains at most 5%": the policy that is to gain nothing is the one that was weakened.
TEST(Dishonest, APolicyThatIsWeakenedToGainLittle) {
  const auto judged = JudgedWith({}, [](const RunPlan& plan, RunOutcome* outcome) {
    if (Is(plan, "ssp:s=2") && plan.candidate == 2) outcome->train_loss = 0.01;
  });
  EXPECT_EQ(Said(judged[0], 12), "");
  EXPECT_EQ(judged[1].verdict, Verdict::kWithheld);
  EXPECT_THAT(Said(judged[1], 12), HasSubstr("ssp:s=2, under persistent: its best candidate"));
}

TEST(Dishonest, ARateOfWhoLearnsNothing) {
  const JudgedClaim claim = JudgedWith({{"under: \"transient\"", "under: \"transient\" of: rate"}},
                                       [](const RunPlan& plan, RunOutcome* outcome) {
                                         if (Is(plan, "ssp:s=2")) ClimbTo(0.117, outcome);
                                       })[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_THAT(Said(claim, 12), HasSubstr("ssp:s=2, under transient: "));
  EXPECT_THAT(Said(claim, 12), HasSubstr("no better than guessing"));
}

TEST(Dishonest, AnotherOptimizerForTheFavourite) {
  const JudgedClaim claim = JudgedWith(
      {{"{ spec: \"ssp:s=2\" }",
        "{ spec: \"ssp:s=2\" tuning { candidates { optimizer: \"adam:lr=0.001\" } candidates { "
        "optimizer: \"adam:lr=0.003\" } candidates { optimizer: \"adam:lr=0.01\" } } }"}})[0];
  EXPECT_EQ(claim.verdict, Verdict::kWithheld);
  EXPECT_EQ(Said(claim, 14), "bsp and ssp:s=2 exchange alike, and chose from different grids");
}

TEST(Dishonest, AGridOfItsOwnForAnotherExchangeIsMarked) {
  const Edits edits = {{"{ spec: \"easgd:tau=4\" }",
                        "{ spec: \"easgd:tau=4\" tuning { learning_rates: [0.01, 0.02, 0.04] } }"},
                       {"faster: \"ssp:s=2\" than: \"bsp\" under: \"transient\"",
                        "faster: \"easgd:tau=4\" than: \"bsp\" under: \"transient\""}};
  const auto judged = JudgedWith(edits);
  EXPECT_EQ(judged[0].verdict, Verdict::kSupported);
  EXPECT_THAT(Said(judged[0], 14), HasSubstr("different exchanges chose from different grids"));
  EXPECT_EQ(Said(judged[1], 14), "");
}

TEST(Dishonest, OneTuningSeedIsMarked) {
  EXPECT_THAT(Said(JudgedWith({{"seed_count: 3", "seed_count: 1"}})[0], 14),
              HasSubstr("1 tuning seed"));
  EXPECT_THAT(Said(JudgedWith({{"0.4] seed_count: 3", "0.4] seeds: [1, 2, 3]"}})[0], 14),
              HasSubstr("chosen by the author"));
}

TEST(Dishonest, HalfPrecisionInVirtualTime) {
  const auto bf16 = FakeExperiment(Edited({{"servers: 1", "servers: 1 precision: \"bf16\""}}));
  EXPECT_THAT(std::string(bf16.status().message()),
              HasSubstr("cluster.precision: co-simulation computes in float32"));
  EXPECT_TRUE(FakeExperiment(Edited({{"servers: 1", "servers: 1 precision: \"bf16\""},
                                     {"iteration_ms: 10", "iteration_ms: 10 mode: real"}}))
                  .ok());
}

// Claims fitted to what was seen: the seeds are those of the first file, but the folder is refused.
TEST(Dishonest, ClaimsChangedOnceRunsAreThere) {
  const Experiment before = *FakeExperiment();
  const Experiment after = *FakeExperiment(Edited({{"at_least: 1.5", "at_least: 1.9"}}));
  EXPECT_EQ(before.seeds, after.seeds);
  EXPECT_NE(before.digest, after.digest);
}

}  // namespace
}  // namespace soapstone::experiment
