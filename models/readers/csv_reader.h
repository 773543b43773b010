// Reads tables of numbers with a column of labels, one row a line, gzip or not: CSV as programs
// write it. Called by image_data.cc; knows nothing of images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace soapstone::models {

struct CsvOptions {
  std::string separator = "auto";  // ParseSeparator
  std::string label_column;        // its number, from 1, or its name in the header; "": the last
  bool drop_missing = false;       // rows with missing values are left out, else an error
};

// The character that "comma", "semicolon" or "tab" (or the character itself) stands for; 0 for
// "auto" and "". Error: InvalidArgument, with what there is.
absl::StatusOr<char> ParseSeparator(const std::string& name);

struct CsvTable {
  size_t columns = 0;               // the labels' among them
  std::vector<float> values;        // [rows, columns]
  std::vector<uint32_t> lines;      // [rows]: the line in the file where each begins, from 1
  size_t label_column = 0;          // from 0
  std::vector<std::string> header;  // names of the columns, or none
  // Where labels are names: those names, by their first appearance; the labels' values are then
  // their places here. Else none.
  std::vector<std::string> label_names;
  uint64_t missing = 0;            // values, in rows that were left out
  std::vector<std::string> notes;  // what was recognised in the file, a line each, for people

  size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  absl::Span<const float> row(size_t r) const {
    return absl::MakeConstSpan(values).subspan(r * columns, columns);
  }
};

// UTF-8 with or without its byte order mark, cells as CsvScanner cuts them. The first row is a
// header, and left out, where none of its cells is a number. Labels are numbers in all rows, or
// names in all. Missing is a value that is empty, "?", or, in any case, "NA", "N/A", "NaN" or
// "null".
// Errors: those of ReadMaybeGzip; InvalidArgument with file, line and column for a cell that is no
// finite number, a missing value (with their number), a row of another length, a label column that
// there is not; no rows at all; UTF-16.
absl::StatusOr<CsvTable> ReadCsv(const std::string& path, const CsvOptions& options = {});

}  // namespace soapstone::models
