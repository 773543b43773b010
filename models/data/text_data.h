// Text as data sets: sequences of bytes or words with the next ones as labels, and pairs of
// sentences. Called by LoadData.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/data/dataset.h"
#include "models/data/vocabulary.h"

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

// The tokens of a text as the formats above have them: its bytes where there is no vocabulary, else
// words and line ends. Words that the vocabulary lacks are <unk>, and appended to `unknown`.
std::vector<int32_t> TokensOf(absl::string_view text, const Vocabulary* vocabulary,
                              std::vector<std::string>* unknown);
// The way back: words with a space between, lines with an end.
std::string TextOfTokens(const std::vector<int32_t>& tokens, const Vocabulary* vocabulary);

// The text of options.path as held-out samples of a model that was trained with these vocabularies
// (TrainTest's; of bytes empty); also pairs of sentences. Errors as LoadTextData's and
// LoadParallelData's.
absl::StatusOr<Dataset> LoadLaterText(const DataOptions& options,
                                      const std::vector<std::vector<std::string>>& vocabularies);

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
