// Texts as tokens (models/data/text_data.h). Input: the format, the length of a sequence, the
// number of words known, and the file.
#include "tests/fuzz/table_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr const char* kFormats[] = {"bytes", "words", "parallel"};
  soapstone::fuzz::FuzzInput input(data, size);
  const char* format = kFormats[input.Take<uint8_t>() % 3];
  const auto length = input.Take<uint8_t>();
  const auto vocabulary = input.Take<uint16_t>();
  soapstone::fuzz::MemoryFile file;
  soapstone::fuzz::LoadAll({.format = format,
                            .path = file.With(input.Rest()),
                            .length = length,
                            .vocabulary = vocabulary});
  return 0;
}
