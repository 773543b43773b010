// Reads a folder of images, one sub-folder a class. Called by image_data.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/data/column.h"
#include "models/readers/image_shape.h"

namespace soapstone::models {

struct ImageFolderOptions {
  int64_t channels = 0;  // 1 or 3 with PNG; 0: as the first PNG
  int64_t height = 0;    // 0, and so is width: as the first PNG
  int64_t width = 0;
  float divisor = 255;               // of the bytes
  std::vector<std::string> classes;  // names of sub-folders by label; empty: all, in order of bytes
};

struct ImageFolder {
  ImageShape shape;
  std::vector<std::string> classes;
  ColumnPtr images;  // "image", [C, H, W] f32
  std::vector<int32_t> labels;
};

// *.png are decoded, each time they are read, by whoever reads them; *.raw are C·H·W bytes, plane
// by plane, and need channels, height and width. Files stay in memory as they are on disk. Each is
// decoded once here, so that later nothing is left that could fail. Names that begin with a dot are
// left out. Samples are in the order of class and file name (by bytes).
// Errors, with the path: NotFound for no folder; InvalidArgument for no classes, a class without
// images or that options.classes does not have, a file that is neither, raw files without a shape
// or of another length; ResourceExhausted for more than kFileBytesMax; those of DecodePng.
absl::StatusOr<ImageFolder> ReadImageFolder(const std::string& path,
                                            const ImageFolderOptions& options);

struct PlainImages {
  ColumnPtr images;                  // "image", [C, H, W] f32
  std::vector<std::string> names;    // relative to the folder; of a file its own
  std::vector<std::string> folders;  // of each image: the sub-folder that it is in, or ""
  uint64_t left_out = 0;             // files that are neither .png nor .raw
};

// Images that need no class: those of a folder and of its sub-folders, in the order of their names
// (by bytes), or one file. Links to folders are not followed. Decoded once here too. Errors as
// above, and InvalidArgument for none at all.
absl::StatusOr<PlainImages> ReadPlainImages(const std::string& path,
                                            const ImageFolderOptions& options);

}  // namespace soapstone::models
