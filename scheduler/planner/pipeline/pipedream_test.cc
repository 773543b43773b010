#include "scheduler/planner/pipeline/pipedream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/pipeline/pipedream_profile.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/machine_text.h"

namespace soapstone::planner {
namespace {

using testing::ElementsAre;
using Layers = std::vector<PipelineLayer>;
using Levels = std::vector<PipelineLevel>;

// Layers of compute, weights and boundary.
Layers LayersFrom(const std::vector<std::tuple<double, double, double>>& of) {
  Layers layers;
  for (const auto& [compute, weights, boundary] : of)
    layers.push_back({compute, weights, boundary});
  return layers;
}

using Shape = std::tuple<uint32_t, uint32_t, size_t>;  // begin, end, replicas
std::vector<Shape> ShapeOf(const PipeDreamPlan& plan) {
  std::vector<Shape> shape;
  for (const PipelineStage& stage : plan.stages) {
    shape.emplace_back(stage.begin, stage.end, stage.devices.size());
  }
  return shape;
}

// All ways to cut layers i to j into stages and to give these some of m components, tried one by
// one.
class EveryPlan {
 public:
  EveryPlan(const Layers& layers, const Levels& levels, const PipeDreamOptions& options)
      : layers_(layers), levels_(levels), options_(options) {}

  double Least(size_t level, size_t i, size_t j, uint32_t m) const {
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t replicas = 1; replicas <= m; ++replicas) {
      least = std::min(least, Stage(level, i, j, replicas));
      for (size_t end = i; end < j; ++end) {
        const double first = std::max(Stage(level, i, end, replicas),
                                      2 * layers_[end].boundary_bytes / Bandwidth(level));
        if (replicas < m) {
          least = std::min(least, std::max(first, Least(level, end + 1, j, m - replicas)));
        }
      }
    }
    return least;
  }

 private:
  double Bandwidth(size_t level) const { return levels_[level].bytes_per_second; }
  double Stage(size_t level, size_t i, size_t j, uint32_t replicas) const {
    double compute = 0;
    double weights = 0;
    for (size_t l = i; l <= j; ++l) {
      compute += layers_[l].compute_s;
      weights += layers_[l].weight_bytes;
    }
    if (level > 0) compute = Least(level - 1, i, j, levels_[level - 1].components);
    const double sync = 4 * weights * (replicas - 1) / (replicas * Bandwidth(level));
    const double turns = options_.share_batches ? 1 : replicas;  // batches to a synchronization
    compute *= turns / replicas;
    return (options_.overlap_synchronization ? std::max(compute, sync) : compute + sync) / turns;
  }

  const Layers& layers_;
  const Levels& levels_;
  const PipeDreamOptions options_;
};

double LeastOfAll(const Layers& layers, const Levels& levels,
                  const PipeDreamOptions& options = {}) {
  return EveryPlan(layers, levels, options)
      .Least(levels.size() - 1, 0, layers.size() - 1, levels.back().components);
}

// What the plan's own stages take, all on one level.
double TimeOfStages(const Layers& layers, const PipelineLevel& level, const PipeDreamPlan& plan) {
  double slowest = 0;
  for (const PipelineStage& stage : plan.stages) {
    const Layers of(layers.begin() + stage.begin, layers.begin() + stage.end);
    const auto m = static_cast<double>(stage.devices.size());
    double compute = 0;
    double weights = 0;
    for (const PipelineLayer& layer : of) {
      compute += layer.compute_s;
      weights += layer.weight_bytes;
    }
    slowest =
        std::max({slowest, compute / m, 4 * (m - 1) * weights / (m * m * level.bytes_per_second)});
    if (stage.end < layers.size()) {
      slowest = std::max(slowest, 2 * of.back().boundary_bytes / level.bytes_per_second);
    }
  }
  return slowest;
}

Layers RandomLayers(size_t count, uint64_t seed) {
  RandomSource random(seed, 0);
  Layers layers;
  for (size_t i = 0; i < count; ++i) {
    layers.push_back({random.Uniform(), random.Uniform() * (random.Below(3) == 0 ? 8 : 1),
                      random.Uniform() * (random.Below(2) == 0 ? 2 : 0.2)});
  }
  return layers;
}

TEST(PipeDreamTest, IsNoWorseThanAnyPlan) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Layers layers = RandomLayers(1 + seed % 6, seed);
    const PipelineLevel level = {.components = 1 + static_cast<uint32_t>(seed / 6 % 5),
                                 .bytes_per_second = 0.5 + static_cast<double>(seed % 4) * 4};
    const PipeDreamPlan plan = PlanStages(layers, {level});
    EXPECT_NEAR(plan.slowest_s, TimeOfStages(layers, level, plan), 1e-12);
    for (const PipeDreamOptions& options :
         {PipeDreamOptions{}, PipeDreamOptions{.overlap_synchronization = false},
          PipeDreamOptions{.share_batches = true}}) {
      EXPECT_NEAR(PlanStages(layers, {level}, options).slowest_s,
                  LeastOfAll(layers, {level}, options), 1e-12)
          << seed;
    }
  }
}

TEST(PipeDreamTest, IsNoWorseThanAnyPlanOnTwoAndThreeLevels) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Layers layers = RandomLayers(2 + seed % 3, seed);
    Levels levels = {{2 + static_cast<uint32_t>(seed % 2), 9},
                     {2, 1.0 + static_cast<double>(seed % 5)}};
    if (seed % 3 == 0) levels.push_back({2, 0.7});
    for (const bool share : {false, true}) {
      const PipeDreamOptions options = {.share_batches = share};
      EXPECT_NEAR(PlanStages(layers, levels, options).slowest_s,
                  LeastOfAll(layers, levels, options), 1e-12)
          << seed;
    }
  }
}

// All layers are in one stage each, in order, and no device is in two.
TEST(PipeDreamTest, StagesAreWhole) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Layers layers = RandomLayers(2 + seed % 9, seed);
    const Levels levels = {{1 + static_cast<uint32_t>(seed % 4), 4}, {3, 1}};
    const PipeDreamPlan plan = PlanStages(layers, levels);
    uint32_t at = 0;
    std::vector<uint32_t> devices;
    for (const PipelineStage& stage : plan.stages) {
      EXPECT_EQ(stage.begin, at);
      EXPECT_GT(stage.end, at);
      at = stage.end;
      devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
    }
    EXPECT_EQ(at, layers.size());
    std::sort(devices.begin(), devices.end());
    EXPECT_EQ(std::unique(devices.begin(), devices.end()), devices.end());
    EXPECT_LT(devices.back(), levels[0].components * levels[1].components);
  }
}

// Without weights all devices share all of it; with heavy ones and light cuts each layer is alone.
TEST(PipeDreamTest, WeightsDecideBetweenReplicasAndStages) {
  const PipelineLevel level = {.components = 3, .bytes_per_second = 1};
  const Layers light = LayersFrom({{1, 0, 1}, {1, 0, 1}, {1, 0, 0}});
  EXPECT_THAT(ShapeOf(PlanStages(light, {level})), ElementsAre(Shape(0, 3, 3)));
  const Layers heavy = LayersFrom({{1, 9, 0.1}, {1, 9, 0.1}, {1, 9, 0}});
  const PipeDreamPlan plan = PlanStages(heavy, {level});
  EXPECT_THAT(ShapeOf(plan), ElementsAre(Shape(0, 1, 1), Shape(1, 2, 1), Shape(2, 3, 1)));
  EXPECT_EQ(plan.slowest_s, 1);
  EXPECT_EQ(plan.in_flight, 3u);
}

// A first stage on two of three devices: each has ⌈3/2⌉ batches under way.
TEST(PipeDreamTest, BatchesInFlight) {
  const PipelineLevel level = {.components = 3, .bytes_per_second = 10};
  const PipeDreamPlan plan = PlanStages(LayersFrom({{2, 0, 1}, {1, 100, 0}}), {level});
  EXPECT_THAT(ShapeOf(plan), ElementsAre(Shape(0, 1, 2), Shape(1, 2, 1)));
  EXPECT_EQ(plan.in_flight, 2u);
}

// Two nodes of two: within a node the layers are cut, and the nodes are replicas of each other.
TEST(PipeDreamTest, ALevelsReplicasRepeatTheStagesOfTheOneBelow) {
  const Layers layers = LayersFrom({{1, 0.2, 0.1}, {1, 0.2, 0}});
  const PipeDreamPlan plan = PlanStages(layers, {{2, 0.21}, {2, 1}});
  ASSERT_THAT(ShapeOf(plan), ElementsAre(Shape(0, 1, 2), Shape(1, 2, 2)));
  EXPECT_THAT(plan.stages[0].devices, ElementsAre(0, 2));
  EXPECT_THAT(plan.stages[1].devices, ElementsAre(1, 3));
}

// VGG-16 (Simonyan and Zisserman 2015, configuration D) at 224 × 224.
models::Graph Vgg16() {
  models::GraphBuilder b("vgg16");
  models::TensorId x = b.Input("image", compute::DataType::kFloat32, {3, 224, 224});
  int layer = 0;
  for (const auto& [channels, convolutions] :
       std::vector<std::pair<int64_t, int>>{{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < convolutions; ++i, ++layer) {
      x = b.Apply(absl::StrCat("conv", layer),
                  compute::Conv2d{.channels = channels, .window = compute::Window::Square(3, 1, 1)},
                  {x});
      x = b.Apply(absl::StrCat("relu", layer), compute::Activation{}, {x});
    }
    x = b.Apply(absl::StrCat("pool", layer), compute::Pool{.window = compute::Window::Square(2, 2)},
                {x});
  }
  x = b.Flatten("flatten", x);
  for (const int64_t outputs : {4096, 4096, 1000}) {
    x = b.Apply(absl::StrCat("fc", layer), compute::Linear{.outputs = outputs}, {x});
    if (outputs == 4096) x = b.Apply(absl::StrCat("relu", layer), compute::Activation{}, {x});
    ++layer;
  }
  b.Loss("loss", x);
  return *b.Build();
}

// Nodes of one device with about the rates that a V100 reaches, behind 8 Gb/s, the bandwidth of the
// published plans.
Machine V100s(int count) {
  return *ParseMachine(
      absl::StrCat("name: \"v100s\"\nkinds { name: \"v100\" tflops: 12 memory_gbytes_per_s: 700 "
                   "memory_gib: 16 launch_us: 5 }\nnodes { name: \"n\" count: ",
                   count,
                   " devices: 1 kind: \"v100\" nics { count: 1 connection { gbytes_per_s: 1 }"
                   " direct: true } }\n"),
      "v100s");
}

Profile Vgg16Profile() {
  const OpGraph graph = *MakeOpGraph(Vgg16(), {.batch = 128});
  const Machine machine = V100s(2);
  const RooflineCost costs(machine.kinds(), UsualEfficiencies());
  return *ParseProfile(TextOf(ProfileOf(graph, costs, 0)), "vgg16");
}

// Parameters of layers [begin, end), of all.
double ShareOfWeights(const Layers& layers, const PipelineStage& stage) {
  double all = 0;
  double of = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    all += layers[l].weight_bytes;
    if (stage.begin <= l && l < stage.end) of += layers[l].weight_bytes;
  }
  return of / all;
}

// The plan published for VGG-16 on 16 devices: convolutions on 15, all linear layers on one.
void ExpectFifteenToOne(const Profile& profile) {
  const Layers layers = LayersOf(profile);
  const PipeDreamPlan plan = PlanStages(layers, {{16, 1e9}});
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].devices.size(), 15u);
  EXPECT_EQ(plan.stages[1].devices.size(), 1u);
  EXPECT_EQ(plan.in_flight, 2u);
  EXPECT_NEAR(ShareOfWeights(layers, plan.stages[1]), 0.894, 0.001);
}

TEST(PipeDreamTest, Vgg16OnSixteenDevicesIsFifteenToOne) { ExpectFifteenToOne(Vgg16Profile()); }

TEST(PipeDreamTest, Vgg16OnFourDevicesIsThreeToOne) {
  const PipeDreamPlan plan = PlanStages(LayersOf(Vgg16Profile()), {{4, 1e9}});
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].devices.size(), 3u);
  EXPECT_EQ(plan.stages[1].devices.size(), 1u);
}

// The profile that PipeDream's authors published (profiler/image_classification/profiles/vgg16),
// where a file of it is at hand.
TEST(PipeDreamTest, ThePublishedProfileGivesThePublishedPlans) {
  const char* path = std::getenv("SOAPSTONE_PIPEDREAM_VGG16");
  if (path == nullptr) GTEST_SKIP() << "SOAPSTONE_PIPEDREAM_VGG16 names no graph.txt";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const absl::StatusOr<Profile> profile = ParseProfile(text.str(), path);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->nodes.size(), 41u);
  ExpectFifteenToOne(*profile);
  EXPECT_THAT(ShapeOf(PlanStages(LayersOf(*profile), {{4, 1e9}})),
              ElementsAre(Shape(0, 17, 3), Shape(17, 40, 1)));
}

TEST(PipeDreamTest, LevelsAreThoseOfTheMachine) {
  const Machine two = FakeMachine({.nodes = 3, .devices_per_node = 2});
  const MachineLevels levels = LevelsOf(two);
  EXPECT_EQ(levels.levels, (Levels{{2, 1e9}, {3, 1e9}}));
  EXPECT_THAT(levels.devices, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(FlatLevelsOf(two).levels, (Levels{{6, 1e9}}));
  EXPECT_EQ(LevelsOf(FakeMachine({.nodes = 1, .devices_per_node = 4})).levels, (Levels{{4, 1e9}}));
  EXPECT_EQ(LevelsOf(V100s(4)).levels, (Levels{{4, 1e9}}));
}

// Replicas that take batches in turn synchronize a third as often, so that more weights are worth
// replicating.
TEST(PipeDreamTest, SharedBatchesMakeWeightsDearer) {
  const PipelineLevel level = {.components = 3, .bytes_per_second = 1};
  const Layers layers = LayersFrom({{3, 1, 0.1}, {1, 0.1, 0}});
  EXPECT_THAT(ShapeOf(PlanStages(layers, {level})), ElementsAre(Shape(0, 2, 3)));
  EXPECT_THAT(ShapeOf(PlanStages(layers, {level}, {.share_batches = true})),
              ElementsAre(Shape(0, 1, 2), Shape(1, 2, 1)));
}

// On four devices behind 8 Gb/s: no faster than its busiest device, no slower than a step by
// itself, and faster than data parallelism, which synchronizes 553 MB.
TEST(PipeDreamTest, TheSimulatorPricesItsStrategies) {
  const OpGraph graph = *MakeOpGraph(Vgg16(), {.batch = 128});
  const Machine machine = V100s(4);
  const RooflineCost costs(machine.kinds(), UsualEfficiencies());
  const PricedPipeDream best = BestPipeDream(graph, machine, costs);
  EXPECT_GT(best.plan.stages.size(), 1u);
  EXPECT_EQ(best.strategy.staleness, best.plan.stages.size() - 1);
  EXPECT_EQ(best.overflow_bytes, 0);
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(best.strategy).ok());
  EXPECT_EQ(best.iteration_ns, simulator.IterationTime());
  EXPECT_GE(best.iteration_ns, simulator.Explain().compute_ns);
  EXPECT_LE(best.iteration_ns, simulator.StepTime());
  Strategy data = DataParallel(graph, 4);
  data.synchronization = Synchronization::kRing;
  ASSERT_TRUE(simulator.SetStrategy(data).ok());
  EXPECT_LT(best.iteration_ns, simulator.StepTime());
}

}  // namespace
}  // namespace soapstone::planner
