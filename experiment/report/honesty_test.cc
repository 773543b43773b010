#include "experiment/report/honesty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "experiment/fake_experiment.h"
#include "experiment/report/claims.h"

namespace soapstone::experiment {
namespace {

using ::testing::HasSubstr;
using Rules = std::set<int>;
using Change = std::function<void(const RunPlan&, RunOutcome*)>;

Rules RulesWith(const std::vector<Finding>& findings, Standing standing) {
  Rules rules;
  for (const Finding& finding : findings) {
    if (finding.standing == standing) rules.insert(finding.rule);
  }
  return rules;
}

struct Judgement {
  Rules failing, marked;  // of all runs
  JudgedClaim first;
};

// Of `text` with measured runs that `change` altered.
Judgement JudgementOf(const std::string& text, const Change& change = nullptr,
                      const RegistryFacts& registry = {}) {
  const absl::StatusOr<Experiment> experiment = FakeExperiment(text);
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  const Outcomes outcomes = FakeRuns(*experiment, [&](const RunPlan& plan, RunOutcome* outcome) {
    if (!plan.tuning && change) change(plan, outcome);
  });
  const Results results = Summarize(*experiment, outcomes, registry);
  const std::vector<Finding> findings = CheckRules(results, {});
  const JudgedClaim first = JudgeClaims(results)[0];
  EXPECT_EQ(first.verdict == Verdict::kWithheld, first.evidence.empty());
  return {RulesWith(findings, Standing::kFails), RulesWith(findings, Standing::kMarked), first};
}

Rules FailingRuns(const Change& change) { return JudgementOf(FakeSpecText(), change).failing; }

TEST(Honesty, AnHonestExperimentHasItsClaimsPrinted) {
  const Judgement judgement = JudgementOf(FakeSpecText());
  EXPECT_EQ(judgement.failing, Rules{});
  EXPECT_EQ(judgement.marked, (Rules{6, 16}));
  EXPECT_EQ(judgement.first.verdict, Verdict::kSupported);
}

// For each rule an experiment that it alone refuses: with other text, or with runs altered.
struct Mutant {
  int rule;
  const char* what;
  std::string text;
  Change change;
  bool whole_chain = true;
};

std::vector<Mutant> Mutants() {
  const std::string as_is = FakeSpecText();
  return {
      {1, "a run without accuracy", as_is,
       [](const RunPlan& plan, RunOutcome* o) {
         if (Is(plan, "ssp:s=2") && plan.cell.straggler == 0) o->test_accuracy = std::nan("");
       }},
      {2, "the training data as held-out data", as_is,
       [](const RunPlan&, RunOutcome* o) {
         o->provenance.test_sha256 = o->provenance.train_sha256;
       }},
      {3, "a run left out of the registry", as_is, nullptr, false},
      {4, "the baseline on an older machine", as_is,
       [](const RunPlan& plan, RunOutcome* o) {
         if (Is(plan, "bsp")) o->provenance.hardware = "an older one";
       }},
      {5, "times that are not end to end", as_is,
       [](const RunPlan& plan, RunOutcome* o) {
         o->compute_s = 2 * o->duration_s * plan.cell.workers;
       }},
      {6, "images changed while virtual time stands",
       FakeSpecWith("format: \"digits\"", "format: \"digits\" augment: \"crop:pad=1\""), nullptr},
      {7, "no target", FakeSpecWith("target_accuracy: 0.8\n", ""), nullptr},
      {8, "other data for one policy", as_is,
       [](const RunPlan& plan, RunOutcome* o) {
         if (Is(plan, "bsp")) o->provenance.train_sha256 = "x";
       }},
      {9, "a part of a public data set", as_is,
       [](const RunPlan&, RunOutcome* o) { o->provenance.train_samples = 1400; }},
      {10, "fewer samples for one policy", as_is,
       [](const RunPlan& plan, RunOutcome* o) {
         if (Is(plan, "ssp:s=2")) o->samples = 900;
       }},
      {11, "several numbers of workers, and no word on scaling",
       FakeSpecWith("workers: 4", "workers: [4, 8]"), nullptr},
      {12, "no one-worker baseline", FakeSpecWith("one_worker: true", "one_worker: false"),
       nullptr},
      {13, "five seeds", FakeSpecWith("seed_count: 7", "seed_count: 5"), nullptr},
      {14, "a grid of its own for the baseline",
       FakeSpecWith("{ spec: \"bsp\" }",
                    "{ spec: \"bsp\" tuning { learning_rates: [0.1, 0.2, 0.3] } }"),
       nullptr},
      {15, "a broken guarantee", as_is, [](const RunPlan&, RunOutcome* o) { o->violations = 1; }},
      {16, "no bytes", as_is, [](const RunPlan&, RunOutcome* o) { o->bytes = 0; }},
      {17, "a straggler of factor 1.0001",
       FakeSpecWith("workers=1,factor=2", "workers=1,factor=1.0001"), nullptr},
      {18, "no breakdown of time", as_is, [](const RunPlan&, RunOutcome* o) { o->compute_s = 0; }},
      {19, "averaging without its replicas",
       FakeSpecWith("faster: \"ssp:s=2\" than: \"bsp\" under: \"transient\"",
                    "faster: \"easgd:tau=4\" than: \"bsp\" under: \"transient\""),
       [](const RunPlan&, RunOutcome* o) { o->replicas.reset(); }},
      {20, "time that ends before the run", as_is,
       [](const RunPlan&, RunOutcome* o) { o->curve.back().time_s *= 1.2; }},
  };
}

TEST(Honesty, EveryRuleHasAMutantThatItAloneRefuses) {
  Rules seen;
  for (const Mutant& mutant : Mutants()) {
    SCOPED_TRACE(mutant.what);
    seen.insert(mutant.rule);
    const absl::StatusOr<Experiment> parsed = FakeExperiment(mutant.text);
    if (!parsed.ok()) {
      EXPECT_THAT(std::string(parsed.status().message()),
                  HasSubstr(absl::StrCat("(rule ", mutant.rule, ")")));
      continue;
    }
    const Judgement judgement =
        JudgementOf(mutant.text, mutant.change, {.chain_verified = mutant.whole_chain});
    EXPECT_EQ(judgement.failing, Rules{mutant.rule});
    EXPECT_EQ(judgement.first.verdict, Verdict::kWithheld);
    ASSERT_EQ(judgement.first.reasons.size(), 1u);
    EXPECT_EQ(judgement.first.reasons[0].rule, mutant.rule);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kRules));
}

TEST(Honesty, HeldOutSamplesThatAreTrainedOn) {
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* o) { o->provenance.test_in_train = 10; }),
            Rules{2});
}

TEST(Honesty, NoTestAccuracy) {
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* o) { o->provenance.test_samples = 0; }),
            (Rules{1, 2, 9}));
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

TEST(Honesty, FriendlyStragglers) {
  const std::string text = FakeSpecWith("slow:workers=1,factor=2", "stall:p=0.1,factor=2");
  EXPECT_EQ(JudgementOf(text).failing, Rules{17});
}

TEST(Honesty, AnotherBuild) {
  EXPECT_EQ(FailingRuns([](const RunPlan& plan, RunOutcome* outcome) {
              if (Is(plan, "bsp")) outcome->provenance.build = "another";
            }),
            Rules{4});
}

TEST(Honesty, DataThatNobodyKnowsAreMarked) {
  const std::string csv = FakeSpecWith("format: \"digits\"", "format: \"csv\"");
  const Judgement judgement = JudgementOf(
      csv, [](const RunPlan&, RunOutcome* outcome) { outcome->provenance.train_samples = 1400; });
  EXPECT_EQ(judgement.failing, Rules{});
  EXPECT_TRUE(judgement.marked.contains(9));
}

TEST(Honesty, MissingBaselines) {
  EXPECT_EQ(JudgementOf(FakeSpecWith("policies { spec: \"async\" }\n", "")).failing, Rules{12});
}

TEST(Honesty, NothingTuned) {
  const std::string text =
      FakeSpecWith("tuning { learning_rates: [0.1, 0.2, 0.4] seed_count: 3 }", "");
  EXPECT_EQ(JudgementOf(text).failing, (Rules{12, 14}));
}

TEST(Honesty, ReplicasWithholdClaimsAboutAveragingPoliciesOnly) {
  EXPECT_EQ(JudgementOf(FakeSpecText(), [](const RunPlan&, RunOutcome* o) { o->replicas.reset(); })
                .first.verdict,
            Verdict::kSupported);
}

TEST(Honesty, PrecisionOrderAndCodecAreThoseOfTheRuns) {
  const Judgement judgement = JudgementOf(FakeSpecText(), [](const RunPlan& plan, RunOutcome* o) {
    if (Is(plan, "ssp:s=2")) o->provenance.precision = "bf16";
  });
  EXPECT_EQ(judgement.failing, Rules{});
  EXPECT_TRUE(judgement.marked.contains(8));
  ASSERT_FALSE(judgement.first.reasons.empty());
  bool said = false;
  for (const Finding& finding : judgement.first.reasons) {
    said = said || (finding.rule == 8 && finding.why.find("bf16, sent fifo") != std::string::npos);
  }
  EXPECT_TRUE(said);
  EXPECT_EQ(FailingRuns([](const RunPlan&, RunOutcome* o) { o->provenance.precision.clear(); }),
            Rules{7});
}

}  // namespace
}  // namespace soapstone::experiment
