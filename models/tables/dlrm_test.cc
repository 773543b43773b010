#include "models/tables/dlrm.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "compute/init.h"
#include "compute/reference/backend.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/runtime/graph_runner.h"
#include "models/runtime/model_input.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two numbers, three categories; a number is missing, a category is, and a cell has several.
constexpr char kSamples[] =
    "1\t3\t\t1a\tff\t7\n"
    "0\t-2\t10\t1a,2b\t\t7\n"
    "1\t0\t1\t2b\tff\t7,7,8\n"
    "0\t5\t2\t3c\tee\t9\n"
    "1\t1\t1\t1a\tee\t8\n";
constexpr char kSpec[] = "dlrm:dense=2,categorical=3,dim=3,bottom=5,top=6-4";

class DlrmTest : public testing::Test {
 protected:
  DlrmTest() {
    const std::string path = testing::TempDir() + "/dlrm-" + std::to_string(getpid());
    std::ofstream(path) << kSamples;
    model_ = *MakeSparseModel(kSpec, {.format = "criteo", .path = path, .test_path = path}, 0);
    samples_.resize(model_->data().train.size());
    std::iota(samples_.begin(), samples_.end(), 0);
    replica_ = *GraphRunner::Create(*model_->graph(), {.backend = compute::MakeReferenceBackend(),
                                                       .input_gradients = {model_->rows_input()}});
    for (uint32_t p = 0; p < params(); ++p) {
      compute::InitSlice(model_->graph()->param(ParamId{p}), 3, ParamId{p}, 0,
                         replica_->param(ParamId{p}));
    }
    std::vector<std::vector<uint64_t>> keys(model_->tables().size());
    model_->AddKeys(Batch(), &keys);
    for (size_t t = 0; t < keys.size(); ++t) {
      std::sort(keys[t].begin(), keys[t].end());
      keys[t].erase(std::unique(keys[t].begin(), keys[t].end()), keys[t].end());
      const CounterRandom random(1, RandomUse::kTest, t);
      rows_.push_back({.keys = keys[t]});
      for (size_t e = 0; e < keys[t].size() * 3; ++e) {
        rows_[t].rows.push_back(static_cast<float>(random.Normal(e)));
      }
    }
  }

  uint32_t params() const { return static_cast<uint32_t>(model_->graph()->params().size()); }
  SparseBatch Batch() const { return {.clock = 2, .samples = samples_}; }

  double Loss(const std::vector<RowBlock>& blocks) {
    MiniBatch feed;
    model_->DataOver(&blocks).train.Gather(samples_, &feed);
    CHECK(replica_->Begin(feed.samples, FieldsOf(feed)).ok());
    for (size_t op = 0; op < model_->graph()->ops().size(); ++op) replica_->ForwardOp(op);
    return replica_->loss_sum();
  }
  double Loss() { return Loss(Blocks()); }
  std::vector<RowBlock> Blocks() const {
    std::vector<RowBlock> blocks;
    for (const SparseRows& rows : rows_) blocks.emplace_back(rows, 3);
    return blocks;
  }

  // The slope of the loss along `w`; none where it bends, at a kink of a ReLU.
  std::optional<double> Slope(float* w) {
    constexpr float kStep = 1e-3f;
    const double middle = Loss();
    const float kept = *w;
    *w = kept + kStep;
    const double right = (Loss() - middle) / kStep;
    *w = kept - kStep;
    const double left = (middle - Loss()) / kStep;
    *w = kept;
    if (std::abs(right - left) > 0.02 * (1 + std::abs(right))) return std::nullopt;
    return (right + left) / 2;
  }
  void ExpectSlope(float* w, float gradient, const std::string& what) {
    const std::optional<double> slope = Slope(w);
    if (!slope.has_value()) {
      ++kinks_;
      return;
    }
    ++compared_;
    EXPECT_NEAR(gradient, *slope, 5e-3 * (1 + std::abs(*slope))) << what;
  }

  std::shared_ptr<const SparseModel> model_;
  std::vector<uint64_t> samples_;
  std::unique_ptr<GraphRunner> replica_;
  std::vector<SparseRows> rows_;
  int compared_ = 0, kinks_ = 0;
};

// d loss / d w by differences, for every element of every row and every tensor.
TEST_F(DlrmTest, GradientsAreThoseOfTheLoss) {
  std::vector<RowBlock> blocks = Blocks();
  Loss(blocks);
  std::vector<std::vector<float>> gradients;
  for (const ParamSpec& param : model_->graph()->params()) gradients.emplace_back(param.elements());
  for (size_t op = model_->graph()->ops().size(); op-- > 0;) {
    std::vector<absl::Span<float>> to;
    for (const ParamId p : model_->graph()->ops()[op].params) {
      to.push_back(absl::MakeSpan(gradients[Index(p)]));
    }
    replica_->BackwardOp(op, to);
  }
  model_->AddGradients(Batch(), replica_->InputGradient(model_->rows_input()), &blocks);
  for (size_t t = 0; t < rows_.size(); ++t) {
    const SparseRows of_rows = blocks[t].TakeGradients();
    ASSERT_EQ(of_rows.keys, rows_[t].keys);
    for (size_t e = 0; e < of_rows.rows.size(); ++e) {
      ExpectSlope(&rows_[t].rows[e], of_rows.rows[e], model_->tables()[t].name);
    }
  }
  for (uint32_t p = 0; p < params(); ++p) {
    for (size_t e = 0; e < gradients[p].size(); ++e) {
      ExpectSlope(&replica_->param(ParamId{p})[e], gradients[p][e],
                  model_->graph()->param(ParamId{p}).name);
    }
  }
  EXPECT_GT(compared_, 100);
  EXPECT_LT(kinks_, compared_ / 20);
}

// log(1 + exp(−z)) of a positive sample, z the difference of the logits: the paper's loss.
TEST_F(DlrmTest, LossIsBinaryCrossEntropyOfTheLogitsDifference) {
  const double loss = Loss();
  const std::vector<float> logits = replica_->logits();
  double expected = 0;
  for (size_t i = 0; i < samples_.size(); ++i) {
    const double z = logits[2 * i + 1] - logits[2 * i];
    expected += std::log1p(std::exp(model_->data().train.labels[i] > 0 ? -z : z));
  }
  EXPECT_NEAR(loss, expected, 1e-5);
}

TEST_F(DlrmTest, RowsOfAFieldAreAdded) {
  const std::vector<RowBlock> blocks = Blocks();
  MiniBatch feed;
  model_->DataOver(&blocks).train.Gather({2}, &feed);
  const absl::Span<const float> fields = feed.Floats(1);
  ASSERT_EQ(fields.size(), 9u);
  const absl::Span<const float> seven = blocks[2].row(blocks[2].Find(8));  // key = category + 1
  const absl::Span<const float> eight = blocks[2].row(blocks[2].Find(9));
  for (size_t e = 0; e < 3; ++e) EXPECT_EQ(fields[6 + e], seven[e] + seven[e] + eight[e]);
}

TEST_F(DlrmTest, MissingCategoriesHaveARowOfTheirOwn) {
  EXPECT_THAT(rows_[1].keys, ElementsAre(0, 0xee + 1, 0xff + 1));
}

// A step of either graph: the loss, and gradients by the name of the parameter.
struct OneStep {
  double loss = 0;
  std::map<std::string, std::vector<float>> gradients;
};

OneStep RunStep(GraphRunner* runner, const MiniBatch& feed) {
  OneStep step;
  CHECK(runner->Begin(feed.samples, FieldsOf(feed)).ok());
  const std::vector<Op>& ops = runner->graph().ops();
  for (size_t op = 0; op < ops.size(); ++op) runner->ForwardOp(op);
  step.loss = runner->loss_sum();
  for (size_t op = ops.size(); op-- > 0;) {
    std::vector<absl::Span<float>> to;
    for (const ParamId p : ops[op].params) {
      std::vector<float>& gradient = step.gradients[runner->graph().param(p).name];
      gradient.resize(runner->param(p).size());
      to.push_back(absl::MakeSpan(gradient));
    }
    runner->BackwardOp(op, to);
  }
  return step;
}

// Where both kinds have a row for each category and begin with the same values, they have the same
// loss and the same gradients, of layers and of rows.
TEST(DlrmKinds, ComputeTheSame) {
  const std::string path = testing::TempDir() + "/dlrm-kinds-" + std::to_string(getpid());
  std::ofstream(path) << "1\t3\t\t1a\tff\n0\t-2\t10\t1a\t\n1\t0\t1\t2b\tff\n0\t5\t2\t3c\tee\n";
  const std::string size = "dense=2,categorical=2,dim=3,bottom=5,top=6-4";
  const auto tables =
      *MakeSparseModel("dlrm:" + size, {.format = "criteo", .path = path, .test_path = path}, 0);
  const Dataset train = LoadData({.format = "criteo",
                                  .path = path,
                                  .test_path = path,
                                  .dense_columns = 2,
                                  .categorical_columns = 2,
                                  .rows_max = 100})
                            ->train;
  const Graph graph = *BuildModel("dlrm_hashed:" + size, {.classes = 2, .categories = {4, 4}});
  const auto by_rows = *GraphRunner::Create(
      *tables->graph(),
      {.backend = compute::MakeReferenceBackend(), .input_gradients = {tables->rows_input()}});
  const auto by_embeddings =
      *GraphRunner::Create(graph, {.backend = compute::MakeReferenceBackend()});
  // Row 0 is of categories that there are not; the others are in the order of their keys.
  std::vector<RowBlock> blocks;
  for (uint32_t f = 0; f < 2; ++f) {
    const absl::Span<float> values = by_embeddings->param(ParamId{f});
    SparseRows rows = {.keys = f == 0 ? std::vector<uint64_t>{0x1b, 0x2c, 0x3d}
                                      : std::vector<uint64_t>{0, 0xef, 0x100}};
    compute::InitSlice(graph.param(ParamId{f}), 3, ParamId{f}, 0, values);
    rows.rows.assign(values.begin() + 3, values.end());
    blocks.emplace_back(std::move(rows), 3);
  }
  for (uint32_t p = 2; p < graph.params().size(); ++p) {
    const ParamSpec& param = tables->graph()->param(ParamId{p - 2});
    EXPECT_EQ(graph.param(ParamId{p}).name, param.name);
    for (const auto& [runner, id] :
         {std::pair(by_embeddings.get(), p), std::pair(by_rows.get(), p - 2)}) {
      compute::InitSlice(param, 3, ParamId{p}, 0, runner->param(ParamId{id}));
    }
  }
  const std::vector<uint64_t> samples = {0, 1, 2, 3};
  MiniBatch feed;
  train.Gather(samples, &feed);
  OneStep hashed = RunStep(by_embeddings.get(), feed);
  tables->DataOver(&blocks).train.Gather(samples, &feed);
  const OneStep keyed = RunStep(by_rows.get(), feed);
  EXPECT_EQ(hashed.loss, keyed.loss);
  tables->AddGradients({.samples = samples}, by_rows->InputGradient(tables->rows_input()), &blocks);
  for (uint32_t f = 0; f < 2; ++f) {
    std::vector<float> expected(3);  // row 0
    const SparseRows of_rows = blocks[f].TakeGradients();
    expected.insert(expected.end(), of_rows.rows.begin(), of_rows.rows.end());
    const auto at = hashed.gradients.find(absl::StrCat("embedding.", f, ".weight"));
    ASSERT_NE(at, hashed.gradients.end());
    EXPECT_THAT(at->second, testing::Pointwise(testing::FloatEq(), expected));
    hashed.gradients.erase(at);
  }
  EXPECT_EQ(hashed.gradients, keyed.gradients);
}

TEST(DlrmSizeTest, IsThatOfTheCriteoKaggleModelUnlessSaid) {
  const Graph graph = *GraphOfSparseModel("dlrm");
  // 13-512-256-64-16, then 16 + 27·26/2 = 367-512-256-2
  EXPECT_EQ(graph.parameter_count(),
            14u * 512 + 513 * 256 + 257 * 64 + 65 * 16 + 368 * 512 + 513 * 256 + 257 * 2);
  const DlrmSize other =
      *ParseDlrm("dlrm:categorical=8,dim=64,bottom=512-512,top=1024-1024-1024,tiny,dense=64");
  EXPECT_EQ(other.dense, 64);
  EXPECT_EQ(other.categorical, 8);
  EXPECT_EQ(other.dim, 64);
  EXPECT_THAT(other.bottom, ElementsAre(512, 512));
  EXPECT_THAT(other.top, ElementsAre(1024, 1024, 1024));
}

TEST(DlrmSizeTest, SaysWhatIsWrong) {
  const auto why = [](const char* spec) { return std::string(ParseDlrm(spec).status().message()); };
  EXPECT_THAT(why("dlrm:width=3"), HasSubstr("unknown argument 'width'"));
  EXPECT_THAT(why("dlrm:dim=0"), HasSubstr("dim=0 is outside [1, 4096]"));
  EXPECT_THAT(why("dlrm:bottom=512--64"), HasSubstr("bottom=512--64: layers are widths"));
  EXPECT_THAT(why("dlrm:top=0"), HasSubstr("top=0: layers are widths"));
  EXPECT_THAT(why("dlrm:rows=7"), HasSubstr("unknown argument 'rows'"));
  EXPECT_THAT(why("dlrm_hashed:rows=1"), HasSubstr("rows=1 is outside [2, 1073741824]"));
  EXPECT_THAT(why("dlrm:small"), HasSubstr("'small' is not of the form key=value"));
  EXPECT_THAT(std::string(MakeSparseModel("dlrm", {.format = "libsvm"}, 0).status().message()),
              HasSubstr("takes data of format criteo or clicks, not libsvm"));
}

}  // namespace
}  // namespace soapstone::models
