#include "models/dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/csv_reader.h"
#include "models/idx_reader.h"
#include "models/permutation.h"

namespace soapstone::models {
namespace {

constexpr int32_t kClassesMax = 65536;
constexpr int64_t kDigitsSide = 8;
constexpr float kDigitsValueMax = 16;
constexpr int kDigitsClasses = 10;

absl::Status Bad(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

int ClassesOf(const std::vector<int32_t>& labels) {
  int classes = 0;
  for (int32_t label : labels) classes = std::max(classes, label + 1);
  return classes;
}

// The image shape of `features` columns, as options say.
absl::StatusOr<ImageShape> CsvShape(const DataOptions& options, const std::string& path,
                                    int64_t features) {
  if (options.height == 0 && options.width == 0) {
    return ImageShape{.channels = 1, .height = 1, .width = features};
  }
  const int64_t height = options.height;
  const int64_t width = options.width;
  if (height < 1 || width < 1 || height > features || width > features / height ||
      features % (height * width) != 0) {
    return Bad(path,
               absl::StrCat(features, " values a line are no images of ", height, "×", width));
  }
  return ImageShape{.channels = features / (height * width), .height = height, .width = width};
}

absl::StatusOr<Dataset> ReadCsvSamples(const DataOptions& options, const std::string& path) {
  SOAP_ASSIGN_OR_RETURN(const CsvTable table, ReadCsv(path));
  if (table.columns < 2) return Bad(path, "a line needs values and then a label");
  const size_t features = table.columns - 1;
  Dataset data;
  SOAP_ASSIGN_OR_RETURN(data.shape, CsvShape(options, path, static_cast<int64_t>(features)));
  data.inputs.reserve(table.rows() * features);
  data.labels.reserve(table.rows());
  for (size_t r = 0; r < table.rows(); ++r) {
    const absl::Span<const float> row = table.row(r);
    const float label = row[features];
    if (label < 0 || label >= kClassesMax || label != std::floor(label)) {
      return Bad(path, absl::StrCat("row ", r + 1, ": label ", label,
                                    " is not a whole number in [0, ", kClassesMax, ")"));
    }
    data.labels.push_back(static_cast<int32_t>(label));
    data.inputs.insert(data.inputs.end(), row.begin(), row.begin() + features);
  }
  data.classes = ClassesOf(data.labels);
  return data;
}

absl::StatusOr<Dataset> ReadDigits(const std::string& path) {
  const DataOptions image = {.height = kDigitsSide, .width = kDigitsSide};
  SOAP_ASSIGN_OR_RETURN(Dataset data, ReadCsvSamples(image, path));
  if (data.shape.channels != 1 || data.classes > kDigitsClasses) {
    return Bad(path, "digits have 64 values and a label of 0 to 9 on each line");
  }
  for (size_t i = 0; i < data.inputs.size(); ++i) {
    if (data.inputs[i] < 0 || data.inputs[i] > kDigitsValueMax) {
      return Bad(path, absl::StrCat("row ", i / data.shape.elements() + 1, ": value ",
                                    data.inputs[i], " is outside 0..16"));
    }
  }
  data.classes = kDigitsClasses;
  return data;
}

absl::StatusOr<Dataset> ReadIdxSamples(const std::string& path, const std::string& labels_path) {
  if (labels_path.empty()) return Bad(path, "IDX images need a file of labels too");
  SOAP_ASSIGN_OR_RETURN(const IdxTensor images, ReadIdx(path));
  SOAP_ASSIGN_OR_RETURN(const IdxTensor labels, ReadIdx(labels_path));
  if (images.dims.size() != 3 || images.values.empty()) {
    return Bad(
        path, absl::StrCat("not a set of images (count, height, width); it has ",
                           images.dims.size(), " dimensions and ", images.values.size(), " bytes"));
  }
  if (labels.dims.size() != 1) return Bad(labels_path, "not a list of labels");
  if (labels.dims[0] != images.dims[0]) {
    return Bad(labels_path, absl::StrCat(labels.dims[0], " labels for the ", images.dims[0],
                                         " images of ", path));
  }
  Dataset data;
  data.shape = {.channels = 1, .height = images.dims[1], .width = images.dims[2]};
  data.inputs.assign(images.values.begin(), images.values.end());
  data.labels.assign(labels.values.begin(), labels.values.end());
  data.classes = ClassesOf(data.labels);
  return data;
}

absl::StatusOr<Dataset> ReadSamples(const DataOptions& options, const std::string& path,
                                    const std::string& labels_path) {
  if (options.format == "digits") return ReadDigits(path);
  if (options.format == "csv") return ReadCsvSamples(options, path);
  if (options.format == "idx") return ReadIdxSamples(path, labels_path);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown data format '", options.format, "'; known: digits, idx, csv"));
}

// Of the samples in a seeded random order, the first are held out; each part keeps file order.
absl::StatusOr<TrainTest> Split(const DataOptions& options, const Dataset& all) {
  if (!(options.test_fraction > 0 && options.test_fraction < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("test_fraction ", options.test_fraction,
                                                   " is not between 0 and 1 (both excluded)"));
  }
  if (all.size() < 2) return Bad(options.path, "too few samples to hold any out");
  const uint64_t wanted = std::llround(options.test_fraction * static_cast<double>(all.size()));
  const uint64_t held_out = std::clamp<uint64_t>(wanted, 1, all.size() - 1);
  std::vector<uint64_t> order =
      Permutation(CounterRandom(options.seed, RandomUse::kSplit), all.size());
  const auto middle = order.begin() + static_cast<int64_t>(held_out);
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());
  TrainTest out;
  const auto indexes = absl::MakeConstSpan(order);
  all.Gather(indexes.first(held_out), &out.test.inputs, &out.test.labels);
  all.Gather(indexes.subspan(held_out), &out.train.inputs, &out.train.labels);
  for (Dataset* part : {&out.train, &out.test}) {
    part->shape = all.shape;
    part->classes = all.classes;
  }
  return out;
}

void Scale(double scale, TrainTest* data) {
  if (scale == 0) {
    scale = *std::max_element(data->train.inputs.begin(), data->train.inputs.end());
    if (scale <= 0) scale = 1;
  }
  const float divisor = static_cast<float>(scale);
  for (Dataset* part : {&data->train, &data->test}) {
    for (float& x : part->inputs) x /= divisor;
  }
}

}  // namespace

void Dataset::Gather(absl::Span<const uint64_t> indexes, std::vector<float>* batch_inputs,
                     std::vector<int32_t>* batch_labels) const {
  const size_t elements = static_cast<size_t>(shape.elements());
  batch_inputs->resize(indexes.size() * elements);
  batch_labels->resize(indexes.size());
  for (size_t i = 0; i < indexes.size(); ++i) {
    CHECK_LT(indexes[i], size());
    std::copy_n(inputs.begin() + static_cast<int64_t>(indexes[i] * elements), elements,
                batch_inputs->begin() + static_cast<int64_t>(i * elements));
    (*batch_labels)[i] = labels[indexes[i]];
  }
}

std::string Dataset::Digest() const {
  const int64_t header[] = {shape.channels, shape.height, shape.width, classes,
                            static_cast<int64_t>(size())};
  Sha256 sha;
  sha.Update(header, sizeof(header));
  sha.Update(inputs.data(), inputs.size() * sizeof(float));
  sha.Update(labels.data(), labels.size() * sizeof(int32_t));
  return sha.HexDigest();
}

absl::StatusOr<TrainTest> LoadData(const DataOptions& options) {
  if (!(options.scale >= 0) || std::isinf(options.scale)) {
    return absl::InvalidArgumentError(absl::StrCat("scale ", options.scale, " is not positive"));
  }
  SOAP_ASSIGN_OR_RETURN(Dataset all, ReadSamples(options, options.path, options.labels_path));
  TrainTest data;
  if (options.test_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(data, Split(options, all));
  } else {
    data.train = std::move(all);
    SOAP_ASSIGN_OR_RETURN(data.test,
                          ReadSamples(options, options.test_path, options.test_labels_path));
    if (!(data.test.shape == data.train.shape)) {
      return Bad(options.test_path,
                 absl::StrCat("its samples have another shape than those of ", options.path));
    }
    data.train.classes = std::max(data.train.classes, data.test.classes);
    data.test.classes = data.train.classes;
  }
  Scale(options.scale, &data);
  return data;
}

}  // namespace soapstone::models
