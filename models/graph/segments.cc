#include "models/graph/segments.h"

#include <algorithm>
#include <utility>

#include "models/graph/memory_plan.h"
#include "models/graph/step_graph.h"

namespace soapstone::models {
namespace {

constexpr size_t kSegmentsMax = 32;

// For each number of segments from 2 on: where to begin them, so that they have about equal bytes
// of activations. cuts: where they may. Each way to do it once.
std::vector<std::vector<uint32_t>> EvenSegments(
    const std::vector<uint32_t>& cuts, const std::vector<const compute::KernelPlan*>& plans) {
  std::vector<size_t> before(plans.size() + 1);  // bytes of activations of operators [0, k)
  for (size_t k = 0; k < plans.size(); ++k) {
    before[k + 1] = before[k] + plans[k]->saved_bytes;
    for (const compute::Format& out : plans[k]->outputs) {
      before[k + 1] += plans[k]->alias ? 0 : out.bytes;
    }
  }
  std::vector<std::vector<uint32_t>> ways;
  for (size_t count = 2; count <= cuts.size() + 1 && count <= kSegmentsMax; ++count) {
    std::vector<uint32_t> segments;
    for (size_t s = 1; s < count; ++s) {
      const size_t target = before.back() / count * s;
      const auto it = std::find_if(cuts.begin(), cuts.end(),
                                   [&](uint32_t cut) { return before[cut] >= target; });
      if (it == cuts.end() || (!segments.empty() && segments.back() >= *it)) continue;
      segments.push_back(*it);
    }
    if (std::find(ways.begin(), ways.end(), segments) == ways.end()) {
      ways.push_back(std::move(segments));
    }
  }
  return ways;
}

}  // namespace

// Plans take long to make. What is alive at once bounds a plan from below, so that most are not
// made: they are tried in the order of that bound.
std::vector<uint32_t> SmallestSegments(const Graph& graph, int64_t samples,
                                       const std::vector<const compute::KernelPlan*>& plans,
                                       const std::vector<TensorId>& input_gradients,
                                       size_t kept_bytes) {
  const auto step_of = [&](const std::vector<uint32_t>& segments) {
    return BuildStepGraph(
        graph, samples, plans,
        {.segments = segments, .input_gradients = input_gradients, .named = false});
  };
  const std::vector<std::vector<uint32_t>> ways = EvenSegments(CutPoints(graph), plans);
  std::vector<std::pair<size_t, size_t>> by_live;  // bytes alive at most; which way, from 1
  for (const std::vector<uint32_t>& segments : ways) {
    by_live.emplace_back(LiveBytesMax(step_of(segments)), by_live.size() + 1);
  }
  std::sort(by_live.begin(), by_live.end());
  std::pair<size_t, size_t> best = {kept_bytes, 0};  // bytes of the plan; which way
  for (const auto& [live, way] : by_live) {
    if (std::pair(live, way) >= best) break;
    best = std::min(best, std::pair(PlanMemory(step_of(ways[way - 1])).bytes, way));
  }
  return best.second == 0 ? std::vector<uint32_t>() : ways[best.second - 1];
}

}  // namespace soapstone::models
