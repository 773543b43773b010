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
  double gb_s_min = 0, gb_s_max = 0;
  double messages_s = 0;
  double cpu_s_per_gb = 0;
  double p50_us = 0, p99_us = 0;
};

// The median of what was measured `repeats` times, by rate.
Row RowOf(std::string what, std::string link, uint64_t bytes, std::vector<Sample> samples);

std::string Table(const std::vector<Row>& rows);
std::string RatioTable(const std::vector<Row>& rows);
// OK when it can be written, which is found out before minutes are spent.
absl::Status CheckWritable(const std::string& path);
// With the machine's facts. Error: the file cannot be written.
absl::Status WriteJson(const std::string& path, const std::vector<Row>& rows);

}  // namespace soapstone::bench
