#include "compute/op_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace soapstone::compute {
namespace {

using Parts = std::vector<std::string>;

std::string Side(const char* name, int64_t height, int64_t width) {
  return absl::StrCat(name, "=", height, "x", width);
}

void AddWindow(const Window& w, Parts* parts) {
  parts->push_back(Side("window", w.height, w.width));
  parts->push_back(Side("stride", w.stride_h, w.stride_w));
  parts->push_back(Side("pad", w.pad_h, w.pad_w));
}

void AddFlag(const char* name, bool set, Parts* parts) {
  if (set) parts->push_back(name);
}

// Enough digits that no two doubles look alike.
std::string Number(const char* name, double value) {
  return absl::StrFormat("%s=%.17g", name, value);
}

std::string List(const char* name, const std::vector<int64_t>& values) {
  return absl::StrCat(name, "=[", absl::StrJoin(values, ","), "]");
}

// What stands in the parentheses.
struct Attributes {
  Parts operator()(const Linear& op) const {
    Parts parts = {absl::StrCat("outputs=", op.outputs)};
    AddFlag("bias", op.bias, &parts);
    AddFlag("relu", op.relu, &parts);
    return parts;
  }
  Parts operator()(const Conv2d& op) const {
    Parts parts = {absl::StrCat("channels=", op.channels)};
    AddWindow(op.window, &parts);
    parts.push_back(absl::StrCat("groups=", op.groups));
    AddFlag("bias", op.bias, &parts);
    AddFlag("relu", op.relu, &parts);
    return parts;
  }
  Parts operator()(const Pool& op) const {
    Parts parts;
    AddWindow(op.window, &parts);
    AddFlag("count_padding", op.count_padding, &parts);
    return parts;
  }
  Parts operator()(const BatchNorm& op) const {
    Parts parts = {Number("epsilon", op.epsilon), Number("momentum", op.momentum)};
    AddFlag("relu", op.relu, &parts);
    return parts;
  }
  Parts operator()(const LayerNorm& op) const { return {Number("epsilon", op.epsilon)}; }
  Parts operator()(const LocalResponseNorm& op) const {
    return {absl::StrCat("size=", op.size), Number("alpha", op.alpha), Number("beta", op.beta),
            Number("k", op.k)};
  }
  Parts operator()(const Embedding& op) const {
    return {absl::StrCat("rows=", op.rows), absl::StrCat("dim=", op.dim)};
  }
  Parts operator()(const Lstm& op) const {
    Parts parts = {absl::StrCat("hidden=", op.hidden)};
    AddFlag("state", op.state, &parts);
    AddFlag("reverse", op.reverse, &parts);
    return parts;
  }
  Parts operator()(const MultiHeadAttention& op) const {
    Parts parts = {absl::StrCat("heads=", op.heads)};
    AddFlag("causal", op.causal, &parts);
    return parts;
  }
  Parts operator()(const AdditiveAttention&) const { return {}; }
  Parts operator()(const PairwiseDot&) const { return {}; }
  Parts operator()(const Activation&) const { return {}; }  // its kind is its name
  Parts operator()(const Dropout& op) const { return {Number("rate", op.rate)}; }
  Parts operator()(const Add& op) const {
    Parts parts;
    AddFlag("relu", op.relu, &parts);
    return parts;
  }
  Parts operator()(const Multiply&) const { return {}; }
  Parts operator()(const AddParameter&) const { return {}; }
  Parts operator()(const Concat& op) const { return {absl::StrCat("axis=", op.axis)}; }
  Parts operator()(const Split& op) const {
    return {absl::StrCat("axis=", op.axis), List("sizes", op.sizes)};
  }
  Parts operator()(const Reshape& op) const { return {List("shape", op.shape)}; }
  Parts operator()(const Transpose& op) const { return {List("permutation", op.permutation)}; }
  Parts operator()(const Reduce& op) const { return {List("axes", op.axes)}; }
  Parts operator()(const SoftmaxCrossEntropy&) const { return {}; }
  Parts operator()(const BatchMoments& op) const {
    return {absl::StrCat("rows=", op.rows), absl::StrCat("row=", op.row)};
  }
  Parts operator()(const NormalizeByMoments& op) const {
    Parts parts = {Number("epsilon", op.epsilon), Number("momentum", op.momentum)};
    AddFlag("relu", op.relu, &parts);
    parts.push_back(absl::StrCat("samples=", op.samples));
    parts.push_back(List("counts", op.counts));
    return parts;
  }
};

}  // namespace

std::string TextOf(const Operator& op) {
  return absl::StrCat(std::string(NameOf(op)), "(",
                      absl::StrJoin(std::visit(Attributes{}, op), ", "), ")");
}

}  // namespace soapstone::compute
