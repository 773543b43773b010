// A store with values made anew of its image: it goes on to the same bits.
#include <string>
#include <utility>
#include <vector>

#include "base/memory/state_image.h"
#include "base/random.h"
#include "consistency/catalogue.h"
#include "gtest/gtest.h"
#include "server/store/store.h"

namespace soapstone::server {
namespace {

TensorStoreOptions ImageTestOptions(const std::string& policy, const std::string& optimizer) {
  return {.layout = std::make_shared<const wire::Layout>(*wire::Layout::Build(
              {{.name = "a", .shape = {30, 20}, .init = InitKind::kUniform, .scale = 0.1},
               {.name = "b", .shape = {7}}},
              {.shard_count = 1})),
          .optimizer = *compute::ParseOptimizer(optimizer),
          .schedule = *compute::ParseSchedule("constant"),
          .total_clocks = 100,
          .seed = 3,
          .rule = consistency::ParsePolicy(policy)->store,
          .checks = true};
}

// The update of clock `clock` of one worker, after it has read.
void StepOf(Clock clock, Store* store) {
  const CounterRandom random(1, RandomUse::kTest, 0);
  const WorkerId worker{static_cast<uint32_t>(clock % 3)};
  store->ReadFor(worker, {}, false);
  Contribution part = {.worker = worker, .micro_batches = {0, 1}, .samples = 1, .batch_samples = 1};
  uint64_t draw = static_cast<uint64_t>(clock) << 32;
  for (const Buffer& slice : store->Read()) {
    std::vector<float> gradient(slice.floats().size());
    for (float& g : gradient) g = static_cast<float>(random.Normal(draw++));
    part.payload.push_back(Buffer::CopyOf(absl::MakeConstSpan(gradient)));
  }
  store->Apply(BucketId{0}, clock, {part}, 1, 3);
}

struct StoreImage {
  std::string bytes;
  Buffers buffers;
};
StoreImage ImageOfStore(const Store& store) {
  StateWriter writer;
  writer.Write(store);
  return {writer.TakeBytes(), writer.TakeBuffers()};
}
bool RestoreStore(const StoreImage& image, Store* store) {
  StateReader reader(image.bytes, image.buffers);
  reader.Read(store);
  return reader.done();
}

TEST(StoreImageTest, WhatIsMadeOfItGoesOnToTheSameBits) {
  const std::pair<const char*, const char*> jobs[] = {
      {"async", "sgd:lr=0.1"},     {"async", "momentum:lr=0.1,mu=0.9"},
      {"ssp:s=1", "adam:lr=0.01"}, {"dcasgd:lambda=1", "sgd:lr=0.1"},
      {"bmuf:h=1", "sgd:lr=0.1"},  {"easgd:tau=1", "sgd:lr=0.1"}};
  for (const auto& [policy, optimizer] : jobs) {
    const TensorStoreOptions options = ImageTestOptions(policy, optimizer);
    Store store(options);
    for (Clock clock = 0; clock < 5; ++clock) StepOf(clock, &store);
    const StoreImage image = ImageOfStore(store);
    for (Clock clock = 5; clock < 9; ++clock) StepOf(clock, &store);

    Store copy(options);
    for (Clock clock = 40; clock < 43; ++clock) StepOf(clock, &copy);  // it had others
    ASSERT_TRUE(RestoreStore(image, &copy)) << policy;
    EXPECT_EQ(ImageOfStore(copy).bytes, image.bytes) << policy;
    for (Clock clock = 5; clock < 9; ++clock) StepOf(clock, &copy);
    EXPECT_EQ(copy.Read(), store.Read()) << policy << ", " << optimizer;
    EXPECT_EQ(copy.samples(), store.samples());
    EXPECT_EQ(copy.stamp(BucketId{0}), store.stamp(BucketId{0}));
    EXPECT_EQ(copy.ReadToSave(BucketId{0}).checksum, store.ReadToSave(BucketId{0}).checksum);
  }
}

TEST(StoreImageTest, ItStaysAsItWasWhileTheStoreGoesOn) {
  Store store(ImageTestOptions("async", "momentum:lr=0.1,mu=0.9"));
  StepOf(0, &store);
  const StoreImage image = ImageOfStore(store);
  std::vector<Buffer> before;
  for (const Buffer& buffer : image.buffers)
    before.push_back(Buffer::CopyOf(buffer.data(), buffer.size()));
  for (Clock clock = 1; clock < 4; ++clock) StepOf(clock, &store);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(image.buffers[i], before[i]) << i;
}

TEST(StoreImageTest, AnotherJobsIsRefused) {
  Store momentum(ImageTestOptions("async", "momentum:lr=0.1,mu=0.9"));
  StepOf(0, &momentum);
  const StoreImage image = ImageOfStore(momentum);
  TensorStoreOptions smaller = ImageTestOptions("async", "momentum:lr=0.1,mu=0.9");
  smaller.layout = std::make_shared<const wire::Layout>(
      *wire::Layout::Build({{.name = "a", .shape = {30, 19}}}, {.shard_count = 1}));
  Store other(smaller);
  EXPECT_FALSE(RestoreStore(image, &other));
  for (size_t i = 0; i < image.buffers.size(); ++i) {
    StoreImage cut = image;
    cut.buffers.erase(cut.buffers.begin() + static_cast<ptrdiff_t>(i));
    Store copy(ImageTestOptions("async", "momentum:lr=0.1,mu=0.9"));
    EXPECT_FALSE(RestoreStore(cut, &copy)) << i;
  }
}

}  // namespace
}  // namespace soapstone::server
