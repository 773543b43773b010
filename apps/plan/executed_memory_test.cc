// What a plan says that it needs is what runs: on one device what `soapstone models` says.
#include "apps/plan/executed_memory.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "apps/cli/model_listing.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::apps {
namespace {

planner::OpGraph GraphOf(const std::string& model, const planner::OpGraphOptions& options) {
  return *planner::MakeOpGraph(*models::BuildModel(model, models::ModelInput{}), options);
}

void ExpectAsListed(const std::string& model, int64_t batch, uint64_t floats) {
  const planner::OpGraph graph = GraphOf(model, {.batch = batch});
  const int64_t planned = (*ExecutedMemory(graph, planner::SingleDevice(graph, 0),
                                           {.optimizer_floats = static_cast<double>(floats)}))[0];
  const auto listed = static_cast<double>(
      SizeOf(model, {.batch = batch, .optimizer_floats = floats})->memory.total());
  EXPECT_NEAR(static_cast<double>(planned) / listed, 1, 0.02) << model << " " << floats;
}

TEST(ExecutedMemoryTest, OneDeviceNeedsWhatTheLibrarySays) {
  for (const std::string& model : models::ModelNames()) {
    for (const uint64_t floats : {0, 1, 2}) {
      ExpectAsListed(model + ":tiny", 8, floats);
      ExpectAsListed(model, 4, floats);
    }
  }
}

TEST(ExecutedMemoryTest, HalfTheSamplesAndHalfTheMicroBatchesTakeLess) {
  const planner::OpGraph whole = GraphOf("alexnet:tiny", {.batch = 32});
  const int64_t alone = (*ExecutedMemory(whole, planner::SingleDevice(whole, 0), {}))[0];
  const std::vector<int64_t> two =
      *ExecutedMemory(whole, planner::DataParallel(whole, 2), {.devices = 2});
  EXPECT_EQ(two[0], two[1]);
  EXPECT_LT(two[0], alone);
  const planner::OpGraph cut = GraphOf("alexnet:tiny", {.batch = 32, .micro_batches = 8});
  planner::Strategy stages = planner::SingleDevice(cut, 0);
  const size_t ops = cut.ops.size() / 8;
  for (size_t k = 0; k < cut.ops.size(); ++k) stages.ops[k].devices[0] = k % ops < ops / 2 ? 0 : 1;
  const int64_t all = (*ExecutedMemory(cut, stages, {.devices = 2}))[0];
  const int64_t few = (*ExecutedMemory(cut, stages, {.devices = 2, .in_flight = 1}))[0];
  EXPECT_LT(few, all);
}

TEST(ExecutedMemoryTest, ServersKeepTheOptimizersState) {
  const planner::OpGraph graph = GraphOf("lenet5:tiny", {.batch = 4});
  planner::Strategy strategy = planner::SingleDevice(graph, 0);
  const int64_t owner = (*ExecutedMemory(graph, strategy, {.optimizer_floats = 2}))[0];
  planner::SetSynchronization(planner::Synchronization::kServers, &strategy);
  EXPECT_LT((*ExecutedMemory(graph, strategy, {.optimizer_floats = 2}))[0], owner);
}

// Of lenet5's parameters, which all three have, each keeps a third of adam's state.
TEST(ExecutedMemoryTest, InARingEachHasTheStateOfItsRange) {
  const planner::OpGraph graph = GraphOf("lenet5:tiny", {.batch = 6});
  planner::Strategy strategy = planner::DataParallel(graph, 3);
  planner::SetSynchronization(planner::Synchronization::kRing, &strategy);
  int64_t parameters = 0;
  for (const planner::PlanParam& param : graph.params) {
    parameters += 4 * std::accumulate(param.shape.begin(), param.shape.end(), int64_t{1},
                                      std::multiplies<>());
  }
  const auto state = [&](bool by_ranges) {
    const auto with = [&](double floats) {
      return *ExecutedMemory(
          graph, strategy,
          {.devices = 3, .optimizer_floats = floats, .rings_by_ranges = by_ranges});
    };
    const std::vector<int64_t> all = with(2), none = with(0);
    std::vector<int64_t> difference;
    for (size_t d = 0; d < all.size(); ++d) difference.push_back(all[d] - none[d]);
    return difference;
  };
  EXPECT_EQ(state(false), std::vector<int64_t>(3, 2 * parameters));
  const std::vector<int64_t> ranges = state(true);
  EXPECT_EQ(std::accumulate(ranges.begin(), ranges.end(), int64_t{0}), 2 * parameters);
  for (const int64_t of : ranges) {
    EXPECT_NEAR(static_cast<double>(of), 2.0 / 3 * static_cast<double>(parameters),
                static_cast<double>(2 * 4 * graph.params.size()));
  }
}

}  // namespace
}  // namespace soapstone::apps
