// Text as data sets: sequences of bytes or words with the next ones as labels, and pairs of
// sentences. Called by LoadData.
#pragma once

#include "absl/status/statusor.h"
#include "models/data/dataset.h"

namespace soapstone::models {

// Numbers of the special tokens of pairs of sentences.
inline constexpr int32_t kPadding = 0;   // "<pad>"; fills up to the sequence's length
inline constexpr int32_t kUnknown = 1;   // "<unk>"
inline constexpr int32_t kSentence = 2;  // "<s>", before the target
inline constexpr int32_t kEnd = 3;       // "</s>", after source and labels
inline constexpr int32_t kPairSpecials = 4;
inline constexpr int32_t kNoLabel = -1;  // of a place that has no loss (compute/op.h)

// format bytes: a token is a byte, numbers are its values (256 classes).
// format words: tokens are words and line ends, numbered by a Vocabulary of the training part with
// <unk> = 0 and <eos> (a line end) = 1.
// Sample i is the tokens [i·T, i·T + T), its labels those one further on, with T = options.length.
// Held out are the text's last test_fraction, or the file test_path. Sequences are independent of
// each other: each begins with an empty state.
// Errors: those of ReadMaybeGzip; InvalidArgument, with the path, for a part that is shorter than a
// sequence and one token, and for a vocabulary that is too small.
absl::StatusOr<TrainTest> LoadTextData(const DataOptions& options);

// A line is a source, a tab and a target, words separated by spaces; empty lines are left out, and
// so are pairs of which one side has more than length − 1 words. With S = T = options.length:
//   source  words </s> <pad>...
//   target  <s> words <pad>...
//   labels  words </s> no label...
// Each side has a vocabulary of its own, of the training part.
// Errors: those of ReadMaybeGzip; InvalidArgument with file and line for a line without a tab or
// with several, or an empty side; no pairs that are short enough; a vocabulary that is too small.
absl::StatusOr<TrainTest> LoadParallelData(const DataOptions& options);

}  // namespace soapstone::models
