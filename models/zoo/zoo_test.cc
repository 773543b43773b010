#include "models/zoo/zoo.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr ImageShape kMnist = {.channels = 1, .height = 28, .width = 28};
constexpr ImageShape kDigits = {.channels = 1, .height = 8, .width = 8};

uint64_t Parameters(std::string_view model) {
  const auto graph = BuildModel(model, ModelInput{});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? graph->parameter_count() : 0;
}

TEST(Zoo, ParameterCountsAreAsPublished) {
  EXPECT_EQ(Parameters("lenet5"), 61706u);
  EXPECT_EQ(Parameters("alexnet"), 61100840u);
  EXPECT_EQ(Parameters("resnet50"), 25557032u);
  EXPECT_EQ(Parameters("resnet101"), 44549160u);
  EXPECT_EQ(Parameters("inception_v3"), 23834568u);
}

// Devlin et al.'s encoder with pooler has 109,482,240; the classifier of two adds 1,538.
TEST(Zoo, BertBaseHas110Million) { EXPECT_EQ(Parameters("bert_base"), 109482240u + 1538u); }

TEST(Zoo, ParameterCountsAreAsCalculated) {
  EXPECT_EQ(BuildModel("softmax", kMnist, 10)->parameter_count(), 7850u);
  EXPECT_EQ(BuildModel("softmax", kDigits, 10)->parameter_count(), 650u);
  EXPECT_EQ(BuildModel("mlp", kDigits, 10)->parameter_count(), 17226u);
  EXPECT_EQ(BuildModel("lenet5", kDigits, 10)->parameter_count(), 31294u);
  // V·H + 2·(8H² + 4H) + H·V + V, H = 2048, V = 10,000.
  EXPECT_EQ(Parameters("rnnlm"), 2u * 2048 * 10000 + 2 * (8u * 2048 * 2048 + 4 * 2048) + 10000);
  // 3·V·H + V + 4·(8H² + 4H) + query, key and v of the attention 2H² + H + mixing 2H², H = 1024,
  // V = 32,000. FlexFlow's: 65.8 GB moved by 64 devices, 2 · 63 · 4 bytes of each, are 130.6e6.
  EXPECT_EQ(Parameters("gnmt"), 3u * 32000 * 1024 + 32000 + 4 * (8u * 1024 * 1024 + 4 * 1024) +
                                    4u * 1024 * 1024 + 1024);
}

// Rows of 16 for as many categories as each column of the Criteo Kaggle data has, and one more, but
// 100,000 at most, which seven columns have; and what `dlrm` has beside its tables.
TEST(Zoo, HashedDlrmHasRowsUpToItsBound) {
  EXPECT_EQ(Parameters("dlrm_hashed"), 16u * (7 * 100'000 + 140'562) + 476'242);
  EXPECT_EQ(Parameters("dlrm_hashed:dim=4,rows=3,dense=2,categorical=2,bottom=5,top=6"),
            2u * 3 * 4 + 3 * 5 + 6 * 4 + 8 * 6 + 7 * 2);
  const Graph graph =
      *BuildModel("dlrm_hashed:tiny,categorical=3", {.classes = 2, .categories = {5, 70, 1000}});
  EXPECT_EQ(graph.param(ParamId{1}).shape, (std::vector<int64_t>{70, 8}));
  EXPECT_EQ(graph.param(ParamId{2}).shape, (std::vector<int64_t>{1000, 8}));
  EXPECT_EQ(graph.inputs().size(), 5u);
  EXPECT_THAT(std::string(BuildModel("dlrm_hashed", kDigits, 10).status().message()),
              HasSubstr("takes numbers and categories, as data of format criteo and clicks"));
}

TEST(Zoo, FlopsAreAsPublished) {
  // Forward, a multiply-add as two: He et al. 2016 count 3.8 and 7.6 billion multiply-adds with the
  // stride in the 1×1; torchvision's, with it in the 3×3, 4.09 and 7.8.
  const auto forward = [](std::string_view model) {
    int64_t flops = 0;
    const Graph graph = *BuildModel(model, ModelInput{});
    for (const Op& op : graph.ops()) flops += op.cost.forward_flops;
    return static_cast<double>(flops) / 2e9;
  };
  EXPECT_NEAR(forward("resnet50"), 4.09, 0.1);
  EXPECT_NEAR(forward("resnet101"), 7.80, 0.15);
  EXPECT_NEAR(forward("alexnet"), 0.71, 0.02);
  EXPECT_NEAR(forward("inception_v3"), 5.71, 0.12);
}

TEST(Zoo, EveryModelHasAFullAndATinySize) {
  for (const std::string& name : ModelNames()) {
    const uint64_t full = Parameters(name);
    const uint64_t tiny = Parameters(name + ":tiny");
    EXPECT_GT(tiny, 0u) << name;
    EXPECT_LE(tiny, full) << name;
    EXPECT_LT(tiny, 1000000u) << name;
    EXPECT_EQ(BuildModel(name, ModelInput{})->name(), name);
  }
}

// Also where the compiler evaluates arguments from right to left.
TEST(Zoo, OperatorsAreNumberedAsTheyAreWritten) {
  const Graph graph = *BuildModel("nasnet_a:tiny", ModelInput{});
  std::vector<std::string> shapes;  // of the first cell's separable convolutions
  for (const ParamSpec& param : graph.params()) {
    if (param.name.find("stage0.normal0.depthwise") == std::string::npos) continue;
    shapes.push_back(absl::StrCat(param.name.substr(15), " ", param.shape[2]));
  }
  EXPECT_EQ(shapes, (std::vector<std::string>{"depthwise2.weight 3", "depthwise5.weight 3",
                                              "depthwise7.weight 5", "depthwise15.weight 5",
                                              "depthwise17.weight 3"}));
}

TEST(Zoo, OptionsAreTaken) {
  EXPECT_EQ(BuildModel("rnnlm:tiny,layers=3,hidden=8", ModelInput{})->ops().size(), 6u);
  const size_t with = BuildModel("alexnet", ModelInput{})->ops().size();
  EXPECT_EQ(BuildModel("alexnet:dropout=0", ModelInput{})->ops().size(), with - 2);
}

// What a model takes changes it; what would not is refused, or it would be ignored in silence.
TEST(Zoo, AnOptionThatIsTakenCounts) {
  const auto text = [](const Graph& graph) {
    std::string all;
    for (const ParamSpec& param : graph.params()) {
      absl::StrAppend(&all, param.name, " ", absl::StrJoin(param.shape, "x"), "\n");
    }
    for (const Op& op : graph.ops()) {
      absl::StrAppend(&all, op.name, " ", op.cost.forward_flops, " ", op.cost.forward_bytes, "\n");
    }
    return all;
  };
  size_t taken = 0;
  for (const std::string& name : ModelNames()) {
    const std::string plain = text(*BuildModel(name + ":tiny", ModelInput{}));
    for (const char* option : {"dropout=0.25", "layers=3", "hidden=24", "heads=2"}) {
      const auto other = BuildModel(absl::StrCat(name, ":tiny,", option), ModelInput{});
      if (!other.ok()) {
        EXPECT_THAT(std::string(other.status().message()),
                    AnyOf(HasSubstr("it takes tiny"), HasSubstr("unknown argument")))
            << name;
        continue;
      }
      ++taken;
      if (std::string(option) != "heads=2") {  // heads change no size
        EXPECT_NE(text(*other), plain) << name << " " << option;
      }
    }
  }
  EXPECT_EQ(taken, 22u);
}

TEST(Zoo, BadOptionsAreNamed) {
  const auto error = [](std::string_view model) {
    return std::string(BuildModel(model, ModelInput{}).status().message());
  };
  EXPECT_THAT(error("vgg"), HasSubstr("unknown model 'vgg'; known: softmax, mlp, lenet5"));
  EXPECT_THAT(error("resnet50:huge"), HasSubstr("option 'huge': it takes tiny, hidden="));
  EXPECT_THAT(error("mlp:layers=7"), HasSubstr("mlp: option 'layers=7': it takes tiny, hidden="));
  EXPECT_THAT(error("softmax:hidden=7"), HasSubstr("option 'hidden=7': it takes tiny"));
  EXPECT_THAT(error("rnnlm:hiden=7"), HasSubstr("hidden=, layers=; did you mean hidden=?"));
  EXPECT_THAT(error("rnnlm:hidden=0"), HasSubstr("hidden=0: it must be a whole number from 1 to"));
  EXPECT_THAT(error("rnnlm:hidden=1.5"), HasSubstr("hidden=1.5: it must be a whole number"));
  EXPECT_THAT(error("rnnlm:layers=4097"),
              HasSubstr("layers=4097: it must be a whole number from 1 to 4096"));
  EXPECT_THAT(error("rnnlm:layers=1,layers=2"), HasSubstr("rnnlm: option 'layers' is given twice"));
  EXPECT_THAT(error("mlp:tiny,tiny"), HasSubstr("option 'tiny' is given twice"));
  EXPECT_THAT(error("alexnet:dropout=1"), HasSubstr("at least 0 and below 1"));
  EXPECT_THAT(error("rnnlm:hidden="),
              HasSubstr("option 'hidden=': it takes tiny, hidden=, layers= with a number"));
}

TEST(Zoo, DataDecideTheSizes) {
  const auto lm = BuildModel("rnnlm:tiny", ModelInput{.classes = 97, .steps = 5});
  EXPECT_EQ(lm->classes(), 97);
  EXPECT_EQ(lm->tensor(lm->labels()).shape, (std::vector<int64_t>{5}));
  const auto gnmt =
      BuildModel("gnmt:tiny", {.classes = 20, .vocabulary = 30, .steps = 7, .source_steps = 6});
  EXPECT_EQ(gnmt->tensor(gnmt->inputs()[0]).shape, (std::vector<int64_t>{6}));
  EXPECT_EQ(gnmt->param(ParamId{0}).shape[0], 30);
}

TEST(Zoo, WrongImageSizeIsNamed) {
  EXPECT_THAT(std::string(BuildModel("lenet5", {.height = 32, .width = 32}, 10).status().message()),
              HasSubstr("lenet5 takes images of 28×28 or 8×8, not 32×32"));
  EXPECT_THAT(std::string(BuildModel("alexnet", kDigits, 10).status().message()),
              HasSubstr("alexnet: max_pool 'features.2': a window of 3x3 does not fit"));
}

TEST(Zoo, OneClassIsNoClassifier) {
  EXPECT_THAT(std::string(BuildModel("mlp", kDigits, 1).status().message()),
              HasSubstr("at least two classes"));
}

}  // namespace
}  // namespace soapstone::models
