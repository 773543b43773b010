#include "compute/row_optimizer.h"

#include <limits>
#include <string>
#include <tuple>

#include "base/random.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

constexpr size_t kRows = 45;  // more than one batch, and a rest

float NormalAt(uint64_t index) {
  return static_cast<float>(CounterRandom(5, RandomUse::kTest).Normal(index));
}

class RowsOfKind : public ::testing::TestWithParam<std::tuple<const char*, uint32_t>> {};

TEST_P(RowsOfKind, HaveTheBitsOfSlices) {
  const OptimizerSpec spec = *ParseOptimizer(std::get<0>(GetParam()));
  const uint32_t dim = std::get<1>(GetParam());
  RowOptimizer optimizer(spec, dim);
  std::vector<std::vector<float>> rows(kRows, std::vector<float>(optimizer.row_floats()));
  std::vector<std::vector<float>> slices(kRows, std::vector<float>(dim));
  std::vector<SliceState> states(kRows);
  std::vector<uint64_t> steps(kRows);
  for (size_t r = 0; r < kRows; ++r) {
    for (uint32_t i = 0; i < dim; ++i) slices[r][i] = rows[r][i] = NormalAt(r * dim + i);
  }
  for (size_t step = 1; step <= 6; ++step) {
    const Update update = {
        .lr = 0.01 * static_cast<double>(step), .scale = 1.0 / 7, .fraction = .3};
    std::vector<float> gradients;
    std::vector<float*> some;
    std::vector<uint64_t> counts;
    for (size_t r = 0; r < kRows; ++r) {
      if ((r + step) % 3 == 0) continue;  // so that step counts differ
      for (uint32_t i = 0; i < dim; ++i) gradients.push_back(NormalAt((step << 20) + r * dim + i));
      some.push_back(rows[r].data());
      counts.push_back(++steps[r]);
      ApplyGradient(spec, update, absl::MakeConstSpan(gradients).last(dim),
                    absl::MakeSpan(slices[r]), &states[r]);
    }
    optimizer.Apply(update, some, counts, gradients.data());
  }
  for (size_t r = 0; r < kRows; ++r) {
    std::vector<float> expected = slices[r];
    expected.insert(expected.end(), states[r].first.begin(), states[r].first.end());
    expected.insert(expected.end(), states[r].second.begin(), states[r].second.end());
    ASSERT_EQ(rows[r], expected) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RowsOfKind,
    ::testing::Combine(::testing::Values("sgd", "sgd:decay=0.01", "momentum", "nesterov",
                                         "adagrad:decay=0.01", "rmsprop", "adam", "adam:decay=0.01",
                                         "adamw:decay=0.01", "ftrl:l1=0.01,l2=0.1"),
                       ::testing::Values(1u, 3u, 16u, 17u, 32u, 64u)));

// Where powers are no longer kept, and where they no longer matter.
TEST(RowOptimizer, LateStepsHaveTheBitsOfSlices) {
  const OptimizerSpec spec = *ParseOptimizer("adam");
  for (const int64_t step : {16'383, 16'384, 37'900, 38'100, 1'000'000}) {
    RowOptimizer optimizer(spec, 1);
    std::vector<float> row = {1, 0.5, 0.25};
    SliceState state = {.first = {0.5}, .second = {0.25}, .steps = step - 1};
    float w = 1;
    const float g = 0.125;
    float* const one = row.data();
    const uint64_t count = static_cast<uint64_t>(step);
    ApplyGradient(spec, {.lr = 0.1}, {&g, 1}, absl::MakeSpan(&w, 1), &state);
    optimizer.Apply({.lr = 0.1}, {&one, 1}, {&count, 1}, &g);
    EXPECT_EQ(row[0], w) << step;
  }
}

TEST(RowOptimizer, RowsHoldWhatTheirOptimizerKeeps) {
  EXPECT_EQ(RowOptimizer(*ParseOptimizer("sgd"), 16).row_floats(), 16u);
  EXPECT_EQ(RowOptimizer(*ParseOptimizer("adagrad"), 16).row_floats(), 32u);
  EXPECT_EQ(RowOptimizer(*ParseOptimizer("ftrl"), 16).row_floats(), 48u);
  EXPECT_FALSE(RowOptimizer(*ParseOptimizer("ftrl"), 16).counts_steps());
  EXPECT_TRUE(RowOptimizer(*ParseOptimizer("adamw"), 16).counts_steps());
}

TEST(RowOptimizer, ARowThatIsNotFiniteAfterwardsIsSaid) {
  for (const char* text : {"sgd", "adagrad", "adam", "ftrl"}) {
    for (const size_t odd : {size_t{0}, size_t{33}, kRows - 1}) {
      RowOptimizer optimizer(*ParseOptimizer(text), 3);
      std::vector<std::vector<float>> rows(kRows, std::vector<float>(optimizer.row_floats()));
      std::vector<float*> places;
      for (std::vector<float>& row : rows) places.push_back(row.data());
      const std::vector<uint64_t> steps(kRows, 1);
      std::vector<float> gradients(kRows * 3, 0.5f);
      EXPECT_TRUE(optimizer.Apply({.lr = 0.1}, places, steps, gradients.data())) << text;
      gradients[odd * 3 + 2] = std::numeric_limits<float>::infinity();
      EXPECT_FALSE(optimizer.Apply({.lr = 0.1}, places, steps, gradients.data())) << text;
    }
  }
}

}  // namespace
}  // namespace soapstone::compute
