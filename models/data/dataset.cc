#include "models/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/data/copy_task.h"
#include "models/data/image_data.h"
#include "models/data/recommendation/category_columns.h"
#include "models/data/text_data.h"

namespace soapstone::models {
namespace {

struct DataFormat {
  const char* name;
  absl::StatusOr<TrainTest> (*load)(const DataOptions& options);
};

constexpr DataFormat kDataFormats[] = {
    {"digits", LoadImageData},  {"csv", LoadImageData},      {"idx", LoadImageData},
    {"cifar10", LoadImageData}, {"cifar100", LoadImageData}, {"images", LoadImageData},
    {"bytes", LoadTextData},    {"words", LoadTextData},     {"parallel", LoadParallelData},
    {"copy", MakeCopyTask},     {"criteo", LoadCategories},  {"clicks", LoadCategories},
};

absl::Status SetAugmentation(const DataOptions& options, TrainTest* data) {
  SOAP_ASSIGN_OR_RETURN(const Augmentation augmentation, ParseAugmentation(options.augment));
  if (!augmentation.any()) return absl::OkStatus();
  const ImageShape& shape = data->train.shape;
  if (!data->train.IsLabelledVectors() || shape.height < 2) {
    return absl::InvalidArgumentError(absl::StrCat("augment: '", options.augment,
                                                   "' is for images; these data of format ",
                                                   options.format, " have none"));
  }
  if (augmentation.pad >= std::min(shape.height, shape.width)) {
    return absl::InvalidArgumentError(absl::StrCat("augment: a crop with pad=", augmentation.pad,
                                                   " may miss all of an image of ", shape.height,
                                                   "×", shape.width));
  }
  data->train.augmentation = augmentation;
  return absl::OkStatus();
}

}  // namespace

std::vector<FieldSpec> Dataset::fields() const {
  std::vector<FieldSpec> fields;
  fields.reserve(columns.size());
  for (const ColumnPtr& column : columns) fields.push_back(column->spec());
  return fields;
}

bool Dataset::decodes() const {
  return std::any_of(columns.begin(), columns.end(),
                     [](const ColumnPtr& column) { return column->decodes(); });
}

bool Dataset::IsLabelledVectors() const {
  return columns.size() == 2 && columns[0]->spec().is_float && !columns[1]->spec().is_float &&
         columns[1]->spec().shape.empty();
}

void Dataset::Gather(absl::Span<const uint64_t> indexes, MiniBatch* feed) const {
  feed->samples = static_cast<int64_t>(indexes.size());
  feed->fields.resize(columns.size());
  for (size_t f = 0; f < columns.size(); ++f) {
    const size_t bytes = columns[f]->elements() * kWordBytes;
    feed->fields[f].resize(indexes.size() * bytes);
    std::byte* words = feed->fields[f].data();
    for (const uint64_t index : indexes) {
      CHECK_LT(index, size());
      columns[f]->Read(index, words);
      words += bytes;
    }
  }
}

void Dataset::Gather(absl::Span<const uint64_t> indexes, std::vector<float>* inputs,
                     std::vector<int32_t>* labels) const {
  CHECK(IsLabelledVectors());
  const size_t elements = columns[0]->elements();
  inputs->resize(indexes.size() * elements);
  labels->resize(indexes.size());
  for (size_t i = 0; i < indexes.size(); ++i) {
    CHECK_LT(indexes[i], size());
    columns[0]->Read(indexes[i], reinterpret_cast<std::byte*>(inputs->data() + i * elements));
    columns[1]->Read(indexes[i], reinterpret_cast<std::byte*>(labels->data() + i));
  }
}

Dataset Dataset::Take(std::vector<uint64_t> indexes) const {
  Dataset part = *this;
  const auto shared = std::make_shared<const std::vector<uint64_t>>(std::move(indexes));
  for (ColumnPtr& column : part.columns) column = SubsetColumn(column, shared);
  return part;
}

void Dataset::HashSample(uint64_t index, Sha256* sha) const {
  for (const ColumnPtr& column : columns) column->Hash(index, sha);
}

std::string Dataset::Digest() const {
  Sha256 sha;
  const int64_t header[] = {classes, static_cast<int64_t>(size())};
  sha.Update(header, sizeof(header));
  for (const ColumnPtr& column : columns) {
    const FieldSpec& spec = column->spec();
    const std::string kind = absl::StrCat(spec.name, spec.is_float ? " f32 " : " i32 ",
                                          absl::StrJoin(spec.shape, "×"), ";", column->limit());
    sha.Update(kind.c_str(), kind.size() + 1);
    for (uint64_t i = 0; i < size(); ++i) column->Hash(i, &sha);
  }
  return sha.HexDigest();
}

std::string DataFormats() {
  std::vector<const char*> names;
  for (const DataFormat& format : kDataFormats) names.push_back(format.name);
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<TrainTest> LoadData(const DataOptions& options) {
  if (!(options.scale >= 0) || std::isinf(options.scale)) {
    return absl::InvalidArgumentError(absl::StrCat("scale ", options.scale, " is not positive"));
  }
  for (const DataFormat& format : kDataFormats) {
    if (options.format != format.name) continue;
    SOAP_ASSIGN_OR_RETURN(TrainTest data, format.load(options));
    SOAP_RETURN_IF_ERROR(SetAugmentation(options, &data));
    return data;
  }
  for (const char* of_tables : {"libsvm", "triples", "text"}) {
    if (options.format != of_tables) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        of_tables, " is a data format of models over tables, such as logistic; other models take ",
        DataFormats()));
  }
  std::vector<std::string> known;
  for (const DataFormat& format : kDataFormats) known.emplace_back(format.name);
  return absl::InvalidArgumentError(absl::StrCat("unknown data format '", options.format, "'",
                                                 DidYouMean(options.format, known),
                                                 "; known: ", DataFormats()));
}

}  // namespace soapstone::models
