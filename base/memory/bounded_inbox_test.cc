#include "base/memory/bounded_inbox.h"

#include <memory>
#include <thread>
#include <vector>

#include "base/steady_clock.h"
#include "gtest/gtest.h"

namespace soapstone {
namespace {

SteadyTime Soon() { return SteadyNow() + absl::Seconds(20); }

TEST(BoundedInbox, TakesInOrder) {
  BoundedInbox<int> inbox(3);
  for (int i : {1, 2, 3}) EXPECT_TRUE(inbox.TryPut(i));
  for (int i : {1, 2, 3}) EXPECT_EQ(inbox.Take(SteadyTime::InfinitePast()), i);
}

TEST(BoundedInbox, RefusesWhenFull) {
  BoundedInbox<int> inbox(1);
  EXPECT_TRUE(inbox.TryPut(1));
  EXPECT_FALSE(inbox.TryPut(2));
  EXPECT_FALSE(inbox.Put(2, SteadyTime::InfinitePast()));
  EXPECT_EQ(inbox.size(), 1u);
}

TEST(BoundedInbox, TakeFromEmptyEndsAtItsDeadline) {
  BoundedInbox<int> inbox(1);
  EXPECT_EQ(inbox.Take(SteadyNow() + absl::Milliseconds(1)), std::nullopt);
}

TEST(BoundedInbox, ClosedRefusesButYieldsWhatItHolds) {
  BoundedInbox<int> inbox(2);
  EXPECT_TRUE(inbox.TryPut(1));
  inbox.Close();
  EXPECT_TRUE(inbox.closed());
  EXPECT_FALSE(inbox.TryPut(2));
  EXPECT_EQ(inbox.Take(Soon()), 1);
  EXPECT_EQ(inbox.Take(Soon()), std::nullopt);
}

TEST(BoundedInbox, CloseWakesAWaitingReader) {
  BoundedInbox<int> inbox(1);
  std::thread reader([&] { EXPECT_EQ(inbox.Take(SteadyTime::InfiniteFuture()), std::nullopt); });
  inbox.Close();
  reader.join();
}

TEST(BoundedInbox, RoomWakesAWaitingWriter) {
  BoundedInbox<int> inbox(1);
  EXPECT_TRUE(inbox.TryPut(1));
  std::thread writer([&] { EXPECT_TRUE(inbox.Put(2, Soon())); });
  EXPECT_EQ(inbox.Take(Soon()), 1);
  EXPECT_EQ(inbox.Take(Soon()), 2);
  writer.join();
}

TEST(BoundedInbox, ManyWritersLoseNothing) {
  constexpr int kWriters = 4;
  constexpr int kItems = 500;
  BoundedInbox<int> inbox(8);
  std::vector<std::thread> writers;
  writers.reserve(kWriters);
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&] {
      for (int i = 1; i <= kItems; ++i) EXPECT_TRUE(inbox.Put(i, Soon()));
    });
  }
  int64_t sum = 0;
  for (int i = 0; i < kWriters * kItems; ++i) sum += inbox.Take(Soon()).value_or(0);
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(sum, int64_t{kWriters} * kItems * (kItems + 1) / 2);
}

TEST(BoundedInbox, HoldsItemsThatOnlyMove) {
  BoundedInbox<std::unique_ptr<int>> inbox(1);
  EXPECT_TRUE(inbox.TryPut(std::make_unique<int>(5)));
  EXPECT_EQ(**inbox.Take(Soon()), 5);
}

}  // namespace
}  // namespace soapstone
