#include "compute/loss.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

TEST(SoftmaxCrossEntropy, UniformLogitsCostTheLogOfTheClasses) {
  const std::vector<float> logits(8, 0.5f);
  const std::vector<int32_t> labels = {3, 0};
  EXPECT_NEAR(SoftmaxCrossEntropy(logits, labels, {}).loss, 2 * std::log(4.0), 1e-12);
}

TEST(SoftmaxCrossEntropy, GradientIsProbabilityLessOneHot) {
  const std::vector<float> logits = {0.0f, std::log(3.0f)};
  const std::vector<int32_t> labels = {1};
  std::vector<float> grad(2);
  SoftmaxCrossEntropy(logits, labels, absl::MakeSpan(grad));
  EXPECT_NEAR(grad[0], 0.25, 1e-6);
  EXPECT_NEAR(grad[1], -0.25, 1e-6);
}

TEST(SoftmaxCrossEntropy, SumsOverSamplesWithoutDividing) {
  const std::vector<float> one = {0.3f, -0.2f, 1.1f};
  std::vector<float> three;
  for (int i = 0; i < 3; ++i) three.insert(three.end(), one.begin(), one.end());
  const std::vector<int32_t> labels = {2, 2, 2};
  std::vector<float> grad(3);
  std::vector<float> grads(9);
  const LossSums single =
      SoftmaxCrossEntropy(one, absl::MakeConstSpan(labels).first(1), absl::MakeSpan(grad));
  const LossSums sums = SoftmaxCrossEntropy(three, labels, absl::MakeSpan(grads));
  EXPECT_DOUBLE_EQ(sums.loss, 3 * single.loss);
  EXPECT_EQ(grads[7], grad[1]);
}

TEST(SoftmaxCrossEntropy, CountsTheLargestLogitFirstOfEquals) {
  const std::vector<float> logits = {1, 2, 2, /**/ 5, 1, 1, /**/ 0, 1, 0};
  EXPECT_EQ(SoftmaxCrossEntropy(logits, std::vector<int32_t>{1, 0, 2}, {}).correct, 2);
  EXPECT_EQ(SoftmaxCrossEntropy(logits, std::vector<int32_t>{2, 0, 1}, {}).correct, 2);
}

TEST(SoftmaxCrossEntropy, HugeLogitsStayFinite) {
  const std::vector<float> logits = {3e38f, -3e38f};
  std::vector<float> grad(2);
  const LossSums sums = SoftmaxCrossEntropy(logits, std::vector<int32_t>{0}, absl::MakeSpan(grad));
  EXPECT_EQ(sums.loss, 0.0);
  EXPECT_EQ(grad[0], 0.0f);
}

TEST(SoftmaxCrossEntropyDeathTest, LabelOutsideTheClassesDies) {
  const std::vector<float> logits = {1, 2};
  EXPECT_DEATH(SoftmaxCrossEntropy(logits, std::vector<int32_t>{2}, {}), "classes");
  EXPECT_DEATH(SoftmaxCrossEntropy(logits, std::vector<int32_t>{-1}, {}), "classes");
}

}  // namespace
}  // namespace soapstone::compute
