// Random splits and placements, run and compared with the whole: what tests of the lowering share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compute/cpu/backend.h"
#include "compute/reference/backend.h"
#include "glog/logging.h"
#include "models/zoo/zoo.h"
#include "strategy/lowering.h"
#include "strategy/testing/local_team.h"
#include "strategy/testing/random_strategies.h"

namespace soapstone::planner {

inline int Count(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  int count = otherwise;
  if (text != nullptr) CHECK(absl::SimpleAtoi(text, &count)) << name;
  return count;
}

inline double Norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += double{v} * v;
  return std::sqrt(sum);
}

// ‖a − b‖/‖b‖
inline double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  const double norm = Norm(b);
  return norm == 0 ? std::sqrt(sum) : std::sqrt(sum) / norm;
}

// The largest allowed of a tensor's error: what two ways to compute the whole differ by, ten times.
inline double Allowed(double noise) { return std::max(1e-5, 10 * noise); }

// Whether two results differ by no more than rounding does; else where.
inline std::string Compare(const models::Graph& graph, const StepResult& split,
                           const StepResult& whole, const StepResult& reference) {
  const auto loss_error = [&](const StepResult& result) {
    return std::abs(result.loss - whole.loss) / std::abs(whole.loss);
  };
  if (!(loss_error(split) <= Allowed(loss_error(reference)))) {
    return absl::StrCat("loss ", split.loss, " for ", whole.loss);
  }
  const Tensors a = split.Gradients();
  const Tensors b = whole.Gradients();
  const Tensors c = reference.Gradients();
  for (size_t p = 0; p < b.size(); ++p) {
    const double error = RelativeError(a[p], b[p]);
    const double noise = RelativeError(c[p], b[p]);
    if (!(error <= Allowed(noise))) {
      return absl::StrCat("gradient of ", graph.params()[p].name, ": error ", error,
                          " where the whole's is ", noise);
    }
  }
  return "";
}

inline bool SameBits(const StepResult& a, const StepResult& b) {
  for (size_t leaf = 0; leaf < b.leaves.size(); ++leaf) {
    for (size_t p = 0; p < b.leaves[leaf].size(); ++p) {
      const std::vector<float>& x = a.leaves[leaf][p];
      const std::vector<float>& y = b.leaves[leaf][p];
      if (x.size() != y.size()) return false;
      if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0) return false;
    }
  }
  return true;
}

inline std::string TextOf(const OpGraph& graph, const Strategy& strategy) {
  std::string text;
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    absl::StrAppend(&text, "\n  ", graph.ops[k].name, ":");
    for (size_t d = 0; d < strategy.ops[k].degrees.size(); ++d) {
      if (strategy.ops[k].degrees[d] == 1) continue;
      absl::StrAppend(&text, " ", graph.ops[k].rule.dims[d].name, "=", strategy.ops[k].degrees[d]);
    }
    absl::StrAppend(&text, " on");
    for (const uint32_t seat : strategy.ops[k].devices) absl::StrAppend(&text, " ", seat);
  }
  return text;
}

// A random operator, split at random, with all that is needed to run it.
struct Pair {
  OneOperator one;
  OpGraph plan;
  Strategy strategy;
  Tensors params;
  Batch batch;
};

constexpr uint32_t kPairSeats = 4;

inline Pair RandomPair(int i) {
  Draws draws(static_cast<uint64_t>(i));
  Pair pair = {.one = RandomOperator(&draws)};
  const int64_t samples = draws.Between(2, 6);
  pair.plan = *MakeOpGraph(pair.one.graph, {.batch = samples});
  const SplitOptions options = {.seats = kPairSeats};
  pair.strategy = RandomStrategy(pair.plan, {.seats = kPairSeats, .splits = draws.Coin()}, &draws);
  for (int tries = 0; tries < 20 && pair.strategy.ops[pair.one.op].devices.size() < 2; ++tries) {
    pair.strategy.ops[pair.one.op] = RandomConfig(pair.plan.ops[pair.one.op], options, &draws);
  }
  pair.params = InitialParams(pair.one.graph, static_cast<uint64_t>(i));
  pair.batch = RandomBatch(pair.one.graph, samples, static_cast<uint64_t>(i));
  return pair;
}

// What is wrong with the split; empty: nothing.
inline std::string WhatDiffers(const Pair& pair,
                               const std::function<void(models::Section*)>& spoil) {
  static const std::shared_ptr<compute::Backend> cpu = compute::MakeCpuBackend({});
  static const std::shared_ptr<compute::Backend> reference = compute::MakeReferenceBackend();
  const Order order = CanonicalOrder(pair.plan, pair.strategy, kPairSeats);
  auto team = LocalTeam::Create(pair.plan, pair.strategy, order,
                                {.backend = cpu, .seed = 3, .spoil = spoil});
  if (!team.ok()) return team.status().ToString();
  (*team)->SetParams(pair.params);
  const auto split = (*team)->Step(pair.batch, 4);
  if (!split.ok()) return split.status().ToString();
  const models::Graph& graph = pair.one.graph;
  const auto whole =
      WholeStep(graph, pair.plan, pair.params, pair.batch, 4, {.backend = cpu, .seed = 3});
  const auto noise =
      WholeStep(graph, pair.plan, pair.params, pair.batch, 4, {.backend = reference, .seed = 3});
  return Compare(graph, *split, *whole, *noise);
}

// A model whose operators are whole, on seats at random or in a pipeline.
struct Placement {
  std::string name;
  models::Graph graph;
  OpGraph plan;
  Strategy strategy;
  uint32_t seats = 0;
  Tensors params;
  Batch batch;
};

inline Placement RandomPlacement(int i) {
  Draws draws(static_cast<uint64_t>(i), 2);
  const std::vector<std::string> names = models::ModelNames();
  Placement placed = {.name = names[static_cast<size_t>(i) % names.size()] + ":tiny"};
  placed.graph = *models::BuildModel(placed.name, models::ModelInput{});
  const int64_t micro_batches = int64_t{1} << draws.Between(0, 2);
  const int64_t samples = micro_batches * 2 + draws.Between(0, 1);
  placed.plan = *MakeOpGraph(placed.graph, {.batch = samples, .micro_batches = micro_batches});
  placed.seats = static_cast<uint32_t>(draws.Between(2, 4));
  placed.strategy =
      draws.Coin() ? RandomPipeline(placed.plan, placed.seats, &draws)
                   : RandomStrategy(placed.plan, {.seats = placed.seats, .splits = false}, &draws);
  placed.params = InitialParams(placed.graph, static_cast<uint64_t>(i));
  placed.batch = RandomBatch(placed.graph, samples, static_cast<uint64_t>(i));
  return placed;
}

// Whether a team leaves the bits of one process.
inline bool LeavesTheBits(const Placement& placed, SeatTurns turns,
                          const std::function<void(models::Section*)>& spoil) {
  static const std::shared_ptr<compute::Backend> cpu = compute::MakeCpuBackend({});
  const auto whole = WholeStep(placed.graph, placed.plan, placed.params, placed.batch, 1,
                               {.backend = cpu, .seed = 3});
  const Order order = CanonicalOrder(placed.plan, placed.strategy, placed.seats,
                                     turns == SeatTurns::kAscending ? 0 : 2);
  auto team = LocalTeam::Create(placed.plan, placed.strategy, order,
                                {.backend = cpu, .seed = 3, .turns = turns, .spoil = spoil});
  CHECK(team.ok()) << placed.name << ": " << team.status();
  (*team)->SetParams(placed.params);
  const auto split = (*team)->Step(placed.batch, 1);
  CHECK(split.ok()) << placed.name << ": " << split.status();
  return SameBits(*split, *whole) && split->correct == whole->correct;
}

}  // namespace soapstone::planner
