// Tables of numbers as data (models/readers/csv_reader.h, models/data/image_data.h). Input: the
// height and width of images, and the file, which may be gzip. Digits where the height is above
// 127. A width above 127 stands for options: bits 0 and 1 the separator, bit 2 that rows with
// missing values are dropped, bits 3 and 4 the label's column.
#include "tests/fuzz/table_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using soapstone::fuzz::FuzzInput;
  constexpr const char* kSeparators[] = {"auto", "comma", "semicolon", "tab"};
  constexpr const char* kLabelColumns[] = {"", "1", "2", "label"};
  FuzzInput input(data, size);
  const auto height = input.Take<uint8_t>();
  const auto width = input.Take<uint8_t>();
  const bool sized = height <= 127 && width <= 127;
  const unsigned options = width > 127 ? width : 0;
  soapstone::fuzz::MemoryFile file;
  soapstone::fuzz::LoadAll({.format = height > 127 ? "digits" : "csv",
                            .path = file.With(input.Rest()),
                            .height = sized ? height : 0,
                            .width = sized ? width : 0,
                            .separator = kSeparators[options & 3],
                            .label_column = kLabelColumns[options >> 3 & 3],
                            .drop_missing = (options & 4) != 0});
  return 0;
}
