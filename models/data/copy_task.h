// The copy-reverse task: sentences of random tokens, whose translation is the source backwards.
// What a translation model learns in seconds, without a file. Called by LoadData.
#pragma once

#include "absl/status/statusor.h"
#include "models/data/dataset.h"

namespace soapstone::models {

// With L = options.length, tokens uniform in [4, options.vocabulary) and the special numbers of
// text_data.h:
//   source  x_1 ... x_L             [L]
//   target  <s> x_L ... x_1         [L + 1]
//   labels  x_L ... x_1 </s>        [L + 1]
// options.samples sentences, of which the last test_fraction are held out; sentence i is a function
// of (options.seed, i). Errors: InvalidArgument for a length, vocabulary or number out of range.
absl::StatusOr<TrainTest> MakeCopyTask(const DataOptions& options);

}  // namespace soapstone::models
