#include "scheduler/planner/timeline/event_queue.h"

#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone::planner {
namespace {

using Reference = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>;

// Keys ahead of the last by up to `ahead`, many of them in one bucket, some beyond the largest.
void RunBeside(EventQueue* queue, uint64_t largest, uint64_t ahead, std::mt19937_64* random) {
  Reference reference;
  queue->Clear(largest);
  uint64_t now = 0;
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(queue->empty(), reference.empty());
    if (reference.empty() || (*random)() % 100 < 49) {
      const uint64_t key = now + (*random)() % (ahead + 1);
      queue->Push(key);
      reference.push(key);
      continue;
    }
    now = reference.top();
    reference.pop();
    ASSERT_EQ(queue->Pop(), now) << i;
  }
}

TEST(EventQueueTest, TheSmallestKeyComesFirst) {
  EventQueue queue;
  std::mt19937_64 random(5);
  for (const uint64_t largest :
       {uint64_t{0}, uint64_t{4095}, uint64_t{1} << 20, uint64_t{1} << 62}) {
    for (const uint64_t ahead : {uint64_t{0}, uint64_t{3}, uint64_t{5000}, uint64_t{1} << 30}) {
      // What the run before left is forgotten.
      RunBeside(&queue, largest, ahead, &random);
    }
  }
}

}  // namespace
}  // namespace soapstone::planner
