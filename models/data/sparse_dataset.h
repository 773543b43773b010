// Data sets of samples that name keys: rows of libsvm files, entries of a matrix, pairs of words,
// numbers and categories.
// Read and split here; models over tables (sparse_model.h) say what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace soapstone::models {

// Samples in compressed rows: sample i has keys [begins[i], begins[i + 1]) and as many values.
struct SparseDataset {
  std::vector<uint64_t> begins = {0};
  std::vector<uint64_t> keys;
  std::vector<float> values;
  std::vector<float> labels;  // [size]
  // criteo: what a sample has beside its keys, and the field that each key is of.
  uint64_t dense_columns = 0;
  std::vector<float> dense;      // [size, dense_columns]
  std::vector<uint32_t> fields;  // of each key; empty where there are no fields

  size_t size() const { return labels.size(); }
  absl::Span<const uint64_t> KeysOf(size_t i) const {
    return absl::MakeConstSpan(keys).subspan(begins[i], begins[i + 1] - begins[i]);
  }
  absl::Span<const float> ValuesOf(size_t i) const {
    return absl::MakeConstSpan(values).subspan(begins[i], begins[i + 1] - begins[i]);
  }
  absl::Span<const uint32_t> FieldsOf(size_t i) const {
    return absl::MakeConstSpan(fields).subspan(begins[i], begins[i + 1] - begins[i]);
  }
  absl::Span<const float> DenseOf(size_t i) const {
    return absl::MakeConstSpan(dense).subspan(i * dense_columns, dense_columns);
  }
  // Ends the sample whose keys and values have been appended.
  void EndSample(float label);
  // SHA-256 of all of it, as hex.
  std::string Digest() const;
  friend bool operator==(const SparseDataset&, const SparseDataset&) = default;
};

struct SparseTrainTest {
  SparseDataset train;
  SparseDataset test;
  std::vector<std::string> vocabulary;  // text: word k, most frequent first
  std::vector<uint64_t> word_counts;    // text: of the training part
  std::vector<uint64_t> categories;     // clicks: n of each column, whose keys are 1 to n
};

struct SparseDataOptions {
  std::string format;                 // libsvm | triples | text | criteo | clicks
  std::string path;                   // may be gzip
  std::string test_path;              // held-out samples; empty: split from the training data
  double test_fraction = 0.2;         // held-out share where no test file is given, in (0, 1)
  uint64_t seed = 0;                  // of the split
  uint64_t window = 2;                // text: words on either side that make a pair
  uint64_t min_count = 5;             // text: rarer words are left out
  uint64_t dense_columns = 13;        // criteo, clicks
  uint64_t categorical_columns = 26;  // criteo, clicks
  uint64_t vocabulary = 0;            // clicks: categories of the largest column
  uint64_t samples = 0;               // clicks
};

// libsvm: a line is a label and index:value pairs, indexes from 1, ascending; the sample has them,
// and its label. triples: a line is a row, a column and a number, with spaces, tabs or commas
// between (more columns are left out; a first line of no numbers is a header): keys row and column,
// label the number. text: words are runs of letters, in lower case; a sample is a pair of words at
// most `window` apart: keys centre and context; the end of the text is held out. criteo: a line is
// a label 0 or 1, whole numbers and categories in hexadecimal, tabs between, as the Criteo Kaggle
// challenge has them; a number x reads as log(1 + max(x, 0)), 0 where it is missing; a category has
// the key category + 1 in its field's table, 0 where it is missing; a cell may have several, with
// commas between. clicks: none is read (recommendation/clicks.h). Errors, with the file's name and
// line: those of ReadMaybeGzip; InvalidArgument for an unknown format, what is no such line, no
// samples at all.
absl::StatusOr<SparseTrainTest> LoadSparseData(const SparseDataOptions& options);

// The samples of options.test_path alone, as held-out ones, for models that need nothing of their
// training data: of formats read line by line. Errors as above.
absl::StatusOr<SparseTrainTest> LoadLaterSparseData(const SparseDataOptions& options);

}  // namespace soapstone::models
