#include "cluster/straggler_trace.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"

namespace soapstone::sim {
namespace {

constexpr size_t kRowsMax = 50'000'000;

// Where the columns are.
struct Columns {
  size_t worker = 0, clock = 0, time = 0;
  std::optional<size_t> added;
  bool is_factor = false;
};

absl::StatusOr<Columns> ReadHeader(const std::string& header) {
  const std::vector<std::string> names = absl::StrSplit(header, ',');
  const auto find = [&](const char* name) -> std::optional<size_t> {
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) return std::nullopt;
    return static_cast<size_t>(it - names.begin());
  };
  Columns columns;
  const std::optional<size_t> worker = find("worker"), clock = find("clock");
  std::optional<size_t> time = find("factor");
  columns.is_factor = time.has_value();
  if (!time.has_value()) time = find("duration_us");
  if (!time.has_value()) {
    time = find("compute_us");
    columns.added = find("injected_us");
  }
  if (!worker.has_value() || !clock.has_value() || !time.has_value()) {
    return absl::InvalidArgumentError(
        "the header needs the columns worker, clock, and factor, duration_us or compute_us");
  }
  columns.worker = *worker;
  columns.clock = *clock;
  columns.time = *time;
  return columns;
}

struct Row {
  uint64_t worker = 0;
  uint64_t clock = 0;
  double time = 0;
};

absl::StatusOr<Row> ReadRow(const Columns& columns, const std::string& line) {
  const std::vector<std::string> cells = absl::StrSplit(line, ',');
  Row row;
  const auto whole = [&](size_t at, uint64_t* value) {
    return at < cells.size() && absl::SimpleAtoi(cells[at], value);
  };
  const auto real = [&](size_t at, double* value) {
    return at < cells.size() && absl::SimpleAtod(cells[at], value) && std::isfinite(*value) &&
           *value >= 0;
  };
  double added = 0;
  if (!whole(columns.worker, &row.worker) || !whole(columns.clock, &row.clock) ||
      !real(columns.time, &row.time) ||
      (columns.added.has_value() && !real(*columns.added, &added))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", line, "': a worker and a clock from 0, and a time that is not negative, are needed"));
  }
  row.time += added;
  return row;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using TimesByWorker = std::map<uint64_t, std::map<uint64_t, double>>;

absl::StatusOr<TimesByWorker> ReadTimes(const std::string& path, bool* is_factor) {
  const absl::Status is_file = CheckIsFile(path);
  if (!is_file.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("trace: ", is_file.message()));
  }
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("trace: ", path, ": ", std::strerror(errno)));
  const auto at = [&](size_t line, const absl::Status& status) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace: ", path, ":", line, ": ", status.message()));
  };
  TimesByWorker times;
  std::string header, line;
  std::getline(file, header);
  header = std::string(absl::StripSuffix(header, "\r"));
  const absl::StatusOr<Columns> columns = ReadHeader(header);
  if (!columns.ok()) return at(1, columns.status());
  *is_factor = columns->is_factor;
  for (size_t number = 2; std::getline(file, line); ++number) {
    line = std::string(absl::StripSuffix(line, "\r"));
    if (line.empty() || line == header) continue;  // parts of several workers, one behind another
    if (number > kRowsMax) return at(number, absl::InvalidArgumentError("too many rows"));
    const absl::StatusOr<Row> row = ReadRow(*columns, line);
    if (!row.ok()) return at(number, row.status());
    times[row->worker][row->clock] = row->time;  // of a rank's two holders the later
  }
  if (times.empty()) return at(1, absl::InvalidArgumentError("no rows after the header"));
  return times;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> ReadStragglerTrace(const std::string& path,
                                                                    double base_us) {
  bool is_factor = false;
  SOAP_ASSIGN_OR_RETURN(const TimesByWorker times, ReadTimes(path, &is_factor));
  std::vector<std::vector<double>> factors;
  std::vector<double> all;
  factors.reserve(times.size());
  for (const auto& [worker, by_clock] : times) {
    std::vector<double>& own = factors.emplace_back();
    own.reserve(by_clock.size());
    for (const auto& [clock, time] : by_clock) own.push_back(time);
    all.insert(all.end(), own.begin(), own.end());
  }
  if (is_factor) return factors;
  const double base = base_us > 0 ? base_us : Median(std::move(all));
  if (base <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace: ", path, ": the median duration is 0: give base_us"));
  }
  for (std::vector<double>& own : factors) {
    for (double& time : own) time /= base;
  }
  return factors;
}

}  // namespace soapstone::sim
