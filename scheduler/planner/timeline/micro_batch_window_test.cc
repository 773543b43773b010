#include "scheduler/planner/timeline/micro_batch_window.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::planner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class Begun {
 public:
  explicit Begun(MicroBatchWindow* window) : window_(window) {}
  std::vector<std::pair<uint32_t, Nanos>> By(uint32_t iteration, uint32_t micro_batch, Nanos end) {
    std::vector<std::pair<uint32_t, Nanos>> begun;
    window_->EndBackward(iteration, micro_batch, end,
                         [&](uint32_t next, Nanos at) { begun.emplace_back(next, at); });
    return begun;
  }

 private:
  MicroBatchWindow* window_;
};

TEST(MicroBatchWindowTest, OneBeginsWhenAllBeforeItsWindowAreOver) {
  MicroBatchWindow window(1, 2, {2, 1, 1, 1, 1});
  Begun begun(&window);
  EXPECT_TRUE(window.bounded());
  EXPECT_THAT(begun.By(0, 0, 10), IsEmpty());
  EXPECT_THAT(begun.By(0, 0, 7), ElementsAre(Pair(2, 10)));
  EXPECT_THAT(begun.By(0, 1, 20), ElementsAre(Pair(3, 20)));
  EXPECT_THAT(begun.By(0, 2, 30), ElementsAre(Pair(4, 30)));
  EXPECT_THAT(begun.By(0, 3, 40), IsEmpty());
  EXPECT_THAT(begun.By(0, 4, 50), IsEmpty());
}

// The second is over before the first: then both let one begin, at the later end.
TEST(MicroBatchWindowTest, AnEarlierOneHoldsThoseBehindIt) {
  MicroBatchWindow window(1, 2, {1, 1, 1, 1});
  Begun begun(&window);
  EXPECT_THAT(begun.By(0, 1, 5), IsEmpty());
  EXPECT_THAT(begun.By(0, 0, 9), ElementsAre(Pair(2, 9), Pair(3, 9)));
}

TEST(MicroBatchWindowTest, IterationsDoNotSeeEachOther) {
  MicroBatchWindow window(2, 1, {1, 1});
  Begun begun(&window);
  EXPECT_THAT(begun.By(1, 0, 8), ElementsAre(Pair(1, 8)));
  EXPECT_THAT(begun.By(0, 0, 3), ElementsAre(Pair(1, 3)));
}

TEST(MicroBatchWindowTest, WithoutABoundThereIsNoWindow) {
  EXPECT_FALSE(MicroBatchWindow().bounded());
}

}  // namespace
}  // namespace soapstone::planner
