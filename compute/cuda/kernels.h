// The kernels of our own, as functions that put them on a stream. All pointers are of the device;
// tensors are row-major float32 unless named otherwise. Where sums are taken, the order is fixed by
// the sizes alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace soapstone::compute {

// ---- element by element (elementwise.cu)

// As ActivationKind, without including it in device code.
enum class DeviceActivation : int { kRelu, kTanh, kSigmoid, kGelu };

void ActivateForward(cudaStream_t stream, DeviceActivation kind, int64_t n, const float* x,
                     float* y);
// dx = dy · f'. source: for gelu x, for the others y. dx may be dy.
struct ActivationGradient {
  DeviceActivation kind = DeviceActivation::kRelu;
  const float* source = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
};
void ActivateBackward(cudaStream_t stream, int64_t n, const ActivationGradient& g);

// y [outer, channels, inner] += bias [channels] (null: nothing), then relu.
struct BiasPass {
  int64_t outer = 0, channels = 0, inner = 1;
  const float* bias = nullptr;
  bool relu = false;
};
void AddBias(cudaStream_t stream, const BiasPass& pass, float* y);

// y = Σ x_i, at most 8; then relu.
constexpr int kTensorsAtOnce = 8;
struct TensorList {
  const float* x[kTensorsAtOnce] = {};
  int count = 0;
};
void AddTensors(cudaStream_t stream, const TensorList& list, bool relu, int64_t n, float* y);
void MultiplyTensors(cudaStream_t stream, int64_t n, const float* a, const float* b, float* y);
// y [rows, n] = x [rows, n] + b [n]
void AddToRows(cudaStream_t stream, int64_t rows, int64_t n, const float* x, const float* b,
               float* y);

// To the nearest, ties to even.
void ToBfloat16(cudaStream_t stream, int64_t n, const float* x, uint16_t* y);
void FromBfloat16(cudaStream_t stream, int64_t n, const uint16_t* x, float* y);

// ---- dropout (dropout.cu)

struct DropoutPass {
  uint64_t seed = 0;
  uint32_t use = 0;  // RandomUse::kDropout
  uint32_t op_index = 0;
  uint32_t threshold = 0;
  float scale = 1;  // 1/(1 − rate)
  int64_t samples = 0, elements = 0;
  uint64_t step = 0, first_sample = 0;
  const uint64_t* keys = nullptr;  // [2]: added to step and first_sample; null: nothing
};
void DropoutElements(cudaStream_t stream, const DropoutPass& pass, const float* x, float* y);

// ---- sums, and the softmax of rows (reductions.cu)

// out [cols] = Σ_rows x [rows, cols]. partial: ColumnPartials floats.
int64_t ColumnPartials(int64_t rows, int64_t cols);
void SumColumns(cudaStream_t stream, int64_t rows, int64_t cols, const float* x, float* partial,
                float* out);

// A tensor [samples, channels, inner] and sums over all but the channel.
struct ChannelShape {
  int64_t samples = 0, channels = 0, inner = 1;
  int64_t per_channel() const { return samples * inner; }
};
int64_t ChannelPartials(const ChannelShape& shape);  // floats, two sums at once
void SumChannels(cudaStream_t stream, const ChannelShape& shape, const float* x, float* partial,
                 float* out);

// In place, scores [rows, cols]: p = softmax(scale · s) over the first `visible` columns, 0 behind
// them: cols, or (row % period) + 1 where period > 0.
struct SoftmaxPass {
  int64_t rows = 0, cols = 0;
  float scale = 1;
  int64_t period = 0;
};
void SoftmaxRows(cudaStream_t stream, const SoftmaxPass& pass, float* scores);
// In place, dp → ds = scale · p · (dp − Σ p·dp).
void SoftmaxRowsBackward(cudaStream_t stream, const SoftmaxPass& pass, const float* p, float* dp);

// ---- batch normalisation (batch_norm.cu)

// mean, inverse deviation and variance (÷ n) by channel, [C] each.
struct ChannelStatistics {
  float* mean = nullptr;
  float* rstd = nullptr;
  float* variance = nullptr;
};
void BatchStatistics(cudaStream_t stream, const ChannelShape& shape, const float* x, float epsilon,
                     const ChannelStatistics& out, float* partial);
// rstd = 1/√(variance + ε)
void InverseDeviation(cudaStream_t stream, int64_t n, const float* variance, float epsilon,
                      float* rstd);
struct NormalizePass {
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  bool relu = false;
};
void NormalizeChannels(cudaStream_t stream, const ChannelShape& shape, const NormalizePass& pass,
                       const float* x, float* y);
struct BatchNormGradient {
  const float* x = nullptr;
  const float* y = nullptr;  // null: no relu
  const float* dy = nullptr;
  float* dx = nullptr;  // null: not wanted
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;
  float* dweight = nullptr;
  float* dbias = nullptr;
  float* partial = nullptr;
};
void BatchNormBackward(cudaStream_t stream, const ChannelShape& shape, const BatchNormGradient& g);
// What stands for the gradients of the running statistics (op.h): n·(r − r_now).
struct RunningGradient {
  const float* mean = nullptr;
  const float* variance = nullptr;  // ÷ n; times `unbias` it is r_now
  const float* running_mean = nullptr;
  const float* running_variance = nullptr;
  float* dmean = nullptr;
  float* dvariance = nullptr;
  float samples = 0;
  float unbias = 1;
};
void RunningStatistics(cudaStream_t stream, int64_t channels, const RunningGradient& g);

// ---- layer normalisation (layer_norm.cu)

struct LayerNormPass {
  int64_t rows = 0, cols = 0;
  float epsilon = 0;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* mean = nullptr;  // [rows]; null: not kept
  float* rstd = nullptr;
};
void LayerNormForward(cudaStream_t stream, const LayerNormPass& pass, const float* x, float* y);
struct LayerNormGradient {
  int64_t rows = 0, cols = 0;
  const float* x = nullptr;
  const float* dy = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;
  float* dx = nullptr;  // null: not wanted
  float* dweight = nullptr;
  float* dbias = nullptr;
  float* partial = nullptr;  // 2 · ColumnPartials
};
void LayerNormBackward(cudaStream_t stream, const LayerNormGradient& g);

// ---- softmax and cross-entropy (softmax_cross_entropy.cu)

// logits [samples, places, classes], labels [samples, places].
struct LossPass {
  int64_t samples = 0, places = 0, classes = 0;
  const float* logits = nullptr;
  const int32_t* labels = nullptr;
  float* log_sum = nullptr;   // [samples·places]: log Σ exp
  float* row_loss = nullptr;  // [samples·places]
  float* row_hit = nullptr;   // [samples·places]
  float* inverse = nullptr;   // [samples]: 1 / places with a label
};
void LossForward(cudaStream_t stream, const LossPass& pass, float* loss, float* correct);
void LossBackward(cudaStream_t stream, const LossPass& pass, float* dlogits);

// ---- pooling (pool.cu)

struct PoolPass {
  int64_t planes = 0;  // samples · channels
  int64_t height = 0, width = 0, out_height = 0, out_width = 0;
  int64_t size_h = 1, size_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool count_padding = true;  // average
};
// chosen [planes, out_height, out_width]: place in the plane of the first largest; null: not kept.
void MaxPoolForward(cudaStream_t stream, const PoolPass& pass, const float* x, float* y,
                    int32_t* chosen);
void MaxPoolBackward(cudaStream_t stream, const PoolPass& pass, const int32_t* chosen,
                     const float* dy, float* dx);
void AveragePoolForward(cudaStream_t stream, const PoolPass& pass, const float* x, float* y);
void AveragePoolBackward(cudaStream_t stream, const PoolPass& pass, const float* dy, float* dx);

// ---- response normalisation (local_response_norm.cu)

// s = k + α/size Σ x²; y = x·s^−β. s is kept if not null. Shape [samples, channels, inner].
struct ResponsePass {
  ChannelShape shape;
  int64_t size = 5;
  float alpha = 0, beta = 0, k = 1;
};
void ResponseForward(cudaStream_t stream, const ResponsePass& pass, const float* x, float* s,
                     float* y);
struct ResponseGradient {
  const float* x = nullptr;
  const float* s = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
};
void ResponseBackward(cudaStream_t stream, const ResponsePass& pass, const ResponseGradient& g);

// ---- movement (movement.cu)

// to[r·to_stride + i] = from[r·from_stride + i], r < rows, i < width: words of 4 bytes.
struct SectionCopy {
  int64_t rows = 0, width = 0;
  const void* from = nullptr;
  int64_t from_stride = 0;
  void* to = nullptr;
  int64_t to_stride = 0;
};
void CopySection(cudaStream_t stream, const SectionCopy& copy);

// An index over `size` (the first outermost), and where its elements lie.
constexpr int kDimsMax = 8;
struct StridedIndex {
  int dims = 0;
  int64_t size[kDimsMax] = {};
  int64_t stride[kDimsMax] = {};
  int64_t elements() const {
    int64_t n = 1;
    for (int d = 0; d < dims; ++d) n *= size[d];
    return n;
  }
};
// y[i] = x[at(i)]: words of 4 bytes.
void GatherStrided(cudaStream_t stream, const StridedIndex& at, const void* x, void* y);
// y[i] = scale · x[at(i)]
void BroadcastStrided(cudaStream_t stream, const StridedIndex& at, float scale, const float* x,
                      float* y);
// y[i] = scale · Σ_j x[kept(i) + reduced(j)]
struct StridedSum {
  StridedIndex kept, reduced;
  float scale = 1;
};
void ReduceStrided(cudaStream_t stream, const StridedSum& sum, const float* x, float* y);

// Copies slices to or from one flat buffer, at most kSlicesAtOnce. begin[i]: of slice i in flat.
constexpr int kSlicesAtOnce = 64;
struct SliceTable {
  int count = 0;
  int64_t begin[kSlicesAtOnce + 1] = {};
  float* slice[kSlicesAtOnce] = {};
};
void CopySlices(cudaStream_t stream, const SliceTable& table, float* flat, bool to_flat);

// ---- embedding (embedding.cu)

struct EmbeddingPass {
  int64_t places = 0, rows = 0, dim = 0;
  const int32_t* ids = nullptr;
};
void EmbeddingForward(cudaStream_t stream, const EmbeddingPass& pass, const float* weight,
                      float* y);
// All of dweight [rows, dim] is written; a row's sum is in the order of its places.
void EmbeddingBackward(cudaStream_t stream, const EmbeddingPass& pass, const float* dy,
                       float* dweight);

// ---- recurrence (lstm.cu)

// One time step of all samples. Strides are from one sample to the next.
struct LstmStep {
  int64_t samples = 0, hidden = 0;
  float* gates = nullptr;  // [4·hidden]: sums before the bias in, i f g o after activation out
  int64_t gate_stride = 0;
  const float* bias = nullptr;
  const float* c_before = nullptr;  // null: 0
  int64_t c_before_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  float* h = nullptr;
  int64_t h_stride = 0;
};
void LstmCellForward(cudaStream_t stream, const LstmStep& step);
struct LstmStepGradient {
  int64_t samples = 0, hidden = 0;
  const float* gates = nullptr;
  float* dgates = nullptr;  // of the sums before activation; strides as gates
  int64_t gate_stride = 0;
  const float* c = nullptr;
  const float* c_before = nullptr;  // null: 0
  int64_t c_stride = 0, c_before_stride = 0;
  const float* dy = nullptr;  // of h, from the output; null: 0
  int64_t dy_stride = 0;
  const float* dh = nullptr;     // of h, from the step after [samples, hidden]; null: 0
  const float* dc_in = nullptr;  // null: 0
  float* dc_out = nullptr;       // may be dc_in
};
void LstmCellBackward(cudaStream_t stream, const LstmStepGradient& g);
// before [samples, steps, hidden]: h of the step that came before each (reverse: t + 1).
struct LstmShift {
  int64_t samples = 0, steps = 0, hidden = 0;
  bool reverse = false;
  const float* h0 = nullptr;  // null: 0
  const float* y = nullptr;
  float* before = nullptr;
};
void LstmShiftStates(cudaStream_t stream, const LstmShift& shift);

// ---- additive attention (additive_attention.cu)

// q [N, T, D], k [N, S, D], v [D], scores [N, T, S].
struct AdditivePass {
  int64_t samples = 0, queries = 0, keys = 0, dim = 0;
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
};
void AdditiveScores(cudaStream_t stream, const AdditivePass& pass, float* scores);
void AdditiveQueryGradient(cudaStream_t stream, const AdditivePass& pass, const float* ds,
                           float* dq);
void AdditiveKeyGradient(cudaStream_t stream, const AdditivePass& pass, const float* ds, float* dk);
// partial [N, D]: Σ_ts ds·tanh(q + k) of each sample.
void AdditiveVectorGradient(cudaStream_t stream, const AdditivePass& pass, const float* ds,
                            float* partial);

// ---- products of all pairs (pairwise_dot.cu)

// x [samples, vectors, dim], y [samples, vectors (vectors − 1)/2].
struct PairwisePass {
  int64_t samples = 0, vectors = 0, dim = 0;
};
void PairwiseForward(cudaStream_t stream, const PairwisePass& pass, const float* x, float* y);
void PairwiseBackward(cudaStream_t stream, const PairwisePass& pass, const float* x,
                      const float* dy, float* dx);

}  // namespace soapstone::compute
