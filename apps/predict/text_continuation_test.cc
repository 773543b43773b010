#include "apps/predict/text_continuation.h"

#include <cmath>
#include <map>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"

namespace soapstone::apps {
namespace {

const std::vector<float> kLogits = {0, std::log(2.0f), std::log(5.0f), std::log(2.0f)};

constexpr double kProbabilities[] = {0.1, 0.2, 0.5, 0.2};

TEST(DrawTokenTest, WithoutTemperatureTheLikeliestIsTaken) {
  const DrawnToken token = DrawToken(kLogits, {.temperature = 0}, 3);
  EXPECT_EQ(token.token, 2);
  EXPECT_NEAR(token.probability, 0.5, 1e-6);
}

TEST(DrawTokenTest, TokensAreDrawnAsOftenAsTheyAreLikely) {
  constexpr int kDraws = 20000;
  std::map<int32_t, int> times;
  for (int i = 0; i < kDraws; ++i) {
    const DrawnToken token = DrawToken(kLogits, {.temperature = 0.5}, static_cast<uint64_t>(i));
    ++times[token.token];
    EXPECT_NEAR(token.probability, kProbabilities[static_cast<size_t>(token.token)], 1e-6);
  }
  // p_k is as its probability squared: 1, 4, 25 and 4 of 34 parts. Four deviations are 0.014.
  EXPECT_NEAR(times[0] / double{kDraws}, 1 / 34.0, 0.014);
  EXPECT_NEAR(times[2] / double{kDraws}, 25 / 34.0, 0.014);
  EXPECT_NEAR(times[3] / double{kDraws}, 4 / 34.0, 0.014);
}

TEST(DrawTokenTest, AmongTheLikeliestOnly) {
  std::map<int32_t, int> times;
  for (uint64_t i = 0; i < 2000; ++i) {
    ++times[DrawToken(kLogits, {.temperature = 5, .top_k = 2}, i).token];
  }
  EXPECT_EQ(times.size(), 2u);
  EXPECT_TRUE(times.contains(1) && times.contains(2));  // of equal ones the first
}

TEST(DrawTokenTest, ASeedDrawsTheSameAgainAndAnotherOthers) {
  const auto drawn = [](uint64_t seed) {
    std::vector<int32_t> tokens;
    for (uint64_t i = 0; i < 64; ++i) {
      tokens.push_back(DrawToken(kLogits, {.temperature = 1, .seed = seed}, i).token);
    }
    return tokens;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

class ContinueTextTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSteps = 8, kClasses = 16;
  void SetUp() override {
    graph_ = *models::BuildModel("transformer_lm:tiny", {.classes = kClasses, .steps = kSteps});
    for (uint32_t p = 0; p < graph_.params().size(); ++p) {
      std::vector<float>& of_param = values_.emplace_back(graph_.params()[p].elements());
      compute::InitSlice(graph_.params()[p], 7, ParamId{p}, 0, absl::MakeSpan(of_param));
      for (size_t i = 0; i < of_param.size(); ++i) of_param[i] += i % 3 == 0 ? 0.1f : -0.05f;
    }
  }
  std::vector<int32_t> Continued(const std::vector<int32_t>& prompt, int64_t length) {
    auto predictor = GraphPredictor::Create(graph_, values_, nullptr);
    EXPECT_TRUE(predictor.ok());
    const auto drawn =
        ContinueText(prompt, kSteps, {.length = length, .temperature = 1}, &*predictor);
    EXPECT_TRUE(drawn.ok());
    std::vector<int32_t> tokens;
    for (const DrawnToken& token : *drawn) tokens.push_back(token.token);
    return tokens;
  }
  models::Graph graph_;
  compute::GivenValues values_;
};

// Were places behind the text looked at, or another place's logits taken, the first tokens of a
// longer continuation would not be those of a shorter one.
TEST_F(ContinueTextTest, ALongerContinuationBeginsAsAShorterOne) {
  const std::vector<int32_t> four = Continued({1, 2, 3}, 4);
  std::vector<int32_t> twelve = Continued({1, 2, 3}, 12);
  twelve.resize(4);
  EXPECT_EQ(four, twelve);
}

TEST_F(ContinueTextTest, OfALongTextTheLastTokensCount) {
  const std::vector<int32_t> last = {5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<int32_t> more = {1, 1, 1, 1};
  more.insert(more.end(), last.begin(), last.end());
  EXPECT_EQ(Continued(more, 3), Continued(last, 3));
}

}  // namespace
}  // namespace soapstone::apps
