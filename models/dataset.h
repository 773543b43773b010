// Data sets in memory: read, scaled and split. Workers read the training part, evaluation the
// held-out part. Knows nothing of batches (sampler.h) and models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/image_shape.h"

namespace soapstone::models {

struct Dataset {
  ImageShape shape;
  int classes = 0;
  std::vector<float> inputs;    // [size, C, H, W] f32
  std::vector<int32_t> labels;  // [size], each in [0, classes)

  size_t size() const { return labels.size(); }

  // Copies the samples of these indexes, in this order, in place of what was there.
  // inputs: [n, C, H, W] f32; labels: [n]. REQUIRES: each index < size().
  void Gather(absl::Span<const uint64_t> indexes, std::vector<float>* batch_inputs,
              std::vector<int32_t>* batch_labels) const;

  // SHA-256 of shape, classes, inputs and labels, as hex: equal where the data are equal.
  std::string Digest() const;
};

struct TrainTest {
  Dataset train;
  Dataset test;
};

// As the job file's Data message.
struct DataOptions {
  std::string format;            // digits | idx | csv
  std::string path;              // digits, csv: the file; idx: the training images. May be gzip.
  std::string labels_path;       // idx: the training labels
  std::string test_path;         // idx, csv: held-out samples; empty: split from the training data
  std::string test_labels_path;  // idx: held-out labels
  double test_fraction = 0.2;    // held-out share where no test file is given, in (0, 1)
  double scale = 0;              // inputs are divided by this; 0: by the largest training value
  int64_t height = 0;            // csv: image shape; 0: a flat vector
  int64_t width = 0;
  uint64_t seed = 0;  // of the split
};

// Reads, splits and scales. Errors, with the file's name: those of the readers; InvalidArgument for
// an unknown format, a label that is no class, counts or shapes that do not agree.
absl::StatusOr<TrainTest> LoadData(const DataOptions& options);

}  // namespace soapstone::models
