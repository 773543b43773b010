#include "checkpoint/box.h"

#include <map>

#include "base/random.h"
#include "gtest/gtest.h"

namespace soapstone::checkpoint {
namespace {

class Draws {
 public:
  int64_t Below(int64_t n) {
    return static_cast<int64_t>(random_.Below(next_++, static_cast<uint64_t>(n)));
  }
  Stretch StretchOf(const std::vector<int64_t>& shape) {
    Stretch of = {.box = {.shape = shape}};
    for (const int64_t extent : shape) {
      const bool whole = Below(2) == 0;
      of.box.begin.push_back(whole ? 0 : Below(extent));
      const int64_t room = extent - of.box.begin.back();
      of.box.extent.push_back(whole ? extent : 1 + Below(room));
    }
    const auto elements = static_cast<int64_t>(of.box.elements());
    of.begin = static_cast<uint64_t>(Below(elements + 1));
    of.end = of.begin + static_cast<uint64_t>(Below(elements - static_cast<int64_t>(of.begin) + 1));
    return of;
  }

 private:
  CounterRandom random_{1, RandomUse::kTest};
  uint64_t next_ = 0;
};

// By element of the whole, the element of the box.
std::map<int64_t, uint64_t> ElementsOf(const Stretch& of) {
  std::map<int64_t, uint64_t> elements;
  for (uint64_t e = of.begin; e < of.end; ++e) {
    auto rest = static_cast<int64_t>(e);
    int64_t at = 0, stride = 1;
    for (size_t d = of.box.shape.size(); d-- > 0;) {
      at += (of.box.begin[d] + rest % of.box.extent[d]) * stride;
      rest /= of.box.extent[d];
      stride *= of.box.shape[d];
    }
    elements[at] = e;
  }
  return elements;
}

TEST(BoxTest, RunsAreAllThatTwoStretchesShareAscendingInBoth) {
  Draws draws;
  size_t met = 0;
  for (int i = 0; i < 10000; ++i) {
    std::vector<int64_t> shape(static_cast<size_t>(1 + draws.Below(4)));
    for (int64_t& extent : shape) extent = 1 + draws.Below(5);
    const Stretch from = draws.StretchOf(shape), to = draws.StretchOf(shape);
    ASSERT_TRUE(IsBox(from.box) && IsBox(to.box));
    std::vector<std::pair<uint64_t, uint64_t>> expected, found;
    const std::map<int64_t, uint64_t> theirs = ElementsOf(to);
    for (const auto& [at, element] : ElementsOf(from)) {
      if (theirs.contains(at)) expected.emplace_back(element, theirs.at(at));
    }
    for (const SharedRun& run : SharedRuns(from, to)) {
      for (uint64_t e = 0; e < run.count; ++e) found.emplace_back(run.from + e, run.to + e);
    }
    ASSERT_EQ(found, expected) << BoxText(from.box) << " " << BoxText(to.box);
    met += expected.empty() ? 0 : 1;
  }
  EXPECT_GT(met, 1000u);
}

// Whoever went over all rows of this one would not come to an end.
TEST(BoxTest, WholeTensorsShareOneRunAndRowsOfNoOtherStretchAreGoneOver) {
  constexpr int64_t kRows = int64_t{1} << 40, kColumns = 1024;
  const Box whole = WholeBox({kRows, kColumns});
  const Stretch all = {whole, 0, whole.elements()};
  EXPECT_EQ(SharedRuns(all, {whole, 7, 12}), (std::vector<SharedRun>{{7, 7, 5}}));
  const Box half = {.shape = whole.shape, .begin = {0, 512}, .extent = {kRows, 512}};
  EXPECT_EQ(SharedRuns({half, 3 * 512 + 1, 5 * 512}, all),
            (std::vector<SharedRun>{{3 * 512 + 1, 7 * 512 + 1, 511}, {4 * 512, 9 * 512, 512}}));
}

TEST(BoxTest, ANumberIsABoxAndWhatIsNotInItsShapeIsNone) {
  EXPECT_EQ(SharedRuns({WholeBox({}), 0, 1}, {WholeBox({}), 0, 1}).size(), 1u);
  EXPECT_TRUE(SharedRuns({WholeBox({}), 0, 1}, {WholeBox({}), 1, 1}).empty());
  EXPECT_TRUE(IsBox(WholeBox({})));
  EXPECT_FALSE(IsBox({.shape = {4}, .begin = {3}, .extent = {2}}));
  EXPECT_FALSE(IsBox({.shape = {4}, .begin = {INT64_MAX}, .extent = {INT64_MAX}}));
  EXPECT_FALSE(IsBox({.shape = {4, 4}, .begin = {0}, .extent = {4}}));
  EXPECT_FALSE(IsBox(WholeBox({1 << 30, 1 << 30, 1 << 30})));
}

}  // namespace
}  // namespace soapstone::checkpoint
