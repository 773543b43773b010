#include "server/store.h"

#include "base/leaf_tree.h"
#include "base/random.h"
#include "gtest/gtest.h"
#include "server/model_gatherer.h"

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
                      .seed = 3});
}

wire::Message Slices(uint32_t shard, const TensorStore& store) {
  wire::Message message;
  message.type = wire::MessageType::kSlices;
  message.from = wire::Address::Of(ShardId{shard});
  message.payload = store.Read();
  return message;
}

std::string HashOf(uint32_t shards) {
  const auto layout = MakeLayout(shards);
  ModelGatherer gatherer(layout);
  for (uint32_t k = 0; k < shards; ++k) {
    EXPECT_EQ(*gatherer.OnSlices(Slices(k, MakeStore(layout, k))), k + 1 == shards);
  }
  return gatherer.Sha256Hex();
}

TEST(TensorStoreTest, InitialValuesDoNotDependOnTheNumberOfShards) {
  const std::string one = HashOf(1);
  EXPECT_EQ(HashOf(2), one);
  EXPECT_EQ(HashOf(5), one);
}

TEST(TensorStoreTest, SumDoesNotDependOnHowLeavesWereGrouped) {
  constexpr uint32_t kLeaves = 6;
  const auto layout = MakeLayout(1);
  const size_t slices = layout->slices(ShardId{0}).size();
  const CounterRandom random(1, RandomUse::kTest);
  const auto leaf_value = [&](uint32_t leaf, size_t i) {
    return static_cast<float>(random.Normal(leaf * 100'000 + i));
  };
  // The tree's sum of a node, for one slice.
  const std::function<std::vector<float>(LeafRange, size_t)> sum = [&](LeafRange node, size_t n) {
    std::vector<float> out(n);
    if (node.size() == 1) {
      for (size_t i = 0; i < n; ++i) out[i] = leaf_value(node.begin, i);
      return out;
    }
    const uint32_t mid = LeafSplit(node.begin, node.end);
    out = sum({node.begin, mid}, n);
    const std::vector<float> right = sum({mid, node.end}, n);
    for (size_t i = 0; i < n; ++i) out[i] += right[i];
    return out;
  };
  std::vector<std::vector<Buffer>> results;
  for (uint32_t workers = 1; workers <= kLeaves; ++workers) {
    TensorStore store = MakeStore(layout, 0);
    std::vector<Contribution> parts;
    for (uint32_t w = 0; w < workers; ++w) {
      for (LeafRange node : CanonicalNodes(LeavesOfRank(w, workers, kLeaves), kLeaves)) {
        Contribution part = {.leaves = node, .samples = 1, .batch_samples = kLeaves};
        for (size_t s = 0; s < slices; ++s) {
          const std::vector<float> values = sum(node, layout->slices(ShardId{0})[s].elements());
          part.payload.push_back(Buffer::CopyOf<float>(values));
        }
        parts.push_back(std::move(part));
      }
    }
    store.Apply(BucketId{0}, 0, parts, kLeaves);
    results.push_back(store.Read());
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(TensorStoreTest, ReadIsASnapshot) {
  const auto layout = MakeLayout(1);
  TensorStore store = MakeStore(layout, 0);
  const std::vector<Buffer> before = store.Read();
  const float first = before[0].floats()[0];
  Contribution part = {.leaves = {0, 1}, .samples = 1, .batch_samples = 1};
  for (const wire::Slice& slice : layout->slices(ShardId{0})) {
    const std::vector<float> ones(slice.elements(), 1.0f);
    part.payload.push_back(Buffer::CopyOf<float>(ones));
  }
  store.Apply(BucketId{0}, 0, {part}, 1);
  EXPECT_EQ(before[0].floats()[0], first);
  EXPECT_EQ(store.Read()[0].floats()[0], first - 1.0f);
}

TEST(CountStoreTest, CountsContributionsAndSumsTheirIntegers) {
  CountStore store(2);
  const int64_t delta = 41;
  const Contribution part = {.payload = {Buffer::CopyOf(&delta, sizeof(delta))}};
  store.Apply(BucketId{1}, {part, part});
  EXPECT_EQ(store.buckets()[1].applied, 2u);
  EXPECT_EQ(store.buckets()[1].sum, 82);
  EXPECT_EQ(store.buckets()[0].applied, 0u);
}

TEST(TensorStoreTest, ReadersOfTheSameValuesShareACopy) {
  const auto layout = MakeLayout(1);
  TensorStore store = MakeStore(layout, 0);
  const std::vector<Buffer> before = store.Read();
  EXPECT_EQ(store.Read()[0].data(), before[0].data());
  Contribution part = {.samples = 1, .batch_samples = 1};
  for (const wire::Slice& slice : layout->slices(ShardId{0})) {
    const std::vector<float> ones(slice.elements(), 1.0f);
    part.payload.push_back(Buffer::CopyOf(absl::MakeConstSpan(ones)));
  }
  store.Apply(BucketId{0}, 0, {part}, 1);
  EXPECT_NE(store.Read()[0].data(), before[0].data());
  EXPECT_NE(store.Read()[0].floats()[0], before[0].floats()[0]);
}

TEST(StoreTest, MayCountBesideItsValues) {
  const auto layout = MakeLayout(1);
  Store store(MakeStore(layout, 0), CountStore(1));
  const auto before = store.Read();
  Contribution part = {.samples = 1, .batch_samples = 1};
  for (const wire::Slice& slice : layout->slices(ShardId{0})) {
    const std::vector<float> ones(slice.elements(), 1.0f);
    part.payload.push_back(Buffer::CopyOf(absl::MakeConstSpan(ones)));
  }
  store.Apply(BucketId{0}, 0, {part}, 1);
  EXPECT_TRUE(store.checks_payload());
  EXPECT_EQ(store.counts()->buckets()[0], (CountStore::Count{.applied = 1, .sum = 0}));
  EXPECT_EQ(store.Read()[0].floats()[0], before[0].floats()[0] - 1.0f);
}

TEST(ModelGathererTest, FramesThatDoNotFitAreAnError) {
  const auto layout = MakeLayout(1);
  ModelGatherer gatherer(layout);
  wire::Message message = Slices(0, MakeStore(layout, 0));
  message.payload.pop_back();
  EXPECT_FALSE(gatherer.OnSlices(message).ok());
  message = Slices(9, MakeStore(layout, 0));
  EXPECT_FALSE(gatherer.OnSlices(message).ok());
}

}  // namespace
}  // namespace soapstone::server
