// Tables of numbers as data (models/readers/csv_reader.h, models/data/image_data.h). Input: the
// height and width of images, and the file, which may be gzip. Digits where the height is above
// 127.
#include "tests/fuzz/table_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using soapstone::fuzz::FuzzInput;
  FuzzInput input(data, size);
  const auto height = input.Take<uint8_t>();
  const auto width = input.Take<uint8_t>();
  soapstone::fuzz::MemoryFile file;
  soapstone::fuzz::LoadAll({.format = height > 127 ? "digits" : "csv",
                            .path = file.With(input.Rest()),
                            .height = height > 127 ? 0 : height,
                            .width = height > 127 ? 0 : width});
  return 0;
}
