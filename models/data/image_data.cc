#include "models/data/image_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/data/image_folder.h"
#include "models/data/split.h"
#include "models/readers/cifar_reader.h"
#include "models/readers/csv_reader.h"
#include "models/readers/idx_reader.h"
#include "models/readers/png_reader.h"

namespace soapstone::models {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kClassesMax = 65536;
constexpr char kDigitsFormat[] = "digits";
constexpr int64_t kDigitsSide = 8;
constexpr float kDigitsValueMax = 16;
constexpr int kDigitsClasses = 10;
constexpr float kByteMax = 255;
constexpr size_t kClassesShownMax = 20;  // of classes

absl::Status BadImages(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

// One file's or folder's samples, not yet scaled: one of the three holds the inputs.
struct RawSamples {
  ImageShape shape;
  int classes = 0;
  std::vector<float> floats;   // [size, C, H, W]
  std::vector<uint8_t> bytes;  // likewise
  ColumnPtr images;            // from a folder, scaled
  std::vector<int32_t> labels;
  std::vector<std::string> class_names;  // from a folder, or CSV whose labels are names
  std::vector<std::string> header;       // of CSV
  std::vector<std::string> notes;
};

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
    const bool digits = options.format == kDigitsFormat;
    return BadImages(path,
                     absl::StrCat(features, " values a line are no images of ", height, "×", width,
                                  digits ? "; other tables are of data.format csv" : ""));
  }
  return ImageShape{.channels = features / (height * width), .height = height, .width = width};
}

// "0 = cat, 1 = dog, ..."
std::string ClassesText(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (size_t k = 0; k < std::min(names.size(), kClassesShownMax); ++k) {
    parts.push_back(absl::StrCat(k, " = ", absl::Utf8SafeCHexEscape(names[k])));
  }
  if (names.size() > kClassesShownMax) {
    parts.push_back(absl::StrCat("..., ", names.size(), " in all"));
  }
  return absl::StrJoin(parts, ", ");
}

// Labels that are names are the classes in order of name, or those of the training data.
absl::Status LabelsByName(const CsvTable& table, const std::string& path, const RawSamples* train,
                          RawSamples* data) {
  std::vector<std::string> classes = table.label_names;
  std::sort(classes.begin(), classes.end());
  if (train != nullptr) classes = train->class_names;
  std::vector<int32_t> label_of(table.label_names.size());
  for (size_t i = 0; i < label_of.size(); ++i) {
    const auto at = std::lower_bound(classes.begin(), classes.end(), table.label_names[i]);
    const bool known = at != classes.end() && *at == table.label_names[i];
    label_of[i] = known ? static_cast<int32_t>(at - classes.begin()) : -1;
  }
  for (size_t r = 0; r < table.rows(); ++r) {
    const auto name = static_cast<size_t>(table.row(r)[table.label_column]);
    data->labels.push_back(label_of[name]);
    if (label_of[name] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", table.lines[r], ": no training label is '",
                     absl::Utf8SafeCHexEscape(table.label_names[name]), "'"));
  }
  data->classes = static_cast<int>(classes.size());
  if (train == nullptr) {
    data->notes.push_back(absl::StrCat(path, ": labels: ", ClassesText(classes)));
  }
  data->class_names = std::move(classes);
  return absl::OkStatus();
}

absl::Status LabelsByNumber(const CsvTable& table, const std::string& path, RawSamples* data) {
  for (size_t r = 0; r < table.rows(); ++r) {
    const float label = table.row(r)[table.label_column];
    if (label < 0 || label >= kClassesMax || label != std::floor(label)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", table.lines[r], ": label ", label,
                                                     " is not a whole number in [0, ", kClassesMax,
                                                     ")"));
    }
    data->labels.push_back(static_cast<int32_t>(label));
  }
  data->classes = ClassesOf(data->labels);
  return absl::OkStatus();
}

// Held-out columns that are in another order would be taken for others.
absl::Status CheckHeader(const std::vector<std::string>& train,
                         const std::vector<std::string>& test, const std::string& path) {
  for (size_t c = 0; c < std::min(train.size(), test.size()); ++c) {
    if (train[c] == test[c]) continue;
    return BadImages(
        path,
        absl::StrCat("column ", c + 1, " is '", absl::Utf8SafeCHexEscape(test[c]),
                     "', that of the training data '", absl::Utf8SafeCHexEscape(train[c]), "'"));
  }
  return absl::OkStatus();
}

// `train`: null for the training data themselves.
absl::StatusOr<RawSamples> ReadCsvSamples(const DataOptions& options, const std::string& path,
                                          const RawSamples* train) {
  SOAP_ASSIGN_OR_RETURN(CsvTable table, ReadCsv(path, {.separator = options.separator,
                                                       .label_column = options.label_column,
                                                       .drop_missing = options.drop_missing}));
  if (table.columns < 2) return BadImages(path, "a line needs values and then a label");
  const size_t features = table.columns - 1;
  RawSamples data;
  data.notes = std::move(table.notes);
  data.header = std::move(table.header);
  SOAP_ASSIGN_OR_RETURN(data.shape, CsvShape(options, path, static_cast<int64_t>(features)));
  data.labels.reserve(table.rows());
  const bool named = !table.label_names.empty();
  if (train != nullptr) {
    SOAP_RETURN_IF_ERROR(CheckHeader(train->header, data.header, path));
    if (named != !train->class_names.empty()) {
      return BadImages(path, named ? "its labels are names, those of the training data numbers"
                                   : "its labels are numbers, those of the training data names");
    }
  }
  SOAP_RETURN_IF_ERROR(named ? LabelsByName(table, path, train, &data)
                             : LabelsByNumber(table, path, &data));
  data.floats.reserve(table.rows() * features);
  const auto label_at = static_cast<ptrdiff_t>(table.label_column);
  for (size_t r = 0; r < table.rows(); ++r) {
    const absl::Span<const float> row = table.row(r);
    data.floats.insert(data.floats.end(), row.begin(), row.begin() + label_at);
    data.floats.insert(data.floats.end(), row.begin() + label_at + 1, row.end());
  }
  return data;
}

absl::StatusOr<RawSamples> ReadDigits(const std::string& path) {
  const DataOptions image = {.format = kDigitsFormat, .height = kDigitsSide, .width = kDigitsSide};
  SOAP_ASSIGN_OR_RETURN(RawSamples data, ReadCsvSamples(image, path, nullptr));
  const bool named = !data.class_names.empty();
  if (data.shape.channels != 1 || data.classes > kDigitsClasses || named) {
    return BadImages(path, "digits have 64 values and a label of 0 to 9 on each line");
  }
  for (size_t i = 0; i < data.floats.size(); ++i) {
    if (data.floats[i] < 0 || data.floats[i] > kDigitsValueMax) {
      return BadImages(path, absl::StrCat("row ", i / data.shape.elements() + 1, ": value ",
                                          data.floats[i], " is outside 0..16"));
    }
  }
  data.classes = kDigitsClasses;
  return data;
}

absl::StatusOr<RawSamples> ReadIdxSamples(const std::string& path, const std::string& labels_path) {
  if (labels_path.empty()) return BadImages(path, "IDX images need a file of labels too");
  SOAP_ASSIGN_OR_RETURN(IdxTensor images, ReadIdx(path));
  SOAP_ASSIGN_OR_RETURN(const IdxTensor labels, ReadIdx(labels_path));
  if (images.dims.size() != 3 || images.values.empty()) {
    return BadImages(
        path, absl::StrCat("not a set of images (count, height, width); it has ",
                           images.dims.size(), " dimensions and ", images.values.size(), " bytes"));
  }
  if (labels.dims.size() != 1) return BadImages(labels_path, "not a list of labels");
  if (labels.dims[0] != images.dims[0]) {
    return BadImages(labels_path, absl::StrCat(labels.dims[0], " labels for the ", images.dims[0],
                                               " images of ", path));
  }
  RawSamples data;
  data.shape = {.channels = 1, .height = images.dims[1], .width = images.dims[2]};
  data.bytes = std::move(images.values);
  data.labels.assign(labels.values.begin(), labels.values.end());
  data.classes = ClassesOf(data.labels);
  return data;
}

// The files of a folder of CIFAR's whose names begin so, in order of name; of a file, itself.
absl::StatusOr<std::vector<std::string>> CifarFiles(const std::string& path,
                                                    const std::string& prefix) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (absl::StartsWith(name, prefix) && absl::StrContains(name, ".bin")) {
      files.push_back(it->path().string());
    }
  }
  if (error) return absl::ErrnoToStatus(error.value(), path);
  if (files.empty()) return BadImages(path, absl::StrCat("no ", prefix, "*.bin in it"));
  std::sort(files.begin(), files.end());
  return files;
}

CifarKind KindOf(const DataOptions& options) {
  return options.format == "cifar10" ? CifarKind::k10 : CifarKind::k100;
}

std::string CifarPrefix(const DataOptions& options, bool test) {
  if (KindOf(options) == CifarKind::k10) return test ? "test_batch" : "data_batch";
  return test ? "test" : "train";
}

absl::StatusOr<RawSamples> ReadCifarSamples(const DataOptions& options, const std::string& path,
                                            bool test) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                        CifarFiles(path, CifarPrefix(options, test)));
  CifarImages images;
  for (const std::string& file : files) {
    SOAP_RETURN_IF_ERROR(ReadCifar(file, KindOf(options), &images));
  }
  return RawSamples{.shape = {kCifarChannels, kCifarSide, kCifarSide},
                    .classes = CifarClasses(KindOf(options)),
                    .bytes = std::move(images.values),
                    .labels = std::move(images.labels)};
}

// `train`: null for the training data themselves.
absl::StatusOr<RawSamples> ReadFolderSamples(const DataOptions& options, const std::string& path,
                                             const RawSamples* train) {
  for (const int64_t extent : {options.channels, options.height, options.width}) {
    if (extent >= 0 && extent <= kImageSideMax) continue;
    return BadImages(path, absl::StrCat("channels, height and width are at most ", kImageSideMax,
                                        ", not ", extent));
  }
  ImageFolderOptions folder = {
      .channels = options.channels,
      .height = options.height,
      .width = options.width,
      .divisor = options.scale == 0 ? kByteMax : static_cast<float>(options.scale)};
  if (train != nullptr) {
    folder.channels = train->shape.channels;
    folder.height = train->shape.height;
    folder.width = train->shape.width;
    folder.classes = train->class_names;
  }
  SOAP_ASSIGN_OR_RETURN(ImageFolder images, ReadImageFolder(path, folder));
  return RawSamples{.shape = images.shape,
                    .classes = static_cast<int>(images.classes.size()),
                    .images = std::move(images.images),
                    .labels = std::move(images.labels),
                    .class_names = std::move(images.classes)};
}

absl::StatusOr<RawSamples> ReadSamples(const DataOptions& options, const RawSamples* train) {
  const bool test = train != nullptr;
  const std::string& path = test ? options.test_path : options.path;
  if (options.format == kDigitsFormat) return ReadDigits(path);
  if (options.format == "csv") return ReadCsvSamples(options, path, train);
  if (options.format == "idx") {
    return ReadIdxSamples(path, test ? options.test_labels_path : options.labels_path);
  }
  if (options.format == "images") return ReadFolderSamples(options, path, train);
  return ReadCifarSamples(options, path, test);
}

template <typename T>
float LargestOf(const std::vector<T>& values, size_t elements,
                const std::vector<uint64_t>& samples) {
  T largest = values[samples[0] * elements];
  for (const uint64_t i : samples) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(i * elements);
    largest = std::max(largest, *std::max_element(begin, begin + static_cast<ptrdiff_t>(elements)));
  }
  return static_cast<float>(largest);
}

// What inputs are divided by; `samples` are the training ones.
float DivisorOf(const DataOptions& options, const RawSamples& raw,
                const std::vector<uint64_t>& samples) {
  if (options.scale != 0) return static_cast<float>(options.scale);
  if (options.format != "idx" && raw.floats.empty()) return kByteMax;
  const auto elements = static_cast<size_t>(raw.shape.elements());
  const float largest = raw.floats.empty() ? LargestOf(raw.bytes, elements, samples)
                                           : LargestOf(raw.floats, elements, samples);
  return largest <= 0 ? 1 : largest;
}

Dataset Scaled(float divisor, RawSamples raw) {
  const FieldSpec spec = {.name = "image",
                          .shape = {raw.shape.channels, raw.shape.height, raw.shape.width}};
  ColumnPtr images = std::move(raw.images);
  if (images == nullptr && !raw.floats.empty()) {
    for (float& x : raw.floats) x /= divisor;
    images = FloatColumn(spec, std::move(raw.floats));
  } else if (images == nullptr) {
    images = ByteColumn(spec, divisor, std::move(raw.bytes));
  }
  ColumnPtr labels =
      IntColumn({.name = "label", .is_float = false}, raw.classes, std::move(raw.labels));
  return {.shape = raw.shape,
          .classes = raw.classes,
          .columns = {std::move(images), std::move(labels)}};
}

absl::StatusOr<TrainTest> WithTestFile(const DataOptions& options, RawSamples train) {
  SOAP_ASSIGN_OR_RETURN(RawSamples test, ReadSamples(options, &train));
  if (!(test.shape == train.shape)) {
    return BadImages(options.test_path,
                     absl::StrCat("its samples have another shape than those of ", options.path));
  }
  train.classes = test.classes = std::max(train.classes, test.classes);
  TrainTest data{.header = train.header, .class_names = train.class_names, .notes = train.notes};
  data.notes.insert(data.notes.end(), test.notes.begin(), test.notes.end());
  std::vector<uint64_t> all(train.labels.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  data.divisor = DivisorOf(options, train, all);
  data.train = Scaled(data.divisor, std::move(train));
  data.test = Scaled(data.divisor, std::move(test));
  return data;
}

// --- Samples that come later ---

std::string ImageText(const ImageShape& shape) {
  return absl::StrCat(shape.channels, "×", shape.height, "×", shape.width);
}

// A table of features alone, or with the labels' column where training data had it.
absl::StatusOr<LaterImages> ReadLaterCsv(const DataOptions& options, const ImageReading& reading,
                                         RawSamples* raw) {
  const auto features = static_cast<size_t>(reading.shape.elements());
  CsvOptions csv = {.separator = options.separator, .drop_missing = options.drop_missing};
  SOAP_ASSIGN_OR_RETURN(const CsvTable table, ReadCsv(options.path, csv));
  const std::string needed = absl::StrCat("a line has ", table.columns, " values; the model takes ",
                                          features, " (", ImageText(reading.shape), ")");
  LaterImages later;
  if (table.missing > 0) {
    later.note = absl::StrCat(table.notes.back(), "; the rest are numbered without them");
  }
  if (table.columns == features && table.label_names.empty()) {
    *raw = {.shape = reading.shape, .floats = table.values};
    raw->labels.assign(table.rows(), 0);
    return later;
  }
  if (table.columns != features + 1) return BadImages(options.path, needed);
  DataOptions labelled = options;
  labelled.height = reading.shape.height;
  labelled.width = reading.shape.width;
  const RawSamples train = {.class_names = reading.class_names, .header = reading.header};
  SOAP_ASSIGN_OR_RETURN(*raw, ReadCsvSamples(labelled, options.path, &train));
  later.labels = true;
  return later;
}

absl::StatusOr<LaterImages> ReadLaterFolder(const DataOptions& options, const ImageReading& reading,
                                            RawSamples* raw) {
  const ImageFolderOptions folder = {.channels = reading.shape.channels,
                                     .height = reading.shape.height,
                                     .width = reading.shape.width,
                                     .divisor = reading.divisor};
  SOAP_ASSIGN_OR_RETURN(PlainImages images, ReadPlainImages(options.path, folder));
  LaterImages out = {.labels = true, .names = std::move(images.names), .left_out = images.left_out};
  *raw = {.shape = reading.shape, .images = std::move(images.images)};
  for (const std::string& name : images.folders) {
    const auto at = std::find(reading.class_names.begin(), reading.class_names.end(), name);
    if (at == reading.class_names.end()) out.labels = false;
    raw->labels.push_back(static_cast<int32_t>(at - reading.class_names.begin()));
  }
  if (!out.labels) raw->labels.assign(raw->labels.size(), 0);
  return out;
}

absl::StatusOr<LaterImages> ReadLaterIdx(const DataOptions& options, RawSamples* raw) {
  if (!options.labels_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(*raw, ReadIdxSamples(options.path, options.labels_path));
    return LaterImages{.labels = true};
  }
  SOAP_ASSIGN_OR_RETURN(IdxTensor images, ReadIdx(options.path));
  if (images.dims.size() != 3 || images.values.empty()) {
    return BadImages(options.path, "not a set of images (count, height, width)");
  }
  *raw = {.shape = {.channels = 1, .height = images.dims[1], .width = images.dims[2]},
          .bytes = std::move(images.values)};
  raw->labels.assign(static_cast<size_t>(images.dims[0]), 0);
  return LaterImages{};
}

// The held-out file beside CIFAR's training files, where the folder has one.
std::string PublishedTestPath(const DataOptions& options) {
  std::error_code error;
  if (!absl::StartsWith(options.format, "cifar") || !options.test_path.empty() ||
      !fs::is_directory(options.path, error)) {
    return options.test_path;
  }
  return CifarFiles(options.path, CifarPrefix(options, true)).ok() ? options.path : "";
}

}  // namespace

absl::StatusOr<TrainTest> LoadImageData(const DataOptions& given) {
  DataOptions options = given;
  options.test_path = PublishedTestPath(given);
  SOAP_ASSIGN_OR_RETURN(RawSamples raw, ReadSamples(options, nullptr));
  if (!options.test_path.empty()) return WithTestFile(options, std::move(raw));
  SOAP_ASSIGN_OR_RETURN(SplitIndexes split, SplitSamples(options.path, raw.labels.size(),
                                                         options.test_fraction, options.seed));
  TrainTest data{.divisor = DivisorOf(options, raw, split.train),
                 .header = std::move(raw.header),
                 .class_names = std::move(raw.class_names),
                 .notes = std::move(raw.notes)};
  const Dataset all = Scaled(data.divisor, std::move(raw));
  data.train = all.Take(std::move(split.train));
  data.test = all.Take(std::move(split.test));
  return data;
}

absl::StatusOr<LaterImages> LoadLaterImages(const DataOptions& options,
                                            const ImageReading& reading) {
  RawSamples raw;
  const auto read = [&]() -> absl::StatusOr<LaterImages> {
    const bool table = options.format == kDigitsFormat || options.format == "csv";
    if (table) return ReadLaterCsv(options, reading, &raw);
    if (options.format == "images") return ReadLaterFolder(options, reading, &raw);
    if (options.format == "idx") return ReadLaterIdx(options, &raw);
    SOAP_ASSIGN_OR_RETURN(raw, ReadCifarSamples(options, options.path, true));
    return LaterImages{.labels = true};
  };
  SOAP_ASSIGN_OR_RETURN(LaterImages later, read());
  if (!(raw.shape == reading.shape)) {
    return BadImages(options.path,
                     absl::StrCat("images of ", ImageText(raw.shape), "; the model takes ",
                                  ImageText(reading.shape), " (channels×height×width)"));
  }
  for (const int32_t label : raw.labels) {
    if (label < reading.classes) continue;
    return BadImages(options.path, absl::StrCat("label ", label, "; the model has ",
                                                reading.classes, " classes"));
  }
  raw.classes = reading.classes;
  later.data = Scaled(reading.divisor, std::move(raw));
  return later;
}

}  // namespace soapstone::models
