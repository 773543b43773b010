#include "strategy/testing/random_strategies.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compute/init.h"
#include "glog/logging.h"
#include "models/runtime/graph_runner.h"

namespace soapstone::planner {
namespace {

using compute::Operator;
using compute::Window;
using models::DataType;
using models::GraphBuilder;
using models::TensorId;
using Shape = std::vector<int64_t>;

std::vector<int64_t> RandomCuts(const models::IterationDim& dim, uint32_t parts, Draws* draws) {
  const int64_t units = dim.extent / dim.unit;
  std::set<int64_t> cuts;
  while (cuts.size() + 1 < parts) cuts.insert(draws->Between(1, units - 1) * dim.unit);
  return {cuts.begin(), cuts.end()};
}

// The operator under test and what it is given, a sample.
struct Subject {
  Operator what;
  std::vector<Shape> inputs;
  size_t outputs = 1;
  int64_t ids = 0;  // of the first input, if that is integers
  // The first input is read under another name: that of a Reshape to its own shape, which lies in
  // the same memory.
  bool renamed = false;
  size_t again = 0;  // the last input is read so many times more
};

Window RandomWindow(Draws* draws) {
  Window window;
  window.height = draws->Between(1, 4);
  window.width = draws->Between(1, 4);
  window.stride_h = draws->Between(1, 3);
  window.stride_w = draws->Between(1, 2);
  window.pad_h = draws->Between(0, window.height / 2);
  window.pad_w = draws->Between(0, window.width / 2);
  return window;
}

Shape RandomImage(Draws* draws) {
  return {draws->Between(2, 9), draws->Between(4, 13), draws->Between(4, 11)};
}

Subject RandomImageOperator(int64_t kind, Draws* draws) {
  const Shape image = RandomImage(draws);
  if (kind == 0) {
    const int64_t groups = draws->Coin(3) ? 2 : 1;
    const Shape x = {image[0] * groups, image[1], image[2]};
    return {.what = compute::Conv2d{.channels = draws->Between(2, 8) * groups,
                                    .window = RandomWindow(draws),
                                    .groups = groups,
                                    .bias = draws->Coin(),
                                    .relu = draws->Coin()},
            .inputs = {x}};
  }
  if (kind == 1) {
    return {.what = compute::Pool{.kind = draws->Coin() ? compute::PoolKind::kMax
                                                        : compute::PoolKind::kAverage,
                                  .window = RandomWindow(draws),
                                  .count_padding = draws->Coin()},
            .inputs = {image}};
  }
  if (kind == 2) return {.what = compute::BatchNorm{.relu = draws->Coin()}, .inputs = {image}};
  if (kind == 3) {
    return {.what = compute::LocalResponseNorm{.size = draws->Between(2, 5), .alpha = 0.5},
            .inputs = {image}};
  }
  if (kind == 4) {
    return {.what = compute::Concat{.axis = 1},
            .inputs = {image, {draws->Between(1, 4), image[1], image[2]}, image}};
  }
  return {.what = compute::Reduce{.kind = draws->Coin() ? compute::ReduceKind::kSum
                                                        : compute::ReduceKind::kMean,
                                  .axes = draws->Coin() ? Shape{2, 3} : Shape{1}},
          .inputs = {image}};
}

Subject RandomSequenceOperator(int64_t kind, Draws* draws) {
  const int64_t steps = draws->Between(2, 6);
  const int64_t heads = draws->Between(1, 4);
  const int64_t dim = heads * draws->Between(1, 5);
  const Shape x = {steps, dim};
  const Shape keys = {draws->Between(2, 6), dim};
  switch (kind) {
    case 0:
      return {.what = compute::Linear{.outputs = draws->Between(2, 12),
                                      .bias = draws->Coin(),
                                      .relu = draws->Coin()},
              .inputs = {draws->Coin() ? Shape{dim + 2} : x}};
    case 1:
      return {.what = compute::LayerNorm{}, .inputs = {{steps, dim + 1}}};
    case 2: {
      const int64_t rows = draws->Between(3, 20);
      return {.what = compute::Embedding{.rows = rows, .dim = draws->Between(2, 8)},
              .inputs = {{steps}},
              .ids = rows,
              .renamed = draws->Coin()};
    }
    case 3: {
      const bool state = draws->Coin();
      const int64_t hidden = draws->Between(2, 6);
      Subject lstm = {
          .what = compute::Lstm{.hidden = hidden, .state = state, .reverse = draws->Coin()},
          .inputs = {x}};
      if (state) {
        lstm.inputs.insert(lstm.inputs.end(), 2, {hidden});
        lstm.outputs = 3;
      }
      return lstm;
    }
    case 4: {
      const bool causal = draws->Coin();
      const Shape& k = causal ? x : keys;
      return {.what = compute::MultiHeadAttention{.heads = heads, .causal = causal},
              .inputs = {x, k, k}};
    }
    case 5:
      return {.what = compute::AdditiveAttention{},
              .inputs = {x, keys, {keys[0], draws->Between(2, 6)}}};
    case 6:
      return {.what = compute::PairwiseDot{}, .inputs = {{draws->Between(2, 6), dim + 1}}};
    case 7:
      return {.what = compute::Reshape{.shape = {steps * 2, dim, 3}}, .inputs = {{steps, 6, dim}}};
    case 8:
      return {.what = compute::Transpose{.permutation = {0, 3, 1, 2}}, .inputs = {{steps, dim, 4}}};
    default:
      return {.what = compute::Split{.axis = 2, .sizes = {2, dim, 1}},
              .inputs = {{steps, dim + 3}},
              .outputs = 3};
  }
}

Subject RandomPlainOperator(int64_t kind, Draws* draws) {
  Shape x = {draws->Between(2, 7)};
  if (draws->Coin()) x.push_back(draws->Between(2, 6));
  switch (kind) {
    case 0:
      return {
          .what = compute::Activation{static_cast<compute::ActivationKind>(draws->Between(0, 3))},
          .inputs = {x}};
    case 1:
      return {.what = compute::Dropout{.rate = 0.4}, .inputs = {x}};
    case 2:
      return {.what = compute::Add{.relu = draws->Coin()},
              .inputs = {x, x, x},
              .again = static_cast<size_t>(draws->Between(0, 2))};
    case 3: {
      const bool square = draws->Coin();
      return {.what = compute::Multiply{},
              .inputs = std::vector<Shape>(square ? 1 : 2, x),
              .again = square ? size_t{1} : 0};
    }
    default:
      return {.what = compute::AddParameter{}, .inputs = {x}};
  }
}

// Not every draw is an operator: a window may be larger than its image.
absl::StatusOr<OneOperator> TryOperator(Draws* draws) {
  const int64_t kind = draws->Between(0, 20);
  const Subject subject = kind < 6    ? RandomImageOperator(kind, draws)
                          : kind < 16 ? RandomSequenceOperator(kind - 6, draws)
                                      : RandomPlainOperator(kind - 16, draws);
  GraphBuilder builder("one_operator");
  std::vector<TensorId> inputs;
  for (size_t i = 0; i < subject.inputs.size(); ++i) {
    const bool ids = i == 0 && subject.ids > 0;
    const TensorId x = builder.Input(
        absl::StrCat("x", i), ids ? DataType::kInt32 : DataType::kFloat32, subject.inputs[i]);
    inputs.push_back(ids ? x
                         : builder.Apply(absl::StrCat("shift", i), compute::AddParameter{}, {x}));
  }
  const auto renamed = [&](size_t i) {
    return builder.Apply("renamed", compute::Reshape{subject.inputs[i]}, {inputs[i]});
  };
  if (subject.renamed) inputs[0] = renamed(0);
  const bool by_name = subject.again > 0 && draws->Coin();  // once of these, and first of all
  inputs.insert(inputs.end(), subject.again - (by_name ? 1 : 0), inputs.back());
  if (by_name) inputs.insert(inputs.begin(), renamed(subject.inputs.size() - 1));
  const std::vector<TensorId> outputs =
      builder.ApplyAll("subject", subject.what, inputs, subject.outputs);
  std::vector<TensorId> flat;
  for (size_t j = 0; j < outputs.size(); ++j) {
    flat.push_back(builder.Flatten(absl::StrCat("flat", j), outputs[j]));
  }
  const TensorId all =
      flat.size() == 1 ? flat[0] : builder.Apply("all", compute::Concat{.axis = 1}, flat);
  builder.Loss("loss", builder.Apply("head", compute::Linear{.outputs = 7}, {all}));
  SOAP_ASSIGN_OR_RETURN(models::Graph graph, builder.Build());
  uint32_t op = 0;
  while (graph.ops()[op].name != "subject") ++op;
  return OneOperator{.graph = std::move(graph), .op = op};
}

// How many values an integer of the field may have.
int64_t RangeOf(const models::Graph& graph, TensorId field) {
  int64_t range = field == graph.labels() ? graph.classes() : 0;
  for (const models::Op& op : graph.ops()) {
    const auto* const embedding = std::get_if<compute::Embedding>(&op.what);
    if (embedding == nullptr || op.inputs[0] != field) continue;
    range = range == 0 ? embedding->rows : std::min(range, embedding->rows);
  }
  return std::max<int64_t>(range, 1);
}

}  // namespace

OpConfig RandomConfig(const PlanOp& op, const SplitOptions& options, Draws* draws) {
  OpConfig config;
  config.degrees.assign(op.rule.dims.size(), 1);
  config.cuts.assign(op.rule.dims.size(), {});
  uint32_t parts = 1;
  const auto first =
      static_cast<size_t>(draws->Between(0, static_cast<int64_t>(op.rule.dims.size()) - 1));
  for (size_t i = 0; options.splits && i < op.rule.dims.size(); ++i) {
    const size_t d = (first + i) % op.rule.dims.size();
    if (!RunsAlone(op, d) || draws->Coin(3)) continue;
    const uint32_t most = std::min(DegreeMax(op.rule.dims[d]), options.parts_max / parts);
    if (most < 2) continue;
    config.degrees[d] = static_cast<uint32_t>(draws->Between(2, std::min<uint32_t>(most, 4)));
    parts *= config.degrees[d];
    if (!options.uneven || draws->Coin()) continue;
    config.cuts[d] = RandomCuts(op.rule.dims[d], config.degrees[d], draws);
  }
  if (std::all_of(config.cuts.begin(), config.cuts.end(),
                  [](const auto& cuts) { return cuts.empty(); })) {
    config.cuts.clear();
  }
  for (uint32_t part = 0; part < parts; ++part) {
    config.devices.push_back(static_cast<uint32_t>(draws->Between(0, options.seats - 1)));
  }
  return config;
}

Strategy RandomStrategy(const OpGraph& graph, const SplitOptions& options, Draws* draws) {
  Strategy strategy;
  for (const PlanOp& op : graph.ops) strategy.ops.push_back(RandomConfig(op, options, draws));
  return strategy;
}

Strategy RandomPipeline(const OpGraph& graph, uint32_t seats, Draws* draws) {
  const auto ops = static_cast<int64_t>(graph.ops.size()) / graph.micro_batches;
  seats = std::min(seats, static_cast<uint32_t>(ops));
  std::set<int64_t> cuts;
  while (cuts.size() + 1 < seats) cuts.insert(draws->Between(1, ops - 1));
  Strategy strategy;
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    const int64_t at = static_cast<int64_t>(k) % ops;
    const auto stage = static_cast<uint32_t>(std::distance(cuts.begin(), cuts.upper_bound(at)));
    strategy.ops.push_back(
        {.degrees = std::vector<uint32_t>(graph.ops[k].rule.dims.size(), 1), .devices = {stage}});
  }
  return strategy;
}

OneOperator RandomOperator(Draws* draws) {
  while (true) {
    absl::StatusOr<OneOperator> made = TryOperator(draws);
    if (made.ok()) return *std::move(made);
  }
}

Batch RandomBatch(const models::Graph& graph, int64_t samples, uint64_t seed) {
  Batch batch = {.samples = samples};
  Draws draws(seed, 5);
  for (const TensorId field : graph.inputs()) {
    const compute::TensorSpec spec = graph.tensor(field).spec(samples);
    batch.shapes.push_back(spec.shape);
    batch.fields.emplace_back(static_cast<size_t>(spec.bytes()));
    const int64_t range = RangeOf(graph, field);
    for (int64_t i = 0; i < spec.elements(); ++i) {
      std::byte* const to = batch.fields.back().data() + i * 4;
      if (spec.type == DataType::kFloat32) {
        const float value = draws.Normal();
        std::memcpy(to, &value, sizeof(value));
      } else {
        const auto value = static_cast<int32_t>(draws.Between(0, range - 1));
        std::memcpy(to, &value, sizeof(value));
      }
    }
  }
  return batch;
}

Tensors InitialParams(const models::Graph& graph, uint64_t seed) {
  Tensors params;
  for (uint32_t p = 0; p < graph.params().size(); ++p) {
    params.emplace_back(graph.params()[p].elements());
    compute::InitSlice(graph.params()[p], seed, static_cast<ParamId>(p), 0,
                       absl::MakeSpan(params.back()));
  }
  return params;
}

absl::StatusOr<StepResult> WholeStep(const models::Graph& graph, const OpGraph& plan,
                                     const Tensors& params, const Batch& batch, uint64_t step,
                                     const LocalTeamOptions& options) {
  SOAP_ASSIGN_OR_RETURN(
      std::unique_ptr<models::GraphRunner> runner,
      models::GraphRunner::Create(graph, {.backend = options.backend, .seed = options.seed}));
  for (uint32_t p = 0; p < params.size(); ++p) {
    const absl::Span<float> to = runner->param(static_cast<ParamId>(p));
    std::copy(params[p].begin(), params[p].end(), to.begin());
  }
  StepResult result;
  for (int64_t leaf = 0; leaf < plan.micro_batches; ++leaf) {
    const int64_t begin = leaf * batch.samples / plan.micro_batches;
    const int64_t end = (leaf + 1) * batch.samples / plan.micro_batches;
    std::vector<const void*> fields;
    for (size_t f = 0; f < batch.fields.size(); ++f) {
      fields.push_back(batch.fields[f].data() + batch.fields[f].size() /
                                                    static_cast<size_t>(batch.samples) *
                                                    static_cast<size_t>(begin));
    }
    SOAP_RETURN_IF_ERROR(runner->Begin(end - begin, fields,
                                       {.training = options.training,
                                        .step = step,
                                        .first_sample = static_cast<uint64_t>(begin)}));
    for (size_t op = 0; op < graph.ops().size(); ++op) runner->ForwardOp(op);
    result.loss += runner->loss_sum();
    result.correct += runner->correct();
    if (!options.training) continue;
    Tensors gradients;
    for (const std::vector<float>& param : params) gradients.emplace_back(param.size());
    for (size_t op = graph.ops().size(); op-- > 0;) {
      std::vector<absl::Span<float>> to;
      for (const ParamId p : graph.ops()[op].params)
        to.push_back(absl::MakeSpan(gradients[Index(p)]));
      runner->BackwardOp(op, to);
    }
    result.leaves.push_back(std::move(gradients));
  }
  return result;
}

}  // namespace soapstone::planner
