#include "server/store/capture.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "server/store/store.h"

namespace soapstone::server {
namespace {

constexpr uint64_t kElements = 6;

Store StoreOf(const std::string& optimizer) {
  TensorStoreOptions options;
  options.layout = std::make_shared<const wire::Layout>(
      *wire::Layout::Build({{.name = "w", .shape = {4}}, {.name = "b", .shape = {2}}},
                           {.shard_count = 1, .bucket_bytes = 8}));
  options.optimizer = *compute::ParseOptimizer(optimizer);
  options.schedule = *compute::ParseSchedule("constant");
  options.total_clocks = 10;
  return Store(options);
}

void Step(Clock clock, Store* store) {
  const std::vector<float> gradient(kElements, 0.5f + static_cast<float>(clock));
  for (uint32_t b = 0; b < 2; ++b) {
    const size_t slices = store->ReadBucket(BucketId{b}).size();
    Contribution part = {.samples = 2, .batch_samples = 2};
    for (size_t i = 0; i < slices; ++i) {
      const size_t bytes = store->ReadBucket(BucketId{b})[i].size();
      part.payload.push_back(
          Buffer::CopyOf(absl::MakeConstSpan(gradient.data(), bytes / sizeof(float))));
    }
    store->Apply(BucketId{b}, clock, {part}, 1, 1);
  }
}

TEST(CaptureOrderTest, CapturesOnceWhereTheFrontierIsTheClock) {
  CaptureOrder order;
  EXPECT_EQ(order.Look(3, kNoClock), std::nullopt);  // nobody has asked
  order.Take(4);
  EXPECT_EQ(order.Look(3, kNoClock), std::nullopt);
  EXPECT_EQ(order.Look(4, kNoClock), 4);
  EXPECT_EQ(order.Look(4, kNoClock), std::nullopt);
  EXPECT_EQ(order.TakeMissed(), std::nullopt);
}

TEST(CaptureOrderTest, SaysOnceThatItCameTooLate) {
  CaptureOrder order;
  order.Take(4);
  EXPECT_EQ(order.Look(5, kNoClock), std::nullopt);
  EXPECT_EQ(order.TakeMissed(), 5);
  EXPECT_EQ(order.TakeMissed(), std::nullopt);
  EXPECT_EQ(order.Look(6, kNoClock), std::nullopt);
}

// Updates are applied as they come: of clocks below it all are to be there, and of others none.
TEST(CaptureOrderTest, CapturesNothingThatAnUpdateOfTheOrdersClockIsIn) {
  CaptureOrder order;
  order.Take(4);
  EXPECT_EQ(order.Look(2, 3), std::nullopt);
  EXPECT_EQ(order.TakeMissed(), std::nullopt);
  EXPECT_EQ(order.Look(4, 3), 4);
  for (const Clock frontier : {2, 4}) {
    order.Take(4);
    EXPECT_EQ(order.Look(frontier, 4), std::nullopt);
    EXPECT_EQ(order.TakeMissed(), 5);
  }
}

// What was captured stays as it was, and a store that is restored from it goes on to the same bits.
TEST(CaptureTest, ARestoredStoreGoesOnAsTheFirst) {
  for (const char* optimizer : {"sgd:lr=0.1", "momentum:lr=0.1,mu=0.9", "adam:lr=0.01"}) {
    Store first = StoreOf(optimizer);
    for (Clock clock = 0; clock < 3; ++clock) Step(clock, &first);
    const Capture capture = {.clock = 3, .slices = first.Capture()};
    for (Clock clock = 3; clock < 6; ++clock) Step(clock, &first);

    Store second = StoreOf(optimizer);
    const auto restore = [&](Store* store, bool with_moments) {
      return store->Restore(
          [&](size_t slice, absl::Span<float> values, compute::SliceState* state) {
            const SliceImage& image = capture.slices[slice];
            std::copy_n(image.values.floats().begin(), values.size(), values.begin());
            if (with_moments) *state = image.state;
            return absl::OkStatus();
          });
    };
    ASSERT_TRUE(restore(&second, true).ok());
    for (Clock clock = 3; clock < 6; ++clock) Step(clock, &second);
    EXPECT_EQ(second.Read(), first.Read()) << optimizer;

    // The mutant: moments are not in the image.
    Store mutant = StoreOf(optimizer);
    ASSERT_TRUE(restore(&mutant, false).ok());
    for (Clock clock = 3; clock < 6; ++clock) Step(clock, &mutant);
    const bool has_moments = std::string(optimizer).substr(0, 3) != "sgd";
    EXPECT_EQ(mutant.Read() != first.Read(), has_moments) << optimizer;
  }
}

}  // namespace
}  // namespace soapstone::server
