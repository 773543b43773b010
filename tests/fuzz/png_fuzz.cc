// PNG images (models/readers/png_reader.h). Input: the file. What has a shape is decoded in it and
// in the other number of channels.
#include "models/readers/png_reader.h"
#include "tests/fuzz/fuzz_input.h"

namespace soapstone::fuzz {
namespace {

void Decode(const std::string& png) {
  const absl::StatusOr<models::ImageShape> shape = models::PngShape(png, "image.png");
  if (!shape.ok()) return CheckError(shape.status(), "image.png");
  for (const int64_t channels : {1, 3}) {
    models::ImageShape wanted = *shape;
    wanted.channels = channels;
    std::vector<uint8_t> pixels;
    const absl::Status decoded = models::DecodePng(png, "image.png", wanted, &pixels);
    if (!decoded.ok()) {
      CheckError(decoded, "image.png");
    } else {
      CHECK_EQ(pixels.size(), static_cast<size_t>(wanted.elements()));
    }
  }
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::Decode(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
