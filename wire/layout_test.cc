#include "wire/layout.h"

#include <algorithm>
#include <set>
#include <utility>

#include "gtest/gtest.h"

namespace soapstone::wire {
namespace {

std::vector<ParamSpec> LeNet5() {
  return {
      {.name = "conv1.weight", .shape = {6, 1, 5, 5}},  {.name = "conv1.bias", .shape = {6}},
      {.name = "conv2.weight", .shape = {16, 6, 5, 5}}, {.name = "conv2.bias", .shape = {16}},
      {.name = "fc1.weight", .shape = {120, 400}},      {.name = "fc1.bias", .shape = {120}},
      {.name = "fc2.weight", .shape = {84, 120}},       {.name = "fc2.bias", .shape = {84}},
      {.name = "fc3.weight", .shape = {10, 84}},        {.name = "fc3.bias", .shape = {10}},
  };
}

Layout Built(std::vector<ParamSpec> params, LayoutOptions options) {
  absl::StatusOr<Layout> layout = Layout::Build(std::move(params), std::move(options));
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

// Every element of every parameter is in exactly one slice, and the accessors agree.
void ExpectCovers(const Layout& layout) {
  std::vector<std::vector<int>> seen;
  for (const ParamSpec& param : layout.params()) seen.emplace_back(param.elements(), 0);
  uint64_t total = 0;
  for (uint32_t s = 0; s < layout.shard_count(); ++s) {
    uint64_t in_shard = 0;
    for (const Slice& slice : layout.slices(ShardId{s})) {
      ASSERT_LT(slice.begin, slice.end);
      ASSERT_LE(slice.end, seen[Index(slice.param)].size());
      for (uint64_t e = slice.begin; e < slice.end; ++e) ++seen[Index(slice.param)][e];
      in_shard += slice.elements();
    }
    EXPECT_EQ(layout.elements(ShardId{s}), in_shard);
    EXPECT_GT(in_shard, 0u) << "shard " << s << " is empty";
    total += in_shard;
  }
  EXPECT_EQ(layout.elements(), total);
  for (const std::vector<int>& counts : seen) {
    EXPECT_TRUE(std::all_of(counts.begin(), counts.end(), [](int n) { return n == 1; }));
  }
}

TEST(LayoutTest, EveryElementIsOnceSomewhere) {
  for (uint32_t shards : {1u, 2u, 3u, 4u, 7u, 32u, 500u}) {
    SCOPED_TRACE(shards);
    ExpectCovers(Built(LeNet5(), {.shard_count = shards}));
  }
}

TEST(LayoutTest, ALargeTensorTravelsInBucketsOfTheirSize) {
  const Layout layout = Built({{.name = "w", .shape = {1 << 20}}}, {.bucket_bytes = 1 << 16});
  ExpectCovers(layout);
  EXPECT_EQ(layout.buckets(ShardId{0}).size(), 64u);
  for (const Bucket& bucket : layout.buckets(ShardId{0})) {
    EXPECT_EQ(bucket.elements() * sizeof(float), 1u << 16);
  }
  // Pieces do not become tiny where buckets are.
  EXPECT_EQ(
      Built({{.name = "w", .shape = {1 << 20}}}, {.bucket_bytes = 4}).slices(ShardId{0}).size(),
      1024u);
}

TEST(LayoutTest, AsManyShardsAsElements) {
  ExpectCovers(
      Built({{.name = "w", .shape = {2, 3}}, {.name = "b", .shape = {1}}}, {.shard_count = 7}));
}

TEST(LayoutTest, ShardsAreBalanced) {
  for (uint32_t shards : {2u, 3u, 4u}) {
    const Layout layout = Built(LeNet5(), {.shard_count = shards});
    uint64_t largest = 0;
    for (uint32_t s = 0; s < shards; ++s) largest = std::max(largest, layout.elements(ShardId{s}));
    const double mean = static_cast<double>(layout.elements()) / shards;
    EXPECT_LE(static_cast<double>(largest), 1.3 * mean) << shards << " shards";
  }
}

TEST(LayoutTest, SameInputsGiveTheSameLayout) {
  const LayoutOptions options = {.shard_count = 3, .bucket_bytes = 8192};
  EXPECT_EQ(Built(LeNet5(), options), Built(LeNet5(), options));
}

TEST(LayoutTest, BucketsHoldTheShardsSlicesInOrder) {
  const Layout layout = Built(LeNet5(), {.shard_count = 3, .bucket_bytes = 8192});
  for (uint32_t s = 0; s < 3; ++s) {
    std::vector<Slice> joined;
    for (const Bucket& bucket : layout.buckets(ShardId{s})) {
      EXPECT_EQ(bucket.first_slice, joined.size());
      joined.insert(joined.end(), bucket.slices.begin(), bucket.slices.end());
    }
    EXPECT_EQ(joined, layout.slices(ShardId{s}));
  }
}

TEST(LayoutTest, LastParameterTravelsFirst) {
  const Layout layout = Built(LeNet5(), {.shard_count = 2, .bucket_bytes = 8192});
  for (uint32_t s = 0; s < 2; ++s) {
    const std::vector<Slice>& slices = layout.slices(ShardId{s});
    EXPECT_TRUE(std::is_sorted(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return a.param != b.param ? a.param > b.param : a.begin < b.begin;
    }));
  }
}

TEST(LayoutTest, BucketClosesWhenItReachesItsSize) {
  constexpr uint64_t kBytes = 20'000;
  const Layout layout = Built(LeNet5(), {.shard_count = 2, .bucket_bytes = kBytes});
  for (uint32_t s = 0; s < 2; ++s) {
    const std::vector<Bucket>& buckets = layout.buckets(ShardId{s});
    ASSERT_GT(buckets.size(), 1u);
    for (size_t b = 0; b < buckets.size(); ++b) {
      const uint64_t bytes = buckets[b].elements() * 4;
      const uint64_t before_last = bytes - buckets[b].slices.back().elements() * 4;
      EXPECT_LT(before_last, kBytes);
      if (b + 1 < buckets.size()) {
        EXPECT_GE(bytes, kBytes);
      }
    }
  }
}

TEST(LayoutTest, ShardsAloneHaveTheirParametersAlone) {
  const std::vector<ParamSpec> params = {{.name = "a", .shape = {3}},
                                         {.name = "b", .shape = {5}},
                                         {.name = "c", .shape = {7}},
                                         {.name = "d", .shape = {2}}};
  const Layout layout = *Layout::BuildOfPieces(
      params, {.sets = 2, .set_of = {0, 1, 0, 1}, .servers = {{}, {}, {}, {}}},
      {.shard_count = 2, .bucket_bytes = 8});
  const Layout only = layout.Only({ShardId{1}});
  ASSERT_EQ(only.params().size(), 2u);
  EXPECT_EQ(only.params()[0].name, "b");
  EXPECT_EQ(only.params()[1].name, "d");
  ASSERT_EQ(only.shard_count(), 1u);
  EXPECT_EQ(only.elements(), 7u);
  ASSERT_EQ(only.buckets(ShardId{0}).size(), layout.buckets(ShardId{1}).size());
  std::vector<Slice> joined;
  for (const Bucket& bucket : only.buckets(ShardId{0})) {
    joined.insert(joined.end(), bucket.slices.begin(), bucket.slices.end());
  }
  EXPECT_EQ(joined, only.slices(ShardId{0}));
  for (size_t i = 0; i < joined.size(); ++i) {
    const Slice& of_all = layout.slices(ShardId{1})[i];
    EXPECT_EQ(only.params()[Index(joined[i].param)].name, params[Index(of_all.param)].name);
    EXPECT_EQ(joined[i].begin, of_all.begin);
    EXPECT_EQ(joined[i].end, of_all.end);
  }
}

TEST(LayoutTest, LargeBucketBytesMakeOneBucket) {
  const Layout layout = Built(LeNet5(), {.shard_count = 1, .bucket_bytes = uint64_t{1} << 40});
  EXPECT_EQ(layout.buckets(ShardId{0}).size(), 1u);
}

TEST(LayoutTest, RefusesMoreShardsThanElements) {
  const absl::StatusOr<Layout> layout =
      Layout::Build({{.name = "b", .shape = {3}}}, {.shard_count = 4});
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LayoutTest, RefusesWhatHasNoParameterOrNoShard) {
  EXPECT_FALSE(Layout::Build({}, {.shard_count = 1}).ok());
  EXPECT_FALSE(Layout::Build({{.name = "b", .shape = {3}}}, {.shard_count = 0}).ok());
}

TEST(LayoutTest, RefusesShapesThatAreNotSizes) {
  EXPECT_FALSE(Layout::Build({{.name = "b", .shape = {-3}}}, {}).ok());
  EXPECT_FALSE(Layout::Build({{.name = "b", .shape = {1 << 30, 1 << 30, 16}}}, {}).ok());
}

// VGG-16's layers: where its 138 million parameters are.
std::vector<ParamSpec> Vgg16() {
  std::vector<ParamSpec> params;
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns) {
    params.push_back({.name = name + ".weight", .shape = {rows, columns}});
    params.push_back({.name = name + ".bias", .shape = {rows}});
  };
  const int64_t widths[] = {3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512};
  for (size_t i = 1; i < std::size(widths); ++i) {
    add("conv" + std::to_string(i), widths[i], widths[i - 1] * 9);
  }
  add("fc6", 4096, 25088);
  add("fc7", 4096, 4096);
  add("fc8", 1000, 4096);
  return params;
}

TEST(LayoutTest, StagesCoverEverythingInForwardOrder) {
  for (const auto& [shards, transfer_stages] :
       std::vector<std::pair<uint32_t, uint32_t>>{{2, 2}, {6, 3}, {24, 8}, {100, 50}, {500, 500}}) {
    SCOPED_TRACE(transfer_stages);
    const Layout layout =
        Built(LeNet5(), {.shard_count = shards, .transfer_stages = transfer_stages});
    ExpectCovers(layout);
    EXPECT_EQ(layout.transfer_stages(), transfer_stages);
    // No element of a transfer stage comes before one of the transfer stage before.
    for (uint32_t a = 0; a < shards; ++a) {
      for (uint32_t b = 0; b < shards; ++b) {
        if (layout.transfer_stage(ShardId{a}) >= layout.transfer_stage(ShardId{b})) continue;
        const Slice last = layout.buckets(ShardId{a}).front().slices.back();
        const Slice first = layout.buckets(ShardId{b}).back().slices.front();
        EXPECT_LE(last.param, first.param);
        EXPECT_TRUE(last.param != first.param || last.end <= first.begin);
      }
    }
  }
}

TEST(LayoutTest, ShardsOfAStageAreEquallyLarge) {
  const Layout layout = Built(Vgg16(), {.shard_count = 24, .transfer_stages = 8});
  for (uint32_t transfer_stage = 0; transfer_stage < 8; ++transfer_stage) {
    for (uint32_t server = 1; server < 3; ++server) {
      EXPECT_NEAR(static_cast<double>(layout.elements(ShardId{server * 8 + transfer_stage})),
                  static_cast<double>(layout.elements(ShardId{transfer_stage})), 1);
    }
  }
}

TEST(LayoutTest, EarlyLayersGetStagesOfTheirOwnAndALargeOneSeveral) {
  const Layout layout = Built(Vgg16(), {.shard_count = 16, .transfer_stages = 16});
  const ParamId fc6{26};
  uint32_t of_fc6 = 0;
  for (uint32_t k = 0; k < 16; ++k) {
    const std::vector<Slice>& slices = layout.slices(ShardId{k});
    const bool large = std::any_of(slices.begin(), slices.end(),
                                   [&](const Slice& slice) { return slice.param == fc6; });
    of_fc6 += large ? 1 : 0;
    // Of a convolution, all or nothing.
    for (const Slice& slice : slices) {
      if (slice.param >= fc6) continue;
      uint64_t here = 0;
      for (const Slice& other : slices) here += other.param == slice.param ? other.elements() : 0;
      EXPECT_EQ(here, layout.params()[Index(slice.param)].elements()) << "stage " << k;
    }
  }
  EXPECT_GE(of_fc6, 5u);
  EXPECT_LT(layout.elements(ShardId{0}), layout.elements() / 1000);
  for (uint32_t k = 0; k < 16; ++k) {
    EXPECT_LT(layout.elements(ShardId{k}), layout.elements() / 6) << "stage " << k;
  }
}

TEST(LayoutTest, PiecesOfStagesAreNoLargerThanABucket) {
  const Layout layout =
      Built(LeNet5(), {.shard_count = 4, .bucket_bytes = 8192, .transfer_stages = 2});
  for (uint32_t k = 0; k < 4; ++k) {
    for (const Slice& slice : layout.slices(ShardId{k})) EXPECT_LE(slice.elements(), 2048u);
  }
}

TEST(LayoutTest, StagesThatDoNotDivideTheShardsAreRefused) {
  EXPECT_FALSE(
      Layout::Build({}, {.shard_count = 4, .tables = {{.name = "t"}}, .transfer_stages = 2}).ok());
  const auto refused = Layout::Build(LeNet5(), {.shard_count = 4, .transfer_stages = 3});
  EXPECT_EQ(refused.status().message(), "3 stages do not divide 4 shards");
  EXPECT_FALSE(Layout::Build(LeNet5(), {.shard_count = 4, .transfer_stages = 0}).ok());
}

}  // namespace
}  // namespace soapstone::wire
