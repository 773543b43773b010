// Operators as values: what each one is, with the numbers that fix it. A model's graph is made of
// them (models/graph/graph.h), backends prepare kernels for them (kernel.h). Shapes, costs and
// partition rules are models/ops/.
//
// Shapes stand for whole tensors, row-major: N samples, C channels, H W height and width, D
// features, T and S time steps, V vocabulary. [.., D] is any number of leading dimensions.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace soapstone::compute {

enum class DataType : uint8_t { kFloat32, kInt32 };  // both of 4 bytes

struct TensorSpec {
  DataType type = DataType::kFloat32;
  std::vector<int64_t> shape;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  int64_t bytes() const { return elements() * 4; }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// The sliding window of convolution and pooling. A side of length L has
// (L + 2·pad − size)/stride + 1 positions, rounded down.
struct Window {
  int64_t height = 1, width = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;

  static Window Square(int64_t size, int64_t stride = 1, int64_t pad = 0) {
    return {size, size, stride, stride, pad, pad};
  }
  int64_t out_height(int64_t h) const { return (h + 2 * pad_h - height) / stride_h + 1; }
  int64_t out_width(int64_t w) const { return (w + 2 * pad_w - width) / stride_w + 1; }
  friend bool operator==(const Window&, const Window&) = default;
};

// Inputs → outputs; parameters in order. Where an operator has `relu`, Y = max(0, ·) of what is
// written: one pass over memory less than an Activation behind it.

// X [.., D] → Y [.., O] = X·Wᵀ + b.  weight [O, D], bias [O] (if `bias`)
struct Linear {
  int64_t outputs = 0;
  bool bias = true;
  bool relu = false;
  friend bool operator==(const Linear&, const Linear&) = default;
};

// X [N, C, H, W] → [N, O, H', W'].  weight [O, C/groups, h, w], bias [O] (if `bias`)
struct Conv2d {
  int64_t channels = 0;
  Window window;
  int64_t groups = 1;
  bool bias = true;
  bool relu = false;
  friend bool operator==(const Conv2d&, const Conv2d&) = default;
};

// X [N, C, H, W] → [N, C, H', W']. kMax pads with −∞; kAverage with 0, and divides by the window's
// size (`count_padding`) or by the number of its elements inside the image.
enum class PoolKind : uint8_t { kMax, kAverage };
struct Pool {
  PoolKind kind = PoolKind::kMax;
  Window window;
  bool count_padding = true;
  friend bool operator==(const Pool&, const Pool&) = default;
};

// X [N, C, ..] → the same shape: γ (x − μ)/√(σ² + ε) + β by channel, with mean and variance (÷ n)
// over the samples and places of this call in training, with the running ones in evaluation
// (Ioffe and Szegedy 2015).  weight γ [C], bias β [C], running_mean [C], running_var [C].
// The "gradient" of a running statistic r is n·(r − r_now), n the samples of the call and r_now of
// the call (variance ÷ (n − 1)): an average with rate `momentum` that the servers keep
// (ParamSpec::average_rate), so all policies, checkpoints and evaluation treat it as a parameter.
struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool relu = false;
  friend bool operator==(const BatchNorm&, const BatchNorm&) = default;
};

// Batch normalization in parts, which share their statistics: each part's moments first, then each
// part normalized by those of all.

// X [N, C, ..] → [rows, C, 2]: in this row the mean of each channel and Σ (x − mean)², over the
// samples and places of this call; zeros in the other rows. So rows of parts add up.
struct BatchMoments {
  int64_t rows = 1;
  int64_t row = 0;
  friend bool operator==(const BatchMoments&, const BatchMoments&) = default;
};

// X [N, C, ..], moments [rows, C, 2] → X's shape, as BatchNorm with the mean and variance of all
// elements of a channel, of which row k has counts[k] (Chan et al. 1983). Parameters as
// BatchNorm's; the "gradient" of a running statistic r is n·(r − r_now), n this call's share of the
// `samples` of all by its elements, so that those of all parts add up to the whole's.
struct NormalizeByMoments {
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool relu = false;
  int64_t samples = 1;
  std::vector<int64_t> counts = {};
  friend bool operator==(const NormalizeByMoments&, const NormalizeByMoments&) = default;
};

// X [.., D] → the same: γ (x − μ)/√(σ² + ε) + β over the last dimension.  weight [D], bias [D]
struct LayerNorm {
  double epsilon = 1e-5;
  friend bool operator==(const LayerNorm&, const LayerNorm&) = default;
};

// X [N, C, H, W] → the same: x_c / (k + α/size · Σ x_c'²)^β, c − size/2 <= c' <= c + (size − 1)/2
// (Krizhevsky et al. 2012, section 3.3, with PyTorch's division by the size and its even windows).
struct LocalResponseNorm {
  int64_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1.0;
  friend bool operator==(const LocalResponseNorm&, const LocalResponseNorm&) = default;
};

// ids [..] i32 in [0, rows) → [.., dim].  weight [rows, dim]. An id outside fails the step's feed.
struct Embedding {
  int64_t rows = 0;
  int64_t dim = 0;
  friend bool operator==(const Embedding&, const Embedding&) = default;
};

// X [N, T, D] (and, if `state`, h_0 [N, H], c_0 [N, H]) → Y [N, T, H] (and h_T, c_T [N, H]).
// Gates i, f, g, o in this order (PyTorch's): i, f, o = σ(·), g = tanh(·);
// c_t = f·c_{t−1} + i·g; h_t = o·tanh(c_t). Without `state` h_0 = c_0 = 0. T = 1 is the cell.
// weight_ih [4H, D], weight_hh [4H, H], bias [4H].
struct Lstm {
  int64_t hidden = 0;
  bool state = false;
  bool reverse = false;  // from T down to 1; Y in the order of X
  friend bool operator==(const Lstm&, const Lstm&) = default;
};

// Q [N, T, D], K [N, S, D], V [N, S, D] → [N, T, D]: for each of `heads` slices of D/heads features
// softmax(Q Kᵀ/√(D/heads)) V (Vaswani et al. 2017). `causal`: step t sees steps ≤ t (T = S).
struct MultiHeadAttention {
  int64_t heads = 1;
  bool causal = false;
  friend bool operator==(const MultiHeadAttention&, const MultiHeadAttention&) = default;
};

// Q [N, T, D], K [N, S, D], V [N, S, E] → [N, T, E]: softmax_s(vᵀ tanh(q_t + k_s)) V
// (Bahdanau et al. 2015; the projections of q and k are Linears before it).  v [D]
struct AdditiveAttention {
  friend bool operator==(const AdditiveAttention&, const AdditiveAttention&) = default;
};

// X [N, F, D] → [N, F(F − 1)/2]: x_i·x_j for all j < i, in the order (1,0), (2,0), (2,1), (3,0), ..
// (the interaction of features of Naumov et al. 2019, "Deep Learning Recommendation Model").
struct PairwiseDot {
  friend bool operator==(const PairwiseDot&, const PairwiseDot&) = default;
};

enum class ActivationKind : uint8_t { kRelu, kTanh, kSigmoid, kGelu };  // gelu: x·Φ(x), exact
struct Activation {
  ActivationKind kind = ActivationKind::kRelu;
  friend bool operator==(const Activation&, const Activation&) = default;
};

// In training each element is 0 with probability `rate`, else x/(1 − rate); chosen by a
// counter-based generator keyed by (seed, step, operator, sample, element). Evaluation: Y = X.
struct Dropout {
  double rate = 0.5;
  friend bool operator==(const Dropout&, const Dropout&) = default;
};

// X_1, X_2, .. of one shape → their sum.
struct Add {
  bool relu = false;
  friend bool operator==(const Add&, const Add&) = default;
};
// X_1, X_2 of one shape → their product, element by element.
struct Multiply {
  friend bool operator==(const Multiply&, const Multiply&) = default;
};
// X [N, ..] → X + b, b [..] the same for all samples (learned positions).  weight [..]
struct AddParameter {
  friend bool operator==(const AddParameter&, const AddParameter&) = default;
};

// Axes count the batch: 0 is N, and is never joined or cut.
struct Concat {
  int64_t axis = 1;
  friend bool operator==(const Concat&, const Concat&) = default;
};
struct Split {
  int64_t axis = 1;
  std::vector<int64_t> sizes;  // one output each
  friend bool operator==(const Split&, const Split&) = default;
};

// X [N, ..] → [N, shape..], the same elements in the same order. Flatten is a Reshape to [N, D].
struct Reshape {
  std::vector<int64_t> shape;  // of one sample
  friend bool operator==(const Reshape&, const Reshape&) = default;
};
struct Transpose {
  std::vector<int64_t> permutation;  // output axis i is input axis permutation[i]; first: 0
  friend bool operator==(const Transpose&, const Transpose&) = default;
};
// The axes disappear.
enum class ReduceKind : uint8_t { kSum, kMean };
struct Reduce {
  ReduceKind kind = ReduceKind::kMean;
  std::vector<int64_t> axes;  // ascending, none is 0
  friend bool operator==(const Reduce&, const Reduce&) = default;
};

// logits [N, .., V], labels [N, ..] i32 → loss [N], correct [N]: the means over a sample's places
// with a label of −log softmax(logits)[label], and of whether the largest logit (the first of
// equals) is the label's. A label of −1 stands for a place without. The step's gradient is of Σ_n
// loss_n.
struct SoftmaxCrossEntropy {
  friend bool operator==(const SoftmaxCrossEntropy&, const SoftmaxCrossEntropy&) = default;
};

using Operator =
    std::variant<Linear, Conv2d, Pool, BatchNorm, LayerNorm, LocalResponseNorm, Embedding, Lstm,
                 MultiHeadAttention, AdditiveAttention, PairwiseDot, Activation, Dropout, Add,
                 Multiply, AddParameter, Concat, Split, Reshape, Transpose, Reduce,
                 SoftmaxCrossEntropy, BatchMoments, NormalizeByMoments>;

// As in messages, tables and traces: "conv2d", "max_pool", "relu".
std::string_view NameOf(const Operator& op);

}  // namespace soapstone::compute
