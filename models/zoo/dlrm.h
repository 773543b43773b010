// What the two DLRMs share (Naumov et al. 2019, "Deep Learning Recommendation Model for
// Personalization and Recommendation Systems"): their options, and the layers around the vectors of
// the categories. `dlrm` has these as rows of tables by key (models/tables/dlrm.h); `dlrm_hashed`,
// of the zoo, as embeddings of a fixed number of rows, which are operators like any other, so that
// a strategy may place and split them.
//
// A sample has numbers x and a category for each of F columns:
//   z_0 = bottom(x),  z_f = e_f           vectors of `dim`; bottom: ReLU after each layer
//
//   p = all z_i·z_j, j < i                (F + 1) F / 2 numbers
//
//   logits = top(z_0, p)                  two; ReLU after each layer but the last
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"

namespace soapstone::models {

inline constexpr std::string_view kHashedDlrmName = "dlrm_hashed";

// As the paper has it for the Criteo Kaggle data (its section 5), or as options say.
struct DlrmSize {
  int64_t dense = 13, categorical = 26;
  int64_t dim = 16;
  std::vector<int64_t> bottom = {512, 256, 64};  // layers before the one of `dim`
  std::vector<int64_t> top = {512, 256};         // layers before the one of 2
  int64_t rows_max = 100'000;                    // dlrm_hashed: of one embedding
};

// Whether it is "dlrm_hashed" or "dlrm_hashed:...".
bool IsHashedDlrm(std::string_view spec);

// spec: "dlrm", "dlrm:dim=64", "dlrm:tiny,dense=6,categorical=8"; "dlrm_hashed:rows=5000" likewise.
// Errors: InvalidArgument for an unknown option or a size out of bounds.
absl::StatusOr<DlrmSize> ParseDlrm(std::string_view spec);

// z_0 of the numbers, [dense] f32.
TensorId AddDlrmBottom(const DlrmSize& size, TensorId numbers, GraphBuilder* b);

// From z_0 and the z_f, tensors of [any number, dim] that have `categorical` vectors together, to
// the loss.
void AddDlrmTop(const DlrmSize& size, TensorId z_0, const std::vector<TensorId>& z_f,
                GraphBuilder* b);

}  // namespace soapstone::models
