#include "server/peer/pushed_gradient.h"

#include <gtest/gtest.h>

#include <cstring>

namespace soapstone::server {
namespace {

// Two parameters, a bucket each; their gradient is what a step leaves of values 0 at rate 1.
class PushedGradientTest : public ::testing::Test {
 protected:
  PushedGradientTest()
      : layout_(*wire::Layout::Build({{.name = "a", .shape = {2}}, {.name = "b", .shape = {3}}},
                                     {.bucket_bytes = 4})),
        offsets_(ParamOffsets(layout_.params())),
        vectors_(MakeDoubleVectors(
            std::vector<double>(5),
            [](Clock, uint64_t, absl::Span<const double> sum, absl::Span<double> values) {
              for (size_t e = 0; e < sum.size(); ++e) values[e] = sum[e];
            })) {}

  const std::vector<wire::Bucket>& buckets() const { return layout_.buckets(ShardId{0}); }

  // Of a bucket, all its elements `value`.
  wire::Message PushOf(uint32_t bucket, double value, uint64_t samples) const {
    wire::Message push;
    push.body = wire::Push{.bucket = BucketId{bucket}, .samples = samples};
    for (const wire::Slice& slice : buckets()[bucket].slices) {
      const std::vector<double> values(slice.elements(), value);
      push.payload.push_back(Buffer::CopyOf(values.data(), values.size() * sizeof(double)));
    }
    return push;
  }
  void Push(uint32_t bucket, double value, uint64_t samples) {
    gradient_.Add(PushOf(bucket, value, samples));
  }

  double Sum() {
    vectors_->ApplyGradient(0, 1);
    const Buffer values = vectors_->Values();
    double sum = 0;
    for (size_t i = 0; i < 5; ++i) {
      double value = 0;
      std::memcpy(&value, values.data() + i * sizeof(double), sizeof(double));
      sum += value;
    }
    return sum;
  }

  wire::Layout layout_;
  std::vector<uint64_t> offsets_;
  std::unique_ptr<PeerVectors> vectors_;
  PushedGradient gradient_;
};

TEST_F(PushedGradientTest, TheVectorsHaveAClocksPushesWhenItIsComplete) {
  ASSERT_EQ(buckets().size(), 2u);
  Push(0, 1, 8);
  Push(1, 1, 8);
  EXPECT_EQ(Sum(), 0);
  EXPECT_EQ(gradient_.Complete(buckets(), offsets_, vectors_.get()), 8u);
  EXPECT_EQ(Sum(), 5);
  // And never again.
  EXPECT_EQ(gradient_.Complete(buckets(), offsets_, vectors_.get()), 0u);
  EXPECT_EQ(Sum(), 0);
}

TEST_F(PushedGradientTest, SamplesAreThoseOfTheClocksThatNoStepHasTaken) {
  Push(0, 1, 8);
  Push(1, 1, 8);
  EXPECT_EQ(gradient_.samples(), 0u);
  gradient_.Complete(buckets(), offsets_, vectors_.get());
  Push(0, 1, 0);  // a bucket that was left out
  Push(1, 1, 4);
  EXPECT_EQ(gradient_.Complete(buckets(), offsets_, vectors_.get()), 4u);
  EXPECT_EQ(gradient_.samples(), 12u);
  EXPECT_EQ(gradient_.TakeSamples(), 12u);
  EXPECT_EQ(gradient_.samples(), 0u);
}

// Bucket 0 is "b", elements 2 to 4; the second stretch is of it alone.
TEST_F(PushedGradientTest, AStretchIsWholeOnceAClock) {
  using Stretches = std::vector<uint32_t>;
  gradient_.SetStretches({{0, 3}, {3, 5}});
  for (double clock = 1; clock <= 2; ++clock) {
    const auto add = [&](uint32_t bucket, double value) {
      return gradient_.AddPart(PushOf(bucket, value, 4), buckets(), offsets_, vectors_.get());
    };
    EXPECT_EQ(add(0, clock), Stretches{1});
    EXPECT_EQ(add(1, clock), Stretches{0});
    EXPECT_EQ(gradient_.Complete(buckets(), offsets_, vectors_.get()), 4u);
    EXPECT_EQ(gradient_.samples(), 0u);
    EXPECT_EQ(Sum(), 5 * clock);
  }
}

TEST_F(PushedGradientTest, APushFitsItsBucketsSlices) {
  const wire::Message push = PushOf(1, 1, 8);
  EXPECT_TRUE(PushedGradient::Fits(push, buckets(), vectors_.get()));
  wire::Message other = push;
  wire::As<wire::Push>(&other).bucket = BucketId{2};
  EXPECT_FALSE(PushedGradient::Fits(other, buckets(), vectors_.get()));
  EXPECT_FALSE(PushedGradient::Fits(other, buckets(), nullptr));
  wire::As<wire::Push>(&other).bucket = BucketId{0};  // of another size
  EXPECT_FALSE(PushedGradient::Fits(other, buckets(), vectors_.get()));
  EXPECT_TRUE(PushedGradient::Fits(other, buckets(), nullptr));
  other = push;
  other.payload.clear();
  EXPECT_FALSE(PushedGradient::Fits(other, buckets(), vectors_.get()));
}

TEST_F(PushedGradientTest, WithoutValuesSamplesCount) {
  Push(0, 1, 8);
  EXPECT_EQ(gradient_.Complete(buckets(), offsets_, nullptr), 8u);
  EXPECT_EQ(gradient_.samples(), 8u);
}

TEST_F(PushedGradientTest, TheFingerprintHasPushesAndSamples) {
  const auto print = [&] {
    Fingerprint f;
    gradient_.AddTo(&f);
    return f.value();
  };
  const auto none = print();
  Push(0, 1, 8);
  const auto pushed = print();
  gradient_.Complete(buckets(), offsets_, nullptr);
  EXPECT_NE(pushed, none);
  EXPECT_NE(print(), none);
  EXPECT_NE(print(), pushed);
}

}  // namespace
}  // namespace soapstone::server
