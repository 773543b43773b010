#include "models/readers/csv_scanner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace soapstone::models {
namespace {

constexpr size_t kSampleBytes = 1 << 16;  // of the text, to find the separator by
constexpr size_t kSampleRows = 5;

size_t FindFrom(absl::string_view text, size_t at, char c) {
  if (at >= text.size()) return absl::string_view::npos;
  const void* found = std::memchr(text.data() + at, c, text.size() - at);
  if (found == nullptr) return absl::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// True for white space that is neither a separator nor the end of a line.
bool IsPadding(char c, char separator) {
  return c != separator && (c == ' ' || c == '\t' || c == '\r');
}

// Nothing but white space: a row of tabs alone has missing values where tabs separate.
bool IsBlank(absl::string_view row, char separator) {
  return std::all_of(row.begin(), row.end(), [separator](char c) {
    return c != separator && absl::ascii_isspace(static_cast<unsigned char>(c));
  });
}

// A decimal comma counts, so that a file that has them is cut where its writer meant it.
bool IsNumber(absl::string_view cell, char separator) {
  float value = 0;
  if (absl::SimpleAtof(cell, &value)) return std::isfinite(value);
  const size_t comma = cell.find(',');
  if (separator == ',' || comma == absl::string_view::npos) return false;
  std::string pointed(cell);
  pointed[comma] = '.';
  return absl::SimpleAtof(pointed, &value) && std::isfinite(value);
}

// Numbers among the cells of the first rows, and cells of the first row.
std::pair<size_t, size_t> ScoreOf(absl::string_view sample, char separator) {
  CsvScanner scanner(sample, separator);
  size_t numbers = 0;
  size_t cells = 0;
  for (size_t row = 0; row < kSampleRows && scanner.Next(); ++row) {
    if (row == 0) cells = scanner.cells().size();
    for (const absl::string_view cell : scanner.cells()) {
      numbers += IsNumber(cell, separator) ? 1 : 0;
    }
  }
  return {numbers, cells};
}

}  // namespace

CsvScanner::CsvScanner(absl::string_view text, char separator)
    : text_(text),
      separator_(separator),
      has_quotes_(FindFrom(text, 0, '"') != absl::string_view::npos) {}

bool CsvScanner::Next() {
  while (at_ < text_.size() && status_.ok()) {
    cells_.clear();
    line_ = next_line_;
    const size_t end = std::min(FindFrom(text_, at_, '\n'), text_.size());
    const absl::string_view row = text_.substr(at_, end - at_);
    if (has_quotes_ && FindFrom(row, 0, '"') != absl::string_view::npos) return ReadQuotedRow();
    at_ = end + 1;
    ++next_line_;
    if (IsBlank(row, separator_)) continue;
    Split(row);
    return true;
  }
  return false;
}

void CsvScanner::Split(absl::string_view row) {
  for (size_t begin = 0;;) {
    const size_t end = FindFrom(row, begin, separator_);
    if (end == absl::string_view::npos) {
      cells_.push_back(absl::StripAsciiWhitespace(row.substr(begin)));
      return;
    }
    cells_.push_back(absl::StripAsciiWhitespace(row.substr(begin, end - begin)));
    begin = end + 1;
  }
}

bool CsvScanner::ReadQuotedRow() {
  unquoted_.clear();
  size_t at = at_;
  for (bool more = true; more;) {
    size_t begin = at;
    while (begin < text_.size() && IsPadding(text_[begin], separator_)) ++begin;
    if (begin < text_.size() && text_[begin] == '"') {
      if (!TakeQuotedCell(begin, &at)) return false;
    } else {
      const size_t begun = at;
      while (at < text_.size() && text_[at] != separator_ && text_[at] != '\n') ++at;
      cells_.push_back(absl::StripAsciiWhitespace(text_.substr(begun, at - begun)));
    }
    more = at < text_.size() && text_[at] == separator_;
    ++at;
  }
  at_ = at;
  ++next_line_;
  return true;
}

// Takes the cell whose quote is at `begin`; *at is then the separator or end behind it.
bool CsvScanner::TakeQuotedCell(size_t begin, size_t* at) {
  bool doubled = false;
  size_t close = begin + 1;
  while (true) {
    close = FindFrom(text_, close, '"');
    if (close == absl::string_view::npos) return Fail("begins with a quote that does not end");
    if (close + 1 >= text_.size() || text_[close + 1] != '"') break;
    doubled = true;
    close += 2;
  }
  absl::string_view cell = text_.substr(begin + 1, close - begin - 1);
  next_line_ += static_cast<size_t>(std::count(cell.begin(), cell.end(), '\n'));
  if (doubled) {
    unquoted_.push_back(absl::StrReplaceAll(cell, {{"\"\"", "\""}}));
    cell = unquoted_.back();
  }
  for (*at = close + 1; *at < text_.size() && IsPadding(text_[*at], separator_);) ++*at;
  if (*at < text_.size() && text_[*at] != separator_ && text_[*at] != '\n') {
    return Fail("goes on behind its closing quote; a quote within quotes is written twice");
  }
  cells_.push_back(cell);
  return true;
}

bool CsvScanner::Fail(const char* what) {
  status_ =
      absl::InvalidArgumentError(absl::StrCat(line_, ": column ", cells_.size() + 1, " ", what));
  return false;
}

char FindSeparator(absl::string_view text) {
  absl::string_view sample = text.substr(0, kSampleBytes);
  const size_t last_end = sample.rfind('\n');
  if (sample.size() < text.size() && last_end != absl::string_view::npos) {
    sample = sample.substr(0, last_end);
  }
  char best = ',';
  for (const char separator : {';', '\t'}) {
    if (ScoreOf(sample, separator) > ScoreOf(sample, best)) best = separator;
  }
  return best;
}

}  // namespace soapstone::models
