#include "apps/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace soapstone::apps {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

ResultReport SomeResult() {
  return {.reason = "done",
          .job = "lenet5",
          .guarantee = "read lag at most 2",
          .test_samples = 360,
          .test_accuracy = 0.975,
          .confusion = {{180, 3}, {6, 171}},
          .class_names = {"cat", "dog"},
          .balanced_accuracy = 0.9752,
          .seconds = 2,
          .samples = 1'234'567,
          .samples_per_s = 617'283,
          .losses = {{500'000, 2.5}, {1'000'000, 1.5}, {1'234'567, 0.5}},
          .read_lags = {90, 0, 10},
          .times = {{.worker = 0, .compute = 1, .policy = 0.25, .shard = 0.125, .network = 0.125},
                    {.worker = 1, .compute = 2}},
          .sha256 = "abc",
          .best = {.clock = 60, .samples = 359, .accuracy = 0.9, .loss = 0.3, .path = "ckpt/best"},
          .stopped_early = true};
}

Histogram HistogramOf(const std::vector<uint64_t>& values) {
  Histogram histogram;
  for (const uint64_t value : values) histogram.Add(value);
  return histogram;
}

TEST(Report, EveryKindSurvivesJson) {
  const std::vector<Report> reports = {
      Listening{"tcp://127.0.0.1:1", "127.0.0.1:2"}, News{"worker 1 lost: \"x\""},
      ProgressReport{.epoch = 2, .epochs = 3, .loss = 0.25, .lag_max = 2, .eta_s = -1},
      SomeResult(),
      NodeReport{
          .name = "server-0",
          .answers = 9,
          .ledger = {{.worker = 1,
                      .shard = 2,
                      .read_lags = HistogramOf({0, 0, 3}),
                      .stalenesses = HistogramOf({1, 20, 70'000}),
                      .violations = 1}},
          .violations = {
              {{.kind = "older", .worker = 1, .clock = 3, .times = 2, .first = "a read \"x\""},
               "peer 2"}}}};
  for (const Report& report : reports) {
    const std::string line = ToJson(report);
    EXPECT_THAT(line, Not(HasSubstr("\n")));
    const auto back = FromJson(line);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, report) << line;
  }
}

TEST(Report, OtherLinesAreErrors) {
  for (const char* line : {"", "{", "[]", "{\"event\":3}", "{\"event\":\"nap\"}",
                           "{\"event\":\"news\"}", "{\"event\":\"progress\",\"epoch\":\"x\"}"}) {
    EXPECT_FALSE(FromJson(line).ok()) << line;
  }
}

TEST(Report, ANumberThatIsNoneOfItsFieldIsAnError) {
  const std::string line = ToJson(ProgressReport{.epoch = 7});
  const std::string epoch = "\"epoch\":7,";
  ASSERT_NE(line.find(epoch), std::string::npos) << line;
  for (const char* number : {"1e300", "7.5", "99999999999999999999"}) {
    std::string odd = line;
    odd.replace(odd.find(epoch), epoch.size(), absl::StrCat("\"epoch\":", number, ","));
    EXPECT_FALSE(FromJson(odd).ok()) << number;
  }
}

TEST(Report, InvalidTextDoesNotBreakTheLine) {
  EXPECT_TRUE(FromJson(ToJson(News{"bad \xff\xfe bytes\n"})).ok());
}

TEST(Report, ProgressLine) {
  const ProgressReport progress{.epoch = 3,
                                .epochs = 10,
                                .samples_per_s = 5120.4,
                                .loss = 0.213,
                                .lag_max = 2,
                                .lag_mean = 0.84,
                                .eta_s = 72,
                                .workers = 3};
  EXPECT_EQ(ToLine(progress),
            "epoch 3/10  samples/s 5,120  loss 0.2130  lag 0.8 (max 2)  workers 3  ETA 1:12");
}

TEST(Report, TableSaysWhatCounts) {
  const LedgerRow row = {.read_lags = HistogramOf({0, 1}),
                         .stalenesses = HistogramOf({0, 9, 15, 40})};
  const ViolationRow violation = {{.kind = "older", .times = 3, .first = "shard 1: a read"},
                                  "shard 1"};
  const ViolationRow other = {{.kind = "steps", .times = 4, .first = "peer 2: steps"}, "peer 2"};
  const std::string table =
      ToTable(SomeResult(), {{.name = "server-0",
                              .malformed = 2,
                              .strangers = 5,
                              .ledger = {row, row},
                              .violations = {violation}},
                             {.name = "worker-2", .answers = 8, .violations = {other}}});
  EXPECT_THAT(table, HasSubstr("0.9750"));
  EXPECT_THAT(table, HasSubstr("balanced accuracy      0.9752"));
  EXPECT_THAT(table, HasSubstr("    0 cat 180   3\n    1 dog   6 171\n"));
  EXPECT_THAT(table, EndsWith("  training loss by time  #=_  2.5000 to 0.5000\n"));
  EXPECT_THAT(table, HasSubstr("1,234,567"));
  EXPECT_THAT(table, HasSubstr("0: 90.0%  2: 10.0%"));
  EXPECT_THAT(table, HasSubstr("0.50 s of 4.00 worker seconds (12.5%)"));
  EXPECT_THAT(table, HasSubstr("worker 0       ############===ss-......  compute 50.0%  policy "
                               "12.5%  shard 6.2%  network 6.2%  other 25.0%\n"));
  EXPECT_THAT(table, HasSubstr("worker 1       ########################  compute 100.0%\n"));
  EXPECT_THAT(table, HasSubstr("read lag at most 2; broken 7 times in 4 reads, 8 answers\n"));
  EXPECT_THAT(table, HasSubstr("3 times, found by shard 1 (older): shard 1: a read\n"));
  EXPECT_THAT(table, HasSubstr("4 times, found by peer 2 (steps): peer 2: steps\n"));
  EXPECT_THAT(table, HasSubstr("0: 25.0%  8-15: 50.0%  32-63: 25.0%"));
  EXPECT_THAT(table, HasSubstr("2 malformed"));
  EXPECT_THAT(table, HasSubstr("5 connections of strangers"));
}

TEST(Report, LanguageModelsHaveTheirPerplexity) {
  ProgressReport progress{.loss = 2, .perplexity = std::exp(2)};
  EXPECT_THAT(ToLine(progress), HasSubstr("loss 2.0000  perplexity 7.389  lag"));
  progress.perplexity = 0;
  EXPECT_THAT(ToLine(progress), Not(HasSubstr("perplexity")));
  ResultReport result = SomeResult();
  EXPECT_THAT(ToTable(result, {}), Not(HasSubstr("perplexity")));
  result.test_perplexity = 9.25;
  result.train_perplexity = std::numeric_limits<double>::infinity();
  const std::string table = ToTable(result, {});
  EXPECT_THAT(table, HasSubstr("(loss 0.0000 (perplexity 9.25), 360 held-out samples)"));
  EXPECT_THAT(table, HasSubstr("training loss          0.0000 (perplexity above 1e308)"));
  // As JSON has it: null.
  progress.perplexity = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(ToLine(progress), HasSubstr("perplexity above 1e308  lag"));
}

TEST(Report, TheConfusionOfManyClassesIsInAFile) {
  ResultReport result = SomeResult();
  result.confusion.assign(21, std::vector<uint32_t>(21));
  EXPECT_THAT(ToTable(result, {}), Not(HasSubstr("confusion")));
  EXPECT_THAT(ToTable(result, {}, {.confusion_path = "logs/confusion.csv"}),
              HasSubstr("confusion              logs/confusion.csv\n"));
  result.confusion.clear();
  EXPECT_THAT(ToTable(result, {}), Not(HasSubstr("balanced")));
}

TEST(Report, TheLossIsDrawnAsItsConsoleCan) {
  ResultReport result = SomeResult();
  EXPECT_THAT(ToTable(result, {}, {.losses_path = "logs/loss.csv", .utf8 = true}),
              EndsWith("training loss by time  █▅▁  2.5000 to 0.5000, logs/loss.csv\n"));
  result.losses[1].loss = 6.5e30;
  EXPECT_THAT(ToTable(result, {}), EndsWith("2.5000 to 0.5000, 6.5e+30 on the way: a smaller "
                                            "learning rate may do better\n"));
  result.losses.resize(1);
  EXPECT_THAT(ToTable(result, {}), Not(HasSubstr("by time")));
}

TEST(Report, TableReconcilesBytesWithTheKernel) {
  const NodeReport node = {
      .sent = {.push = 60'000, .pull = 30'000, .header = 9'000, .framing = 1'000},
      .sockets = {
          .connections = 4, .given_bytes = 100'000, .taken_bytes = 99'500, .resent_bytes = 7}};
  const std::string table = ToTable(SomeResult(), {node, {}});
  EXPECT_THAT(table, HasSubstr("100.0 kB: push 60.00%  pull 30.00%  header 9.00%  framing 1.00%"));
  EXPECT_THAT(table, HasSubstr("99.5 kB at 4 ends of connections, where we count 100.0 kB "
                               "(-0.500%); 7 B sent again"));
}

TEST(Report, ManyWorkersShareOneRowOfTimes) {
  ResultReport result = SomeResult();
  result.times.assign(100, {.compute = 1});
  const std::string table = ToTable(result, {});
  EXPECT_THAT(table, HasSubstr("time of all workers    ############............  compute 50.0%"));
  EXPECT_THAT(table, Not(HasSubstr("worker 1")));
}

TEST(Report, TableHasTheBestCheckpoint) {
  ResultReport result;
  result.best = {.clock = 60, .samples = 1359, .accuracy = 0.9, .loss = 0.3, .path = "ckpt/best"};
  EXPECT_THAT(ToTable(result, {}),
              HasSubstr("  best checkpoint        clock 60, accuracy 0.9000  (ckpt/best, 1,359 "
                        "held-out samples)\n"));
  result.best.by_loss = true;
  result.stopped_early = true;
  EXPECT_THAT(ToTable(result, {}), HasSubstr("  stopped early, best    clock 60, loss 0.3000  ("));
}

TEST(Report, TableLeavesOutWhatThereIsNot) {
  EXPECT_THAT(ToTable(ResultReport{}, {}), Not(HasSubstr("test accuracy")));
}

TEST(Report, Commas) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(12'345'678), "12,345,678");
}

TEST(ReportJson, NumbersThatAreNotFiniteComeBackAsNan) {
  ResultReport result = SomeResult();
  result.test_loss = std::nan("");
  result.train_loss = std::numeric_limits<double>::infinity();
  const absl::StatusOr<Report> read = FromJson(ToJson(result));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(std::isnan(std::get<ResultReport>(*read).test_loss));
  EXPECT_TRUE(std::isnan(std::get<ResultReport>(*read).train_loss));
  ProgressReport progress;
  progress.loss = std::nan("");
  ASSERT_TRUE(FromJson(ToJson(progress)).ok());
}

TEST(ReportTable, WhatWasLeftOutIsNamed) {
  ResultReport result = SomeResult();
  EXPECT_THAT(ToTable(result, {}), Not(HasSubstr("left out")));
  result.left_out = {{1, "conv1.weight", 2, 40}, {2, "fc1.bias", 1, 7}};
  EXPECT_THAT(ToTable(result, {}),
              HasSubstr("3 updates that were not finite: 2 of worker 1 by conv1.weight from clock "
                        "40, 1 of worker 2 by fc1.bias at clock 7"));
  EXPECT_EQ(std::get<ResultReport>(*FromJson(ToJson(result))).left_out, result.left_out);
}

}  // namespace
}  // namespace soapstone::apps
