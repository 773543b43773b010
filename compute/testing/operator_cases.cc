#include "compute/testing/operator_cases.h"

#include <ostream>
#include <utility>

namespace soapstone::compute {
namespace {

using Shape = std::vector<int64_t>;

TensorSpec F32(Shape shape) { return {DataType::kFloat32, std::move(shape)}; }
TensorSpec I32(Shape shape) { return {DataType::kInt32, std::move(shape)}; }

// One input of shape `in`, one output.
OperatorCase Unary(std::string name, Operator op, Shape in, Shape out,
                   std::vector<TensorSpec> params = {}) {
  return {std::move(name),
          std::move(op),
          {F32(std::move(in))},
          std::move(params),
          {F32(std::move(out))}};
}
OperatorCase Same(std::string name, Operator op, const Shape& shape,
                  std::vector<TensorSpec> params = {}) {
  return Unary(std::move(name), std::move(op), shape, shape, std::move(params));
}

OperatorCase Evaluation(OperatorCase c) {
  c.name += "_evaluation";
  c.training = false;
  return c;
}
OperatorCase Wanting(OperatorCase c, const std::string& suffix, std::vector<bool> wanted) {
  c.name += suffix;
  c.wanted = std::move(wanted);
  return c;
}

OperatorCase LinearCase(std::string name, const Shape& in, const Linear& op) {
  Shape out = in;
  out.back() = op.outputs;
  std::vector<TensorSpec> params = {F32({op.outputs, in.back()})};
  if (op.bias) params.push_back(F32({op.outputs}));
  return Unary("linear_" + std::move(name), op, in, out, params);
}

OperatorCase ConvCase(std::string name, const Shape& in, const Conv2d& op) {
  const Window& w = op.window;
  std::vector<TensorSpec> params = {F32({op.channels, in[1] / op.groups, w.height, w.width})};
  if (op.bias) params.push_back(F32({op.channels}));
  return Unary("conv2d_" + std::move(name), op, in,
               {in[0], op.channels, w.out_height(in[2]), w.out_width(in[3])}, params);
}

OperatorCase PoolCase(std::string name, const Shape& in, const Pool& op) {
  const Window& w = op.window;
  return Unary(std::string(NameOf(op)) + "_" + std::move(name), op, in,
               {in[0], in[1], w.out_height(in[2]), w.out_width(in[3])});
}

OperatorCase BatchNormCase(std::string name, const Shape& shape, const BatchNorm& op = {}) {
  return Same("batch_norm_" + std::move(name), op, shape,
              std::vector<TensorSpec>(4, F32({shape[1]})));
}

OperatorCase MomentsCase(std::string name, const Shape& shape, const BatchMoments& op) {
  return Unary("batch_moments_" + std::move(name), op, shape, {op.rows, shape[1], 2});
}

OperatorCase ByMomentsCase(std::string name, const Shape& shape, const NormalizeByMoments& op) {
  OperatorCase c = Same("normalize_by_moments_" + std::move(name), op, shape,
                        std::vector<TensorSpec>(4, F32({shape[1]})));
  c.inputs.push_back(F32({static_cast<int64_t>(op.counts.size()), shape[1], 2}));
  return c;
}

OperatorCase LayerNormCase(std::string name, const Shape& shape, const LayerNorm& op = {}) {
  return Same("layer_norm_" + std::move(name), op, shape,
              {F32({shape.back()}), F32({shape.back()})});
}

OperatorCase EmbeddingCase(std::string name, const Shape& ids, const Embedding& op) {
  Shape out = ids;
  out.push_back(op.dim);
  return {"embedding_" + std::move(name), op, {I32(ids)}, {F32({op.rows, op.dim})}, {F32(out)}};
}

// in: [N, T, D]
OperatorCase LstmCase(std::string name, const Shape& in, const Lstm& op) {
  const int64_t n = in[0], t = in[1], d = in[2], h = op.hidden;
  OperatorCase c = Unary("lstm_" + std::move(name), op, in, {n, t, h},
                         {F32({4 * h, d}), F32({4 * h, h}), F32({4 * h})});
  if (op.state) {
    for (int i = 0; i < 2; ++i) {
      c.inputs.push_back(F32({n, h}));
      c.outputs.push_back(F32({n, h}));
    }
  }
  return c;
}

OperatorCase MultiHeadCase(std::string name, const Shape& q, int64_t s,
                           const MultiHeadAttention& op) {
  const Shape k = {q[0], s, q[2]};
  return {"multi_head_attention_" + std::move(name), op, {F32(q), F32(k), F32(k)}, {}, {F32(q)}};
}

// q: [N, T, D]; K [N, S, D], V [N, S, E]
OperatorCase AdditiveCase(std::string name, const Shape& q, int64_t s, int64_t e) {
  return {"additive_attention_" + std::move(name),
          AdditiveAttention{},
          {F32(q), F32({q[0], s, q[2]}), F32({q[0], s, e})},
          {F32({q[2]})},
          {F32({q[0], q[1], e})}};
}

// in: [N, F, D]
OperatorCase PairwiseDotCase(std::string name, const Shape& in) {
  return Unary("pairwise_dot_" + std::move(name), PairwiseDot{}, in,
               {in[0], in[1] * (in[1] - 1) / 2});
}

OperatorCase AddCase(std::string name, const Shape& shape, size_t terms, const Add& op = {}) {
  OperatorCase c = Same("add_" + std::move(name), op, shape);
  c.inputs.assign(terms, F32(shape));
  return c;
}
OperatorCase MultiplyCase(std::string name, const Shape& shape) {
  OperatorCase c = Same("multiply_" + std::move(name), Multiply{}, shape);
  c.inputs.push_back(F32(shape));
  return c;
}
OperatorCase AddParameterCase(std::string name, const Shape& shape) {
  return Same("add_parameter_" + std::move(name), AddParameter{}, shape,
              {F32(Shape(shape.begin() + 1, shape.end()))});
}

// `whole` is cut at `axis` into parts of these sizes.
std::vector<TensorSpec> Parts(const Shape& whole, int64_t axis, const Shape& sizes) {
  std::vector<TensorSpec> parts;
  for (int64_t size : sizes) {
    Shape part = whole;
    part[axis] = size;
    parts.push_back(F32(part));
  }
  return parts;
}
OperatorCase ConcatCase(std::string name, const Shape& whole, int64_t axis, const Shape& sizes) {
  return {"concat_" + std::move(name), Concat{axis}, Parts(whole, axis, sizes), {}, {F32(whole)}};
}
OperatorCase SplitCase(std::string name, const Shape& whole, int64_t axis, const Shape& sizes) {
  return {
      "split_" + std::move(name), Split{axis, sizes}, {F32(whole)}, {}, Parts(whole, axis, sizes)};
}

OperatorCase ReshapeCase(std::string name, const Shape& in, const Shape& sample) {
  Shape out = {in[0]};
  out.insert(out.end(), sample.begin(), sample.end());
  return Unary("reshape_" + std::move(name), Reshape{sample}, in, out);
}
OperatorCase TransposeCase(std::string name, const Shape& in, const Shape& permutation) {
  Shape out;
  for (int64_t axis : permutation) out.push_back(in[axis]);
  return Unary("transpose_" + std::move(name), Transpose{permutation}, in, out);
}
OperatorCase ReduceCase(std::string name, const Shape& in, const Reduce& op) {
  Shape out;
  for (int64_t i = 0, next = 0; i < static_cast<int64_t>(in.size()); ++i) {
    if (next < static_cast<int64_t>(op.axes.size()) && op.axes[next] == i) {
      ++next;
    } else {
      out.push_back(in[i]);
    }
  }
  return Unary(std::string(NameOf(op)) + "_" + std::move(name), op, in, out);
}

OperatorCase CrossEntropyCase(std::string name, const Shape& logits) {
  const Shape places(logits.begin(), logits.end() - 1);
  return {"softmax_cross_entropy_" + std::move(name),
          SoftmaxCrossEntropy{},
          {F32(logits), I32(places)},
          {},
          {F32({logits[0]}), F32({logits[0]})}};
}

// Every operator's training cases; those in evaluation are added behind.
std::vector<OperatorCase> LinearCases() {
  return {
      LinearCase("2d", {5, 7}, {.outputs = 3}),
      LinearCase("no_bias", {5, 7}, {.outputs = 4, .bias = false}),
      LinearCase("relu", {6, 9}, {.outputs = 5, .relu = true}),
      LinearCase("relu_no_bias", {4, 3}, {.outputs = 11, .bias = false, .relu = true}),
      LinearCase("one_sample", {1, 13}, {.outputs = 5}),
      LinearCase("one_output", {7, 5}, {.outputs = 1}),
      LinearCase("3d", {3, 5, 4}, {.outputs = 6}),
      LinearCase("3d_relu", {2, 3, 7}, {.outputs = 5, .relu = true}),
      LinearCase("4d", {2, 3, 2, 5}, {.outputs = 4}),
      LinearCase("wide", {9, 33}, {.outputs = 17}),
      Wanting(LinearCase("2d", {5, 7}, {.outputs = 3}), "_first", {false}),
  };
}

std::vector<OperatorCase> ConvCases() {
  const Window odd = {.height = 3, .width = 2, .stride_h = 2, .stride_w = 1, .pad_h = 1};
  return {
      ConvCase("1x1", {2, 3, 4, 5}, {.channels = 4, .window = Window::Square(1)}),
      ConvCase("3x3", {2, 3, 6, 5}, {.channels = 4, .window = Window::Square(3, 1, 1)}),
      ConvCase("no_bias", {2, 2, 5, 5},
               {.channels = 3, .window = Window::Square(3), .bias = false}),
      ConvCase("relu", {2, 3, 5, 6},
               {.channels = 5, .window = Window::Square(3, 1, 1), .relu = true}),
      ConvCase("relu_no_bias", {3, 2, 4, 4},
               {.channels = 3, .window = Window::Square(2), .bias = false, .relu = true}),
      ConvCase("one_sample", {1, 3, 5, 5}, {.channels = 2, .window = Window::Square(3, 1, 1)}),
      ConvCase("one_channel", {2, 1, 7, 5}, {.channels = 3, .window = Window::Square(5, 1, 2)}),
      ConvCase("stride2_remainder", {2, 3, 8, 6}, {.channels = 4, .window = Window::Square(3, 2)}),
      ConvCase("stride3_skips", {2, 2, 8, 9}, {.channels = 3, .window = Window::Square(2, 3)}),
      ConvCase("not_square", {2, 3, 7, 6}, {.channels = 4, .window = odd}),
      ConvCase(
          "strides_paddings_uneven", {2, 2, 5, 8},
          {.channels = 3,
           .window =
               {.height = 2, .width = 5, .stride_h = 1, .stride_w = 3, .pad_h = 1, .pad_w = 4}}),
      ConvCase(
          "large_padding", {2, 2, 4, 3},
          {.channels = 2,
           .window =
               {.height = 3, .width = 2, .stride_h = 1, .stride_w = 1, .pad_h = 2, .pad_w = 2}}),
      ConvCase("whole_image", {3, 2, 4, 3}, {.channels = 5, .window = {.height = 4, .width = 3}}),
      ConvCase("groups", {2, 6, 5, 4},
               {.channels = 4, .window = Window::Square(3, 1, 1), .groups = 2}),
      ConvCase("groups3_stride2_relu", {2, 6, 6, 5},
               {.channels = 9, .window = Window::Square(3, 2, 1), .groups = 3, .relu = true}),
      ConvCase("depthwise", {2, 5, 5, 6},
               {.channels = 5, .window = Window::Square(3, 1, 1), .groups = 5}),
      ConvCase("depthwise_twice_no_bias", {2, 3, 6, 5},
               {.channels = 6, .window = Window::Square(3, 2, 1), .groups = 3, .bias = false}),
      ConvCase("17_channels", {1, 17, 4, 4}, {.channels = 18, .window = Window::Square(3, 1, 1)}),
      Wanting(ConvCase("3x3", {2, 3, 6, 5}, {.channels = 4, .window = Window::Square(3, 1, 1)}),
              "_first", {false}),
      Wanting(ConvCase("groups", {2, 6, 5, 4},
                       {.channels = 4, .window = Window::Square(3, 1, 1), .groups = 2}),
              "_first", {false}),
  };
}

std::vector<OperatorCase> PoolCases() {
  std::vector<OperatorCase> cases;
  const Window uneven = {
      .height = 3, .width = 2, .stride_h = 1, .stride_w = 2, .pad_h = 2, .pad_w = 1};
  for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage}) {
    cases.push_back(PoolCase("2x2", {2, 3, 6, 4}, {.kind = kind, .window = Window::Square(2, 2)}));
    cases.push_back(
        PoolCase("remainder", {2, 2, 7, 8}, {.kind = kind, .window = Window::Square(3, 2)}));
    cases.push_back(
        PoolCase("padded", {2, 3, 5, 6}, {.kind = kind, .window = Window::Square(3, 2, 1)}));
    cases.push_back(PoolCase("one_sample_overlapping", {1, 2, 5, 5},
                             {.kind = kind, .window = Window::Square(3, 1, 1)}));
    cases.push_back(PoolCase("uneven", {2, 2, 5, 6}, {.kind = kind, .window = uneven}));
    cases.push_back(
        PoolCase("skips", {2, 2, 7, 7}, {.kind = kind, .window = Window::Square(2, 3)}));
    cases.push_back(
        PoolCase("global", {3, 4, 5, 3}, {.kind = kind, .window = {.height = 5, .width = 3}}));
    cases.push_back(
        PoolCase("17_channels", {2, 17, 4, 4}, {.kind = kind, .window = Window::Square(2, 2)}));
  }
  cases.push_back(PoolCase(
      "padded_inside", {2, 3, 5, 6},
      {.kind = PoolKind::kAverage, .window = Window::Square(3, 2, 1), .count_padding = false}));
  cases.push_back(PoolCase("uneven_inside", {2, 2, 5, 6},
                           {.kind = PoolKind::kAverage, .window = uneven, .count_padding = false}));
  return cases;
}

std::vector<OperatorCase> NormCases() {
  return {
      BatchNormCase("2d", {6, 5}),
      BatchNormCase("4d", {3, 4, 5, 2}),
      BatchNormCase("3d", {4, 3, 5}),
      BatchNormCase("relu", {3, 4, 3, 5}, {.relu = true}),
      BatchNormCase("2d_relu", {7, 3}, {.relu = true}),
      BatchNormCase("one_sample", {1, 3, 4, 5}),
      BatchNormCase("large_epsilon", {4, 3, 2, 3}, {.epsilon = 0.1}),
      BatchNormCase("17_channels", {3, 17, 2, 3}),
      MomentsCase("2d", {6, 5}, {}),
      MomentsCase("of_three", {3, 4, 5, 2}, {.rows = 3, .row = 1}),
      MomentsCase("17_channels", {2, 17, 3, 3}, {.rows = 2, .row = 1}),
      MomentsCase("one_element", {1, 3, 1, 1}, {.rows = 2}),
      ByMomentsCase("2d", {6, 5}, {.samples = 6, .counts = {6}}),
      ByMomentsCase("4d", {3, 4, 5, 2}, {.samples = 7, .counts = {30, 40}}),
      ByMomentsCase("relu", {3, 4, 3, 5}, {.relu = true, .samples = 9, .counts = {45, 1, 89}}),
      ByMomentsCase("17_channels", {2, 17, 3, 3},
                    {.epsilon = 0.1, .samples = 2, .counts = {18, 9}}),
      Wanting(ByMomentsCase("4d", {3, 4, 5, 2}, {.samples = 7, .counts = {30, 40}}),
              "_no_gradient_of_moments", {true, false}),
      Wanting(ByMomentsCase("4d", {3, 4, 5, 2}, {.samples = 7, .counts = {30, 40}}),
              "_gradient_of_moments_alone", {false, true}),
      LayerNormCase("2d", {5, 7}),
      LayerNormCase("3d", {2, 3, 9}),
      LayerNormCase("4d", {2, 3, 2, 5}),
      LayerNormCase("one_sample", {1, 11}),
      LayerNormCase("large_epsilon", {4, 6}, {.epsilon = 0.1}),
      Same("local_response_norm_default", LocalResponseNorm{}, {2, 7, 3, 2}),
      Same("local_response_norm_strong", LocalResponseNorm{.alpha = 2.0}, {2, 8, 2, 3}),
      Same("local_response_norm_size3", LocalResponseNorm{.size = 3, .alpha = 0.5, .k = 2.0},
           {1, 5, 3, 3}),
      Same("local_response_norm_size2", LocalResponseNorm{.size = 2, .alpha = 1.0, .beta = 1.25},
           {2, 6, 3, 2}),
      Same("local_response_norm_even_window",
           LocalResponseNorm{.size = 4, .alpha = 0.5, .beta = 0.6, .k = 1.5}, {2, 7, 3, 3}),
      Same("local_response_norm_even_beyond_channels",
           LocalResponseNorm{.size = 6, .alpha = 3.0, .k = 0.5}, {1, 3, 2, 9}),
      Same("local_response_norm_few_channels",
           LocalResponseNorm{.size = 5, .alpha = 1.5, .beta = 0.5}, {3, 2, 2, 2}),
  };
}

std::vector<OperatorCase> SequenceCases() {
  return {
      EmbeddingCase("1d", {6}, {.rows = 5, .dim = 3}),
      EmbeddingCase("2d", {3, 5}, {.rows = 11, .dim = 4}),
      EmbeddingCase("repeats", {2, 9}, {.rows = 2, .dim = 7}),
      LstmCase("plain", {3, 4, 5}, {.hidden = 3}),
      LstmCase("state", {2, 3, 4}, {.hidden = 5, .state = true}),
      LstmCase("reverse", {3, 4, 2}, {.hidden = 3, .reverse = true}),
      LstmCase("reverse_state", {2, 5, 3}, {.hidden = 4, .state = true, .reverse = true}),
      LstmCase("cell", {4, 1, 3}, {.hidden = 5}),
      LstmCase("cell_state", {3, 1, 6}, {.hidden = 4, .state = true}),
      LstmCase("one_sample", {1, 6, 3}, {.hidden = 2}),
      Wanting(LstmCase("plain", {3, 4, 5}, {.hidden = 3}), "_first", {false}),
      Wanting(LstmCase("state", {2, 3, 4}, {.hidden = 5, .state = true}), "_some",
              {true, false, true}),
  };
}

std::vector<OperatorCase> AttentionCases() {
  return {
      MultiHeadCase("one_head", {2, 3, 4}, 3, {.heads = 1}),
      MultiHeadCase("heads", {2, 4, 6}, 4, {.heads = 3}),
      MultiHeadCase("longer_keys", {2, 3, 8}, 5, {.heads = 2}),
      MultiHeadCase("shorter_keys", {3, 5, 4}, 2, {.heads = 2}),
      MultiHeadCase("one_sample", {1, 4, 6}, 4, {.heads = 2}),
      MultiHeadCase("one_step", {2, 1, 4}, 1, {.heads = 2}),
      MultiHeadCase("one_query", {2, 1, 6}, 7, {.heads = 2}),
      MultiHeadCase("causal", {2, 5, 6}, 5, {.heads = 2, .causal = true}),
      MultiHeadCase("causal_one_head", {1, 7, 3}, 7, {.heads = 1, .causal = true}),
      Wanting(MultiHeadCase("heads", {2, 4, 6}, 4, {.heads = 3}), "_some", {false, true, false}),
      AdditiveCase("square", {2, 4, 5}, 4, 5),
      AdditiveCase("longer_keys", {2, 3, 4}, 5, 6),
      AdditiveCase("one_query", {3, 1, 5}, 6, 3),
      AdditiveCase("one_sample", {1, 4, 3}, 2, 7),
      Wanting(AdditiveCase("square", {2, 4, 5}, 4, 5), "_some", {true, false, false}),
      PairwiseDotCase("square", {3, 4, 4}),
      PairwiseDotCase("wide", {2, 3, 19}),
      PairwiseDotCase("many", {2, 11, 3}),
      PairwiseDotCase("one_pair", {4, 2, 5}),
      PairwiseDotCase("one_sample", {1, 5, 7}),
  };
}

std::vector<OperatorCase> ElementwiseCases() {
  std::vector<OperatorCase> cases;
  for (const ActivationKind kind : {ActivationKind::kRelu, ActivationKind::kTanh,
                                    ActivationKind::kSigmoid, ActivationKind::kGelu}) {
    const Activation op = {kind};
    const std::string name(NameOf(op));
    cases.push_back(Same(name + "_2d", op, {5, 7}));
    cases.push_back(Same(name + "_4d", op, {2, 3, 5, 3}));
    cases.push_back(Same(name + "_one_sample", op, {1, 3, 11}));
  }
  const std::vector<OperatorCase> others = {
      Same("dropout_half", Dropout{}, {4, 9}),
      Same("dropout_tenth", Dropout{.rate = 0.1}, {3, 5, 7}),
      Same("dropout_4d", Dropout{.rate = 0.3}, {2, 3, 3, 2}),
      Same("dropout_none", Dropout{.rate = 0.0}, {3, 5}),
      AddCase("two", {3, 7}, 2),
      AddCase("three", {2, 3, 5}, 3),
      AddCase("relu", {2, 3, 4, 5}, 2, {.relu = true}),
      AddCase("five_relu", {5, 3}, 5, {.relu = true}),
      AddCase("one_sample", {1, 5}, 2),
      Wanting(AddCase("two", {3, 7}, 2), "_some", {false, true}),
      Wanting(AddCase("relu", {2, 3, 4, 5}, 2, {.relu = true}), "_some", {true, false}),
      MultiplyCase("2d", {5, 7}),
      MultiplyCase("4d", {2, 3, 4, 5}),
      Wanting(MultiplyCase("2d", {5, 7}), "_some", {false, true}),
      AddParameterCase("2d", {5, 7}),
      AddParameterCase("3d", {3, 4, 5}),
      AddParameterCase("4d_one_sample", {1, 2, 3, 5}),
  };
  cases.insert(cases.end(), others.begin(), others.end());
  return cases;
}

std::vector<OperatorCase> ShapeCases() {
  return {
      ConcatCase("features", {3, 9}, 1, {4, 2, 3}),
      ConcatCase("channels", {2, 8, 3, 5}, 1, {1, 5, 2}),
      ConcatCase("steps", {2, 7, 3}, 1, {4, 3}),
      ConcatCase("height", {2, 3, 6, 2}, 2, {5, 1}),
      ConcatCase("last", {2, 3, 2, 7}, 3, {1, 2, 4}),
      ConcatCase("alone", {3, 5}, 1, {5}),
      Wanting(ConcatCase("channels", {2, 8, 3, 5}, 1, {1, 5, 2}), "_some", {true, false, true}),
      SplitCase("features", {3, 9}, 1, {4, 2, 3}),
      SplitCase("channels", {2, 8, 3, 5}, 1, {1, 5, 2}),
      SplitCase("height", {2, 3, 6, 2}, 2, {5, 1}),
      SplitCase("last", {2, 3, 2, 7}, 3, {1, 2, 4}),
      SplitCase("last_one_sample", {1, 3, 5}, 2, {2, 3}),
      ReshapeCase("flatten", {3, 2, 5, 4}, {40}),
      ReshapeCase("to_image", {2, 24}, {2, 3, 4}),
      ReshapeCase("steps", {1, 6, 5}, {2, 15}),
      TransposeCase("3d", {3, 4, 5}, {0, 2, 1}),
      TransposeCase("4d", {2, 3, 5, 4}, {0, 2, 1, 3}),
      TransposeCase("4d_rotate", {2, 3, 5, 4}, {0, 2, 3, 1}),
      TransposeCase("identity", {3, 4, 2}, {0, 1, 2}),
      ReduceCase("steps", {3, 5, 4}, {.kind = ReduceKind::kMean, .axes = {1}}),
      ReduceCase("places", {2, 3, 5, 4}, {.kind = ReduceKind::kMean, .axes = {2, 3}}),
      ReduceCase("all", {4, 3, 5}, {.kind = ReduceKind::kMean, .axes = {1, 2}}),
      ReduceCase("apart", {2, 3, 5, 4}, {.kind = ReduceKind::kMean, .axes = {1, 3}}),
      ReduceCase("steps", {3, 5, 4}, {.kind = ReduceKind::kSum, .axes = {1}}),
      ReduceCase("last", {2, 3, 7}, {.kind = ReduceKind::kSum, .axes = {2}}),
      ReduceCase("apart", {1, 3, 5, 4}, {.kind = ReduceKind::kSum, .axes = {1, 3}}),
  };
}

std::vector<OperatorCase> LossCases() {
  return {
      CrossEntropyCase("2d", {9, 5}),          CrossEntropyCase("one_sample", {1, 7}),
      CrossEntropyCase("two_classes", {6, 2}), CrossEntropyCase("3d", {4, 7, 3}),
      CrossEntropyCase("4d", {3, 2, 3, 5}),    CrossEntropyCase("wide", {5, 67}),
  };
}

}  // namespace

std::vector<OperatorCase> OperatorCases() {
  std::vector<OperatorCase> cases;
  for (auto family : {LinearCases, ConvCases, PoolCases, NormCases, SequenceCases, AttentionCases,
                      ElementwiseCases, ShapeCases, LossCases}) {
    for (OperatorCase& c : family()) {
      if (c.wanted.empty()) cases.push_back(Evaluation(c));
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

void PrintTo(const OperatorCase& c, std::ostream* out) { *out << c.name; }

}  // namespace soapstone::compute
