#include "compute/op.h"

#include <variant>

namespace soapstone::compute {
namespace {

struct Namer {
  std::string_view operator()(const Linear&) const { return "linear"; }
  std::string_view operator()(const Conv2d&) const { return "conv2d"; }
  std::string_view operator()(const Pool& p) const {
    return p.kind == PoolKind::kMax ? "max_pool" : "average_pool";
  }
  std::string_view operator()(const BatchNorm&) const { return "batch_norm"; }
  std::string_view operator()(const LayerNorm&) const { return "layer_norm"; }
  std::string_view operator()(const LocalResponseNorm&) const { return "local_response_norm"; }
  std::string_view operator()(const Embedding&) const { return "embedding"; }
  std::string_view operator()(const Lstm&) const { return "lstm"; }
  std::string_view operator()(const MultiHeadAttention&) const { return "multi_head_attention"; }
  std::string_view operator()(const AdditiveAttention&) const { return "additive_attention"; }
  std::string_view operator()(const PairwiseDot&) const { return "pairwise_dot"; }
  std::string_view operator()(const Activation& a) const {
    switch (a.kind) {
      case ActivationKind::kRelu:
        return "relu";
      case ActivationKind::kTanh:
        return "tanh";
      case ActivationKind::kSigmoid:
        return "sigmoid";
      case ActivationKind::kGelu:
        return "gelu";
    }
    return "activation";
  }
  std::string_view operator()(const Dropout&) const { return "dropout"; }
  std::string_view operator()(const Add&) const { return "add"; }
  std::string_view operator()(const Multiply&) const { return "multiply"; }
  std::string_view operator()(const AddParameter&) const { return "add_parameter"; }
  std::string_view operator()(const Concat&) const { return "concat"; }
  std::string_view operator()(const Split&) const { return "split"; }
  std::string_view operator()(const Reshape&) const { return "reshape"; }
  std::string_view operator()(const Transpose&) const { return "transpose"; }
  std::string_view operator()(const Reduce& r) const {
    return r.kind == ReduceKind::kSum ? "reduce_sum" : "reduce_mean";
  }
  std::string_view operator()(const SoftmaxCrossEntropy&) const { return "softmax_cross_entropy"; }
  std::string_view operator()(const BatchMoments&) const { return "batch_moments"; }
  std::string_view operator()(const NormalizeByMoments&) const { return "normalize_by_moments"; }
};

}  // namespace

std::string_view NameOf(const Operator& op) { return std::visit(Namer{}, op); }

}  // namespace soapstone::compute
