#include "models/tables/sparse_model.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

using testing::HasSubstr;

struct Case {
  const char* spec;
  const char* format;
  const char* text;
};

constexpr Case kCases[] = {
    {"logistic", "libsvm", "1 1:0.5 3:2\n-1 2:1\n1 3:1 4:-1\n-1 1:1 4:0.25\n1 5:1\n"},
    {"matrix_factorisation:dim=3", "triples", "1 1 4\n1 2 3\n2 1 5\n2 3 1\n3 3 2\n"},
    {"skip_gram:dim=4,window=2,negatives=3,min_count=1", "text",
     "a rose is a rose is a rose and a thorn is a thorn"},
};

std::shared_ptr<const SparseModel> Make(const Case& c) {
  const std::string path =
      testing::TempDir() + "/sparse_model_" + c.format + "-" + std::to_string(getpid());
  std::ofstream(path) << c.text;
  auto model = MakeSparseModel(c.spec, {.format = c.format, .path = path, .seed = 3}, 0);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

std::vector<SparseRows> RandomRows(const SparseModel& model, const SparseBatch& batch) {
  std::vector<std::vector<uint64_t>> keys(model.tables().size());
  model.AddKeys(batch, &keys);
  std::vector<SparseRows> rows(keys.size());
  for (size_t t = 0; t < keys.size(); ++t) {
    std::sort(keys[t].begin(), keys[t].end());
    keys[t].erase(std::unique(keys[t].begin(), keys[t].end()), keys[t].end());
    rows[t].keys = keys[t];
    const CounterRandom random(1, RandomUse::kTest, t);
    for (size_t e = 0; e < keys[t].size() * model.tables()[t].dim; ++e) {
      rows[t].rows.push_back(static_cast<float>(random.Normal(e)));
    }
  }
  return rows;
}

std::vector<RowBlock> BlocksOf(const SparseModel& model, const std::vector<SparseRows>& rows) {
  std::vector<RowBlock> blocks;
  for (size_t t = 0; t < rows.size(); ++t) blocks.emplace_back(rows[t], model.tables()[t].dim);
  return blocks;
}

class SparseModelTest : public testing::TestWithParam<Case> {};

// d loss / d w by central differences, for every element of every row.
TEST_P(SparseModelTest, GradientsAreThoseOfTheLoss) {
  const auto model = Make(GetParam());
  std::vector<uint64_t> samples(model->data().train.size());
  std::iota(samples.begin(), samples.end(), 0);
  const SparseBatch batch = {.clock = 2, .samples = samples};
  const std::vector<SparseRows> rows = RandomRows(*model, batch);
  std::vector<RowBlock> blocks = BlocksOf(*model, rows);
  model->Run(batch, &blocks);
  for (size_t t = 0; t < rows.size(); ++t) {
    const SparseRows gradients = blocks[t].TakeGradients();
    ASSERT_EQ(gradients.keys, rows[t].keys);
    for (size_t e = 0; e < rows[t].rows.size(); ++e) {
      constexpr float kStep = 1e-2f;
      const auto loss_at = [&](float by) {
        std::vector<SparseRows> moved = rows;
        moved[t].rows[e] += by;
        std::vector<RowBlock> at = BlocksOf(*model, moved);
        return model->Run(batch, &at).loss_sum;
      };
      const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(gradients.rows[e], slope, 2e-2 * std::max(1.0, std::abs(slope)))
          << "table " << t << " element " << e;
    }
  }
}

TEST_P(SparseModelTest, HeldOutSamplesHaveALossAndNoGradients) {
  const auto model = Make(GetParam());
  std::vector<uint64_t> samples(model->data().test.size());
  std::iota(samples.begin(), samples.end(), 0);
  const SparseBatch batch = {.held_out = true, .samples = samples};
  std::vector<RowBlock> blocks = BlocksOf(*model, RandomRows(*model, batch));
  EXPECT_GT(model->Run(batch, &blocks).loss_sum, 0);
  for (RowBlock& block : blocks) EXPECT_TRUE(block.TakeGradients().keys.empty());
}

// What is on the diagonal is right.
TEST(LogisticTest, CountsWhatWasTakenForWhich) {
  const Case five = {"logistic", "libsvm", "1 1:1\n1 1:1\n1 2:1\n-1 1:1\n-1 2:1\n"};
  const auto model = Make(five);
  std::vector<SparseRows> rows = {{{0, 1, 2}, {0, 1, -1}}};  // the bias; 1 is taken for, 2 against
  const std::vector<uint64_t> samples = {0};
  const SparseBatch batch = {.held_out = true, .samples = samples};
  std::vector<RowBlock> blocks = BlocksOf(*model, rows);
  const SparseLoss loss = model->Run(batch, &blocks);
  const bool positive = model->data().test.labels[0] > 0;
  const bool taken = model->data().test.KeysOf(0)[0] == 1;
  ASSERT_EQ(loss.confusion.size(), 2u);
  EXPECT_EQ(loss.confusion[positive][taken], 1u);
  EXPECT_EQ(loss.confusion[0][0] + loss.confusion[1][1], loss.correct);
  EXPECT_EQ(loss.confusion[0][1] + loss.confusion[1][0], 1 - loss.correct);
}

INSTANTIATE_TEST_SUITE_P(All, SparseModelTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.format); });

TEST(RowBlockTest, GivesTheRowsTouchedOnce) {
  RowBlock block({{2, 4, 6}, {1, 2, 3}}, 1);
  block.gradient(block.Find(6))[0] += 5;
  block.gradient(block.Find(2))[0] += 7;
  EXPECT_EQ(block.TakeGradients(), (SparseRows{{2, 6}, {7, 5}}));
  EXPECT_EQ(block.TakeGradients(), SparseRows());
  block.gradient(2)[0] += 1;
  EXPECT_EQ(block.TakeGradients(), (SparseRows{{6}, {1}}));
}

TEST(RowBlockTest, FindsKeysNearEachOtherAndFarApart) {
  const uint64_t far = uint64_t{1} << 40;
  for (const std::vector<uint64_t>& keys :
       {std::vector<uint64_t>{0}, {3}, {0, 1, 2, 5}, {2, 9}, {0, 7, far}, {far, far + 1}}) {
    const RowBlock block({keys, std::vector<float>(keys.size())}, 1);
    for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(block.Find(keys[i]), i);
    EXPECT_DEATH(block.Find(4), "row 4 was not asked for");
  }
}

TEST(MakeSparseModelTest, SaysWhatIsWrong) {
  const auto why = [](const char* spec, const char* format) {
    return std::string(MakeSparseModel(spec, {.format = format}, 0).status().message());
  };
  EXPECT_THAT(why("logistic:dim=3", "libsvm"), HasSubstr("dim"));
  EXPECT_THAT(why("logistic", "csv"), HasSubstr("takes data of format libsvm, not csv"));
  EXPECT_THAT(why("matrix_factorisation:dim=0", "triples"), HasSubstr("dim"));
  EXPECT_THAT(why("skip_gram:windows=2", "text"), HasSubstr("windows"));
  EXPECT_TRUE(IsSparseModel("skip_gram:dim=2"));
  EXPECT_FALSE(IsSparseModel("softmax"));
}

}  // namespace
}  // namespace soapstone::models
