// Labelled images and vectors: digits, CSV, IDX, CIFAR and folders of images, as data sets. Called
// by LoadData.
#pragma once

#include "absl/status/statusor.h"
#include "models/data/dataset.h"

namespace soapstone::models {

// REQUIRES: the format is digits, csv, idx, cifar10, cifar100 or images. Errors: those of LoadData.
//
// cifar10, cifar100: a path may be a file or the folder of the published files; then the training
// data are data_batch_*.bin (train.bin), and the held-out ones test_batch.bin (test.bin), where
// there is one and no test_path.
absl::StatusOr<TrainTest> LoadImageData(const DataOptions& options);

}  // namespace soapstone::models
