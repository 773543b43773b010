// Clicks drawn at random: numbers, categories and a label that pairs of categories tell, for models
// of recommendation, without a file. Called by LoadSparseData.
#pragma once

#include "absl/status/statusor.h"
#include "models/data/sparse_dataset.h"

namespace soapstone::models {

// options.samples samples, of which the last test_fraction are held out. With V =
// options.vocabulary and F = options.categorical_columns, column f = 0 .. F − 1 has n_f categories,
//   n_f = max(2, ⌊V^((f + 1) / F)⌋)
// few in the first and V in the last, as columns of public data have from a few to millions.
// Category k < n_f comes with probability log((k + 2) / (k + 1)) / log(n_f + 1), and its key is
// k + 1. Numbers are log(1 + x_j) of whole x_j uniform below 20. With signs s_f(k) = ±1 at random
// and P = ⌊F / 2⌋ pairs of columns,
//   score = (log(1 + x_0) − 2.1) / 2 + 3 / √P · Σ_{f < P} s_f(k_f) · s_{F−1−f}(k_{F−1−f})
// and the label is 1 with probability 1 / (1 + exp(−score)). So no category alone says anything of
// it. Sample i is a function of (options.seed, i), signs of (options.seed, f, k). Errors:
// InvalidArgument for columns, samples or a vocabulary out of range.
absl::StatusOr<SparseTrainTest> MakeClicks(const SparseDataOptions& options);

}  // namespace soapstone::models
