#include "scheduler/planner/simulator/step_parts.h"

#include <gtest/gtest.h>

#include <vector>

#include "strategy/machine_text.h"

namespace soapstone::planner {
namespace {

Machine TwoDevices() {
  return *ParseMachine(R"(name: "two"
    kinds { name: "gpu" tflops: 1 memory_gbytes_per_s: 100 memory_gib: 1 }
    nodes { name: "n" count: 1 devices: 2 kind: "gpu" mesh { gbytes_per_s: 10 } })",
                       "two");
}

TimelineTask Task(TaskKind kind, uint32_t resource, Nanos start, Nanos end) {
  return {.kind = kind, .resource = resource, .start = start, .end = end};
}

// Device 1 computes longest. While it does not: 10-14 a transfer, of which 12-14 beside a
// synchronization, 14-15 that alone, 15-18 nothing, 40-45 a synchronization, 45-47 its latency.
TEST(StepPartsTest, AreOfTheBusiestDeviceAndAddUpToTheStep) {
  const std::vector<TimelineTask> timeline = {
      Task(TaskKind::kForward, 0, 0, 18),      Task(TaskKind::kForward, 1, 0, 10),
      Task(TaskKind::kTransfer, 2, 5, 14),     Task(TaskKind::kSynchronize, 3, 12, 15),
      Task(TaskKind::kBackward, 1, 18, 40),    Task(TaskKind::kGradient, 3, 20, 30),
      Task(TaskKind::kSynchronize, 3, 38, 45),
  };
  const StepParts parts = PartsOf(TwoDevices(), timeline, 47);
  EXPECT_EQ(parts.device, 1u);
  EXPECT_EQ(parts.step_ns, 47);
  EXPECT_EQ(parts.compute_ns, 32);
  EXPECT_EQ(parts.communication_ns, 4);
  EXPECT_EQ(parts.synchronization_ns, 1 + 5);
  EXPECT_EQ(parts.idle_ns, 3 + 2);
}

}  // namespace
}  // namespace soapstone::planner
