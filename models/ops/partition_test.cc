// Properties of the partition rules: for random uneven splits of every case's dimensions the parts,
// run on their own by the reference backend from the blocks the rule names, give the whole.
#include "models/ops/partition.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "compute/reference/backend.h"
#include "compute/testing/operator_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/ops/op_rules.h"
#include "models/ops/part.h"

namespace soapstone::models {
namespace {

using compute::CaseResult;
using compute::CaseValues;
using compute::OperatorCase;
using compute::TensorSpec;
using Floats32 = std::vector<float>;
using Tensors = std::vector<Floats32>;
using Tamper = std::function<void(PartOperator*)>;

std::vector<TensorSpec> SpecsOf(const std::vector<ParamSpec>& params) {
  std::vector<TensorSpec> specs;
  for (const ParamSpec& param : params) specs.push_back({.shape = param.shape});
  return specs;
}

OperatorCase CaseOf(std::string name, compute::Operator op, std::vector<TensorSpec> inputs) {
  OpShapes shapes = *InferShapes(op, inputs);
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = std::move(inputs),
          .params = SpecsOf(shapes.params),
          .outputs = shapes.outputs};
}

// Larger than compute's own in the dimensions where edges matter.
std::vector<OperatorCase> MoreCases() {
  using compute::Window;
  const TensorSpec image = {.shape = {3, 4, 11, 9}};
  const TensorSpec ids = {.type = compute::DataType::kInt32, .shape = {3, 5}};
  return {
      CaseOf("part_conv_relu", compute::Conv2d{5, Window::Square(3, 1, 1), 1, true, true}, {image}),
      CaseOf("part_conv_stride", compute::Conv2d{3, Window::Square(5, 3, 2)}, {image}),
      CaseOf("part_conv_groups", compute::Conv2d{8, Window{3, 2, 2, 1, 1, 0}, 4}, {image}),
      CaseOf("part_max_pool", compute::Pool{compute::PoolKind::kMax, Window::Square(3, 2, 1)},
             {image}),
      CaseOf("part_average_pool",
             compute::Pool{compute::PoolKind::kAverage, Window::Square(3, 1, 2)}, {image}),
      CaseOf("part_linear_relu", compute::Linear{7, true, true}, {TensorSpec{.shape = {3, 4, 6}}}),
      CaseOf("part_embedding", compute::Embedding{11, 6}, {ids}),
      CaseOf("part_reshape", compute::Reshape{{6, 4, 3, 3}}, {TensorSpec{.shape = {3, 4, 6, 9}}}),
      CaseOf("part_flatten", compute::Reshape{{4 * 11 * 9}}, {image}),
      CaseOf("part_mean", compute::Reduce{compute::ReduceKind::kMean, {2, 3}}, {image}),
      CaseOf("part_split", compute::Split{1, {3, 1, 4}}, {TensorSpec{.shape = {3, 8, 2}}}),
  };
}

std::vector<OperatorCase> AllCases() {
  std::vector<OperatorCase> cases = MoreCases();
  for (OperatorCase& c : compute::OperatorCases()) {
    // Which elements a run of a case drops depends on the sample's number, which is fixed there.
    if (std::holds_alternative<compute::Dropout>(c.op)) continue;
    c.wanted.clear();
    cases.push_back(std::move(c));
  }
  return cases;
}

// Whether parts of the dimension are operators that give the whole without exchanging anything.
bool RunsAlone(const OperatorCase& c, const PartitionRule& rule, size_t dim) {
  if (!rule.dims[dim].splittable) return false;
  if (std::holds_alternative<compute::Lstm>(c.op) && rule.dims[dim].name == "h") return false;
  return !(c.training && rule.dims[dim].exchanges_statistics);
}

// [0, extent) cut at random multiples of the unit into at most `parts`.
std::vector<Range> RandomCuts(const IterationDim& dim, int parts, uint64_t seed) {
  const CounterRandom random(seed, RandomUse::kInit, 0);
  const int64_t units = dim.extent / dim.unit;
  std::set<int64_t> bounds = {0, dim.extent};
  for (int i = 1; i < parts; ++i) {
    const double where = random.Uniform(static_cast<uint64_t>(i)) * static_cast<double>(units);
    bounds.insert(static_cast<int64_t>(where) * dim.unit);
  }
  std::vector<Range> ranges;
  for (auto b = bounds.begin(); std::next(b) != bounds.end(); ++b) {
    ranges.push_back({*b, *std::next(b)});
  }
  return ranges;
}

// Every combination of a range of each dimension.
std::vector<Block> Grid(const std::vector<std::vector<Range>>& cuts) {
  std::vector<Block> blocks = {{}};
  for (const std::vector<Range>& ranges : cuts) {
    std::vector<Block> next;
    for (const Block& block : blocks) {
      for (const Range& range : ranges) {
        next.push_back(block);
        next.back().push_back(range);
      }
    }
    blocks = std::move(next);
  }
  return blocks;
}

Tensors ZerosLike(const std::vector<TensorSpec>& specs) {
  Tensors tensors;
  for (const TensorSpec& spec : specs) tensors.emplace_back(static_cast<size_t>(spec.elements()));
  return tensors;
}

std::vector<TensorSpec> PartSpecs(const std::vector<PartTensor>& parts,
                                  const std::vector<TensorSpec>& whole) {
  std::vector<TensorSpec> specs;
  for (const PartTensor& part : parts) {
    specs.push_back({.type = whole[part.source].type, .shape = part.shape()});
  }
  return specs;
}

Tensors Extract(const std::vector<PartTensor>& parts, const std::vector<TensorSpec>& specs,
                const Tensors& whole) {
  Tensors tensors;
  for (const PartTensor& part : parts) {
    const TensorSpec local = {.shape = part.shape()};
    tensors.emplace_back(static_cast<size_t>(local.elements()));
    ExtractPart(part, specs[part.source].shape, whole[part.source], absl::MakeSpan(tensors.back()));
  }
  return tensors;
}

void AddAll(const std::vector<PartTensor>& parts, const std::vector<TensorSpec>& specs,
            const Tensors& values, Tensors* whole) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (values[i].empty()) continue;  // an integer input has no gradient
    const size_t source = parts[i].source;
    AddPart(parts[i], specs[source].shape, values[i], absl::MakeSpan((*whole)[source]));
  }
}

void Scale(double factor, Tensors* tensors) {
  for (Floats32& tensor : *tensors) {
    for (float& x : tensor) x = static_cast<float>(factor * x);
  }
}

// Runs a case by parts, as an executor of split models would.
class SplitRun {
 public:
  SplitRun(compute::Backend* backend, const OperatorCase& c, CaseValues values, Tamper tamper)
      : backend_(backend), case_(c), values_(std::move(values)), tamper_(std::move(tamper)) {}

  absl::StatusOr<CaseResult> Run(const std::vector<Block>& grid) {
    SOAP_ASSIGN_OR_RETURN(const OpShapes shapes, InferShapes(case_.op, case_.inputs));
    for (const Block& block : grid) {
      SOAP_ASSIGN_OR_RETURN(PartOperator part, PartOf(case_.op, shapes, block));
      if (tamper_) tamper_(&part);
      parts_.push_back(std::move(part));
    }
    SOAP_RETURN_IF_ERROR(CheckCover());
    CaseResult result = {.outputs = ZerosLike(case_.outputs),
                         .input_grads = ZerosLike(case_.inputs),
                         .param_grads = ZerosLike(case_.params)};
    for (const PartOperator& part : parts_) {
      SOAP_ASSIGN_OR_RETURN(CaseResult run, RunPart(part));
      Scale(part.output_scale, &run.outputs);
      AddAll(part.outputs, case_.outputs, run.outputs, &result.outputs);
    }
    SOAP_RETURN_IF_ERROR(FinishSum(&result));
    if (!case_.training) return result;
    for (const PartOperator& part : parts_) {
      SOAP_ASSIGN_OR_RETURN(CaseResult run, RunPart(part));
      AddAll(part.inputs, case_.inputs, run.input_grads, &result.input_grads);
      AddAll(part.params, case_.params, run.param_grads, &result.param_grads);
    }
    return result;
  }

 private:
  // Each element of an output is written by one part, or by as many as add up.
  absl::Status CheckCover() const {
    Tensors writes = ZerosLike(case_.outputs);
    bool adds_up = false;
    for (const PartOperator& part : parts_) {
      Tensors ones = ZerosLike(PartSpecs(part.outputs, case_.outputs));
      for (Floats32& tensor : ones) std::fill(tensor.begin(), tensor.end(), 1.0f);
      AddAll(part.outputs, case_.outputs, ones, &writes);
      adds_up |= part.adds_up;
    }
    for (const Floats32& tensor : writes) {
      const float expected = adds_up ? tensor[0] : 1.0f;
      for (float n : tensor) {
        if (n != expected || n < 1) return absl::InternalError("outputs are not covered evenly");
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CaseResult> RunPart(const PartOperator& part) {
    OperatorCase c = {.name = absl::StrCat(case_.name, "_part"), .op = part.op};
    c.training = case_.training;
    c.inputs = PartSpecs(part.inputs, case_.inputs);
    SOAP_ASSIGN_OR_RETURN(const OpShapes shapes, InferShapes(c.op, c.inputs));
    c.params = SpecsOf(shapes.params);
    c.outputs = shapes.outputs;
    if (c.params != PartSpecs(part.params, case_.params) ||
        c.outputs != PartSpecs(part.outputs, case_.outputs)) {
      return absl::InternalError("the part's blocks are not of the shapes of its operator");
    }
    CaseValues values = {.inputs = Extract(part.inputs, case_.inputs, values_.inputs),
                         .params = Extract(part.params, case_.params, values_.params)};
    if (part.rows.has_value()) {
      ShiftIds(*part.rows,
               {reinterpret_cast<int32_t*>(values.inputs[0].data()), values.inputs[0].size()});
    }
    if (!values_.output_grads.empty()) {
      values.output_grads = Extract(part.outputs, case_.outputs, values_.output_grads);
      Scale(part.output_scale, &values.output_grads);
    }
    return compute::RunCase(backend_, c, values);
  }

  // What is to be done to the sum of parts, and to its gradient before it goes to them.
  absl::Status FinishSum(CaseResult* result) {
    if (!parts_[0].after_sum.has_value()) return absl::OkStatus();
    const OperatorCase c =
        CaseOf(absl::StrCat(case_.name, "_after_sum"), *parts_[0].after_sum, case_.outputs);
    SOAP_ASSIGN_OR_RETURN(CaseResult run, compute::RunCase(backend_, c,
                                                           {.inputs = result->outputs,
                                                            .output_grads = values_.output_grads}));
    result->outputs = std::move(run.outputs);
    values_.output_grads = std::move(run.input_grads);
    return absl::OkStatus();
  }

  compute::Backend* const backend_;
  const OperatorCase& case_;
  CaseValues values_;
  const Tamper tamper_;
  std::vector<PartOperator> parts_;
};

absl::Status CompareAll(const std::string& what, const Tensors& parts, const Tensors& whole) {
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i].empty()) continue;
    const double error = compute::RelativeError(parts[i], whole[i]);
    if (!(error < 2e-6)) {
      return absl::InternalError(absl::StrCat(what, " ", i, ": relative error ", error));
    }
  }
  return absl::OkStatus();
}

// The checker: OK if the parts of the grid give what the whole gives.
absl::Status CompareWithWhole(const OperatorCase& c, const std::vector<Block>& grid,
                              const Tamper& tamper = nullptr) {
  const std::unique_ptr<compute::Backend> backend = compute::MakeReferenceBackend();
  const CaseValues values = compute::ValuesOf(c, 1);
  SOAP_ASSIGN_OR_RETURN(const CaseResult whole, compute::RunCase(backend.get(), c, values));
  SplitRun run(backend.get(), c, values, tamper);
  SOAP_ASSIGN_OR_RETURN(const CaseResult split, run.Run(grid));
  SOAP_RETURN_IF_ERROR(CompareAll("output", split.outputs, whole.outputs));
  if (!c.training) return absl::OkStatus();
  SOAP_RETURN_IF_ERROR(CompareAll("input gradient", split.input_grads, whole.input_grads));
  return CompareAll("parameter gradient", split.param_grads, whole.param_grads);
}

std::vector<std::vector<Range>> WholeCuts(const PartitionRule& rule) {
  std::vector<std::vector<Range>> cuts;
  for (const IterationDim& dim : rule.dims) cuts.push_back({{0, dim.extent}});
  return cuts;
}

std::string GridText(const std::vector<Block>& grid) {
  std::string text;
  for (const Block& block : grid) {
    absl::StrAppend(&text, " (");
    for (const Range& r : block) absl::StrAppend(&text, " ", r.begin, "-", r.end);
    absl::StrAppend(&text, ")");
  }
  return text;
}

// "conv2d/h" for what was really cut.
using CutNames = std::set<std::string>;

void ExpectSplitsGiveWhole(const OperatorCase& c, CutNames* cut) {
  const PartitionRule rule = PartitionOf(c.op, *InferShapes(c.op, c.inputs));
  for (size_t i = 0; i < rule.dims.size(); ++i) {
    if (!rule.dims[i].splittable) continue;
    EXPECT_EQ(LeavesPartialSums(rule, 0, i), rule.dims[i].kind == DimKind::kReduction) << c.name;
  }
  // Its parts write rows of their own, where the whole writes one: strategy's lowering_test has
  // them.
  if (std::holds_alternative<compute::BatchMoments>(c.op)) return;
  for (size_t d = 0; d <= rule.dims.size(); ++d) {  // each dimension alone, then all at once
    for (uint64_t round = 0; round < 3; ++round) {
      std::vector<std::vector<Range>> cuts = WholeCuts(rule);
      for (size_t i = 0; i < rule.dims.size(); ++i) {
        if ((i != d && d < rule.dims.size()) || !RunsAlone(c, rule, i)) continue;
        cuts[i] = RandomCuts(rule.dims[i], d < rule.dims.size() ? 3 : 2, 100 * round + 10 * d + i);
        if (cuts[i].size() > 1) {
          cut->insert(absl::StrCat(std::string(NameOf(c.op)), "/", rule.dims[i].name));
        }
      }
      const std::vector<Block> grid = Grid(cuts);
      if (grid.size() == 1 && round > 0) continue;
      const absl::Status status = CompareWithWhole(c, grid);
      ASSERT_TRUE(status.ok()) << c.name << ": " << status << " with" << GridText(grid);
    }
  }
}

TEST(PartitionTest, PartsGiveTheWhole) {
  CutNames cut;
  for (const OperatorCase& c : AllCases()) ExpectSplitsGiveWhole(c, &cut);
  for (const char* name : {"linear/n",
                           "linear/t",
                           "linear/o",
                           "linear/i",
                           "conv2d/n",
                           "conv2d/o",
                           "conv2d/h",
                           "conv2d/w",
                           "conv2d/i",
                           "max_pool/n",
                           "max_pool/c",
                           "max_pool/h",
                           "max_pool/w",
                           "average_pool/h",
                           "batch_norm/c",
                           "layer_norm/n",
                           "layer_norm/t",
                           "local_response_norm/n",
                           "local_response_norm/h",
                           "embedding/n",
                           "embedding/d",
                           "embedding/v",
                           "lstm/n",
                           "multi_head_attention/n",
                           "multi_head_attention/t",
                           "multi_head_attention/d",
                           "additive_attention/n",
                           "additive_attention/t",
                           "additive_attention/e",
                           "pairwise_dot/n",
                           "pairwise_dot/d",
                           "relu/n",
                           "gelu/n",
                           "add/n",
                           "multiply/n",
                           "add_parameter/n",
                           "concat/n",
                           "split/n",
                           "split/t",
                           "reshape/n",
                           "transpose/n",
                           "reduce_mean/h",
                           "softmax_cross_entropy/n"}) {
    EXPECT_TRUE(cut.count(name)) << name << " was never cut";
  }
}

// The checker sees a part that lacks one row of its halo.
TEST(PartitionTest, MutantWithoutHaloIsFound) {
  const OperatorCase c = MoreCases()[0];
  PartitionRule rule = PartitionOf(c.op, *InferShapes(c.op, c.inputs));
  std::vector<std::vector<Range>> cuts = WholeCuts(rule);
  cuts[2] = {{0, 4}, {4, 11}};
  EXPECT_TRUE(CompareWithWhole(c, Grid(cuts)).ok());
  const absl::Status status = CompareWithWhole(c, Grid(cuts), [](PartOperator* part) {
    PartTensor& x = part->inputs[0];
    if (x.block[2].begin == 0) return;
    ++x.block[2].begin;
    ++x.before[2];
  });
  EXPECT_FALSE(status.ok());
}

TEST(PartitionTest, BlocksOfConvolution) {
  const compute::Operator op = compute::Conv2d{8, compute::Window::Square(3, 2, 1), 2};
  const OpShapes shapes = *InferShapes(op, {{.shape = {2, 4, 9, 9}}});
  const PartitionRule rule = PartitionOf(op, shapes);  // n, o, h, w, i
  EXPECT_EQ(rule.dims[1].unit, 4);
  EXPECT_FALSE(rule.dims[4].splittable);
  const Block part = {{0, 2}, {4, 8}, {0, 2}, {3, 5}, {0, 2}};
  // Rows −1 .. 3 and columns 5 .. 9 without the padding; the inputs of the second group.
  EXPECT_EQ(BlockOf(rule.inputs[0], shapes.inputs[0].shape, part),
            (Block{{0, 2}, {2, 4}, {0, 4}, {5, 9}}));
  EXPECT_EQ(BlockOf(rule.params[0], shapes.params[0].shape, part),
            (Block{{4, 8}, {0, 2}, {0, 3}, {0, 3}}));
  EXPECT_TRUE(LeavesPartialSums(rule, 0, 4));
  EXPECT_FALSE(LeavesPartialSums(rule, 0, 1));
}

TEST(PartitionTest, UnitsOfLstmExchangeTheirOutputs) {
  const compute::Operator op = compute::Lstm{6};
  const OpShapes shapes = *InferShapes(op, {{.shape = {2, 5, 3}}});
  const PartitionRule rule = PartitionOf(op, shapes);  // n, t, h, d
  EXPECT_EQ(rule.exchanges, 4);
  EXPECT_TRUE(rule.dims[2].splittable);
  const Block part = {{0, 2}, {0, 5}, {1, 3}, {0, 3}};
  EXPECT_EQ(BlockOf(rule.params[0], shapes.params[0].shape, part), (Block{{1, 3}, {0, 3}}));
  EXPECT_EQ(BlockOf(rule.params[1], shapes.params[1].shape, part), (Block{{1, 3}, {0, 6}}));
  EXPECT_EQ(PartOf(op, shapes, part).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(PartitionTest, ReshapeSplitsInCommonMultiplesOfItsSteps) {
  const compute::Operator op = compute::Reshape{{6, 4}};
  const OpShapes shapes = *InferShapes(op, {{.shape = {2, 4, 6}}});
  const PartitionRule rule = PartitionOf(op, shapes);
  ASSERT_EQ(rule.dims.size(), 2u);
  EXPECT_EQ(rule.dims[1].extent, 2);  // 12 elements: two rows of six, three of four
  const Block part = {{0, 2}, {1, 2}};
  EXPECT_EQ(BlockOf(rule.inputs[0], {2, 4, 6}, part), (Block{{0, 2}, {2, 4}, {0, 6}}));
  EXPECT_EQ(BlockOf(rule.outputs[0], {2, 6, 4}, part), (Block{{0, 2}, {3, 6}, {0, 4}}));
}

TEST(PartitionTest, BatchNormNeedsStatisticsOfAllSamples) {
  const compute::Operator op = compute::BatchNorm{};
  const OpShapes shapes = *InferShapes(op, {{.shape = {4, 3, 2, 2}}});
  EXPECT_TRUE(PartOf(op, shapes, {{0, 2}, {0, 3}, {0, 2}, {0, 2}})->exchanges_statistics);
  EXPECT_FALSE(PartOf(op, shapes, {{0, 4}, {1, 3}, {0, 2}, {0, 2}})->exchanges_statistics);
}

}  // namespace
}  // namespace soapstone::models
