#include "bench/results.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace soapstone::bench {
namespace {

constexpr uint64_t kMemoryBoundMin = 65'536;

std::string Size(uint64_t bytes) {
  if (bytes >= uint64_t{1} << 20) return absl::StrCat(bytes >> 20, " MB");
  if (bytes >= 1024) return absl::StrCat(bytes >> 10, " KB");
  return absl::StrCat(bytes, " B");
}

double RateOf(const Sample& sample) {
  return static_cast<double>(sample.bytes) / sample.seconds / 1e9;
}

const Row* Find(const std::vector<Row>& rows, const std::string& what, const std::string& link,
                uint64_t bytes) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    return row.what == what && row.link == link && row.bytes == bytes;
  });
  return found == rows.end() ? nullptr : &*found;
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Where one side has no repeats of its own: the ratio of the medians.
double RatioOf(const Row& ours, const Row& base) {
  if (ours.each.size() != base.each.size() || ours.each.empty()) {
    return ours.p50_us > 0 ? ours.p50_us / base.p50_us : ours.gb_s / base.gb_s;
  }
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.each.size(); ++i) ratios.push_back(ours.each[i] / base.each[i]);
  return MedianOf(std::move(ratios));
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

Row RowOf(std::string what, std::string link, uint64_t bytes, std::vector<Sample> samples) {
  std::vector<double> each;
  for (const Sample& s : samples) each.push_back(s.p50_us > 0 ? s.p50_us : RateOf(s));
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return RateOf(a) < RateOf(b); });
  const Sample& median = samples[samples.size() / 2];
  return {.what = std::move(what),
          .link = std::move(link),
          .bytes = bytes,
          .gb_s = RateOf(median),
          .each = std::move(each),
          .gb_s_min = RateOf(samples.front()),
          .gb_s_max = RateOf(samples.back()),
          .messages_s = static_cast<double>(median.messages) / median.seconds,
          .cpu_s_per_gb = median.cpu_seconds / static_cast<double>(median.bytes) * 1e9,
          .p50_us = median.p50_us,
          .p99_us = median.p99_us};
}

SparseRow SparseRowOf(std::string what, std::string link, uint32_t dim,
                      std::vector<Sample> samples) {
  const auto rate = [](const Sample& s) { return static_cast<double>(s.messages) / s.seconds; };
  std::sort(samples.begin(), samples.end(),
            [&](const Sample& a, const Sample& b) { return rate(a) < rate(b); });
  const Sample& median = samples[samples.size() / 2];
  return {.what = std::move(what),
          .link = std::move(link),
          .dim = dim,
          .rows_s = rate(median),
          .rows_s_min = rate(samples.front()),
          .rows_s_max = rate(samples.back()),
          .cpu_s_per_million = median.cpu_seconds / static_cast<double>(median.messages) * 1e6};
}

std::string SparseReport(const std::vector<SparseRow>& rows) {
  std::string table = absl::StrFormat("%-24s %-8s %4s %11s %17s %14s %10s %9s %11s\n", "sparse",
                                      "link", "dim", "M rows/s", "least to most", "CPU s/M rows",
                                      "bytes/row", "resident", "of floats");
  for (const SparseRow& row : rows) {
    absl::StrAppendFormat(
        &table, "%-24s %-8s %4d %11.2f %17s %14.3f", row.what, row.link, row.dim, row.rows_s / 1e6,
        absl::StrFormat("%.2f to %.2f", row.rows_s_min / 1e6, row.rows_s_max / 1e6),
        row.cpu_s_per_million);
    if (row.bytes_per_row > 0) {
      absl::StrAppendFormat(&table, " %10.1f %9.1f %11.3f", row.bytes_per_row, row.resident_per_row,
                            row.bytes_per_row / row.floats_per_row);
    }
    table += "\n";
  }
  return table;
}

std::string Table(const std::vector<Row>& rows) {
  std::string table =
      absl::StrFormat("%-24s %-12s %7s %9s %17s %12s %9s %9s %9s\n", "what", "link", "value",
                      "GB/s", "least to most", "messages/s", "CPU s/GB", "p50 us", "p99 us");
  for (const Row& row : rows) {
    absl::StrAppendFormat(&table, "%-24s %-12s %7s", row.what, row.link, Size(row.bytes));
    if (row.p50_us > 0) {
      absl::StrAppendFormat(&table, " %9s %17s %12.0f %9s %9.1f %9.1f\n", "", "", row.messages_s,
                            "", row.p50_us, row.p99_us);
      continue;
    }
    absl::StrAppendFormat(&table, " %9.3f %17s", row.gb_s,
                          absl::StrFormat("%.3f to %.3f", row.gb_s_min, row.gb_s_max));
    if (row.messages_s > 0) {
      absl::StrAppendFormat(&table, " %12.0f %9.3f", row.messages_s, row.cpu_s_per_gb);
    }
    table += "\n";
  }
  return table;
}

std::string RatioTable(const std::vector<Row>& rows) {
  std::string table;
  const auto line = [&](const Row& ours, const char* base_what, const char* base_link) {
    const Row* base = Find(rows, base_what, base_link, ours.bytes);
    if (base == nullptr) return;
    const std::string over = ours.link.empty() ? "" : absl::StrCat(" over ", ours.link);
    const std::string name = absl::StrCat(ours.what, over, ", ", Size(ours.bytes));
    const std::string of = absl::StrCat(base_what, *base_link == 0 ? "" : " ", base_link);
    if (ours.p50_us > 0) {
      if (base->p50_us > 0) {
        absl::StrAppendFormat(&table, "%-40s p50 is %6.3f of %s's\n", name, RatioOf(ours, *base),
                              of);
      }
    } else if (base->p50_us == 0) {
      absl::StrAppendFormat(&table, "%-40s      %7.3f of %s\n", name, RatioOf(ours, *base), of);
    }
  };
  for (const Row& row : rows) {
    const bool trips = row.p50_us > 0;
    if (row.what.substr(0, 6) == "apply ") line(row, "stream triad", "");
    if (row.link.empty() || std::string_view(row.what).substr(0, 3) == "raw") continue;
    if (trips) {
      line(row, "raw round trip", "ZeroMQ tcp");
      continue;
    }
    if (row.what == "all-reduce") continue;
    if (row.link == "sealed") line(row, row.what.c_str(), "tcp");
    if (row.link == "shared+key") line(row, row.what.c_str(), "shared");
    // Below, what a message costs has nothing to do with its bytes.
    if (row.bytes >= kMemoryBoundMin) line(row, row.what == "pull" ? "memcpy" : "float add", "");
    if (row.what == "push, pulling as much") line(row, "all-reduce", "gloo");
    if (row.what != "push") continue;
    line(row, "raw push", "ZeroMQ tcp");
    line(row, "raw push", "ZeroMQ ipc");
  }
  return table;
}

absl::Status CheckWritable(const std::string& path) {
  if (std::ofstream(path, std::ios::app)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path));
}

absl::Status WriteJson(const std::string& path, const std::vector<Row>& rows,
                       const std::vector<SparseRow>& sparse) {
  nlohmann::ordered_json json;
  json["machine"] = {{"processor", CpuModel()}, {"cores", std::thread::hardware_concurrency()}};
  for (const Row& row : rows) {
    json["rows"].push_back({{"what", row.what},
                            {"link", row.link},
                            {"value_bytes", row.bytes},
                            {"gb_per_s", row.gb_s},
                            {"gb_per_s_min", row.gb_s_min},
                            {"gb_per_s_max", row.gb_s_max},
                            {"by_repeat", row.each},
                            {"messages_per_s", row.messages_s},
                            {"cpu_s_per_gb", row.cpu_s_per_gb},
                            {"p50_us", row.p50_us},
                            {"p99_us", row.p99_us}});
  }
  for (const SparseRow& row : sparse) {
    json["sparse"].push_back({{"what", row.what},
                              {"link", row.link},
                              {"dim", row.dim},
                              {"rows_per_s", row.rows_s},
                              {"rows_per_s_min", row.rows_s_min},
                              {"rows_per_s_max", row.rows_s_max},
                              {"cpu_s_per_million_rows", row.cpu_s_per_million},
                              {"bytes_per_row", row.bytes_per_row},
                              {"resident_bytes_per_row", row.resident_per_row},
                              {"float_bytes_per_row", row.floats_per_row}});
  }
  std::ofstream file(path);
  file << json.dump(1) << '\n' << std::flush;
  if (file) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path));
}

}  // namespace soapstone::bench
