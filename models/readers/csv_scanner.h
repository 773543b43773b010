// Cuts the text of a table into rows of cells: RFC 4180, and what else people have (separators,
// line ends). Called by csv_reader.cc; knows nothing of numbers but to tell separators apart.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace soapstone::models {

// Rows end with a line, or with the text; rows of nothing but white space are left out (a tab that
// separates is none). A cell is
// stripped of white space around it. One that begins with a quote ends with one: what is between
// them is the cell, separators and ends of lines included, and two quotes in it stand for one (RFC
// 4180, section 2). Without quotes a row costs two passes of memchr.
// Threading: one thread. `text` outlives it.
class CsvScanner {
 public:
  CsvScanner(absl::string_view text, char separator);

  // Reads the next row. False at the end of the text, or at an error: see status().
  bool Next();
  // Of the row; valid until the next call of Next.
  const std::vector<absl::string_view>& cells() const { return cells_; }
  // The line in which the row begins, from 1.
  size_t line() const { return line_; }
  // InvalidArgument for a quote that does not end, or that is followed by more than white space
  // before the cell's end. Without the file's name.
  const absl::Status& status() const { return status_; }

 private:
  void Split(absl::string_view row);
  bool ReadQuotedRow();
  bool TakeQuotedCell(size_t begin, size_t* at);
  bool Fail(const char* what);

  const absl::string_view text_;
  const char separator_;
  const bool has_quotes_;
  size_t at_ = 0;  // where the next row begins
  size_t line_ = 0;
  size_t next_line_ = 1;
  std::vector<absl::string_view> cells_;
  std::deque<std::string> unquoted_;  // of this row's cells, those that had two quotes for one
  absl::Status status_;
};

// Finds the separator, by the first lines: the one of comma, semicolon and tab with which most of
// their cells are numbers (also with a decimal comma), of equals that with which there are most
// cells, of equals the first.
char FindSeparator(absl::string_view text);

}  // namespace soapstone::models
