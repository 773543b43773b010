// Data sets: read, scaled and split. Workers read the training part, evaluation the held-out part.
// Knows nothing of batches (batches.h) and models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/data/augmentation.h"
#include "models/data/column.h"
#include "models/data/mini_batch.h"
#include "models/readers/image_shape.h"

namespace soapstone::models {

// Samples of one or more fields, labels last:
//   images               image [C, H, W] f32; label [] i32
//   text                 tokens [T] i32; labels [T] i32, each token's next one
//   numbers, categories  dense [D] f32; category.0 [1] i32, category.1, ..; labels [] i32
//   pairs of sentences   source [S] i32; target [T] i32, begun with <s>; labels [T] i32, the target
//                        ended with </s>
// Threading: immutable once made; all threads may read at once.
struct Dataset {
  ImageShape shape;           // of images; 1×1×1 for others
  int classes = 0;            // labels are in [0, classes)
  Augmentation augmentation;  // of training images, which batches.h applies; Gather does not

  std::vector<ColumnPtr> columns;  // by field, of the same size

  size_t size() const { return columns.empty() ? 0 : columns[0]->size(); }
  std::vector<FieldSpec> fields() const;
  // True where reading takes long enough to be worth a thread of its own (prefetcher.h).
  bool decodes() const;
  // True for one float field and one label a sample: what the second Gather takes.
  bool IsLabelledVectors() const;

  // Copies the samples of these indexes, in this order, in place of what was there.
  // REQUIRES: each index < size().
  void Gather(absl::Span<const uint64_t> indexes, MiniBatch* feed) const;
  // The same, of labelled vectors. inputs: [n, C, H, W] f32; labels: [n].
  // REQUIRES: IsLabelledVectors().
  void Gather(absl::Span<const uint64_t> indexes, std::vector<float>* inputs,
              std::vector<int32_t>* labels) const;

  // The samples of these indexes. Keeps what all have in common alive.
  Dataset Take(std::vector<uint64_t> indexes) const;

  // Of one sample, and SHA-256 of fields, classes and all samples, as hex: equal where the data are
  // equal. (Compressed images count as they are on disk.)
  void HashSample(uint64_t index, Sha256* sha) const;
  std::string Digest() const;
};

struct TrainTest {
  Dataset train;
  Dataset test;
  float divisor = 1;                // what images and vectors were divided by
  std::vector<std::string> header;  // csv: names of the columns, the labels' among them, or none
  // By field; empty where its integers stand for no words. Word k of a field is its number k.
  std::vector<std::vector<std::string>> vocabularies;
  std::vector<std::string> class_names;  // by label, where labels stand for names; else none
  std::vector<std::string> notes;        // what was recognised in the files, a line each
};

// As the job file's Data message.
struct DataOptions {
  // digits | csv | idx | cifar10 | cifar100 | images | bytes | words | parallel | copy | criteo |
  // clicks
  std::string format;
  std::string path;              // the training data, a file or a folder; files may be gzip
  std::string labels_path;       // idx: the training labels
  std::string test_path;         // held-out samples; empty: split from the training data
  std::string test_labels_path;  // idx: held-out labels
  double test_fraction = 0.2;    // held-out share where no test file is given, in (0, 1)
  double scale = 0;    // images are divided by this; 0: by 255 (cifar, images), else by the largest
                       // training value
  int64_t height = 0;  // csv: image shape, 0: a flat vector; images: 0: as the first PNG
  int64_t width = 0;
  int64_t channels = 0;    // images: 0: as the first PNG
  int64_t length = 0;      // text, pairs: tokens of a sequence
  int64_t vocabulary = 0;  // words, parallel, copy: numbers in use, special ones included; clicks
  int64_t samples = 0;     // copy, clicks
  std::string augment;     // ParseAugmentation, of training images
  uint64_t seed = 0;       // of the split, and of copy and clicks
  // csv: as CsvOptions (models/readers/csv_reader.h)
  std::string separator = "auto";
  std::string label_column;
  bool drop_missing = false;
  // criteo, clicks: as SparseDataOptions (sparse_dataset.h), and as
  // recommendation/category_columns.h says
  uint64_t dense_columns = 0;
  uint64_t categorical_columns = 0;
  uint64_t rows_max = 0;
};

// The formats that LoadData takes, as "digits, csv, ...".
std::string DataFormats();

// Reads, splits and scales. Errors, with the file's name: those of the readers; InvalidArgument for
// an unknown format, a label that is no class, counts or shapes that do not agree.
absl::StatusOr<TrainTest> LoadData(const DataOptions& options);

}  // namespace soapstone::models
