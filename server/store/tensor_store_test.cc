#include "server/store/tensor_store.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/leaf_tree.h"
#include "base/memory/past_cache.h"
#include "base/random.h"
#include "consistency/catalogue.h"
#include "gtest/gtest.h"
#include "server/model/model_gatherer.h"

namespace soapstone::server {
namespace {

std::shared_ptr<const wire::Layout> MakeLayout(uint32_t shards) {
  return std::make_shared<const wire::Layout>(*wire::Layout::Build(
      {{.name = "a", .shape = {100, 50}, .init = InitKind::kUniform, .scale = 0.1},
       {.name = "b", .shape = {7}}},
      {.shard_count = shards}));
}

TensorStore MakeStore(std::shared_ptr<const wire::Layout> layout, uint32_t shard) {
  return TensorStore({.layout = std::move(layout),
                      .shard = ShardId{shard},
                      .optimizer = *compute::ParseOptimizer("sgd:lr=1"),
                      .schedule = *compute::ParseSchedule("constant"),
                      .total_clocks = 1,
                      .seed = 3,
                      .fixed_tree = true});
}

std::string HashOf(uint32_t shards) {
  const auto layout = MakeLayout(shards);
  return HashOfShards(layout, [&](ShardId shard, BucketId bucket) {
    return MakeStore(layout, Index(shard)).ReadBucket(bucket);
  });
}

TEST(TensorStoreTest, InitialValuesDoNotDependOnTheNumberOfShards) {
  const std::string one = HashOf(1);
  EXPECT_EQ(HashOf(2), one);
  EXPECT_EQ(HashOf(5), one);
}

TEST(TensorStoreTest, GivenInitialValuesGoToTheSlicesWhereverTheyAre) {
  auto given = std::make_shared<compute::GivenValues>();
  const auto whole = MakeLayout(1);
  for (const ParamSpec& param : whole->params()) {
    given->emplace_back(param.elements());
    for (size_t e = 0; e < given->back().size(); ++e) {
      given->back()[e] = static_cast<float>(10'000 * given->size() + e);
    }
  }
  for (uint32_t shards : {1u, 2u, 5u}) {
    const auto layout = MakeLayout(shards);
    uint64_t seen = 0;
    for (uint32_t k = 0; k < shards; ++k) {
      const TensorStore store({.layout = layout, .shard = ShardId{k}, .given = given});
      const Buffers values = store.Read();
      for (size_t i = 0; i < values.size(); ++i) {
        const wire::Slice& slice = layout->slices(ShardId{k})[i];
        const auto from = (*given)[Index(slice.param)].begin() + static_cast<int64_t>(slice.begin);
        ASSERT_TRUE(std::equal(values[i].floats().begin(), values[i].floats().end(), from));
        seen += values[i].floats().size();
      }
    }
    EXPECT_EQ(seen, 5007u);
  }
}

TEST(TensorStoreTest, SumDoesNotDependOnHowMicroBatchesWereGrouped) {
  constexpr uint32_t kMicroBatches = 6;
  const auto layout = MakeLayout(1);
  const size_t slices = layout->slices(ShardId{0}).size();
  const CounterRandom random(1, RandomUse::kTest);
  const auto micro_batch_value = [&](uint32_t micro_batch, size_t i) {
    return static_cast<float>(random.Normal(micro_batch * 100'000 + i));
  };
  // The tree's sum of a node, for one slice.
  const std::function<std::vector<float>(MicroBatchRange, size_t)> sum = [&](MicroBatchRange node,
                                                                             size_t n) {
    std::vector<float> out(n);
    if (node.size() == 1) {
      for (size_t i = 0; i < n; ++i) out[i] = micro_batch_value(node.begin, i);
      return out;
    }
    const uint32_t mid = LeafSplit(node.begin, node.end);
    out = sum({node.begin, mid}, n);
    const std::vector<float> right = sum({mid, node.end}, n);
    for (size_t i = 0; i < n; ++i) out[i] += right[i];
    return out;
  };
  std::vector<Buffers> results;
  for (uint32_t workers = 1; workers <= kMicroBatches; ++workers) {
    TensorStore store = MakeStore(layout, 0);
    std::vector<Contribution> parts;
    for (uint32_t w = 0; w < workers; ++w) {
      for (MicroBatchRange node :
           CanonicalNodes(LeavesOfRank(w, workers, kMicroBatches), kMicroBatches)) {
        Contribution part = {.micro_batches = node, .samples = 1, .batch_samples = kMicroBatches};
        for (size_t s = 0; s < slices; ++s) {
          const std::vector<float> values = sum(node, layout->slices(ShardId{0})[s].elements());
          part.payload.push_back(Buffer::CopyOf<float>(values));
        }
        parts.push_back(std::move(part));
      }
    }
    store.Apply(BucketId{0}, 0, parts, kMicroBatches, workers);
    results.push_back(store.Read());
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(TensorStoreTest, ReadIsASnapshot) {
  const auto layout = MakeLayout(1);
  TensorStore store = MakeStore(layout, 0);
  const Buffers before = store.Read();
  const float first = before[0].floats()[0];
  Contribution part = {.micro_batches = {0, 1}, .samples = 1, .batch_samples = 1};
  for (const wire::Slice& slice : layout->slices(ShardId{0})) {
    const std::vector<float> ones(slice.elements(), 1.0f);
    part.payload.push_back(Buffer::CopyOf<float>(ones));
  }
  store.Apply(BucketId{0}, 0, {part}, 1, 1);
  EXPECT_EQ(before[0].floats()[0], first);
  EXPECT_EQ(store.Read()[0].floats()[0], first - 1.0f);
}

Contribution Constant(const wire::Layout& layout, uint32_t worker, float value, uint64_t samples) {
  Contribution part = {.worker = WorkerId{worker},
                       .micro_batches = {worker, worker + 1},
                       .samples = samples,
                       .batch_samples = 4};
  for (const wire::Slice& slice : layout.slices(ShardId{0})) {
    part.payload.push_back(Buffer::CopyOf<float>(std::vector<float>(slice.elements(), value)));
  }
  return part;
}

TensorStore StoreOf(std::shared_ptr<const wire::Layout> layout, std::string_view policy) {
  return TensorStore({.layout = std::move(layout),
                      .optimizer = *compute::ParseOptimizer("sgd:lr=1"),
                      .schedule = *compute::ParseSchedule("constant"),
                      .total_clocks = 1,
                      .seed = 3,
                      .rule = consistency::ParsePolicy(policy)->store});
}

TEST(TensorStoreTest, AveragesAreWeightedBySamples) {
  const auto layout = MakeLayout(1);
  TensorStore store = StoreOf(layout, "localsgd");
  const float before = store.Read()[0].floats()[0];
  store.Apply(BucketId{0}, 0, {Constant(*layout, 0, 1.0f, 3), Constant(*layout, 1, 5.0f, 1)}, 2, 2);
  EXPECT_FLOAT_EQ(store.Read()[0].floats()[0], before + 2.0f);
}

// D: 1, then 0.5 + 1 = 1.5. Classical: x + 1 + 1.5. Nesterov keeps x at W + eta D:
// W = x0 + 1 + 1.5, ahead by 0.75.
TEST(TensorStoreTest, BlockMomentumFollowsItsFormula) {
  const auto layout = MakeLayout(1);
  for (const bool nesterov : {false, true}) {
    TensorStore store = StoreOf(layout, nesterov ? "bmuf:eta=0.5" : "bmuf:eta=0.5,nesterov=0");
    const float before = store.Read()[0].floats()[0];
    for (Clock c = 0; c < 2; ++c) store.Apply(BucketId{0}, c, {Constant(*layout, 0, 1, 1)}, 1, 1);
    EXPECT_NEAR(store.Read()[0].floats()[0], before + 2.5f + (nesterov ? 0.75f : 0.0f), 1e-5);
  }
}

// g = 2 (one sample), x has moved by -0.5 since worker 0 read it: g' = 2 + 0.1 * 4 * -0.5 = 1.8.
TEST(TensorStoreTest, DelayCompensationFollowsItsFormula) {
  const auto layout = MakeLayout(1);
  TensorStore store = StoreOf(layout, "dcasgd:lambda=0.1");
  const float start = store.ReadFor(WorkerId{0})[0].floats()[0];
  store.ReadFor(WorkerId{1});
  store.Apply(BucketId{0}, 0, {Constant(*layout, 1, 2.0f, 1)}, 2, 2);  // x - 2/4: no delay
  EXPECT_FLOAT_EQ(store.Read()[0].floats()[0], start - 0.5f);
  store.Apply(BucketId{0}, 0, {Constant(*layout, 0, 2.0f, 1)}, 2, 2);
  EXPECT_FLOAT_EQ(store.Read()[0].floats()[0], start - 0.5f - 1.8f / 4);
}

TEST(TensorStoreTest, WeightsScaleTheirContributions) {
  const auto layout = MakeLayout(1);
  TensorStore store = StoreOf(layout, "softsync");
  const float start = store.Read()[0].floats()[0];
  Contribution half = Constant(*layout, 0, 4.0f, 1);
  half.weight = 0.5f;
  store.Apply(BucketId{0}, 0, {half, Constant(*layout, 0, 1.0f, 1)}, 2, 2);
  EXPECT_FLOAT_EQ(store.Read()[0].floats()[0], start - 3.0f / 4);
}

TEST(TensorStoreTest, MassIsTheLargestChangeAlone) {
  const auto layout = MakeLayout(1);
  EXPECT_DOUBLE_EQ(StoreOf(layout, "value").MassOf(0, Constant(*layout, 0, -8.0f, 1)), 2.0);
}

TEST(TensorStoreTest, ReadersOfTheSameValuesShareACopy) {
  const auto layout = MakeLayout(1);
  TensorStore store = MakeStore(layout, 0);
  const Buffers before = store.Read();
  EXPECT_EQ(store.Read()[0].data(), before[0].data());
  Contribution part = {.samples = 1, .batch_samples = 1};
  for (const wire::Slice& slice : layout->slices(ShardId{0})) {
    const std::vector<float> ones(slice.elements(), 1.0f);
    part.payload.push_back(Buffer::CopyOf(absl::MakeConstSpan(ones)));
  }
  store.Apply(BucketId{0}, 0, {part}, 1, 1);
  EXPECT_NE(store.Read()[0].data(), before[0].data());
  EXPECT_NE(store.Read()[0].floats()[0], before[0].floats()[0]);
}

// Slices are updated backwards every other time, in place or, while somebody reads, elsewhere.
TEST(TensorStoreTest, ReadersDoNotChangeWhatUpdatesDo) {
  const auto layout = MakeLayout(1);
  const size_t slices = layout->slices(ShardId{0}).size();
  ASSERT_GT(slices, 2u);
  TensorStore alone = MakeStore(layout, 0), read = MakeStore(layout, 0);
  const CounterRandom random(2, RandomUse::kTest);
  std::vector<Buffers> held;
  for (uint64_t step = 0; step < 6; ++step) {
    if (step % 3 != 2) held.push_back(read.Read());
    if (step % 3 == 2) held.clear();
    uint32_t first = 0;
    for (uint32_t b = 0; b < layout->buckets(ShardId{0}).size(); ++b) {
      Contribution part{.micro_batches = {0, 1}, .samples = 1, .batch_samples = 1};
      for (const wire::Slice& slice : layout->buckets(ShardId{0})[b].slices) {
        std::vector<float> g(slice.elements());
        for (float& value : g) value = static_cast<float>(random.Normal(step * 100'000 + first++));
        part.payload.push_back(Buffer::CopyOf<float>(g));
      }
      alone.Apply(BucketId{b}, 0, {part}, 1, 1);
      read.Apply(BucketId{b}, 0, {part}, 1, 1);
    }
    const Buffers expected = alone.Read(), got = read.Read();
    ASSERT_EQ(got.size(), slices);
    for (size_t i = 0; i < slices; ++i) ASSERT_TRUE(got[i] == expected[i]) << step << ' ' << i;
  }
}

// Of a large shard values go past the caches while somebody reads.
TEST(TensorStoreTest, ReadersOfALargeShardDoNotChangeWhatUpdatesDo) {
  const auto layout = std::make_shared<const wire::Layout>(*wire::Layout::Build(
      {{.name = "x", .shape = {static_cast<int64_t>(kPastCacheMin / sizeof(float)) + 5}}}, {}));
  const size_t slices = layout->slices(ShardId{0}).size();
  ASSERT_GT(slices, 2u);
  TensorStore alone = MakeStore(layout, 0), read = MakeStore(layout, 0);
  std::vector<float> g(layout->elements(ShardId{0}));
  for (size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(i % 1013) - 500;
  for (int step = 0; step < 2; ++step) {
    const Buffers held = read.Read();
    for (uint32_t b = 0; b < layout->buckets(ShardId{0}).size(); ++b) {
      Contribution part{.micro_batches = {0, 1}, .samples = 1, .batch_samples = 1};
      for (const wire::Slice& slice : layout->buckets(ShardId{0})[b].slices) {
        part.payload.push_back(
            Buffer::CopyOf<float>(absl::MakeConstSpan(g).subspan(slice.begin, slice.elements())));
      }
      alone.Apply(BucketId{b}, 0, {part}, 1, 1);
      read.Apply(BucketId{b}, 0, {part}, 1, 1);
    }
    const Buffers expected = alone.Read(), got = read.Read();
    for (size_t i = 0; i < slices; ++i) {
      ASSERT_TRUE(got[i] == expected[i]) << step << ' ' << i;
      ASSERT_FALSE(got[i] == held[i]) << step << ' ' << i;
    }
  }
}

TEST(TensorStoreTest, TellsWhatItHasInitialisedAndStopsWhereItIsNotWanted) {
  const auto layout = MakeLayout(1);
  uint64_t told = 0;
  const TensorStore whole(
      {.layout = layout, .seed = 3, .initialised = [&](uint64_t bytes) { return told += bytes; }});
  EXPECT_EQ(told, layout->elements() * sizeof(float));
  int times = 0;
  const TensorStore given_up({.layout = layout, .seed = 3, .initialised = [&](uint64_t) {
                                ++times;
                                return false;
                              }});
  EXPECT_EQ(times, 1);
}

const float kNan = std::nanf("");

TEST(TensorStoreTest, TheMassOfWhatIsNotFiniteIsInfinite) {
  const auto layout = MakeLayout(1);
  const TensorStore store = StoreOf(layout, "value");
  for (const float odd : {kNan, -kNan, INFINITY}) {
    Contribution part = Constant(*layout, 0, 1.0f, 1);
    std::vector<float> values(part.payload.back().floats().begin(),
                              part.payload.back().floats().end());
    values.back() = odd;
    part.payload.back() = Buffer::CopyOf<float>(values);
    EXPECT_EQ(store.MassOf(0, part), INFINITY);
  }
}

// By every rule, the parameter is named that an update leaves not finite.
TEST(TensorStoreTest, WhatAnUpdateLeavesNotFiniteIsNamed) {
  const auto layout = MakeLayout(1);
  for (const char* policy :
       {"bsp", "async", "softsync", "dcasgd:lambda=0.1", "easgd", "localsgd", "bmuf:eta=0.5"}) {
    TensorStore store = StoreOf(layout, policy);
    EXPECT_EQ(store.Apply(BucketId{0}, 0, {Constant(*layout, 0, 1.0f, 1)}, 1, 1), std::nullopt);
    Contribution odd = Constant(*layout, 0, 1.0f, 1);
    const size_t slices = odd.payload.size();
    for (size_t i = 0; i < slices; ++i) {
      SCOPED_TRACE(absl::StrCat(policy, " slice ", i));
      TensorStore spoilt = StoreOf(layout, policy);
      Contribution part = odd;
      std::vector<float> values(part.payload[i].size() / sizeof(float), kNan);
      part.payload[i] = Buffer::CopyOf<float>(values);
      EXPECT_EQ(spoilt.Apply(BucketId{0}, 0, {part}, 1, 1), layout->slices(ShardId{0})[i].param);
    }
  }
}

// What a worker left out (training.on_nonfinite) arrives as zeros that stand for no samples.
TEST(TensorStoreTest, AnUpdateOfNoSamplesChangesNothing) {
  const auto layout = MakeLayout(1);
  for (const char* policy :
       {"async", "softsync", "dcasgd:lambda=0.1", "localsgd", "bmuf:eta=0.5"}) {
    TensorStore store({.layout = layout,
                       .optimizer = *compute::ParseOptimizer("momentum:lr=1"),
                       .schedule = *compute::ParseSchedule("constant"),
                       .total_clocks = 1,
                       .seed = 3,
                       .rule = consistency::ParsePolicy(policy)->store});
    store.Apply(BucketId{0}, 0, {Constant(*layout, 0, 1.0f, 1)}, 1, 1);
    const Buffers before = store.Read();
    EXPECT_EQ(store.Apply(BucketId{0}, 0, {Constant(*layout, 0, 0.0f, 0)}, 1, 1), std::nullopt);
    EXPECT_EQ(store.Read(), before) << policy;
    EXPECT_EQ(store.samples(), 1u);
  }
}

}  // namespace
}  // namespace soapstone::server
