#include "cluster/straggler.h"

#include <cmath>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::sim {
namespace {

using ::testing::HasSubstr;

constexpr int kDraws = 40'000;
constexpr uint32_t kWorkers = 8;

StragglerModel Model(std::string_view text, uint64_t seed = 1) {
  const auto model = StragglerModel::Parse(text, seed);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

std::vector<double> Draws(const StragglerModel& model) {
  std::vector<double> draws;
  draws.reserve(kDraws);
  for (int i = 0; i < kDraws; ++i) draws.push_back(model.Factor(WorkerId(i % kWorkers), i / 8));
  return draws;
}

double Mean(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

double Variance(const std::vector<double>& x) {
  const double mean = Mean(x);
  double sum = 0;
  for (const double value : x) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(x.size());
}

// The mean is within 4 standard errors of what it should be: by chance wrong once in 16,000 seeds.
// `correlation`: how many draws count as one.
void ExpectMean(const std::vector<double>& x, double mean, double variance,
                double correlation = 1) {
  const double error = std::sqrt(variance * correlation / static_cast<double>(x.size()));
  EXPECT_LT(std::abs(Mean(x) - mean) / error, 4) << Mean(x) << " instead of " << mean;
}

TEST(StragglerTest, NoneIsOne) { EXPECT_EQ(Model("none").Factor(WorkerId{3}, 7), 1.0); }

TEST(StragglerTest, JitterIsLognormalWithMeanOne) {
  const double sigma = 0.2;
  const std::vector<double> x = Draws(Model("jitter:sigma=0.2"));
  ExpectMean(x, 1, std::exp(sigma * sigma) - 1);
  std::vector<double> logs, squares;
  for (const double value : x) {
    logs.push_back(std::log(value));
    squares.push_back(std::pow(logs.back() + sigma * sigma / 2, 2));
  }
  ExpectMean(logs, -sigma * sigma / 2, sigma * sigma);
  ExpectMean(squares, sigma * sigma, 2 * std::pow(sigma, 4));
}

TEST(StragglerTest, ExponentialHasItsMeanVarianceAndTail) {
  const std::vector<double> x = Draws(Model("exponential:rate=2"));
  ExpectMean(x, 1 + 0.5, 0.25);
  EXPECT_NEAR(Variance(x), 0.25, 4 * 0.25 * std::sqrt(8.0 / kDraws));  // var s^2 = 8 sigma^4 / n
  std::vector<double> beyond;
  beyond.reserve(x.size());
  for (const double value : x) beyond.push_back(value > 2 ? 1 : 0);
  const double p = std::exp(-2.0);
  ExpectMean(beyond, p, p * (1 - p));
}

TEST(StragglerTest, ParetoHasItsMeanAndTail) {
  const double alpha = 5, scale = 2;
  const std::vector<double> x = Draws(Model("pareto:alpha=5,scale=2"));
  ExpectMean(x, 1 + scale / (alpha - 1),
             scale * scale * alpha / ((alpha - 1) * (alpha - 1) * (alpha - 2)));
  std::vector<double> beyond;
  beyond.reserve(x.size());
  for (const double value : x) beyond.push_back(value > 2 ? 1 : 0);
  const double p = std::pow(1 + 1 / scale, -alpha);
  ExpectMean(beyond, p, p * (1 - p));
}

TEST(StragglerTest, StallHitsWithItsProbability) {
  ExpectMean(Draws(Model("stall:p=0.02,factor=6")), 1 + 0.02 * 5, 0.02 * 0.98 * 25);
}

TEST(StragglerTest, AStallLastsForItsDuration) {
  const StragglerModel one = Model("stall:p=0.02,factor=6");
  const StragglerModel five = Model("stall:p=0.02,factor=6,duration=5");
  const double p = 1 - std::pow(0.98, 5);
  ExpectMean(Draws(five), 1 + 5 * p, 25 * p * (1 - p), /*correlation=*/5);
  for (Clock c = 0; c < 2000; ++c) {
    bool hit = false;
    for (Clock d = std::max<Clock>(0, c - 4); d <= c; ++d) hit |= one.Factor(WorkerId{2}, d) > 1;
    ASSERT_EQ(five.Factor(WorkerId{2}, c), hit ? 6 : 1) << c;
  }
}

TEST(StragglerTest, PeriodicComesEveryKthClockAndAnotherForEachWorker) {
  const StragglerModel model = Model("periodic:every=4,factor=3");
  std::string pattern;
  for (uint32_t w = 0; w < 3; ++w) {
    for (Clock c = 0; c < 8; ++c) pattern += model.Factor(WorkerId{w}, c) == 3 ? '#' : '.';
    pattern += ' ';
  }
  EXPECT_EQ(pattern, "...#...# ..#...#. .#...#.. ");
}

TEST(StragglerTest, SlowIsPersistentForTheFirstWorkers) {
  const StragglerModel model = Model("slow:workers=2,factor=3");
  for (Clock c = 0; c < 10; ++c) {
    EXPECT_EQ(model.Factor(WorkerId{0}, c), 3);
    EXPECT_EQ(model.Factor(WorkerId{1}, c), 3);
    EXPECT_EQ(model.Factor(WorkerId{2}, c), 1);
  }
}

TEST(StragglerTest, RotatingHasOneSlowWorkerThatMoves) {
  const StragglerModel model = Model("rotating:workers=3,every=2,factor=5");
  std::string slow;
  for (Clock c = 0; c < 8; ++c) {
    for (uint32_t w = 0; w < 3; ++w) {
      if (model.Factor(WorkerId{w}, c) == 5) slow += std::to_string(w);
    }
  }
  EXPECT_EQ(slow, "00112200");
}

TEST(StragglerTest, BurstsFollowTheirMarkovChain) {
  const double enter = 0.02, leave = 0.1;
  const StragglerModel model = Model("bursts:enter=0.02,leave=0.1,factor=3,group=1");
  const std::vector<double> x = Draws(model);
  const double on = enter / (enter + leave);
  // Correlations fall by 1 - enter - leave a clock: n draws are worth n (P + Q) / (2 - P - Q).
  ExpectMean(x, 1 + 2 * on, 4 * on * (1 - on), (2 - enter - leave) / (enter + leave));
  std::vector<double> turned_on, turned_off;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    for (Clock c = 1; c < 10'000; ++c) {
      const bool before = model.Factor(WorkerId{w}, c - 1) > 1;
      const bool now = model.Factor(WorkerId{w}, c) > 1;
      (before ? turned_off : turned_on).push_back(now != before ? 1 : 0);
    }
  }
  ExpectMean(turned_on, enter, enter * (1 - enter));
  ExpectMean(turned_off, leave, leave * (1 - leave));
}

TEST(StragglerTest, BurstsStartInTheirStationaryState) {
  std::vector<double> first;
  const StragglerModel model = Model("bursts:enter=0.01,leave=0.03,factor=2");
  for (uint32_t w = 0; w < 10'000; ++w) first.push_back(model.Factor(WorkerId{w}, 0));
  ExpectMean(first, 1.25, 0.25 * 0.75);
}

TEST(StragglerTest, AGroupHasItsBurstsTogetherAndGroupsHaveTheirOwn) {
  const StragglerModel model = Model("bursts:enter=0.1,leave=0.1,factor=2,group=4");
  int apart = 0;
  for (Clock c = 0; c < 500; ++c) {
    for (uint32_t w = 1; w < 4; ++w) {
      ASSERT_EQ(model.Factor(WorkerId{w}, c), model.Factor(WorkerId{0}, c));
    }
    apart += model.Factor(WorkerId{4}, c) != model.Factor(WorkerId{0}, c) ? 1 : 0;
  }
  EXPECT_GT(apart, 150);
}

TEST(StragglerTest, JoinedModelsMultiply) {
  const StragglerModel jitter = Model("jitter:sigma=0.3");
  const StragglerModel both = Model("jitter:sigma=0.3+slow:workers=1,factor=2");
  EXPECT_EQ(both.Factor(WorkerId{0}, 5), 2 * jitter.Factor(WorkerId{0}, 5));
  EXPECT_EQ(both.Factor(WorkerId{1}, 5), jitter.Factor(WorkerId{1}, 5));
}

TEST(StragglerTest, ADrawDependsOnSeedWorkerAndClockAlone) {
  const StragglerModel model = Model("jitter:sigma=0.2");
  EXPECT_EQ(model.Factor(WorkerId{4}, 9), Model("jitter:sigma=0.2").Factor(WorkerId{4}, 9));
  EXPECT_NE(model.Factor(WorkerId{4}, 9), model.Factor(WorkerId{4}, 10));
  EXPECT_NE(model.Factor(WorkerId{4}, 9), model.Factor(WorkerId{5}, 9));
  EXPECT_NE(model.Factor(WorkerId{4}, 9), Model("jitter:sigma=0.2", 2).Factor(WorkerId{4}, 9));
}

// Paired experiments: whoever asks, in whatever order, meets the same delays.
TEST(StragglerTest, EveryModelIsTheSameInAnyOrderOfCalls) {
  for (const char* text :
       {"jitter:sigma=0.2", "exponential:rate=3", "pareto:alpha=2,scale=1",
        "stall:p=0.05,factor=6,duration=7", "periodic:every=9,factor=2", "slow:factor=2",
        "rotating:workers=4,every=5,factor=2", "bursts:enter=0.05,leave=0.1,factor=2,group=2"}) {
    const StragglerModel forwards = Model(text), backwards = Model(text);
    std::vector<double> a, b;
    for (Clock c = 0; c < 200; ++c) {
      for (uint32_t w = 0; w < 4; ++w) a.push_back(forwards.Factor(WorkerId{w}, c));
    }
    for (Clock c = 199; c >= 0; --c) {
      for (uint32_t w = 4; w-- > 0;) b.push_back(backwards.Factor(WorkerId{w}, c));
    }
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.rbegin())) << text;
    EXPECT_GT(Variance(a), 0) << text;
    EXPECT_EQ(forwards.ToString(), Model(forwards.ToString()).ToString());
  }
}

TEST(StragglerTest, ErrorsSayWhatThereIs) {
  const auto error = [](std::string_view text) {
    return std::string(StragglerModel::Parse(text, 1).status().message());
  };
  EXPECT_THAT(error("slwo"), HasSubstr("there are none, jitter:sigma=S, exponential:rate=R, "));
  EXPECT_THAT(
      error("slwo"),
      HasSubstr(", failstop:p=P,down_ms=T, nan:worker=W,clock=C, and several joined by '+'"));
  EXPECT_THAT(error("jitter:s=1"), HasSubstr("it takes sigma"));
  EXPECT_THAT(error("stall:p=0.1"), HasSubstr("stall needs factor, as in stall:p=0.02,factor=6"));
  EXPECT_THAT(error("stall:p=2,factor=6"), HasSubstr("outside"));
  for (const char* factor : {"0", "1e-300", "1e-9"}) {  // time would not go on
    EXPECT_THAT(error(absl::StrCat("slow:factor=", factor)), HasSubstr("outside")) << factor;
  }
  EXPECT_THAT(error("stall:p=0.1,factor=6,duration=1000"), HasSubstr("outside [1, 100]"));
  EXPECT_THAT(error("exponential"), HasSubstr("exponential needs rate"));
  EXPECT_THAT(error("periodic:every=0,factor=2"), HasSubstr("outside"));
  EXPECT_THAT(error("bursts:enter=0.6,leave=0.6,factor=2"), HasSubstr("enter + leave = 1.2"));
  EXPECT_THAT(error("bursts:enter=0,leave=0,factor=2"), HasSubstr("enter + leave = 0"));
  EXPECT_THAT(error("trace"), HasSubstr("trace needs file"));
  EXPECT_THAT(error("trace:file=/nowhere.csv"), HasSubstr("/nowhere.csv: No such file"));
  EXPECT_FALSE(StragglerModel::Parse("", 1).ok());
}

// ---- Links and failures

TEST(LinkTest, TheSlowestCountsWhileItLasts) {
  const StragglerModel model = Model("link:workers=2,mbps=100,every=5,duration=2+link:mbps=300");
  EXPECT_TRUE(model.limits_links());
  for (Clock c = 0; c < 20; ++c) {
    const bool slow = c % 5 >= 3;
    EXPECT_EQ(model.LinkMbps(WorkerId{0}, c), slow ? 100 : 300) << c;
    EXPECT_EQ(model.LinkMbps(WorkerId{1}, c), slow ? 100 : 0) << c;
    EXPECT_EQ(model.LinkMbps(WorkerId{2}, c), 0) << c;
    EXPECT_EQ(model.Factor(WorkerId{0}, c), 1);
  }
  EXPECT_FALSE(Model("slow:factor=2").limits_links());
}

TEST(FailStopTest, ComesWithItsProbabilityAndAnewForASuccessor) {
  const StragglerModel model = Model("slow:factor=2+failstop:p=0.2,down_ms=30");
  EXPECT_TRUE(model.fails());
  EXPECT_EQ(model.down_ns(), 30 * kMillisecond);
  std::vector<double> first, both;
  for (int i = 0; i < kDraws; ++i) {
    const WorkerId worker{1 + static_cast<uint32_t>(i) % kWorkers};
    EXPECT_FALSE(model.Fails(WorkerId{0}, i, 1));
    const bool fails = model.Fails(worker, i, 1);
    EXPECT_EQ(model.Fails(worker, i, 1), fails);
    first.push_back(fails ? 1 : 0);
    both.push_back(fails && model.Fails(worker, i, 2) ? 1 : 0);
  }
  ExpectMean(first, 0.2, 0.2 * 0.8);
  ExpectMean(both, 0.04, 0.04 * 0.96);
  EXPECT_FALSE(Model("none").fails());
  EXPECT_EQ(Model("none").down_ns(), 0);
}

TEST(FailStopTest, ErrorsSayWhatToMend) {
  const auto error = [](std::string_view text) {
    return std::string(StragglerModel::Parse(text, 1).status().message());
  };
  EXPECT_THAT(error("failstop:p=0.1+failstop:p=0.2"), HasSubstr("failstop is given twice"));
  EXPECT_THAT(error("failstop"), HasSubstr("failstop needs p, as in failstop:p=0.001"));
  EXPECT_THAT(error("link:workers=2"), HasSubstr("link needs mbps"));
  EXPECT_THAT(error("link:mbps=5,duration=3"), HasSubstr("duration=3 is more than every=1"));
  EXPECT_THAT(error("link:mbps=5,every=3,duration=4"), HasSubstr("is more than every=3"));
}

// ---- Traces

class TraceTest : public ::testing::Test {
 protected:
  ~TraceTest() override { std::remove(path_.c_str()); }
  // The model of a trace with this text, or the error.
  absl::StatusOr<StragglerModel> With(const std::string& text, const std::string& more = "") {
    std::ofstream(path_) << text;
    return StragglerModel::Parse("trace:file=" + path_ + more, 1);
  }
  std::string Error(const std::string& text) { return std::string(With(text).status().message()); }

 private:
  const std::string path_ = ::testing::TempDir() + "straggler_test_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            ".csv";
};

TEST_F(TraceTest, FactorsAreUsedAsTheyStandAndBeginAgain) {
  const auto model = With("clock,worker,factor\n1,0,2\n0,0,1.5\n0,7,3\n");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->Factor(WorkerId{0}, 0), 1.5);
  EXPECT_EQ(model->Factor(WorkerId{0}, 1), 2);
  EXPECT_EQ(model->Factor(WorkerId{0}, 4), 1.5);
  EXPECT_EQ(model->Factor(WorkerId{1}, 9), 3);
  EXPECT_EQ(model->Factor(WorkerId{2}, 1), 2);
}

TEST_F(TraceTest, DurationsAreInUnitsOfTheirMedianOrOfTheBaseGiven) {
  const std::string text =
      "worker,clock,compute_us,injected_us,blocked_us\r\n0,0,90,10,5\r\n0,1,100,0,5\r\n"
      "worker,clock,compute_us,injected_us,blocked_us\r\n1,0,50,200,0\r\n";
  EXPECT_EQ(With(text)->Factor(WorkerId{1}, 0), 2.5);
  EXPECT_EQ(With(text)->Factor(WorkerId{0}, 0), 1);
  EXPECT_EQ(With(text, ",base_us=50")->Factor(WorkerId{0}, 1), 2);
}

TEST_F(TraceTest, ErrorsNameTheLine) {
  EXPECT_THAT(Error("worker,time\n0,1\n"),
              HasSubstr(".csv:1: the header needs the columns worker"));
  EXPECT_THAT(Error("worker,clock,factor\n0,0,1\n0,x,1\n"), HasSubstr(".csv:3: '0,x,1'"));
  EXPECT_THAT(Error("worker,clock,factor\n0,0,-1\n"), HasSubstr(".csv:2: "));
  EXPECT_THAT(Error("worker,clock,factor\n0,0\n"), HasSubstr(".csv:2: "));
  EXPECT_THAT(Error("worker,clock,factor\n"), HasSubstr("no rows"));
  EXPECT_THAT(Error("worker,clock,duration_us\n0,0,0\n"), HasSubstr("give base_us"));
  EXPECT_THAT(Error(""), HasSubstr(".csv:1: "));
}

TEST(StragglerModel, NanSpoilsOneGradientAndSlowsNobody) {
  const StragglerModel model = *StragglerModel::Parse("nan:worker=2,clock=7", 1);
  for (uint32_t w = 0; w < 4; ++w) {
    for (Clock c = 0; c < 10; ++c) {
      EXPECT_EQ(model.Spoils(WorkerId{w}, c), w == 2 && c == 7);
      EXPECT_EQ(model.Factor(WorkerId{w}, c), 1);
    }
  }
  EXPECT_FALSE(model.fails());
  EXPECT_FALSE(StragglerModel::Parse("nan:worker=2", 1).ok());
}

}  // namespace
}  // namespace soapstone::sim
