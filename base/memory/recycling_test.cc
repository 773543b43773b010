#include "base/memory/recycling.h"

#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

TEST(RecyclingTest, WhatIsLetGoIsTakenNext) {
  void* first = Recycler::Take(40);
  Recycler::Give(first, 40);
  void* second = Recycler::Take(64);  // of the same size, rounded up
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_NE(first, second);
#else
  EXPECT_EQ(first, second);
#endif
  void* other = Recycler::Take(64);
  EXPECT_NE(other, second);
  Recycler::Give(other, 64);
  Recycler::Give(second, 64);
}

TEST(RecyclingTest, ServesContainersOfAnySize) {
  std::vector<int, RecyclingAllocator<int>> numbers;
  std::map<int, int, std::less<>, RecyclingAllocator<std::pair<const int, int>>> squares;
  for (int i = 0; i < 5000; ++i) {
    numbers.push_back(i);
    squares[i] = i * i;
  }
  const auto shared = std::allocate_shared<int>(RecyclingAllocator<int>(), 7);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(squares.at(numbers[static_cast<size_t>(i)]), i * i);
  EXPECT_EQ(*shared, 7);
}

// Made by one thread, let go by another, and lists of a thread that has ended.
TEST(RecyclingTest, PiecesMayChangeThreads) {
  std::vector<std::vector<int, RecyclingAllocator<int>>> made(1000);
  std::thread maker([&] {
    for (auto& numbers : made) numbers.assign(20, 3);
  });
  maker.join();
  std::thread dropper([&] { made.clear(); });
  dropper.join();
  void* piece = Recycler::Take(80);
  Recycler::Give(piece, 80);
}

}  // namespace
}  // namespace soapstone
