#include "models/data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/readers/gzip_reader.h"
#include "models/readers/png_reader.h"

namespace soapstone::models {
namespace {

namespace fs = std::filesystem;

struct ImageFile {
  std::string name;
  std::string bytes;
  bool is_png = true;
};

absl::Status BadFolder(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

// Names in a folder that do not begin with a dot, in order of bytes; folders only, or files only.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path, bool folders) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code gone;
    if (name[0] != '.' && it->is_directory(gone) == folders) names.push_back(name);
  }
  if (error) return absl::ErrnoToStatus(error.value(), path);
  std::sort(names.begin(), names.end());
  return names;
}

bool IsPng(const std::string& name) { return absl::EndsWithIgnoreCase(name, ".png"); }
bool IsRaw(const std::string& name) { return absl::EndsWithIgnoreCase(name, ".raw"); }

// What lies in a folder and below, relative to it, in order of bytes; of a file that is there "".
// Names that begin with a dot are left out.
absl::StatusOr<std::vector<std::string>> FilesUnder(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    if (!IsPng(path) && !IsRaw(path)) return BadFolder(path, "neither .png nor .raw");
    return std::vector<std::string>{""};
  }
  error.clear();
  std::vector<std::string> names;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    const bool hidden = it->path().filename().string()[0] == '.';
    if (it->is_directory(gone) && hidden) it.disable_recursion_pending();
    if (hidden || it->is_directory(gone)) continue;
    names.push_back(it->path().lexically_relative(path).string());
  }
  if (error) return absl::ErrnoToStatus(error.value(), path);
  std::sort(names.begin(), names.end());
  return names;
}

// The images of a folder, each decoded when it is read.
class EncodedImages : public Column {
 public:
  EncodedImages(const ImageShape& shape, float divisor, std::vector<ImageFile> files)
      : Column({.name = "image", .shape = {shape.channels, shape.height, shape.width}}, 0),
        shape_(shape),
        divisor_(divisor),
        files_(std::move(files)) {
    for (const ImageFile& file : files_) any_png_ |= file.is_png;
  }

  uint64_t size() const override { return files_.size(); }
  bool decodes() const override { return any_png_; }
  void Hash(uint64_t index, Sha256* sha) const override {
    const std::string& bytes = files_[index].bytes;
    const uint64_t size = bytes.size();
    sha->Update(&size, sizeof(size));
    sha->Update(bytes.data(), bytes.size());
  }
  void Read(uint64_t index, std::byte* words) const override {
    const ImageFile& file = files_[index];
    auto* out = reinterpret_cast<float*>(words);
    if (!file.is_png) {
      for (const char c : file.bytes)
        *out++ = static_cast<float>(static_cast<uint8_t>(c)) / divisor_;
      return;
    }
    std::vector<uint8_t> pixels;
    CHECK_EQ(DecodePng(file.bytes, file.name, shape_, &pixels), absl::OkStatus());
    const auto channels = static_cast<size_t>(shape_.channels);
    for (size_t c = 0; c < channels; ++c) {
      for (size_t i = c; i < pixels.size(); i += channels) {
        *out++ = static_cast<float>(pixels[i]) / divisor_;
      }
    }
  }

 private:
  const ImageShape shape_;
  const float divisor_;
  const std::vector<ImageFile> files_;
  bool any_png_ = false;
};

class FolderReader {
 public:
  FolderReader(const std::string& path, const ImageFolderOptions& options)
      : path_(path), options_(options) {
    out_.shape = {options.channels, options.height, options.width};
    out_.classes = options.classes;
  }

  absl::StatusOr<PlainImages> ReadPlain() {
    PlainImages out;
    SOAP_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesUnder(path_));
    for (const std::string& name : names) {
      const fs::path at = name.empty() ? fs::path(path_) : fs::path(path_) / name;
      if (!IsPng(at.string()) && !IsRaw(at.string())) {
        ++out.left_out;
        continue;
      }
      SOAP_RETURN_IF_ERROR(ReadFile(at.string()));
      out.names.push_back(name.empty() ? at.filename().string() : name);
      out.folders.push_back(fs::path(name).parent_path().string());
    }
    if (out.names.empty()) return BadFolder(path_, "no images in it: neither .png nor .raw");
    out.images = std::make_shared<EncodedImages>(out_.shape, options_.divisor, std::move(files_));
    return out;
  }

  absl::StatusOr<ImageFolder> Read() {
    SOAP_ASSIGN_OR_RETURN(const std::vector<std::string> found, NamesIn(path_, true));
    if (found.empty()) return BadFolder(path_, "no folders in it; one of images a class is needed");
    if (out_.classes.empty()) out_.classes = found;
    for (const std::string& name : found) {
      const auto at = std::find(out_.classes.begin(), out_.classes.end(), name);
      if (at == out_.classes.end()) {
        return BadFolder(absl::StrCat(path_, "/", name), "the training data have no such class");
      }
      SOAP_RETURN_IF_ERROR(ReadClass(absl::StrCat(path_, "/", name),
                                     static_cast<int32_t>(at - out_.classes.begin())));
    }
    out_.images = std::make_shared<EncodedImages>(out_.shape, options_.divisor, std::move(files_));
    return std::move(out_);
  }

 private:
  absl::Status ReadClass(const std::string& folder, int32_t label) {
    SOAP_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder, false));
    if (names.empty()) return BadFolder(folder, "no images in it");
    for (const std::string& name : names) {
      SOAP_RETURN_IF_ERROR(ReadFile(absl::StrCat(folder, "/", name)));
      out_.labels.push_back(label);
    }
    return absl::OkStatus();
  }

  absl::Status ReadFile(std::string name) {
    ImageFile file = {.name = std::move(name)};
    file.is_png = IsPng(file.name);
    if (!file.is_png && !IsRaw(file.name)) return BadFolder(file.name, "neither .png nor .raw");
    SOAP_ASSIGN_OR_RETURN(file.bytes, ReadMaybeGzip(file.name, kFileBytesMax - bytes_));
    bytes_ += file.bytes.size();
    SOAP_RETURN_IF_ERROR(file.is_png ? CheckPng(file) : CheckRaw(file));
    files_.push_back(std::move(file));
    return absl::OkStatus();
  }

  absl::Status CheckPng(const ImageFile& file) {
    ImageShape& shape = out_.shape;
    if (shape.channels == 0 || shape.height == 0) {
      SOAP_ASSIGN_OR_RETURN(const ImageShape first, PngShape(file.bytes, file.name));
      if (shape.channels == 0) shape.channels = first.channels;
      if (shape.height == 0) shape.height = first.height;
      if (shape.width == 0) shape.width = first.width;
    }
    if (shape.channels != 1 && shape.channels != 3) {
      return BadFolder(file.name, absl::StrCat("a PNG is read as 1 channel or 3; data.channels is ",
                                               shape.channels));
    }
    return DecodePng(file.bytes, file.name, shape, &pixels_);
  }

  absl::Status CheckRaw(const ImageFile& file) const {
    const ImageShape& shape = out_.shape;
    if (shape.channels == 0 || shape.height == 0 || shape.width == 0) {
      return BadFolder(file.name, "raw images need data.channels, data.height and data.width");
    }
    if (static_cast<int64_t>(file.bytes.size()) == shape.elements()) return absl::OkStatus();
    return BadFolder(file.name,
                     absl::StrCat(file.bytes.size(), " bytes; a raw image of ", shape.channels, "×",
                                  shape.height, "×", shape.width, " has ", shape.elements()));
  }

  const std::string path_;
  const ImageFolderOptions options_;
  ImageFolder out_;
  std::vector<ImageFile> files_;
  std::vector<uint8_t> pixels_;
  size_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<ImageFolder> ReadImageFolder(const std::string& path,
                                            const ImageFolderOptions& options) {
  return FolderReader(path, options).Read();
}

absl::StatusOr<PlainImages> ReadPlainImages(const std::string& path,
                                            const ImageFolderOptions& options) {
  return FolderReader(path, options).ReadPlain();
}

}  // namespace soapstone::models
