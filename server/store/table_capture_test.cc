#include "server/store/table_capture.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/sparse_table.h"
#include "server/store/store.h"

namespace soapstone::server {
namespace {

using testing::HasSubstr;

const CounterRandom kRowDraws(77, RandomUse::kTest);
constexpr uint32_t kRowDim = 3;

SparseTableOptions RowOptionsOf(const std::string& optimizer, uint64_t rows_max) {
  return {.dim = kRowDim,
          .optimizer = *compute::ParseOptimizer(optimizer),
          .init = InitKind::kNormal,
          .scale = 0.5,
          .seed = 5,
          .table = 0,
          .rows_max = rows_max,
          .checks = true};
}

// A step of some keys; `step` says which and how far.
void StepRows(uint64_t step, SparseTable* table) {
  std::set<uint64_t> keys;
  for (uint64_t i = 0; keys.size() < 40; ++i) keys.insert(kRowDraws.Below((step << 20) + i, 400));
  std::vector<float> gradients;
  for (size_t i = 0; i < keys.size() * kRowDim; ++i) {
    gradients.push_back(static_cast<float>(kRowDraws.Normal((step << 20) + 500'000 + i)));
  }
  const std::vector<uint64_t> all(keys.begin(), keys.end());
  ASSERT_TRUE(table->Apply({.lr = 0.1}, all, gradients).ok());
}

// As it is read by who asks for some rows.
void UseRows(uint64_t step, SparseTable* table) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < 10; ++i)
    keys.push_back(kRowDraws.Below((step << 20) + 900'000 + i, 400));
  std::vector<float> rows(keys.size() * kRowDim);
  table->Read(keys, absl::MakeSpan(rows));
}

RowBlock AllRowsOf(TableCapture* capture) {
  RowBlock all;
  EXPECT_TRUE(capture->Take(0, capture->table(0).rows(), &all).ok());
  return all;
}

RowBlock AllRowsOf(const SparseTable& table) {
  TableCapture capture({table.Capture()});
  return AllRowsOf(&capture);
}

void AppendBlock(const RowBlock& more, RowBlock* all) {
  const auto append = [](const auto& from, auto* to) {
    to->insert(to->end(), from.begin(), from.end());
  };
  append(more.keys, &all->keys);
  append(more.values, &all->values);
  append(more.first, &all->first);
  append(more.second, &all->second);
  append(more.steps, &all->steps);
  append(more.used, &all->used);
}

class TableCaptureOf : public testing::TestWithParam<std::tuple<const char*, uint64_t>> {
 protected:
  SparseTable Make() const {
    return SparseTable(RowOptionsOf(std::get<0>(GetParam()), std::get<1>(GetParam())));
  }
};

TEST_P(TableCaptureOf, HasTheRowsOfItsMomentHoweverTheyChangeMeanwhile) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SparseTable table = Make();
    uint64_t step = seed * 100;
    for (int i = 0; i < 8; ++i) StepRows(++step, &table);
    const RowBlock there = AllRowsOf(table);
    TableCapture capture({table.Capture()});
    table.KeepFor(&capture);
    RowBlock taken;
    while (taken.keys.size() < there.keys.size()) {
      for (uint64_t i = kRowDraws.Below(step, 3); i > 0; --i) StepRows(++step, &table);
      UseRows(++step, &table);
      RowBlock block;
      const size_t left = there.keys.size() - taken.keys.size();
      ASSERT_TRUE(
          capture.Take(0, 1 + kRowDraws.Below(++step, std::min<size_t>(left, 90)), &block).ok());
      AppendBlock(block, &taken);
    }
    EXPECT_EQ(taken, there);
    EXPECT_NE(AllRowsOf(table), there);
  }
}

// Rows, their order, what belongs to each and where eviction stands: so the same updates do the
// same from here on.
TEST_P(TableCaptureOf, WhatIsRestoredGoesOnAsWhatWasCaptured) {
  SparseTable table = Make();
  for (uint64_t step = 1; step < 20; ++step) {
    StepRows(step, &table);
    UseRows(step, &table);
  }
  TableCapture capture({table.Capture()});
  SparseTable restored = Make();
  ASSERT_EQ(capture.table(0).form, restored.form());
  if (capture.table(0).hand.has_value()) restored.set_hand(*capture.table(0).hand);
  for (uint32_t left = capture.table(0).rows(); left > 0;) {
    RowBlock block;
    const uint32_t some = std::min<uint32_t>(left, 37);
    ASSERT_TRUE(capture.Take(0, some, &block).ok());
    ASSERT_TRUE(restored.Restore(block).ok());
    left -= some;
  }
  for (uint64_t step = 20; step < 40; ++step) {
    ASSERT_EQ(AllRowsOf(restored), AllRowsOf(table)) << step;
    UseRows(step, &table);
    UseRows(step, &restored);
    StepRows(step, &table);
    StepRows(step, &restored);
  }
  // Checksums are those of what is there.
  std::vector<float> rows(table.size() * kRowDim);
  FrameSums of_table, of_restored;
  table.Read(table.Keys(), absl::MakeSpan(rows), &of_table);
  restored.Read(restored.Keys(), absl::MakeSpan(rows), &of_restored);
  EXPECT_EQ(of_restored.value(), of_table.value());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, TableCaptureOf,
                         testing::Combine(testing::Values("sgd:lr=0.1", "momentum:lr=0.1,mu=0.9",
                                                          "adagrad:lr=0.1", "adam:lr=0.01",
                                                          "ftrl:lr=0.1,beta=1,l1=0.1,l2=0.1"),
                                          testing::Values(0, 120)));

TEST(TableCaptureTest, RestoringRefusesAKeyTwiceAndMoreRowsThanAShardMayHave) {
  SparseTable table(RowOptionsOf("sgd:lr=0.1", 3));
  const auto block = [](std::vector<uint64_t> keys) {
    const size_t rows = keys.size();
    return RowBlock{.keys = std::move(keys),
                    .values = std::vector<float>(rows * kRowDim),
                    .first = {},
                    .second = {},
                    .steps = {},
                    .used = std::vector<uint64_t>(rows)};
  };
  EXPECT_TRUE(table.Restore(block({7, 3})).ok());
  EXPECT_THAT(table.Restore(block({3})).message(), HasSubstr("key 3 is there twice"));
  EXPECT_THAT(table.Restore(block({8, 9})).message(), HasSubstr("more than 3 rows for a shard"));
}

TEST(TableCaptureTest, ARowThatIsNotFiniteIsSeenAgain) {
  for (const bool of_state : {false, true}) {
    SparseTable table(RowOptionsOf("adagrad:lr=0.1", 0));
    RowBlock block;
    block.Resize(1, table.form());
    (of_state ? block.second : block.values)[1] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE(table.Restore(block).ok());
    EXPECT_FALSE(table.all_finite());
  }
}

TEST(TableCaptureTest, WhereTooMuchIsKeptItIsGivenUpAtTheDeadlineAndSaysSo) {
  SparseTable table(RowOptionsOf("sgd:lr=0.1", 0));
  for (uint64_t step = 1; step < 20; ++step) StepRows(step, &table);
  TableCapture capture({table.Capture()}, /*kept_bytes_max=*/4000);
  table.KeepFor(&capture);
  capture.WaitForRoom(SteadyTime::InfinitePast());
  EXPECT_FALSE(capture.ended());
  StepRows(20, &table);
  capture.WaitForRoom(SteadyTime::InfinitePast());
  EXPECT_TRUE(capture.ended());
  RowBlock block;
  EXPECT_THAT(capture.Take(0, 1, &block).message(), HasSubstr("rows change faster"));
  StepRows(21, &table);  // and nothing is kept for it
}

TEST(TableCaptureTest, WhoTakesRowsMakesRoom) {
  SparseTable table(RowOptionsOf("sgd:lr=0.1", 0));
  for (uint64_t step = 1; step < 20; ++step) StepRows(step, &table);
  const RowBlock there = AllRowsOf(table);
  TableCapture capture({table.Capture()}, /*kept_bytes_max=*/4000);
  table.KeepFor(&capture);
  RowBlock taken;
  std::thread writer([&] {
    while (taken.keys.size() < there.keys.size()) {
      RowBlock block;
      const size_t left = there.keys.size() - taken.keys.size();
      ASSERT_TRUE(capture.Take(0, std::min<size_t>(left, 8), &block).ok());
      AppendBlock(block, &taken);
    }
  });
  for (uint64_t step = 20; step < 60; ++step) {
    capture.WaitForRoom(SteadyNow() + absl::Minutes(1));
    StepRows(step, &table);
  }
  writer.join();
  EXPECT_FALSE(capture.ended());
  EXPECT_EQ(taken, there);
}

// What is written down outlives the shard, and one that is not taken is no burden.
TEST(TableCaptureTest, AStoreKeepsRowsForTheNewestThatIsStillHeld) {
  TensorStoreOptions options;
  options.layout = std::make_shared<const wire::Layout>(*wire::Layout::Build(
      {}, {.shard_count = 1, .tables = {{.name = "a", .dim = 1}, {.name = "b", .dim = 2}}}));
  options.optimizer = *compute::ParseOptimizer("sgd:lr=1");
  options.schedule = *compute::ParseSchedule("constant");
  options.total_clocks = 10;
  auto store = std::make_unique<Store>(options);
  const auto push = [&](uint32_t table, const std::vector<uint64_t>& keys, float gradient) {
    Contribution part = {.samples = 1, .batch_samples = 1};
    const std::vector<float> rows(keys.size() * (table + 1), gradient);
    part.payload = {Buffer::CopyOf<uint64_t>(keys), Buffer::CopyOf<float>(rows)};
    store->Apply(options.layout->BucketOfTable(ShardId{0}, table), 0, {part}, 1, 1);
  };
  push(0, {1, 2}, -1);
  push(1, {5}, -1);
  const std::shared_ptr<TableCapture> older = store->CaptureTables();
  const std::shared_ptr<TableCapture> newer = store->CaptureTables();
  EXPECT_TRUE(older->ended());
  push(0, {1, 2, 3}, -1);
  push(1, {5}, -1);
  store.reset();
  RowBlock block;
  ASSERT_TRUE(newer->Take(0, 2, &block).ok());
  EXPECT_EQ(block.keys, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(block.values, (std::vector<float>{1, 1}));
  EXPECT_EQ(newer->table(0).rows(), 2u);
  ASSERT_TRUE(newer->Take(1, 1, &block).ok());
  EXPECT_EQ(block.values, (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace soapstone::server
