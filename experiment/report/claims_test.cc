#include "experiment/report/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiment/fake_experiment.h"

namespace soapstone::experiment {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const auto kAsTheyAre = [](const RunPlan&, RunOutcome*) {};

template <typename Change>
std::vector<JudgedClaim> Judged(const std::string& text, const Change& change) {
  const absl::StatusOr<Experiment> experiment = FakeExperiment(text);
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  const Outcomes outcomes = FakeRuns(*experiment, change);
  return JudgeClaims(Summarize(*experiment, outcomes, {}));
}

JudgedClaim JudgedLast(const std::string& claim) {
  return Judged(FakeSpecText() + claim, kAsTheyAre).back();
}

std::vector<std::string> MissingWith(const std::string& from, const std::string& to) {
  const absl::StatusOr<Experiment> experiment = FakeExperiment(FakeSpecWith(from, to));
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  return MissingForClaims(*experiment);
}

TEST(MissingForClaims, IsWhatTheFileLacks) {
  using Missing = std::vector<std::string>;
  EXPECT_EQ(MissingWith("Fake", "Fake"), Missing{});
  EXPECT_EQ(MissingWith("policies { spec: \"async\" }\n", ""),
            Missing{"async among the policies (rule 12)"});
  EXPECT_EQ(MissingWith("one_worker: true\n", ""), Missing{"one_worker: true (rule 12)"});
  EXPECT_EQ(MissingWith("tuning { learning_rates: [0.1, 0.2, 0.4] seed_count: 3 }\n", ""),
            Missing{"tuning with several candidates (rule 12)"});
  EXPECT_EQ(MissingWith("seed_count: 7", "seed_count: 3"),
            Missing{"7 seeds for 2 claims, there are 3 (rule 13)"});
  EXPECT_EQ(MissingWith("stragglers { name: \"persistent\" model: \"slow:workers=1,factor=2\" }\n"
                        "workers: 4",
                        "stragglers { name: \"persistent\" model: \"slow:workers=1,factor=2\" }\n"
                        "workers: 4"),
            Missing{});
}

// All times of a run times `factor`.
void Stretch(double factor, RunOutcome* outcome) {
  for (CurvePoint& point : outcome->curve) point.time_s *= factor;
  outcome->duration_s *= factor;
  outcome->compute_s *= factor;
}

TEST(Claims, CarryTheirRatioIntervalAndChance) {
  const auto judged = Judged(FakeSpecText(), kAsTheyAre);
  ASSERT_EQ(judged.size(), 2u);
  EXPECT_EQ(judged[0].verdict, Verdict::kSupported);
  EXPECT_THAT(judged[0].evidence,
              HasSubstr("ratio 2.000, 95% interval 2.000 to 2.000 over 7 pairs"));
  EXPECT_THAT(judged[0].evidence, HasSubstr("p 0.0156, corrected for 2 claims: 0.0312"));
  EXPECT_EQ(judged[1].verdict, Verdict::kSupported);
}

TEST(Claims, WhatTheRunsDoNotBearOutIsNotSupported) {
  EXPECT_EQ(Judged(FakeSpecWith("at_least: 1.5", "at_least: 3"), kAsTheyAre)[0].verdict,
            Verdict::kUnsupported);
}

TEST(Claims, UpdateRatesAreOfTheWholeRun) {
  const std::string claim =
      "claims { faster: \"ssp:s=2\" than: \"bsp\" under: \"transient\" of: rate ";
  const JudgedClaim judged = JudgedLast(claim + "at_least: 1.9 }");
  EXPECT_EQ(judged.verdict, Verdict::kSupported);
  EXPECT_THAT(judged.text, HasSubstr("has at least 1.9x the update rate of bsp"));
  EXPECT_THAT(judged.evidence, HasSubstr("ratio 2.000"));
  EXPECT_EQ(JudgedLast(claim + "at_least: 2.1 }").verdict, Verdict::kUnsupported);
  EXPECT_EQ(JudgedLast(claim + "at_most: 1.9 }").verdict, Verdict::kUnsupported);
}

// 90 clocks of 10 ms on 4 workers, one of them half as fast: 0.9 s * 4 / 3.5 at best. A run takes
// 10 to 10.4 s.
TEST(Claims, AShareOfTheIdealRate) {
  const std::string claim =
      "claims { faster: \"bsp\" under: \"persistent\" of: ideal_rate at_least: ";
  const JudgedClaim judged = JudgedLast(claim + "0.09 }");
  EXPECT_EQ(judged.verdict, Verdict::kSupported);
  EXPECT_THAT(judged.text, HasSubstr("bsp has at least 0.09 of the ideal update rate"));
  EXPECT_THAT(judged.evidence, HasSubstr("ratio 0.10"));
  EXPECT_EQ(JudgedLast(claim + "0.11 }").verdict, Verdict::kUnsupported);
}

TEST(Claims, ADifferenceOfAccuracyIsMarkedWhoeverHasTheLess) {
  for (const char* policy : {"ssp:s=2", "bsp"}) {
    const auto judged = Judged(FakeSpecText(), [&](const RunPlan& plan, RunOutcome* outcome) {
      if (plan.config.policy() == policy) outcome->test_accuracy = 0.9;
    });
    ASSERT_FALSE(judged[0].reasons.empty());
    EXPECT_EQ(judged[0].reasons[0].rule, 1);
    EXPECT_THAT(judged[0].reasons[0].why, HasSubstr("5.00 points"));
  }
}

// Eight of nine pairs are ahead by a hair, one is far behind: the interval leaves that one out, the
// sum of the logarithms does not.
TEST(Claims, AnIntervalAloneDoesNotSupport) {
  const std::string text = FakeSpecWith("seed_count: 7", "seed_count: 9");
  const Experiment experiment = *FakeExperiment(text);
  const auto judged = Judged(text, [&](const RunPlan& plan, RunOutcome* outcome) {
    if (plan.config.policy() != "ssp:s=2" || plan.cell.straggler != 1) return;
    const bool odd = plan.config.training().seed() == experiment.seeds[0];
    Stretch(2 / 1.51 * (odd ? 4 : 1), outcome);
  });
  EXPECT_THAT(judged[0].evidence, HasSubstr("95% interval 1.510 to 1.510"));
  EXPECT_EQ(judged[0].p, 1);
  EXPECT_EQ(judged[0].verdict, Verdict::kUnsupported);
}

// Four claims, one of them withheld: it counts among those that p is corrected for.
TEST(Claims, ThePOfAClaimIsCorrectedForAllThatAreStated) {
  const std::string claim =
      "claims { faster: \"easgd:tau=4\" than: \"bsp\" under: \"transient\" }\n";
  const std::string rate =
      "claims { faster: \"ssp:s=2\" than: \"bsp\" under: \"transient\" of: rate }\n";
  const auto judged =
      Judged(FakeSpecWith("seed_count: 7", "seed_count: 8") + claim + rate,
             [](const RunPlan&, RunOutcome* outcome) { outcome->replicas.reset(); });
  EXPECT_EQ(judged[2].verdict, Verdict::kWithheld);
  EXPECT_EQ(judged[0].p, 1.0 / 128);
  EXPECT_EQ(judged[0].corrected_p, 4.0 / 128);
  EXPECT_EQ(judged[0].verdict, Verdict::kSupported);
  EXPECT_THAT(judged[0].evidence, HasSubstr("corrected for 4 claims"));
}

TEST(RatioText, WhatIsNotKnownIsNotZero) {
  const std::vector<Cost> reached(7, {true, 2}), missed(7, {false, 6});
  EXPECT_EQ(TextOf(PairedRatio(reached, reached), 2).ratio, "1.00");
  EXPECT_EQ(TextOf(PairedRatio(reached, missed), 2).ratio, "above 3.00");
  EXPECT_EQ(TextOf(PairedRatio(reached, missed), 2).range, "3.00 to unbounded");
  EXPECT_EQ(TextOf(PairedRatio(missed, reached), 2).ratio, "below 0.33");
  EXPECT_EQ(TextOf(PairedRatio(missed, missed), 2).ratio, "not known");
  EXPECT_THAT(TextOf(PairedRatio(missed, missed), 2).range, Not(HasSubstr("0.00")));
}

}  // namespace
}  // namespace soapstone::experiment
