#include "compute/op_text.h"

#include <gtest/gtest.h>

#include <set>

namespace soapstone::compute {
namespace {

TEST(OperatorText, NamesEveryNumber) {
  EXPECT_EQ(TextOf(Conv2d{.channels = 64,
                          .window = {.height = 3, .width = 5, .stride_h = 2, .pad_w = 1},
                          .bias = false,
                          .relu = true}),
            "conv2d(channels=64, window=3x5, stride=2x1, pad=0x1, groups=1, relu)");
  EXPECT_EQ(TextOf(Split{.axis = 2, .sizes = {3, 4}}), "split(axis=2, sizes=[3,4])");
  EXPECT_EQ(TextOf(Activation{.kind = ActivationKind::kGelu}), "gelu()");
}

TEST(OperatorText, OperatorsThatDifferHaveOtherTexts) {
  const std::vector<Operator> all = {Linear{.outputs = 4},
                                     Linear{.outputs = 5},
                                     Linear{.outputs = 4, .bias = false},
                                     Linear{.outputs = 4, .relu = true},
                                     Conv2d{.channels = 4},
                                     Conv2d{.channels = 4, .groups = 2},
                                     Pool{},
                                     Pool{.kind = PoolKind::kAverage},
                                     Pool{.kind = PoolKind::kAverage, .count_padding = false},
                                     BatchNorm{},
                                     BatchNorm{.relu = true},
                                     BatchNorm{.epsilon = 1e-5 + 1e-18},
                                     LayerNorm{},
                                     LocalResponseNorm{},
                                     LocalResponseNorm{.k = 2},
                                     Embedding{.rows = 3, .dim = 4},
                                     Lstm{.hidden = 3},
                                     Lstm{.hidden = 3, .state = true},
                                     Lstm{.hidden = 3, .reverse = true},
                                     MultiHeadAttention{.heads = 2},
                                     MultiHeadAttention{.heads = 2, .causal = true},
                                     AdditiveAttention{},
                                     PairwiseDot{},
                                     Activation{},
                                     Activation{.kind = ActivationKind::kTanh},
                                     Dropout{},
                                     Dropout{.rate = 0.25},
                                     Add{},
                                     Add{.relu = true},
                                     Multiply{},
                                     AddParameter{},
                                     Concat{.axis = 1},
                                     Concat{.axis = 2},
                                     Reshape{.shape = {4}},
                                     Transpose{.permutation = {0, 2, 1}},
                                     Reduce{.axes = {1}},
                                     Reduce{.kind = ReduceKind::kSum, .axes = {1}},
                                     SoftmaxCrossEntropy{}};
  std::set<std::string> texts;
  for (const Operator& op : all) EXPECT_TRUE(texts.insert(TextOf(op)).second) << TextOf(op);
}

}  // namespace
}  // namespace soapstone::compute
