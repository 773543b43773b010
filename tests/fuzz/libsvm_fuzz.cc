// Data of models over tables (models/data/sparse_dataset.h). Input: the format, and the file.
#include "models/data/sparse_dataset.h"
#include "tests/fuzz/fuzz_input.h"

namespace soapstone::fuzz {
namespace {

void CheckRows(const models::SparseDataset& data) {
  CHECK_EQ(data.begins.size(), data.size() + 1);
  CHECK_EQ(data.begins.back(), data.keys.size());
  CHECK_EQ(data.keys.size(), data.values.size());
  CHECK(data.fields.empty() || data.fields.size() == data.keys.size());
  CHECK_EQ(data.dense.size(), data.size() * data.dense_columns);
  for (size_t i = 0; i < data.size(); ++i) CHECK_LE(data.begins[i], data.begins[i + 1]);
}

void Load(FuzzInput input) {
  static constexpr const char* kFormats[] = {"libsvm", "triples", "text", "criteo"};
  MemoryFile file;
  const char* format = kFormats[input.Take<uint8_t>() % 4];
  const std::string& path = file.With(input.Rest());
  const auto data = models::LoadSparseData({.format = format,
                                            .path = path,
                                            .min_count = 1,
                                            .dense_columns = 2,
                                            .categorical_columns = 2});
  if (!data.ok()) return CheckError(data.status(), path);
  CheckRows(data->train);
  CheckRows(data->test);
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::Load({data, size});
  return 0;
}
