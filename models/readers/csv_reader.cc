#include "models/readers/csv_reader.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "models/readers/gzip_reader.h"

namespace soapstone::models {
namespace {

constexpr size_t kCellShownMax = 40;

// Takes the text up to `separator` off the front of `text`, and the separator.
absl::string_view TakeUntil(char separator, absl::string_view* text) {
  const size_t at = text->find(separator);
  const absl::string_view part = text->substr(0, at);
  text->remove_prefix(at == absl::string_view::npos ? text->size() : at + 1);
  return part;
}

// Appends the line's numbers. Returns the first cell that is none, or an empty view and true.
struct LineResult {
  bool ok = true;
  absl::string_view bad_cell;
};
LineResult ParseLine(absl::string_view line, std::vector<float>* values) {
  bool more = true;
  while (more) {
    more = line.find(',') != absl::string_view::npos;
    const absl::string_view cell = absl::StripAsciiWhitespace(TakeUntil(',', &line));
    float value = 0;
    if (!absl::SimpleAtof(cell, &value) || !std::isfinite(value)) return {false, cell};
    values->push_back(value);
  }
  return {};
}

}  // namespace

absl::StatusOr<CsvTable> ReadCsv(const std::string& path) {
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(path));
  CsvTable table;
  absl::string_view rest = text;
  for (size_t line_number = 1; !rest.empty(); ++line_number) {
    const absl::string_view line = absl::StripAsciiWhitespace(TakeUntil('\n', &rest));
    if (line.empty()) continue;
    const size_t before = table.values.size();
    const LineResult parsed = ParseLine(line, &table.values);
    if (!parsed.ok) {
      table.values.resize(before);
      if (line_number == 1) continue;  // a header
      return absl::InvalidArgumentError(absl::StrCat(
          path, ":", line_number, ": '", absl::CHexEscape(parsed.bad_cell.substr(0, kCellShownMax)),
          "' is not a number"));
    }
    const size_t columns = table.values.size() - before;
    if (table.columns == 0) table.columns = columns;
    if (columns != table.columns) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ":", line_number, ": ", columns, " values, the lines before have ", table.columns));
    }
  }
  if (table.rows() == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": no rows"));
  return table;
}

}  // namespace soapstone::models
