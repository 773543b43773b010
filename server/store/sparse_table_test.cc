#include "server/store/sparse_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

using compute::ParseOptimizer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const CounterRandom kRandom(21, RandomUse::kTest);

SparseTableOptions OptionsOf(const char* optimizer, uint32_t dim) {
  return {.dim = dim,
          .optimizer = *ParseOptimizer(optimizer),
          .init = InitKind::kNormal,
          .scale = 0.5,
          .seed = 5,
          .table = 2};
}

std::vector<float> RowOf(SparseTable* table, uint64_t key) {
  std::vector<float> row(table->options().dim);
  table->Read({&key, 1}, absl::MakeSpan(row));
  return row;
}

std::vector<float> Gradients(size_t count, uint64_t from) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(0.1 * kRandom.Normal((from << 32) + i));
  }
  return out;
}

// `count` different keys of [0, below), ascending.
std::vector<uint64_t> SomeKeys(size_t count, uint64_t below, uint64_t from) {
  std::set<uint64_t> keys;
  for (uint64_t i = 0; keys.size() < count; ++i)
    keys.insert(kRandom.Below((from << 32) + i, below));
  return {keys.begin(), keys.end()};
}

void Touch(SparseTable* table, const std::vector<uint64_t>& keys) {
  const std::vector<float> gradients(keys.size() * table->options().dim, 1.0f);
  ASSERT_TRUE(table->Apply({.lr = 0.5}, keys, gradients).ok());
}

class TableOfKind : public ::testing::TestWithParam<std::tuple<const char*, uint32_t>> {};

TEST_P(TableOfKind, RowsHaveTheBitsOfSlices) {
  const SparseTableOptions options = OptionsOf(std::get<0>(GetParam()), std::get<1>(GetParam()));
  struct Slice {
    std::vector<float> values;
    compute::SliceState state;
  };
  std::map<uint64_t, Slice> slices;
  SparseTable table(options);
  for (uint64_t step = 1; step <= 8; ++step) {
    const std::vector<uint64_t> keys = SomeKeys(100, 400, step);
    const std::vector<float> gradients = Gradients(keys.size() * options.dim, 100 + step);
    const compute::Update update = {.lr = 0.02 * static_cast<double>(step), .scale = 1.0 / 3};
    for (size_t i = 0; i < keys.size(); ++i) {
      Slice& slice = slices[keys[i]];
      if (slice.values.empty()) slice.values = RowOf(&table, keys[i]);
      ApplyGradient(options.optimizer, update,
                    absl::MakeConstSpan(gradients).subspan(i * options.dim, options.dim),
                    absl::MakeSpan(slice.values), &slice.state);
    }
    ASSERT_TRUE(table.Apply(update, keys, gradients).ok());
  }
  EXPECT_EQ(table.size(), slices.size());
  for (const auto& [key, slice] : slices) ASSERT_EQ(RowOf(&table, key), slice.values) << key;
}

INSTANTIATE_TEST_SUITE_P(
    All, TableOfKind,
    ::testing::Combine(::testing::Values("sgd", "sgd:decay=0.01", "momentum", "nesterov", "adagrad",
                                         "rmsprop", "adam", "adamw:decay=0.01", "ftrl:l1=0.01"),
                       ::testing::Values(1u, 3u, 16u, 17u)));

TEST(SparseTable, AKeyWithoutARowReadsAsItsInitialValue) {
  const SparseTableOptions options = OptionsOf("sgd", 5);
  SparseTable table(options);
  const std::vector<uint64_t> keys = {7, 0, ~uint64_t{0}, 7};
  std::vector<float> rows(keys.size() * 5);
  table.Read(keys, absl::MakeSpan(rows));
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<float> expected(5);
    compute::InitRow({.kind = options.init, .scale = 0.5, .seed = 5, .table = 2}, keys[i],
                     absl::MakeSpan(expected));
    EXPECT_EQ(std::vector<float>(rows.begin() + i * 5, rows.begin() + i * 5 + 5), expected);
  }
  EXPECT_EQ(table.size(), 0u);
  EXPECT_THAT(table.Keys(), ElementsAre());
}

TEST(SparseTable, NothingToReadOrApplyIsNothing) {
  SparseTable table(OptionsOf("adam", 4));
  table.Read({}, {});
  EXPECT_TRUE(table.Apply({.lr = 1}, {}, {}).ok());
  EXPECT_EQ(table.size(), 0u);
}

TEST(SparseTable, ExtremeKeysAreKeysAsAnyOther) {
  SparseTable table(OptionsOf("sgd", 1));
  const std::vector<uint64_t> keys = {0, 1, uint64_t{1} << 63, ~uint64_t{0}};
  Touch(&table, keys);
  EXPECT_EQ(table.Keys(), keys);
}

TEST(SparseTable, BatchesMakeNoDifference) {
  const SparseTableOptions options = OptionsOf("adam", 7);
  const std::vector<uint64_t> keys = SomeKeys(500, 1u << 20, 3);
  const std::vector<float> gradients = Gradients(keys.size() * 7, 4);
  SparseTable whole(options), pieces(options);
  ASSERT_TRUE(whole.Apply({.lr = 0.1}, keys, gradients).ok());
  // Last piece first: rows get other numbers.
  for (size_t end = keys.size(); end > 0;) {
    const size_t begin = end > 77 ? end - 77 : 0;
    ASSERT_TRUE(pieces
                    .Apply({.lr = 0.1}, absl::MakeConstSpan(keys).subspan(begin, end - begin),
                           absl::MakeConstSpan(gradients).subspan(begin * 7, (end - begin) * 7))
                    .ok());
    end = begin;
  }
  std::vector<float> a(gradients.size()), b(gradients.size());
  whole.Read(keys, absl::MakeSpan(a));
  pieces.Read(keys, absl::MakeSpan(b));
  EXPECT_EQ(a, b);
  EXPECT_EQ(whole.Keys(), pieces.Keys());
}

TEST(SparseTable, RowsThatAreNotTouchedDoNotDecay) {
  SparseTable table(OptionsOf("sgd:decay=0.1", 3));
  Touch(&table, {1, 2});
  const std::vector<float> before = RowOf(&table, 2);
  Touch(&table, {1});
  EXPECT_EQ(RowOf(&table, 2), before);
}

TEST(SparseTable, MovesWithItsRows) {
  SparseTable from(OptionsOf("sgd", 3));
  Touch(&from, {5});
  const std::vector<float> row = RowOf(&from, 5);
  SparseTable to = std::move(from);
  EXPECT_EQ(RowOf(&to, 5), row);
  Touch(&to, {6});
  EXPECT_THAT(to.Keys(), ElementsAre(5, 6));
}

// At every size, so also right after a split of the index.
TEST(SparseTable, ARowCostsAtMostThreeTenthsMoreThanItsFloats) {
  struct Case {
    const char* optimizer;
    double floats;
  };
  for (const Case& c : {Case{"sgd", 16}, Case{"adagrad", 32}, Case{"adam", 48}}) {
    SparseTableOptions options = OptionsOf(c.optimizer, 16);
    options.init = InitKind::kZero;
    SparseTable table(options);
    double worst = 0;
    std::vector<uint64_t> keys(1000);
    const std::vector<float> gradients(keys.size() * 16);
    for (uint64_t key = 0; key < 300'000;) {
      for (uint64_t& k : keys) k = key++;
      ASSERT_TRUE(table.Apply({.lr = 1}, keys, gradients).ok());
      if (key < 50'000) continue;
      worst = std::max(worst, static_cast<double>(table.memory_bytes()) / static_cast<double>(key) /
                                  (4 * c.floats));
    }
    EXPECT_LE(worst, 1.3) << c.optimizer;
    EXPECT_GT(worst, 1.0) << c.optimizer;
  }
}

TEST(SparseTable, ASmallTableIsSmall) {
  SparseTable table(OptionsOf("sgd", 16));
  Touch(&table, {1, 2, 3});
  EXPECT_LT(table.memory_bytes(), 20'000u);
}

TEST(SparseTable, RefusesRowsBeyondItsLimitAndGoesOn) {
  SparseTableOptions options = OptionsOf("sgd", 2);
  options.rows_limit = 100;
  SparseTable table(options);
  const std::vector<uint64_t> keys = SomeKeys(100, 1000, 1);
  Touch(&table, keys);
  const uint64_t one_more = 1001;
  const std::vector<float> gradient = {1, 1};
  const absl::Status refused = table.Apply({.lr = 1}, {&one_more, 1}, gradient);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("table 2 has 100 rows"));
  Touch(&table, keys);
  EXPECT_EQ(table.Keys(), keys);
}

TEST(SparseTable, WithABoundRowsNotUsedForLongGoFirst) {
  SparseTableOptions options = OptionsOf("sgd", 2);
  options.rows_max = 100;
  SparseTable table(options);
  std::vector<uint64_t> first(100);
  for (uint64_t i = 0; i < 100; ++i) first[i] = i;
  Touch(&table, first);
  Touch(&table, {1000});  // a turn of the clock: all bits are cleared, and row 0 goes
  // From here on only half of them are used, some read, some written.
  std::vector<uint64_t> used;
  for (uint64_t i = 1; i < 100; i += 2) used.push_back(i);
  for (uint64_t i = 0; i < used.size(); i += 2) RowOf(&table, used[i]);
  for (uint64_t i = 1; i < used.size(); i += 2) Touch(&table, {used[i]});
  for (uint64_t key = 2000; key < 2049; ++key) Touch(&table, {key});
  EXPECT_EQ(table.size(), 100u);
  const std::vector<uint64_t> keys = table.Keys();
  for (const uint64_t key : used) {
    EXPECT_TRUE(std::binary_search(keys.begin(), keys.end(), key)) << key;
  }
  for (uint64_t key = 0; key < 100; key += 2) {
    EXPECT_FALSE(std::binary_search(keys.begin(), keys.end(), key)) << key;
  }
}

TEST(SparseTable, AnEvictedRowStartsAnew) {
  SparseTableOptions options = OptionsOf("adam", 3);
  options.rows_max = 1;
  SparseTable table(options);
  const std::vector<float> initial = RowOf(&table, 4);
  Touch(&table, {4});
  const std::vector<float> once = RowOf(&table, 4);
  Touch(&table, {5});
  EXPECT_EQ(RowOf(&table, 4), initial);
  Touch(&table, {4});
  EXPECT_EQ(RowOf(&table, 4), once);
  EXPECT_THAT(table.Keys(), ElementsAre(4));
}

// Batches larger than the bound, bounds smaller than a group: every row of the last group is there,
// with its gradient, and what is there was created by its last gradients.
TEST(SparseTable, EvictionInTheMidstOfABatchKeepsItsRows) {
  for (const uint64_t rows_max : {1, 2, 31, 33, 64, 1000}) {
    SparseTableOptions options = OptionsOf("sgd", 1);
    options.init = InitKind::kZero;
    options.rows_max = rows_max;
    SparseTable table(options);
    for (uint64_t step = 0; step < 50; ++step) {
      const std::vector<uint64_t> keys = SomeKeys(150, 2000, step);
      Touch(&table, keys);
      ASSERT_LE(table.size(), rows_max);
      const size_t last = std::min<size_t>(keys.size() % std::min<size_t>(32, rows_max), rows_max);
      for (size_t i = keys.size() - last; i < keys.size(); ++i) {
        ASSERT_LT(RowOf(&table, keys[i])[0], 0) << "rows_max " << rows_max << " step " << step;
      }
    }
    EXPECT_EQ(table.size(), std::min<uint64_t>(rows_max, table.Keys().size()));
  }
}

TEST(SparseTable, EvictionIsAFunctionOfTheCalls) {
  SparseTableOptions options = OptionsOf("sgd", 1);
  options.rows_max = 3000;
  SparseTable a(options), b(options);
  for (uint64_t step = 0; step < 60; ++step) {
    const std::vector<uint64_t> keys = SomeKeys(500, 20'000, step);
    for (SparseTable* table : {&a, &b}) {
      Touch(table, keys);
      RowOf(table, keys[step]);
    }
  }
  EXPECT_EQ(a.Keys(), b.Keys());
  EXPECT_EQ(a.size(), 3000u);
}

// Millions of evictions leave neither the index full of erased slots nor larger.
TEST(SparseTable, EvictionForLongKeepsMemoryAsItIs) {
  SparseTableOptions options = OptionsOf("sgd", 1);
  options.rows_max = 20'000;
  SparseTable table(options);
  uint64_t bytes = 0;
  std::vector<uint64_t> keys(1000);
  for (uint64_t key = 0; key < 1'000'000;) {
    for (uint64_t& k : keys) k = key++;
    Touch(&table, keys);
    if (key == 200'000) bytes = table.memory_bytes();
  }
  EXPECT_LE(table.memory_bytes(), bytes + bytes / 4);
  EXPECT_EQ(table.size(), 20'000u);
  for (const uint64_t key : keys) ASSERT_NE(RowOf(&table, key), RowOf(&table, key + 5'000'000));
}

TEST(SparseTable, SumsAreOfWhatWasWritten) {
  SparseTableOptions options = {.dim = 2,
                                .optimizer = *compute::ParseOptimizer("adam:lr=0.1"),
                                .init = InitKind::kNormal,
                                .scale = 1,
                                .seed = 3,
                                .rows_max = 4,
                                .checks = true};
  SparseTable table(options);
  const auto read = [&](const std::vector<uint64_t>& keys) {
    std::vector<float> rows(keys.size() * options.dim);
    FrameSums kept, content;
    table.Read(keys, absl::MakeSpan(rows), &kept);
    for (size_t i = 0; i < keys.size(); ++i) {
      content.Add(ContentSum(&rows[i * options.dim], options.dim * sizeof(float)));
    }
    EXPECT_EQ(kept.value(), content.value());
    return kept.value();
  };
  const uint64_t before = read({1, 2, 9});
  const std::vector<uint64_t> keys = {1, 2};
  const std::vector<float> gradients = {1, 2, 3, 4};
  ASSERT_TRUE(table.Apply({.lr = 0.1}, keys, gradients).ok());
  const uint64_t first = read({1, 2, 9});
  EXPECT_NE(first, before);
  ASSERT_TRUE(table.Apply({.lr = 0.1}, keys, gradients).ok());
  EXPECT_NE(read({1, 2, 9}), first);
  for (uint64_t key = 10; key < 20; ++key) {  // both are evicted on the way
    const std::vector<uint64_t> one = {key};
    ASSERT_TRUE(table.Apply({.lr = 0.1}, one, std::vector<float>{1, 1}).ok());
    read({key});
  }
  EXPECT_EQ(read({1, 2, 9}), before);
}

TEST(SparseTableDeath, KeysThatDoNotAscendAreABug) {
  SparseTable table(OptionsOf("sgd", 1));
  const std::vector<float> gradients = {1, 1};
  const std::vector<uint64_t> twice = {3, 3};
  EXPECT_DEATH((void)table.Apply({.lr = 1}, twice, gradients), "keys");
}

}  // namespace
}  // namespace soapstone::server
