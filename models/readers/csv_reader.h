// Reads tables of numbers: comma-separated, one row a line, gzip or not. Called by dataset.cc;
// knows nothing of images or labels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace soapstone::models {

struct CsvTable {
  size_t columns = 0;
  std::vector<float> values;  // [rows, columns]

  size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  absl::Span<const float> row(size_t r) const {
    return absl::MakeConstSpan(values).subspan(r * columns, columns);
  }
};

// A first line that holds anything but numbers is a header, and left out; so are empty lines.
// Errors: those of ReadMaybeGzip; InvalidArgument with file and line for a cell that is no finite
// number, or a line of another length; no rows at all.
absl::StatusOr<CsvTable> ReadCsv(const std::string& path);

}  // namespace soapstone::models
