#include "compute/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  return std::string(ParseOptimizer(text).status().message());
}

// The weight after gradients `g`, one step each, from weight w with rate lr.
float After(std::string_view text, double lr, float w, const std::vector<float>& g,
            Update update = {}) {
  const OptimizerSpec spec = *ParseOptimizer(text);
  SliceState state;
  update.lr = lr;
  for (float one : g) ApplyGradient(spec, update, {&one, 1}, absl::MakeSpan(&w, 1), &state);
  return w;
}

TEST(Optimizer, SgdStepsAgainstTheGradient) {
  EXPECT_FLOAT_EQ(After("sgd", 0.5, 1.0f, {2.0f}), 0.0f);
}

TEST(Optimizer, ScaleMultipliesTheGradient) {
  EXPECT_FLOAT_EQ(After("sgd", 0.5, 1.0f, {2.0f}, {.scale = 0.25}), 0.75f);
}

TEST(Optimizer, CoupledDecayAddsToTheGradientByItsShare) {
  // w − lr·(g + fraction·decay·w) = 4 − 0.5·(1 + 0.5·0.1·4)
  EXPECT_FLOAT_EQ(After("sgd:decay=0.1", 0.5, 4.0f, {1.0f}, {.fraction = 0.5}), 3.4f);
}

TEST(Optimizer, MomentumAccumulates) {
  // v = 1, then 0.9 + 1 = 1.9
  EXPECT_FLOAT_EQ(After("momentum:mu=0.9", 0.1, 0.0f, {1.0f, 1.0f}), -0.29f);
}

TEST(Optimizer, NesterovLooksAhead) {
  // v = 1: step 1 + 0.9; v = 1.9: step 1 + 0.9·1.9
  EXPECT_FLOAT_EQ(After("nesterov:mu=0.9", 0.1, 0.0f, {1.0f, 1.0f}), -0.1f * (1.9f + 2.71f));
}

TEST(Optimizer, AdagradDividesByTheRootOfTheSum) {
  EXPECT_FLOAT_EQ(After("adagrad", 0.1, 0.0f, {3.0f, 4.0f}), -0.1f * (1.0f + 4.0f / 5.0f));
}

TEST(Optimizer, RmspropDividesByTheRootOfTheMean) {
  EXPECT_FLOAT_EQ(After("rmsprop:rho=0.75", 0.1, 0.0f, {3.0f}), -0.1f * (3.0f / 1.5f));
}

TEST(Optimizer, AdamsFirstStepIsTheRateWhateverTheGradient) {
  EXPECT_NEAR(After("adam", 0.01, 1.0f, {1e-3f}), 0.99f, 1e-6);
  EXPECT_NEAR(After("adam", 0.01, 1.0f, {-1e3f}), 1.01f, 1e-6);
}

TEST(Optimizer, AdamsSecondStepIsTheClosedForm) {
  const double m = 0.9 * 0.1 * 1 + 0.1 * 3;
  const double s = 0.999 * 0.001 * 1 + 0.001 * 9;
  const double second = (m / (1 - 0.81)) / std::sqrt(s / (1 - 0.999 * 0.999));
  EXPECT_NEAR(After("adam", 0.01, 0.0f, {1.0f, 3.0f}), -0.01 * (1 + second), 1e-6);
}

TEST(Optimizer, AdamwDecaysApartFromTheMoments) {
  // keep = 1 − 0.01·0.5·0.2
  EXPECT_NEAR(After("adamw:decay=0.2", 0.01, 2.0f, {5.0f}, {.fraction = 0.5}),
              2.0 * (1 - 0.001) - 0.01, 1e-6);
}

// McMahan et al. 2013, algorithm 1, as it stands there: w of (z, n) is computed when it is needed.
struct PlainFtrl {
  double alpha, beta, l1, l2;
  double z = 0, n = 0;

  double Weight() const {
    if (std::abs(z) <= l1) return 0;
    const double sign = z < 0 ? -1 : 1;
    return -(z - sign * l1) / ((beta + std::sqrt(n)) / alpha + l2);
  }
  void Add(double g) {
    const double w = Weight();
    const double sigma = (std::sqrt(n + g * g) - std::sqrt(n)) / alpha;
    z += g - sigma * w;
    n += g * g;
  }
};

TEST(Optimizer, FtrlIsTheAlgorithmOfThePaper) {
  const OptimizerSpec spec = *ParseOptimizer("ftrl:beta=0.7,l1=0.05,l2=0.1");
  const CounterRandom random(11, RandomUse::kTest);
  PlainFtrl plain = {.alpha = 0.2, .beta = 0.7, .l1 = 0.05, .l2 = 0.1};
  SliceState state;
  float w = 0;
  int zeros = 0;
  for (int step = 0; step < 200; ++step) {
    const float g = static_cast<float>(0.1 * random.Normal(step));
    ApplyGradient(spec, {.lr = 0.2}, {&g, 1}, absl::MakeSpan(&w, 1), &state);
    plain.Add(g);
    ASSERT_NEAR(w, plain.Weight(), 1e-5) << step;
    if (w == 0) ++zeros;
  }
  EXPECT_NEAR(state.first[0], plain.z, 1e-4);
  EXPECT_NEAR(state.second[0], plain.n, 1e-4);
  EXPECT_GT(zeros, 0);
  EXPECT_LT(zeros, 200);
}

TEST(Optimizer, FtrlsL1KeepsWhatHasSmallGradientsAtZero) {
  EXPECT_EQ(After("ftrl:l1=1", 0.1, 0.0f, {0.5f, -0.3f, 0.6f}), 0.0f);
  EXPECT_NE(After("ftrl:l1=0.1", 0.1, 0.0f, {0.5f, -0.3f, 0.6f}), 0.0f);
}

TEST(Optimizer, FtrlStaysAtItsFirstValueUntilThereIsAGradient) {
  EXPECT_FLOAT_EQ(After("ftrl:l1=0.3,l2=0.2", 0.1, 0.75f, {0.0f, 0.0f}), 0.75f);
  EXPECT_FLOAT_EQ(After("ftrl:l1=0.3,l2=0.2", 0.1, -0.75f, {0.0f, 0.0f}), -0.75f);
}

TEST(Optimizer, FtrlStaysWhereItIsAtARateOfZero) {
  EXPECT_EQ(After("ftrl", 0, 0.75f, {2.0f, 1.0f}), 0.75f);
}

TEST(Optimizer, MomentsAreSizedOnlyWhereUsed) {
  const float g = 1;
  float w = 1;
  SliceState sgd;
  ApplyGradient(*ParseOptimizer("sgd"), {.lr = 1}, {&g, 1}, absl::MakeSpan(&w, 1), &sgd);
  EXPECT_TRUE(sgd.first.empty() && sgd.second.empty());
  SliceState adam;
  ApplyGradient(*ParseOptimizer("adam"), {.lr = 1}, {&g, 1}, absl::MakeSpan(&w, 1), &adam);
  EXPECT_EQ(adam.first.size(), 1u);
  EXPECT_EQ(adam.second.size(), 1u);
  EXPECT_EQ(adam.steps, 1);
}

class EveryOptimizer : public ::testing::TestWithParam<const char*> {};

// Slices start at odd offsets and have odd lengths, so vector loops and their tails fall apart
// differently from the whole's.
TEST_P(EveryOptimizer, BitsDoNotDependOnSlicing) {
  constexpr size_t kSize = 103;
  const OptimizerSpec spec = *ParseOptimizer(GetParam());
  const CounterRandom random(3, RandomUse::kTest);
  std::vector<float> whole(kSize);
  for (size_t i = 0; i < kSize; ++i) whole[i] = static_cast<float>(random.Normal(i));
  std::vector<float> sliced = whole;
  SliceState whole_state;
  const std::vector<size_t> cuts = {0, 1, 4, 21, 60, kSize};
  std::vector<SliceState> states(cuts.size() - 1);
  for (int step = 0; step < 5; ++step) {
    std::vector<float> g(kSize);
    for (size_t i = 0; i < kSize; ++i) {
      g[i] = static_cast<float>(random.Normal((step + 1) * kSize + i));
    }
    const Update update = {.lr = 0.013, .scale = 1.0 / 7, .fraction = 0.3};
    ApplyGradient(spec, update, g, absl::MakeSpan(whole), &whole_state);
    for (size_t s = 0; s + 1 < cuts.size(); ++s) {
      const size_t n = cuts[s + 1] - cuts[s];
      ApplyGradient(spec, update, absl::MakeConstSpan(g).subspan(cuts[s], n),
                    absl::MakeSpan(sliced).subspan(cuts[s], n), &states[s]);
    }
  }
  EXPECT_EQ(whole, sliced);
}

// Large slices are gone over in blocks, backwards every other time; `from` may lie elsewhere.
TEST_P(EveryOptimizer, BitsDependNeitherOnTheOrderOfBlocksNorOnWhereValuesLie) {
  constexpr size_t kSize = 2 * 65'536 + 777, kCut = 1001;
  const OptimizerSpec spec = *ParseOptimizer(GetParam());
  const CounterRandom random(4, RandomUse::kTest);
  std::vector<float> whole(kSize), elsewhere(kSize), g(kSize);
  for (size_t i = 0; i < kSize; ++i) whole[i] = static_cast<float>(random.Normal(i));
  std::vector<float> sliced = whole;
  SliceState whole_state;
  std::vector<SliceState> states((kSize + kCut - 1) / kCut);
  for (int step = 0; step < 4; ++step) {
    for (size_t i = 0; i < kSize; ++i) {
      g[i] = static_cast<float>(random.Normal((step + 1) * kSize + i));
    }
    const Update update = {.lr = 0.013, .scale = 1.0 / 7, .fraction = 0.3};
    const std::vector<float> before = whole;
    ApplyGradient(spec, update, g, whole, absl::MakeSpan(elsewhere), &whole_state);
    EXPECT_EQ(whole, before) << "from stays as it is";
    std::swap(whole, elsewhere);
    for (size_t s = 0; s < states.size(); ++s) {
      const size_t n = std::min(kCut, kSize - s * kCut);
      ApplyGradient(spec, update, absl::MakeConstSpan(g).subspan(s * kCut, n),
                    absl::MakeSpan(sliced).subspan(s * kCut, n), &states[s]);
    }
    ASSERT_EQ(whole, sliced) << "step " << step;
  }
}

// Slices may begin and end anywhere within a line.
TEST_P(EveryOptimizer, BitsDoNotDependOnHowTheyAreWritten) {
  constexpr size_t kSize = 3 * 128 + 37;
  const OptimizerSpec spec = *ParseOptimizer(GetParam());
  const CounterRandom random(5, RandomUse::kTest);
  for (const double average_rate : {0.0, 0.25}) {
    for (size_t begin = 0; begin < 17; ++begin) {
      std::vector<float> plain(kSize), g(kSize);
      for (size_t i = 0; i < kSize; ++i) plain[i] = static_cast<float>(random.Normal(i));
      std::vector<float> asked = plain, past = plain;
      SliceState plain_state, asked_state, past_state;
      for (int step = 0; step < 3; ++step) {
        for (size_t i = 0; i < kSize; ++i) {
          g[i] = static_cast<float>(random.Normal((step + 1) * kSize + i));
        }
        Update update = {.lr = 0.013, .scale = 1.0 / 7, .average_rate = average_rate};
        update.writing = Writing::kPlain;
        ApplyGradient(spec, update, g, absl::MakeSpan(plain), &plain_state);
        update.writing = Writing::kAsked;
        ApplyGradient(spec, update, g, absl::MakeSpan(asked), &asked_state);
        std::vector<float> room(begin + kSize + 1, -7.0f);
        update.writing = Writing::kPast;
        ApplyGradient(spec, update, g, past, absl::MakeSpan(room).subspan(begin, kSize),
                      &past_state);
        for (size_t i = 0; i < begin; ++i) ASSERT_EQ(room[i], -7.0f);
        ASSERT_EQ(room.back(), -7.0f);
        past.assign(room.begin() + static_cast<ptrdiff_t>(begin), room.end() - 1);
        ASSERT_EQ(plain, asked) << "from " << begin << ", step " << step;
        ASSERT_EQ(plain, past) << "from " << begin << ", step " << step;
      }
      ASSERT_EQ(plain_state, past_state);
      ASSERT_EQ(plain_state, asked_state);
    }
  }
}

TEST_P(EveryOptimizer, BitsOfAStepInPartsAreThoseOfAWhole) {
  constexpr size_t kSize = 300;
  const OptimizerSpec spec = *ParseOptimizer(GetParam());
  const CounterRandom random(6, RandomUse::kTest);
  std::vector<float> whole(kSize), g(kSize), to(kSize);
  for (size_t i = 0; i < kSize; ++i) whole[i] = static_cast<float>(random.Normal(i));
  std::vector<float> parts = whole;
  SliceState whole_state, parts_state;
  for (int step = 0; step < 4; ++step) {
    for (size_t i = 0; i < kSize; ++i) {
      g[i] = static_cast<float>(random.Normal((step + 1) * kSize + i));
    }
    const Update update = {.lr = 0.013, .scale = 1.0 / 7};
    ApplyGradient(spec, update, g, absl::MakeSpan(whole), &whole_state);
    BeginStep(spec.kind, kSize, &parts_state);
    // The last first; the middle one is empty.
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{211, kSize}, {90, 90}, {0, 211}}) {
      ASSERT_TRUE(ApplyPart(spec, update,
                            {.begin = begin,
                             .gradient = absl::MakeConstSpan(g).subspan(begin, end - begin),
                             .from = absl::MakeConstSpan(parts).subspan(begin, end - begin),
                             .param = absl::MakeSpan(to).subspan(begin, end - begin)},
                            &parts_state));
    }
    parts = to;
    ASSERT_EQ(whole, parts) << step;
    ASSERT_EQ(whole_state, parts_state);
  }
}

// f(w) = ½·(w − 3)²
TEST_P(EveryOptimizer, FindsTheMinimumOfAParabola) {
  OptimizerSpec spec = *ParseOptimizer(GetParam());
  spec.decay = 0;
  float w = 0;
  SliceState state;
  const bool slows = spec.kind == OptimizerKind::kAdagrad || spec.kind == OptimizerKind::kFtrl;
  const double lr = slows ? 1.0 : 0.02;
  for (int step = 0; step < 2000; ++step) {
    const float g = w - 3;
    ApplyGradient(spec, {.lr = lr}, {&g, 1}, absl::MakeSpan(&w, 1), &state);
  }
  EXPECT_NEAR(w, 3.0f, 0.02);
}

TEST_P(EveryOptimizer, ToStringParsesBack) {
  const OptimizerSpec spec = *ParseOptimizer(GetParam());
  EXPECT_EQ(*ParseOptimizer(spec.ToString()), spec);
}

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer,
                         ::testing::Values("sgd:decay=0.01", "momentum:mu=0.8,decay=0.01",
                                           "nesterov:decay=0.01", "adagrad:decay=0.01",
                                           "rmsprop:rho=0.95,decay=0.01", "adam:decay=0.01",
                                           "adamw:beta2=0.99,decay=0.01",
                                           "ftrl:beta=0.5,l1=0.001,l2=0.002"));

TEST(ParseOptimizer, ReadsItsKeys) {
  const OptimizerSpec spec = *ParseOptimizer("momentum:lr=0.05,mu=0.8,decay=1e-4");
  EXPECT_EQ(spec.kind, OptimizerKind::kMomentum);
  EXPECT_EQ(spec.lr, 0.05);
  EXPECT_EQ(spec.mu, 0.8);
  EXPECT_EQ(spec.decay, 1e-4);
}

TEST(ParseOptimizer, UnknownNameListsTheKnown) {
  EXPECT_THAT(ErrorOf("adma"), HasSubstr("unknown optimizer 'adma'; did you mean adam?; known: "));
  EXPECT_THAT(ErrorOf("lars"), HasSubstr("unknown optimizer 'lars'; known: sgd, momentum, "
                                         "nesterov, adagrad, rmsprop, adam, adamw, ftrl"));
}

TEST(ParseOptimizer, UnknownKeyAndBadValuesAreErrors) {
  EXPECT_THAT(ErrorOf("ftrl:decay=0.1"), HasSubstr("unknown argument 'decay'"));
  EXPECT_THAT(ErrorOf("ftrl:l1=-1"), HasSubstr("l1=-1 is outside"));
  EXPECT_THAT(ErrorOf("sgd:mu=0.9"), HasSubstr("unknown argument 'mu'"));
  EXPECT_THAT(ErrorOf("sgd:lr=-1"), HasSubstr("lr=-1 is outside"));
  EXPECT_THAT(ErrorOf("momentum:mu=1"), HasSubstr("mu=1 is outside"));
  EXPECT_THAT(ErrorOf("adam:beta2=x"), HasSubstr("not a number"));
}

// Where a value, or a moment, is not finite after an update, is said, wherever it is and however
// values are written.
TEST(Optimizer, WhatIsNotFiniteAfterwardsIsSaid) {
  const size_t n = 70'001;  // more than a block, and a rest of a piece
  const float max = std::numeric_limits<float>::max();
  for (const char* text : {"sgd", "sgd:decay=0.1", "momentum", "nesterov", "adagrad", "rmsprop",
                           "adam", "adamw:decay=0.01", "ftrl"}) {
    const OptimizerSpec spec = *ParseOptimizer(text);
    for (const Writing writing : {Writing::kPlain, Writing::kAsked, Writing::kPast}) {
      for (const size_t at : {size_t{0}, size_t{130}, size_t{65'600}, n - 1}) {
        SCOPED_TRACE(absl::StrCat(text, " ", static_cast<int>(writing), " ", at));
        std::vector<float> gradient(n, 0.5f), from(n, 1.0f), to(n);
        const Update update = {.lr = 0.1, .writing = writing};
        SliceState state;
        EXPECT_TRUE(ApplyGradient(spec, update, gradient, from, absl::MakeSpan(to), &state));
        gradient[at] = std::nanf("");
        EXPECT_FALSE(ApplyGradient(spec, update, gradient, from, absl::MakeSpan(to), &state));
        // A finite gradient that overflows what is made of it: the value, or a square.
        gradient[at] = max;
        state = {};
        const Update large = {.lr = 1e6, .writing = writing};
        EXPECT_FALSE(ApplyGradient(spec, large, gradient, from, absl::MakeSpan(to), &state));
      }
    }
  }
}

TEST(Optimizer, AnAverageThatIsNotFiniteIsSaid) {
  float w = 1, g = std::numeric_limits<float>::infinity();
  SliceState state;
  EXPECT_FALSE(ApplyGradient(*ParseOptimizer("adam"), {.lr = 0.1, .average_rate = 0.1}, {&g, 1},
                             absl::MakeSpan(&w, 1), &state));
}

}  // namespace
}  // namespace soapstone::compute
