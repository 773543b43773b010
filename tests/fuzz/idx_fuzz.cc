// IDX files (models/readers/idx_reader.h). Input: the size of the file of images, it, and that of
// labels.
#include "models/readers/idx_reader.h"
#include "tests/fuzz/table_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using soapstone::fuzz::FuzzInput;
  FuzzInput input(data, size);
  const auto images_bytes = input.Take<uint16_t>();
  soapstone::fuzz::MemoryFile images, labels;
  const std::string images_path = images.With(input.Bytes(images_bytes));
  const std::string labels_path = labels.With(input.Rest());
  const auto tensor = soapstone::models::ReadIdx(images_path);
  if (!tensor.ok()) soapstone::fuzz::CheckError(tensor.status(), images_path);
  soapstone::fuzz::LoadAll({.format = "idx", .path = images_path, .labels_path = labels_path});
  return 0;
}
