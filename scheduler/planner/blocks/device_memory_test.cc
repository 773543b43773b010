#include "scheduler/planner/blocks/device_memory.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/search/random_source.h"

namespace soapstone::planner {
namespace {

constexpr uint32_t kMicroBatches = 5;

// The formula of device_memory.h, term by term.
int64_t HeldOf(const std::vector<int64_t>& activations, int64_t rest, uint32_t in_flight) {
  int64_t most = 0;
  for (size_t first = 0; first + in_flight <= activations.size(); ++first) {
    int64_t sum = 0;
    for (size_t j = first; j < first + in_flight; ++j) sum += activations[j];
    most = std::max(most, sum);
  }
  return rest + most;
}

TEST(DeviceMemoryTest, HoldsTheFullestStretchOfMicroBatches) {
  const Machine machine = FakeMachine({});
  DeviceMemory memory(machine, kMicroBatches);
  RandomSource random(1, 0);
  std::vector<std::vector<int64_t>> activations(2, std::vector<int64_t>(kMicroBatches, 0));
  std::vector<int64_t> rest(2, 0);
  for (int i = 0; i < 200; ++i) {
    const uint32_t device = random.Below(2), j = random.Below(kMicroBatches);
    const int64_t bytes = random.Below(1000);
    if (random.Below(4) == 0) {
      memory.AddParameters(device, bytes);
      rest[device] += bytes;
    } else {
      // Sometimes there and away again.
      memory.AddMemory(device, j, bytes);
      if (random.Below(2) == 0) {
        memory.AddMemory(device, j, -bytes);
      } else {
        activations[device][j] += bytes;
      }
    }
    for (uint32_t w = 1; w <= kMicroBatches; ++w) {
      ASSERT_EQ(memory.Held(device, w), HeldOf(activations[device], rest[device], w));
    }
  }
  memory.Clear();
  EXPECT_EQ(memory.Held(0, 1), 0);
  EXPECT_EQ(memory.Held(1, kMicroBatches), 0);
}

TEST(DeviceMemoryTest, AsManyAreUnderWayAsFitOnEveryDevice) {
  const Machine machine = FakeMachine({.memory_bytes = 100});
  DeviceMemory memory(machine, kMicroBatches);
  EXPECT_EQ(memory.InFlight(), kMicroBatches);
  for (uint32_t j = 0; j < kMicroBatches; ++j) memory.AddMemory(0, j, 20);
  EXPECT_EQ(memory.InFlight(), 5u);
  memory.AddParameters(0, 30);
  EXPECT_EQ(memory.InFlight(), 3u);
  EXPECT_EQ(memory.Excess(3), 0);
  EXPECT_EQ(memory.Excess(4), 10);
  // The other device lets fewer be.
  for (uint32_t j = 0; j < kMicroBatches; ++j) memory.AddMemory(1, j, 50);
  EXPECT_EQ(memory.InFlight(), 2u);
  // One is, whether it fits or not.
  memory.AddParameters(1, 60);
  EXPECT_EQ(memory.InFlight(), 1u);
  EXPECT_EQ(memory.Excess(1), 10);
}

TEST(DeviceMemoryTest, OneMicroBatchIsAllThereIs) {
  const Machine machine = FakeMachine({.memory_bytes = 100});
  DeviceMemory memory(machine, 1);
  memory.AddMemory(0, 0, 70);
  memory.AddParameters(0, 50);
  EXPECT_EQ(memory.InFlight(), 1u);
  EXPECT_EQ(memory.Held(0, 1), 120);
  EXPECT_EQ(memory.Excess(1), 20);
}

}  // namespace
}  // namespace soapstone::planner
