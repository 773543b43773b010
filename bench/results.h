// What soapstone-bench prints and writes: a table for people, JSON for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/processes.h"

namespace soapstone::bench {

struct Row {
  std::string what;    // "push", "memcpy"
  std::string link;    // "tcp"; "" for memory
  uint64_t bytes = 0;  // of a value
  double gb_s = 0;     // median of the repeats
  // By repeat, as they came: GB/s, or of round trips the p50. Empty: not known.
  std::vector<double> each;
  double gb_s_min = 0, gb_s_max = 0;
  double messages_s = 0;
  double cpu_s_per_gb = 0;
  double p50_us = 0, p99_us = 0;
};

// Of a sparse table.
struct SparseRow {
  std::string what;  // "apply sgd"
  std::string link;  // "" for the table alone
  uint32_t dim = 0;
  double rows_s = 0;  // median of the repeats
  double rows_s_min = 0, rows_s_max = 0;
  double cpu_s_per_million = 0;  // rows
  double bytes_per_row = 0;      // what the table says it holds; 0: not measured
  double resident_per_row = 0;   // what the process grew by
  double floats_per_row = 0;     // bytes of values and state
};

// The median of what was measured `repeats` times, by rate.
Row RowOf(std::string what, std::string link, uint64_t bytes, std::vector<Sample> samples);

// Messages of the samples are rows.
SparseRow SparseRowOf(std::string what, std::string link, uint32_t dim,
                      std::vector<Sample> samples);

std::string Table(const std::vector<Row>& rows);
std::string SparseReport(const std::vector<SparseRow>& rows);
// Medians of the repeats' ratios: what one repeat measured was measured at about the same time.
std::string RatioTable(const std::vector<Row>& rows);
// OK when it can be written, which is found out before minutes are spent.
absl::Status CheckWritable(const std::string& path);
// With the machine's facts. Error: the file cannot be written.
absl::Status WriteJson(const std::string& path, const std::vector<Row>& rows,
                       const std::vector<SparseRow>& sparse);

}  // namespace soapstone::bench
