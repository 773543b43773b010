#include "scheduler/planner/searchers/searcher_list.h"

#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using compute::Linear;
using testing::HasSubstr;

// Three layers and a loss on four devices.
struct SearcherCase {
  static OpGraph Layers() {
    FakeGraph g(16);
    FakeTensor x = g.Add(Linear{.outputs = 24}, {g.Input({16, 12})});
    x = g.Add(Linear{.outputs = 24}, {x});
    x = g.Add(Linear{.outputs = 40}, {x});
    g.Add(compute::SoftmaxCrossEntropy{}, {x, g.Input({16}, compute::DataType::kInt32)});
    return g.graph();
  }
  SearchProblem problem() const { return {.space = &space, .costs = &costs}; }
  Score Price(const Strategy& strategy) const {
    StrategyEvaluator evaluator(problem(), {});
    const absl::StatusOr<Score> found = evaluator.Price(strategy);
    CHECK(found.ok()) << found.status();
    return *found;
  }
  OpGraph graph = Layers();
  Machine machine = FakeMachine({.nodes = 2, .servers = 1});
  FakeCosts costs;
  Space space{&graph, &machine};
};

// Finds what it was told to, and says that it takes no time.
class ToldSearcher : public Searcher {
 public:
  explicit ToldSearcher(Strategy told) : told_(std::move(told)) {}
  std::string_view name() const override { return "told"; }
  std::string_view about() const override { return ""; }
  absl::StatusOr<SearchResult> Search(const SearchProblem& /*problem*/,
                                      const SearchOptions& /*options*/) const override {
    return SearchResult{.strategy = told_, .found = {1, 0}, .proved = true};
  }

 private:
  Strategy told_;
};

TEST(SearcherTest, TheWalkAloneGoesOnToIterationsThatOverlap) {
  for (const Searcher* searcher : Searchers()) {
    EXPECT_EQ(searcher->searches_staleness(), searcher->name() == "mcmc") << searcher->name();
  }
}

TEST(SearcherTest, NamesAreDistinctAndFound) {
  std::set<std::string_view> names;
  for (const Searcher* searcher : Searchers()) {
    EXPECT_TRUE(names.insert(searcher->name()).second) << searcher->name();
    EXPECT_FALSE(searcher->about().empty());
    EXPECT_EQ(*FindSearcher(searcher->name()), searcher);
  }
  const auto none = FindSearcher("nonesuch");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  for (std::string_view name : names) {
    EXPECT_THAT(std::string(none.status().message()), HasSubstr(std::string(name)));
  }
}

TEST(SearcherTest, EachPricesItsStrategyAsTheSimulatorDoes) {
  const SearcherCase c;
  Strategy data = DataParallel(c.graph, 4);
  StrategyEvaluator evaluator(c.problem(), {});
  const Score of_data = *evaluator.PriceBest(&data);
  for (const Searcher* searcher : Searchers()) {
    SCOPED_TRACE(std::string(searcher->name()));
    const auto result = RunSearcher(*searcher, c.problem(), {.proposals = 300});
    ASSERT_TRUE(result.ok()) << result.status();
    const Score found = c.Price(result->strategy);
    EXPECT_EQ(result->found.step_ns, found.step_ns);
    EXPECT_EQ(result->found.overflow_bytes, 0);
    EXPECT_GT(result->counts.simulated, 0u);
    if (searcher->is_search()) {
      EXPECT_LE(found.step_ns, of_data.step_ns);
    }
  }
}

TEST(SearcherTest, ResultsAreFunctionsOfTheSeed) {
  const SearcherCase c;
  for (const Searcher* searcher : Searchers()) {
    SCOPED_TRACE(std::string(searcher->name()));
    SearchResult results[2];
    // Both at once: a search's state is its own.
    std::thread other(
        [&] { results[0] = *searcher->Search(c.problem(), {.seed = 5, .proposals = 200}); });
    results[1] = *searcher->Search(c.problem(), {.seed = 5, .proposals = 200});
    other.join();
    EXPECT_EQ(results[0].strategy, results[1].strategy);
    EXPECT_EQ(results[0].counts.proposed, results[1].counts.proposed);
  }
}

TEST(SearcherTest, WhatIsSlowerThanDataParallelismIsReplacedByIt) {
  const SearcherCase c;
  Strategy data = DataParallel(c.graph, 4);
  StrategyEvaluator evaluator(c.problem(), {});
  const Score of_data = *evaluator.PriceBest(&data);
  const Strategy slow = SingleDevice(c.graph, 0);
  ASSERT_LT(of_data, c.Price(slow));
  const auto result = RunSearcher(ToldSearcher(slow), c.problem(), {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->strategy, data);
  EXPECT_EQ(result->found.step_ns, of_data.step_ns);
  EXPECT_FALSE(result->proved);
  EXPECT_THAT(result->note, HasSubstr("data parallelism: its own plan takes"));
}

TEST(SearcherTest, DataParallelismThatDoesNotFitReplacesNothing) {
  FakeGraph g(8);
  const FakeTensor x = g.Add(Linear{.outputs = 64, .bias = false}, {g.Input({8, 64})});
  g.Add(Linear{.outputs = 64, .bias = false}, {x});
  const Machine machine = FakeMachine({.memory_bytes = 40'000});  // two layers: 65,536 of weights
  const FakeCosts costs;
  const Space space(&g.graph(), &machine);
  Strategy apart = SingleDevice(g.graph(), 0);
  apart.ops[1].devices = {1};
  const auto result = RunSearcher(ToldSearcher(apart), {.space = &space, .costs = &costs}, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->strategy, apart);
  EXPECT_TRUE(result->note.empty());
}

TEST(SearcherTest, RandomKeepsTheBestOfWhatItDraws) {
  const SearcherCase c;
  const Searcher& random = **FindSearcher("random");
  const Score few = random.Search(c.problem(), {.proposals = 10})->found;
  const Score many = random.Search(c.problem(), {.proposals = 1000})->found;
  EXPECT_LT(many.step_ns, few.step_ns);
  EXPECT_EQ(random.Search(c.problem(), {.proposals = 10})->counts.simulated, 10u);
}

TEST(SearcherTest, GreedyImprovesOnDataParallelism) {
  const SearcherCase c;
  const auto result = (*FindSearcher("greedy"))->Search(c.problem(), {});
  ASSERT_TRUE(result.ok());
  EXPECT_LT(result->found.step_ns, result->best_seed.step_ns);
}

TEST(SearcherTest, ATimedWalkUsesMostOfItsTime) {
  const SearcherCase c;
  uint64_t asked = 0;
  SearchOptions options = {.proposals = 1, .chains = 1};
  options.used = [&asked] { return static_cast<double>(++asked) / 100; };
  const auto result = (*FindSearcher("mcmc"))->Search(c.problem(), options);
  ASSERT_TRUE(result.ok());
  EXPECT_GE(asked, 75u);  // walks end there; a descent may find nothing to do
  EXPECT_LE(asked, 120u);
  EXPECT_GT(result->counts.proposed, 5000u);
  EXPECT_LE(result->found.step_ns, result->best_seed.step_ns);
}

// Seeds that are not begun are left out, all but data parallelism.
TEST(SearcherTest, AWalkWithoutTimeIsDataParallelism) {
  const SearcherCase c;
  SearchOptions options;
  options.used = [] { return 1.0; };
  const auto result = (*FindSearcher("mcmc"))->Search(c.problem(), options);
  ASSERT_TRUE(result.ok());
  Strategy data = DataParallel(c.graph, 4);
  StrategyEvaluator evaluator(c.problem(), {});
  const Score of_data = *evaluator.PriceBest(&data);
  EXPECT_EQ(result->strategy, data);
  EXPECT_EQ(result->found.step_ns, of_data.step_ns);
}

// One strategy may take longer to price than there is time: there is a plan all the same, and it is
// said what it was not compared with.
TEST(SearcherTest, AWalkThatMustGiveUpAtAnyMomentHasAPlan) {
  const SearcherCase c;
  const Searcher& walk = **FindSearcher("mcmc");
  std::set<std::string> notes;
  for (int64_t until = 0; until < 3000; until = until * 5 / 4 + 1) {
    std::atomic<int64_t> left = until, asked = 0;
    const SearchOptions options = {
        .used = [&] { return left < 0 ? 1.5 : static_cast<double>(++asked) / 1000; },
        .give_up = [&left] { return --left < 0; }};
    const absl::StatusOr<SearchResult> found = RunSearcher(walk, c.problem(), options);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->found.step_ns, c.Price(found->strategy).step_ns) << until;
    if (left < 0) notes.insert(found->note);
  }
  EXPECT_THAT(notes, testing::Contains(testing::StartsWith("no time for data")));
  EXPECT_THAT(notes, testing::Contains("no time for a search from there"));
}

TEST(SearcherTest, AWalkIsTheSameOnSeveralThreadsAndWithPrices) {
  const SearcherCase c;
  const Searcher& walk = **FindSearcher("mcmc");
  const auto alone = walk.Search(c.problem(), {.proposals = 300});
  CostCache prices;
  SearchProblem problem = c.problem();
  problem.prices = &prices;
  for (int turn = 0; turn < 3; ++turn) {
    const auto other = walk.Search(problem, {.proposals = 300, .threads = 3});
    ASSERT_TRUE(alone.ok() && other.ok());
    EXPECT_EQ(other->strategy, alone->strategy);
    EXPECT_EQ(other->chain_digest, alone->chain_digest);
  }
}

}  // namespace
}  // namespace soapstone::planner
