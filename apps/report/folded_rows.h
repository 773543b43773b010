// Rows of a table that repeat, as one stretch of rows with the number of times: models have layers
// that are alike by the hundred. Texts from texts; used by the listings of models and plans.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace soapstone::apps {

struct TableRow {
  std::string name;  // the first column
  std::string rest;  // the other columns, as printed
};

// Rows are alike where their texts are but for the numbers in their names. A stretch of up to 64
// rows that follows itself is kept once; its names count the times, as in "layers.0-11.norm × 12"
// where one number in them runs through 0 to 11, else "pool × 3" by the first. Of several
// stretches that begin at a row the one that covers most rows is folded, the shortest of equals.
std::vector<TableRow> FoldRows(absl::Span<const TableRow> rows);

// Characters of UTF-8, which are columns of a terminal for what tables have.
size_t WidthOf(const std::string& text);
// With blanks behind it up to `width` columns.
std::string PaddedTo(size_t width, const std::string& text);

// The rows with their names in one column, a line each. width: of that column, at least.
std::string TextOfRows(absl::Span<const TableRow> rows, size_t width);

}  // namespace soapstone::apps
