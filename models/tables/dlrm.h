// DLRM: a model of recommendation with tensors and tables (Naumov et al. 2019, "Deep Learning
// Recommendation Model for Personalization and Recommendation Systems"). Made by sparse_model.cc.
//
// A sample has numbers x and, for each of F categorical columns, categories. With e_f the sum of
// the rows of column f's categories, in a table of its own:
//   z_0 = bottom(x),  z_f = e_f           vectors of `dim`; bottom: ReLU after each layer
//
//   p = all z_i·z_j, j < i                (F + 1) F / 2 numbers
//
//   logits = top(z_0, p)                  two; ReLU after each layer but the last
//
// The loss is softmax cross-entropy of the two: with z = logits_1 − logits_0 it is
// −log softmax(logits)[y] = log(1 + exp(−z)) for y = 1 and log(1 + exp(z)) for y = 0, which is the
// paper's binary cross-entropy of σ(z).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "models/tables/sparse_model.h"

namespace soapstone::models {

inline constexpr std::string_view kDlrmName = "dlrm";
inline constexpr std::string_view kDlrmUsage =
    "dlrm:dense=13,categorical=26,dim=16,bottom=512-256-64,top=512-256";

// As the paper has it for the Criteo Kaggle data (its section 5), or as options say.
struct DlrmSize {
  int64_t dense = 13, categorical = 26;
  int64_t dim = 16;
  std::vector<int64_t> bottom = {512, 256, 64};  // layers before the one of `dim`
  std::vector<int64_t> top = {512, 256};         // layers before the one of 2
};

// Whether it is "dlrm" or "dlrm:...".
bool IsDlrm(std::string_view spec);

// spec: "dlrm", "dlrm:dim=64", "dlrm:tiny,dense=6,categorical=8". Errors: InvalidArgument for an
// unknown option or a size out of bounds.
absl::StatusOr<DlrmSize> ParseDlrm(std::string_view spec);

// Inputs: dense [dense] f32; rows [categorical, dim] f32, the e_f; labels.
absl::StatusOr<Graph> BuildDlrm(const DlrmSize& size);

// Reads data of format criteo with as many columns. Errors as MakeSparseModel's.
absl::StatusOr<std::shared_ptr<const SparseModel>> MakeDlrm(std::string_view spec,
                                                            SparseDataOptions options,
                                                            uint64_t rows_max);

}  // namespace soapstone::models
