#include "experiment/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiment/fake_experiment.h"

namespace soapstone::experiment {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class ReportTest : public ::testing::Test {
 protected:
  void Use(const std::string& text) {
    experiment_ = *FakeExperiment(text);
    outcomes_ = FakeRuns(experiment_);
    results_ = Summarize(experiment_, outcomes_, {});
  }
  ReportTest() { Use(FakeSpecText()); }
  Json Data() const { return Json::parse(ReportData(results_)); }

  Experiment experiment_;
  Outcomes outcomes_;
  Results results_;
};

TEST_F(ReportTest, PageIsWholeAndLoadsNothing) {
  const std::string page = ReportPage(results_);
  EXPECT_THAT(page, HasSubstr("<title>Fake</title>"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(page, HasSubstr("var uPlot="));
  for (const char* loading : {" src=", "<link rel=\"stylesheet\"", "@import", "fetch("}) {
    EXPECT_THAT(page, Not(HasSubstr(loading)));
  }
}

TEST_F(ReportTest, WhatTheFileSaysCannotBecomeMarkup) {
  Use(FakeSpecWith("title: \"Fake\"", "title: \"</script><b>{{page.js}}\""));
  const std::string page = ReportPage(results_);
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(page, HasSubstr("<title>&lt;/script&gt;&lt;b&gt;{{page.js}}</title>"));
}

TEST_F(ReportTest, CurvesHaveEveryPolicyToItsEnd) {
  const Json data = Data();
  for (const Json& condition : data["tables"][0]["conditions"]) {
    for (const char* measure : {"time", "bytes"}) {
      const Json& curves = condition["curves"][measure];
      EXPECT_EQ(curves["series"].size(), 4u);
      for (const Json& series : curves["series"]) {
        EXPECT_EQ(series["median"].size(), curves["at"].size());
        const auto known = std::count_if(series["median"].begin(), series["median"].end(),
                                         [](const Json& v) { return !v.is_null(); });
        EXPECT_GT(known, 50);
      }
    }
  }
}

TEST_F(ReportTest, RowsHaveMediansIntervalsAndRatios) {
  const Json row = Data()["tables"][0]["conditions"][1]["rows"][1];  // ssp under stalls
  EXPECT_EQ(row["reached"], 7);
  EXPECT_EQ(row["ratio"]["text"], "2.00");
  EXPECT_EQ(row["ratio"]["verdict"], "claim 1: supported");
  EXPECT_LT(row["time_s"]["low"], row["time_s"]["high"]);
  double share = 0;
  for (const Json& bar : row["lags"]) share += bar["share"].get<double>();
  EXPECT_NEAR(share, 1, 1e-9);
}

TEST_F(ReportTest, ARowThatNoClaimNamesHasNoVerdict) {
  const Json rows = Data()["tables"][0]["conditions"][1]["rows"];
  EXPECT_EQ(rows[2]["ratio"]["text"], "2.00");  // async
  EXPECT_FALSE(rows[2]["ratio"].contains("verdict"));
}

TEST_F(ReportTest, WhatTheRunsWereMadeWithIsSaidByThem) {
  for (auto& [id, outcome] : outcomes_) {
    outcome.provenance.precision = "bf16";
    outcome.provenance.communication = "priority";
  }
  results_ = Summarize(experiment_, outcomes_, {});
  const Json data = Data();
  EXPECT_EQ(data["tables"][0]["arithmetic"], "bf16, sent priority, codec none");
  EXPECT_THAT(std::string(data["rules"][6]["why"]), HasSubstr("factors of products are bf16"));
  EXPECT_THAT(std::string(data["rules"][17]["why"]), HasSubstr("order of sending: priority"));
  EXPECT_THAT(ReportPage(results_), Not(HasSubstr("float32")));
}

TEST_F(ReportTest, ARatioOfTwoThatDidNotReachTheTargetIsNotKnown) {
  for (auto& [id, outcome] : outcomes_) {
    for (CurvePoint& point : outcome.curve) point.test_accuracy /= 2;
  }
  results_ = Summarize(experiment_, outcomes_, {});
  EXPECT_EQ(Data()["tables"][0]["conditions"][1]["rows"][1]["ratio"]["withheld"],
            Json::array({12}));
  EXPECT_THAT(ReportData(results_), Not(HasSubstr("0.00\"")));
}

TEST_F(ReportTest, SixSeedsHaveIntervalsAndFewerHaveRanges) {
  EXPECT_EQ(Data()["interval"], "95% intervals");
  EXPECT_EQ(Data()["seeds_drawn"], true);
  Use(FakeSpecWith("seed_count: 7", "seeds: [1, 2, 3]"));
  EXPECT_EQ(Data()["interval"], "ranges");
  EXPECT_EQ(Data()["seeds_drawn"], false);
}

TEST_F(ReportTest, OneSeedHasNoRatiosAndSaysWhy) {
  Use(FakeSpecWith("seed_count: 7", "seeds: 1"));
  const Json data = Data();
  const Json row = data["tables"][0]["conditions"][1]["rows"][1];
  EXPECT_EQ(row["ratio"]["withheld"], Json::array({13}));
  EXPECT_FALSE(row["ratio"].contains("text"));
  EXPECT_TRUE(row["time_s"]["low"].is_null());
  EXPECT_EQ(data["claims"][0]["verdict"], "not printed");
  EXPECT_EQ(data["claims"][0]["evidence"], "");
  EXPECT_EQ(data["claims"][0]["reasons"][0]["rule"], 13);
}

TEST_F(ReportTest, RunsThatDoNotReachTheTargetAreCounted) {
  Use(FakeSpecWith("seed_count: 7", "seeds: [1, 2, 3, 4, 5]"));
  for (auto& [id, outcome] : outcomes_) {
    if (outcome.duration_s > 10.2) {  // bsp and persistent, of two seeds; transient bsp
      for (CurvePoint& point : outcome.curve) point.test_accuracy /= 2;
    }
  }
  results_ = Summarize(experiment_, outcomes_, {});
  const Json row = Data()["tables"][0]["conditions"][0]["rows"][0];
  EXPECT_EQ(row["finished"], 5);
  EXPECT_EQ(row["reached"], 3);
  EXPECT_FALSE(row["time_s"]["median"].is_null());
  EXPECT_TRUE(row["time_s"]["high"].is_null());  // unbounded
}

TEST_F(ReportTest, ScalingIsShownWithSeveralWorkers) {
  EXPECT_TRUE(Data()["scaling"].empty());
  Use(FakeSpecWith("workers: 4", "workers: [4, 8] scaling: strong"));
  const Json scaling = Data()["scaling"];
  ASSERT_EQ(scaling.size(), 3u);
  EXPECT_EQ(scaling[0]["series"][0]["time_s"].size(), 2u);
}

TEST_F(ReportTest, CsvHasALineARunWithAsManyFieldsAsItsHeading) {
  const std::string csv = RunsCsv(results_);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<long>(1 + results_.total));
  EXPECT_THAT(csv, HasSubstr(",\"easgd:tau=4,beta=0.9,mode=async\","));
}

TEST_F(ReportTest, JsonHasEveryRun) {
  const Json runs = Json::parse(RunsJson(results_));
  EXPECT_EQ(runs["experiment"], experiment_.digest);
  EXPECT_EQ(runs["runs"].size(), results_.total);
}

}  // namespace
}  // namespace soapstone::experiment
