// DLRM: a model of recommendation with tensors and tables (Naumov et al. 2019, "Deep Learning
// Recommendation Model for Personalization and Recommendation Systems"). Made by sparse_model.cc.
//
// A sample has numbers x and, for each of F categorical columns, categories. e_f is the sum of the
// rows of column f's categories, in a table of its own. The layers around these are in
// models/zoo/dlrm.h, as are the options.
//
// The loss is softmax cross-entropy of the two: with z = logits_1 − logits_0 it is
// −log softmax(logits)[y] = log(1 + exp(−z)) for y = 1 and log(1 + exp(z)) for y = 0, which is the
// paper's binary cross-entropy of σ(z).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "models/tables/sparse_model.h"
#include "models/zoo/dlrm.h"

namespace soapstone::models {

inline constexpr std::string_view kDlrmName = "dlrm";
inline constexpr std::string_view kDlrmUsage =
    "dlrm:dense=13,categorical=26,dim=16,bottom=512-256-64,top=512-256";

// Whether it is "dlrm" or "dlrm:...".
bool IsDlrm(std::string_view spec);

// Inputs: dense [dense] f32; rows [categorical, dim] f32, the e_f; labels.
absl::StatusOr<Graph> BuildDlrm(const DlrmSize& size);

// Reads data of format criteo or clicks with as many columns. Errors as MakeSparseModel's.
absl::StatusOr<std::shared_ptr<const SparseModel>> MakeDlrm(std::string_view spec,
                                                            SparseDataOptions options,
                                                            uint64_t rows_max, SparseLoader load);

}  // namespace soapstone::models
