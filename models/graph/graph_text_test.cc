#include "models/graph/graph_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/zoo/zoo.h"

namespace soapstone::models {
namespace {

using ::testing::HasSubstr;

Graph Model(const char* name) { return *BuildModel(name, ModelInput{}); }

TEST(GraphText, HasALineForEachInputAndOperator) {
  const Graph graph = Model("lenet5:tiny");
  const std::string text = TextOf(graph);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            static_cast<int64_t>(graph.inputs().size() + graph.ops().size()));
  EXPECT_THAT(text, HasSubstr("input [1,8,8] f32\n"));
  EXPECT_THAT(text, HasSubstr("conv1 = conv2d(channels=16, window=3x3"));
}

TEST(GraphText, TheHashTellsModelsApart) {
  EXPECT_EQ(HashOf(Model("rnnlm:tiny")), HashOf(Model("rnnlm:tiny")));
  EXPECT_NE(HashOf(Model("rnnlm:tiny")), HashOf(Model("rnnlm:tiny,hidden=65")));
  EXPECT_EQ(HashOf(Model("softmax")).size(), 64u);
}

TEST(GraphText, TheDrawingHasAnArrowForEachInputOfAnOperator) {
  const Graph graph = Model("resnet50:tiny");
  const std::string dot = DotOf(graph);
  size_t arrows = 0;
  for (size_t at = dot.find("->"); at != dot.npos; at = dot.find("->", at + 1)) ++arrows;
  size_t inputs = 0;
  for (const Op& op : graph.ops()) inputs += op.inputs.size();
  EXPECT_EQ(arrows, inputs);
}

}  // namespace
}  // namespace soapstone::models
