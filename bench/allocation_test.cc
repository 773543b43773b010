// Counts what operator new is asked for, in both processes of a link: a message more costs none.
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "bench/cluster_link.h"
#include "gtest/gtest.h"

namespace {

// In memory that the processes of a measurement share with the test.
std::atomic<uint64_t>* Allocations() {
  static auto* count = [] {
    void* page = mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) std::abort();
    return new (page) std::atomic<uint64_t>(0);
  }();
  return count;
}

void* Counted(size_t bytes) {
  Allocations()->fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT: this is operator new
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Counted(bytes); }
void* operator new[](size_t bytes) { return Counted(bytes); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  Allocations()->fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (posix_memalign(&memory, static_cast<size_t>(alignment), bytes) != 0) std::abort();
  return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }  // NOLINT
void operator delete(void* memory) noexcept { std::free(memory); }            // NOLINT: likewise
void operator delete[](void* memory) noexcept { std::free(memory); }          // NOLINT: likewise
void operator delete(void* memory, size_t) noexcept { std::free(memory); }    // NOLINT: likewise
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }  // NOLINT: likewise

namespace soapstone::bench {
namespace {

struct Case {
  const char* name;
  ClusterLoad load;  // of a step
  uint64_t steps = 6000;
};

class AllocationTest : public testing::TestWithParam<Case> {
 protected:
  static uint64_t CountOf(uint64_t steps) {
    ClusterLoad load = GetParam().load;
    load.steps = steps;
    const uint64_t before = *Allocations();
    RunCluster(load);
    return *Allocations() - before;
  }
};

// What start and end cost is in both runs. What time brings (a look at sockets) is not by message,
// and may differ by a little. A queue takes memory for its messages as it fills for the first time:
// a reader that gets no processor sees to that in one run or the other, so a queue's worth is free.
TEST_P(AllocationTest, NoneForAMessage) {
  const ClusterLoad& load = GetParam().load;
  const uint64_t steps = GetParam().steps;
  const uint64_t few = CountOf(steps / 6);
  const uint64_t many = CountOf(steps);
  const uint64_t messages = (steps - steps / 6) * load.buckets;
  EXPECT_LT(static_cast<double>(many) - static_cast<double>(few),
            0.02 * static_cast<double>(messages) + 2 * QueuedMessagesMax(load))
      << few << " allocations in " << steps / 6 << " steps, " << many << " in " << steps;
}

constexpr uint64_t k4Kb = 4096, k64Kb = 65'536;

INSTANTIATE_TEST_SUITE_P(
    Links, AllocationTest,
    testing::Values(
        Case{"SharedSmall", {.link = ClusterLink::kSharedMemory, .value_bytes = 64, .buckets = 32}},
        Case{"Shared", {.link = ClusterLink::kSharedMemory, .value_bytes = k64Kb, .buckets = 8}},
        Case{"SharedPull",
             {.link = ClusterLink::kSharedMemory, .value_bytes = k64Kb, .pull = true}},
        Case{"StreamSmall", {.link = ClusterLink::kTcp, .value_bytes = k4Kb, .buckets = 32}, 60000},
        Case{"Stream", {.link = ClusterLink::kTcp, .value_bytes = k64Kb, .buckets = 8}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace soapstone::bench
