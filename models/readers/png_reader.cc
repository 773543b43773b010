#include "models/readers/png_reader.h"

#include <png.h>

#include "absl/strings/str_cat.h"

namespace soapstone::models {
namespace {

constexpr size_t kSignatureBytes = 8;

// What IHDR, always the first chunk, says of a pixel's bits.
constexpr size_t kDepthByte = 24, kColourByte = 25;
constexpr uint64_t kDeflateMax = 1032;  // bytes that one compressed byte makes at most

// Whether the file can hold so many pixels: memory for them is not taken for its word alone.
bool CanHold(const std::string& png, uint64_t height, uint64_t width) {
  if (png.size() <= kColourByte) return false;
  const auto depth = static_cast<uint8_t>(png[kDepthByte]);
  const auto colour = static_cast<uint8_t>(png[kColourByte]);
  const uint64_t channels = colour == 2 ? 3 : colour == 4 ? 2 : colour == 6 ? 4 : 1;
  const uint64_t row_bytes = (width * depth * channels + 7) / 8;
  return height * row_bytes / kDeflateMax <= png.size();
}

// libpng's description of an image that is being read.
class OpenPng {
 public:
  OpenPng() { image_.version = PNG_IMAGE_VERSION; }
  ~OpenPng() { png_image_free(&image_); }
  OpenPng(const OpenPng&) = delete;
  OpenPng& operator=(const OpenPng&) = delete;

  absl::Status Open(const std::string& png, const std::string& name) {
    const auto* bytes = reinterpret_cast<png_const_bytep>(png.data());
    if (png.size() < kSignatureBytes || png_sig_cmp(bytes, 0, kSignatureBytes) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": not a PNG"));
    }
    if (png_image_begin_read_from_memory(&image_, png.data(), png.size()) == 0) {
      return Damaged(name);
    }
    if (image_.width > kImageSideMax || image_.height > kImageSideMax) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": an image of ", image_.height, "×",
                                                     image_.width, "; sides of at most ",
                                                     kImageSideMax, " are read"));
    }
    return absl::OkStatus();
  }
  absl::Status Damaged(const std::string& name) const {
    return absl::DataLossError(absl::StrCat(name, ": PNG is cut off or corrupt: ", image_.message));
  }
  png_image* get() { return &image_; }

 private:
  png_image image_ = {};
};

}  // namespace

absl::StatusOr<ImageShape> PngShape(const std::string& png, const std::string& name) {
  OpenPng open;
  if (absl::Status status = open.Open(png, name); !status.ok()) return status;
  const png_image& image = *open.get();
  return ImageShape{.channels = (image.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1,
                    .height = image.height,
                    .width = image.width};
}

absl::Status DecodePng(const std::string& png, const std::string& name, const ImageShape& shape,
                       std::vector<uint8_t>* pixels) {
  OpenPng open;
  if (absl::Status status = open.Open(png, name); !status.ok()) return status;
  png_image* image = open.get();
  if (image->height != shape.height || image->width != shape.width) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": an image of ", image->height, "×",
                                                   image->width, ", where ", shape.height, "×",
                                                   shape.width, " is needed (height×width)"));
  }
  if (!CanHold(png, image->height, image->width)) {
    return absl::DataLossError(absl::StrCat(name, ": PNG is cut off or corrupt: ", png.size(),
                                            " bytes cannot hold an image of ", image->height, "×",
                                            image->width));
  }
  image->format = shape.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  pixels->resize(static_cast<size_t>(shape.elements()));
  const png_color black = {};
  if (png_image_finish_read(image, &black, pixels->data(), 0, nullptr) == 0) {
    return open.Damaged(name);
  }
  return absl::OkStatus();
}

}  // namespace soapstone::models
