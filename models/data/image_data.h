// Labelled images and vectors: digits, CSV, IDX, CIFAR and folders of images, as data sets. Called
// by LoadData.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/data/dataset.h"
#include "models/readers/image_shape.h"

namespace soapstone::models {

// REQUIRES: the format is digits, csv, idx, cifar10, cifar100 or images. Errors: those of LoadData.
//
// cifar10, cifar100: a path may be a file or the folder of the published files; then the training
// data are data_batch_*.bin (train.bin), and the held-out ones test_batch.bin (test.bin), where
// there is one and no test_path.
absl::StatusOr<TrainTest> LoadImageData(const DataOptions& options);

// How samples that come later are read as the training data were, which need not be there.
struct ImageReading {
  ImageShape shape;
  float divisor = 1;  // of the values
  int classes = 0;
  std::vector<std::string> class_names;  // TrainTest's
  std::vector<std::string> header;       // likewise
};

struct LaterImages {
  Dataset data;         // labels are 0 where there are none
  bool labels = false;  // of a folder without classes, a table without their column, no labels_path
  std::vector<std::string> names;  // of a folder: the files', relative to it; else none
  uint64_t left_out = 0;           // of a folder: files that are no images
  std::string note;                // of a table: rows that were left out; empty: none
};

// The samples of options.path, with its labels_path for idx. images: a folder, with or without
// sub-folders, or one file. Errors: those of LoadData; InvalidArgument for samples of another
// shape, for labels that are no class, and for no samples at all.
absl::StatusOr<LaterImages> LoadLaterImages(const DataOptions& options,
                                            const ImageReading& reading);

}  // namespace soapstone::models
