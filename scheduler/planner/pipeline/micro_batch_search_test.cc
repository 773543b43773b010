// The choice of micro-batches, over chains whose best is told by GPipe's formula.
#include "scheduler/planner/pipeline/micro_batch_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/graph/graph.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/searchers/annealing_searcher.h"
#include "scheduler/planner/searchers/plain_searchers.h"
#include "scheduler/planner/searchers/split_searchers.h"

namespace soapstone::planner {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kBatch = 32;
constexpr int64_t kWidth = 2000;
// A device applies its layer's gradients at the end of a step: 3 · 16 MB of memory at 1 GB/s.
constexpr Nanos kApplyMs = 48;

// A linear operator takes a launch and a millisecond a sample, whatever part of its outputs and
// inputs it does, so that only samples and stages are worth cutting.
class ChainCosts : public CostModel {
 public:
  explicit ChainCosts(Nanos launch_ns) : launch_ns_(launch_ns) {}
  PartCost CostOf(const PlanOp& op, const models::Block& part, uint32_t /*kind*/) const override {
    if (!std::holds_alternative<compute::Linear>(op.what)) return {1, 1};
    const Nanos ns = launch_ns_ + kMillisecond * part[0].size();
    return {.forward_ns = ns, .backward_ns = 2 * ns};
  }
  std::string sha256() const override { return "chain"; }

 private:
  const Nanos launch_ns_;
};

absl::StatusOr<OpGraph> FourLayers(int64_t micro_batches) {
  models::GraphBuilder b("chain");
  models::TensorId x = b.Input("x", compute::DataType::kFloat32, {kWidth});
  for (int i = 0; i < 4; ++i) {
    x = b.Apply(absl::StrCat("fc", i), compute::Linear{.outputs = kWidth, .bias = false}, {x});
  }
  b.Loss("loss", x);
  return MakeOpGraph(*b.Build(), {.batch = kBatch, .micro_batches = micro_batches});
}

struct Chosen {
  int64_t micro_batches = 0;
  Nanos ms = 0;
  std::vector<int64_t> tried;
  uint64_t proposals = 0;
  bool on_its_graph = false;
};

Chosen Choose(const Searcher& searcher, const Machine& machine, const CostModel& costs,
              const SearchOptions& options = {.proposals = 400}) {
  const absl::StatusOr<MicroBatchResult> found = SearchMicroBatches(
      searcher, {.graph_of = FourLayers, .machine = &machine, .costs = &costs}, options);
  CHECK(found.ok()) << found.status();
  Chosen chosen = {.micro_batches = found->graph->micro_batches,
                   .ms = found->result.found.step_ns / kMillisecond,
                   .proposals = found->result.counts.proposed};
  for (const MicroBatchTrial& trial : found->trials) {
    chosen.tried.push_back(trial.micro_batches);
    EXPECT_FALSE(trial.found < found->result.found);
  }
  Simulator simulator(found->graph.get(), &machine, &costs);
  chosen.on_its_graph = simulator.SetStrategy(found->result.strategy).ok() &&
                        simulator.StepTime() == found->result.found.step_ns;
  return chosen;
}

// 16 MB of parameters a layer, which take 160 ms from a device to another, beside 256 kB of
// activations: nothing is to be gained by replicas.
Machine SlowLinks() { return FakeMachine({.devices_per_node = 4, .bytes_per_ns = 0.1}); }

// (m + 3)·3·(4 + 32/m) ms in four stages: 432, 300, 252 (m = 4), 264, 342.
TEST(MicroBatchSearchTest, GPipesFormulaSaysWhichNumberWins) {
  const Machine machine = SlowLinks();
  const Chosen chosen = Choose(GPipeSearcher(), machine, ChainCosts(4 * kMillisecond));
  EXPECT_EQ(chosen.micro_batches, 4);
  EXPECT_GE(chosen.ms, 252 + kApplyMs);
  EXPECT_LE(chosen.ms, 256 + kApplyMs);
  EXPECT_TRUE(chosen.on_its_graph);
  EXPECT_THAT(chosen.tried, ElementsAre(1, 2, 4, 8, 16));
}

TEST(MicroBatchSearchTest, TheWalkFindsIt) {
  const Machine machine = SlowLinks();
  const Chosen chosen =
      Choose(AnnealingSearcher(), machine, ChainCosts(4 * kMillisecond), {.proposals = 4000});
  EXPECT_EQ(chosen.micro_batches, 4);
  EXPECT_LE(chosen.ms, 256 + kApplyMs);
  EXPECT_TRUE(chosen.on_its_graph);
}

TEST(MicroBatchSearchTest, WhereLaunchesDominateTheBatchStaysWhole) {
  const Machine machine = SlowLinks();
  const Chosen chosen =
      Choose(AnnealingSearcher(), machine, ChainCosts(200 * kMillisecond), {.proposals = 1000});
  EXPECT_EQ(chosen.micro_batches, 1);
  EXPECT_THAT(chosen.tried, ElementsAre(1, 2, 4));
}

// A sample each: 35·3 ms without launches, and the transfers' time.
TEST(MicroBatchSearchTest, WithoutLaunchesAMicroBatchIsASample) {
  const Machine machine = SlowLinks();
  const Chosen chosen = Choose(GPipeSearcher(), machine, ChainCosts(0));
  EXPECT_EQ(chosen.micro_batches, kBatch);
  EXPECT_GE(chosen.ms, 105 + kApplyMs);
  EXPECT_LE(chosen.ms, 109 + kApplyMs);
  EXPECT_THAT(chosen.tried, ElementsAre(1, 2, 4, 8, 16, 32));
}

// Every trial and the rest together: no more proposals than were allowed, but for pricing and the
// descent, which this has not.
TEST(MicroBatchSearchTest, TrialsAreOfOneBudget) {
  const Machine machine = SlowLinks();
  const ChainCosts costs(4 * kMillisecond);
  const Chosen chosen = Choose(RandomSearcher(), machine, costs, {.proposals = 320});
  EXPECT_LE(chosen.proposals, 320u);
  EXPECT_GE(chosen.proposals, 300u);
}

// Each question takes a hundredth of the time.
TEST(MicroBatchSearchTest, ATimedSearchKeepsToItsTime) {
  const Machine machine = SlowLinks();
  const ChainCosts costs(4 * kMillisecond);
  int asked = 0;
  const Chosen chosen =
      Choose(RandomSearcher(), machine, costs, {.used = [&asked] { return ++asked / 100.0; }});
  EXPECT_GE(asked, 100);
  EXPECT_LE(asked, 110);
  EXPECT_GE(chosen.tried.size(), 2u);
}

TEST(MicroBatchSearchTest, TheSameEachTime) {
  const Machine machine = SlowLinks();
  const ChainCosts costs(4 * kMillisecond);
  const MicroBatchProblem problem = {.graph_of = FourLayers, .machine = &machine, .costs = &costs};
  const SearchOptions options = {.proposals = 500};
  const MicroBatchResult a = *SearchMicroBatches(AnnealingSearcher(), problem, options);
  const MicroBatchResult b = *SearchMicroBatches(AnnealingSearcher(), problem, options);
  EXPECT_EQ(a.result.strategy, b.result.strategy);
  EXPECT_EQ(a.graph->micro_batches, b.graph->micro_batches);
}

TEST(MicroBatchSearchTest, AModelThatCannotBeMadeIsAnError) {
  const Machine machine = SlowLinks();
  const ChainCosts costs(0);
  const auto none = [](int64_t m) -> absl::StatusOr<OpGraph> {
    if (m < 4) return FourLayers(m);
    return absl::InvalidArgumentError("no such model");
  };
  const absl::StatusOr<MicroBatchResult> found = SearchMicroBatches(
      GPipeSearcher(), {.graph_of = none, .machine = &machine, .costs = &costs}, {});
  EXPECT_EQ(found.status().message(), "no such model");
}

}  // namespace
}  // namespace soapstone::planner
