#include "models/readers/csv_reader.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "models/readers/csv_scanner.h"
#include "models/readers/gzip_reader.h"

namespace soapstone::models {
namespace {

constexpr size_t kCellShownMax = 40;
constexpr size_t kHeaderShownMax = 8;
constexpr size_t kCountedMin = 4;  // 0, 1, 2 may well be a sample
constexpr size_t kCountedBesideMin = 2;
constexpr size_t kLabelNamesMax = 65536;
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

struct Separator {
  const char* name;
  char character;
};
constexpr Separator kSeparators[] = {{"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}};

bool ParseCell(absl::string_view cell, float* value) {
  return absl::SimpleAtof(cell, value) && std::isfinite(*value);
}

bool IsMissing(absl::string_view cell) {
  cell = absl::StripAsciiWhitespace(cell);
  if (cell.empty() || cell == "?") return true;
  for (const char* name : {"na", "n/a", "nan", "null"}) {
    if (absl::EqualsIgnoreCase(cell, name)) return true;
  }
  return false;
}

// Whether the numbers among the cells are 0, 1, 2, ..., as a table whose columns have no names is
// given them by what writes it (pandas), beside a label's that has one.
bool AreCounted(const std::vector<absl::string_view>& cells) {
  size_t counted = 0;
  float value = 0;
  for (const absl::string_view cell : cells) {
    if (!ParseCell(cell, &value)) continue;
    if (absl::StripAsciiWhitespace(cell) != absl::StrCat(counted)) return false;
    ++counted;
  }
  // An empty first cell is that of a column of rows' numbers.
  return counted >=
         (absl::StripAsciiWhitespace(cells[0]).empty() ? kCountedBesideMin : kCountedMin);
}

// No cell a number, and no row of data whose values are all missing but the label: of `?,NA,cat`
// only one cell could be a column's name, and of `,,cat`; that of rows' numbers may have none. Or
// numbers that only count the columns.
bool IsHeader(const std::vector<absl::string_view>& cells) {
  if (AreCounted(cells)) return true;
  float value = 0;
  size_t missing = 0;
  size_t names = 0;
  for (size_t c = 0; c < cells.size(); ++c) {
    if (ParseCell(cells[c], &value)) return false;
    if (!IsMissing(cells[c])) {
      ++names;
    } else if (c > 0 || !absl::StripAsciiWhitespace(cells[c]).empty()) {
      ++missing;
    }
  }
  return missing == 0 || names > 1;
}

// A cell's text, printable and short.
std::string CellText(absl::string_view cell) {
  return absl::Utf8SafeCHexEscape(cell.substr(0, kCellShownMax));
}

// Reads one file's rows into a table.
class CsvBuilder {
 public:
  CsvBuilder(std::string path, const CsvOptions& options, CsvTable* table)
      : path_(std::move(path)), options_(options), table_(*table) {}

  // Rows before the header, or before the first of data, that say nothing.
  bool PassOver(const CsvScanner& scanner) {
    const std::vector<absl::string_view>& cells = scanner.cells();
    const bool empty = std::all_of(cells.begin(), cells.end(), [](absl::string_view cell) {
      return absl::StripAsciiWhitespace(cell).empty();
    });
    empty_rows_ += empty ? 1 : 0;
    return empty;
  }

  // The first row: a header, or data.
  absl::Status TakeFirst(const CsvScanner& scanner) {
    if (empty_rows_ > 0) {
      table_.notes.push_back(
          absl::StrCat(path_, ": empty rows before all others skipped: ", empty_rows_));
    }
    const std::vector<absl::string_view>& cells = scanner.cells();
    if (!IsHeader(cells)) return Take(scanner);
    for (const absl::string_view cell : cells) {
      table_.header.emplace_back(absl::StripAsciiWhitespace(cell));
    }
    std::vector<std::string> names;
    for (size_t c = 0; c < std::min(cells.size(), kHeaderShownMax); ++c) {
      names.push_back(CellText(table_.header[c]));
    }
    if (cells.size() > kHeaderShownMax) names.push_back("...");
    table_.notes.push_back(absl::StrCat(path_, ": header skipped: ", absl::StrJoin(names, ", ")));
    return absl::OkStatus();
  }

  absl::Status Take(const CsvScanner& scanner) {
    const std::vector<absl::string_view>& cells = scanner.cells();
    if (table_.columns == 0) {
      SOAP_RETURN_IF_ERROR(SetColumns(cells.size()));
      NoteHeader();
    }
    line_ = scanner.line();
    if (cells.size() != table_.columns) {
      return Bad(
          absl::StrCat(": ", cells.size(), " values, the lines before have ", table_.columns));
    }
    const size_t before = table_.values.size();
    const uint64_t missing_before = missing_;
    for (size_t c = 0; c < cells.size(); ++c) {
      float value = 0;
      if (c != table_.label_column && !ParseCell(cells[c], &value)) {
        if (!IsMissing(cells[c])) return NoNumber(c, cells[c]);
        CountMissing(c, cells[c]);
      }
      table_.values.push_back(value);
    }
    // The name of a label that only rows left out have is no class.
    const size_t label = table_.label_column;
    if (missing_ == missing_before || IsMissing(cells[label])) {
      SOAP_RETURN_IF_ERROR(TakeLabel(cells[label], &table_.values[before + label]));
    }
    if (missing_ == missing_before) {
      table_.lines.push_back(static_cast<uint32_t>(line_));
    } else {
      table_.values.resize(before);
      ++missing_rows_;
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (missing_ > 0 && !options_.drop_missing) {
      return absl::InvalidArgumentError(
          absl::StrCat(first_missing_, ", of ", missing_, " in ", missing_rows_, " of ",
                       missing_rows_ + table_.rows(),
                       " rows; fill them in, or take --missing=drop, which leaves such rows out"));
    }
    if (table_.rows() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": no rows", missing_ == 0 ? "" : " without a missing value"));
    }
    if (missing_ == 0) return absl::OkStatus();
    table_.missing = missing_;
    table_.notes.push_back(absl::StrCat(path_, ": ", missing_rows_, " of ",
                                        missing_rows_ + table_.rows(), " rows left out, for ",
                                        missing_, " missing values"));
    return absl::OkStatus();
  }

 private:
  absl::Status Bad(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", line_, what));
  }

  // ": column 3 ('age'): '" and the cell.
  std::string AtCell(size_t column, absl::string_view cell) const {
    const bool named = table_.header.size() == table_.columns;
    return absl::StrCat(": column ", column + 1,
                        named ? absl::StrCat(" ('", CellText(table_.header[column]), "')") : "",
                        ": '", CellText(cell), "'");
  }

  // A header that cannot name the columns, such as one without a name for the rows' numbers.
  void NoteHeader() {
    if (table_.header.empty() || table_.header.size() == table_.columns) return;
    table_.notes.push_back(absl::StrCat(path_, ": its header has ", table_.header.size(),
                                        " names and its first row ", table_.columns,
                                        " values: columns are told by number"));
  }

  absl::Status NoNumber(size_t column, absl::string_view cell) const {
    std::string why = " is not a number";
    float value = 0;
    std::string pointed(cell.substr(0, kCellShownMax));
    std::replace(pointed.begin(), pointed.end(), ',', '.');
    if (absl::SimpleAtof(cell, &value)) {
      why = " is not a number that a float can hold";
    } else if (ParseCell(pointed, &value)) {
      why += "; decimals need a point";
    } else if (table_.lines.empty() && missing_rows_ == 0 && table_.header.empty()) {
      why += ", as others of the first line are: it is no header, which has none";
    }
    return Bad(absl::StrCat(AtCell(column, cell), why));
  }

  void CountMissing(size_t column, absl::string_view cell) {
    if (missing_++ > 0) return;
    first_missing_ =
        absl::StrCat(path_, ":", line_, AtCell(column, cell), " is a missing value, the first");
  }

  // By the first row of data, whose columns are those of all.
  absl::Status SetColumns(size_t columns) {
    table_.columns = columns;
    const std::string& wanted = options_.label_column;
    uint64_t number = columns;
    if (wanted.empty() || absl::SimpleAtoi(wanted, &number)) {
      if (number < 1 || number > columns) {
        return absl::InvalidArgumentError(absl::StrCat(
            path_, ": label_column: ", wanted, " is not within 1 and its ", columns, " columns"));
      }
      table_.label_column = number - 1;
      return absl::OkStatus();
    }
    const std::vector<std::string>& header = table_.header;
    const auto at = std::find(header.begin(), header.end(), wanted);
    if (header.empty() || at == header.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": label_column: no '", CellText(wanted), "' in ",
                       header.empty() ? "it: it has no header" : "its header", NamesNear(wanted)));
    }
    if (header.size() != columns || std::count(header.begin(), header.end(), wanted) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": label_column: its header does not tell which is '",
                       CellText(wanted), "': it has ", header.size(), " names, the first row ",
                       columns, " values; say the column's number"));
    }
    table_.label_column = static_cast<size_t>(at - header.begin());
    return absl::OkStatus();
  }

  // Of the header, as it may be shown; of names of a letter or two any is near.
  std::string NamesNear(const std::string& wanted) const {
    if (wanted.size() < 3) return "";
    std::vector<std::string> shown;
    for (const std::string& name : table_.header) shown.push_back(CellText(name));
    return DidYouMean(CellText(wanted), shown);
  }

  // The label's number, or its name's place among the names.
  absl::Status TakeLabel(absl::string_view cell, float* value) {
    const bool number = ParseCell(cell, value);
    if (!number && IsMissing(cell)) {
      CountMissing(table_.label_column, cell);
      return absl::OkStatus();
    }
    if (kind_ == LabelKind::kNotKnown) kind_ = number ? LabelKind::kNumbers : LabelKind::kNames;
    if (kind_ == LabelKind::kNumbers && number) return absl::OkStatus();
    if (kind_ == LabelKind::kNumbers || number) {
      return Bad(absl::StrCat(AtCell(table_.label_column, cell), " is ", number ? "a" : "no",
                              " number, unlike the labels before: labels are numbers in all rows, "
                              "or names in all"));
    }
    const auto [it, fresh] =
        names_.try_emplace(std::string(cell), static_cast<float>(names_.size()));
    if (fresh) table_.label_names.emplace_back(cell);
    if (names_.size() > kLabelNamesMax) {
      return Bad(absl::StrCat(": more than ", kLabelNamesMax, " names of labels in column ",
                              table_.label_column + 1));
    }
    *value = it->second;
    return absl::OkStatus();
  }

  enum class LabelKind { kNotKnown, kNumbers, kNames };

  const std::string path_;
  const CsvOptions& options_;
  CsvTable& table_;
  size_t line_ = 0;  // of the row in hand
  LabelKind kind_ = LabelKind::kNotKnown;
  absl::flat_hash_map<std::string, float> names_;
  uint64_t missing_ = 0;
  uint64_t empty_rows_ = 0;  // before all others
  uint64_t missing_rows_ = 0;
  std::string first_missing_;
};

}  // namespace

absl::StatusOr<char> ParseSeparator(const std::string& name) {
  if (name.empty() || name == "auto") return '\0';
  for (const Separator& separator : kSeparators) {
    if (name == separator.name || name == std::string(1, separator.character)) {
      return separator.character;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is none of auto, comma, semicolon and tab"));
}

absl::StatusOr<CsvTable> ReadCsv(const std::string& path, const CsvOptions& options) {
  SOAP_ASSIGN_OR_RETURN(char separator, ParseSeparator(options.separator));
  SOAP_ASSIGN_OR_RETURN(const std::string bytes, ReadMaybeGzip(path));
  absl::string_view text = bytes;
  if (absl::StartsWith(text, kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff")) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": it is UTF-16; save it as UTF-8"));
  }
  CsvTable table;
  if (separator == '\0') {
    separator = FindSeparator(text);
    for (const Separator& known : kSeparators) {
      if (known.character != separator || separator == ',') continue;
      table.notes.push_back(absl::StrCat(path, ": cells are separated by ", known.name, "s"));
    }
  }
  CsvScanner scanner(text, separator);
  CsvBuilder builder(path, options, &table);
  bool first = true;
  while (scanner.Next()) {
    if (first && builder.PassOver(scanner)) continue;
    SOAP_RETURN_IF_ERROR(first ? builder.TakeFirst(scanner) : builder.Take(scanner));
    first = false;
  }
  if (!scanner.status().ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", scanner.status().message()));
  }
  SOAP_RETURN_IF_ERROR(builder.Finish());
  return table;
}

}  // namespace soapstone::models
