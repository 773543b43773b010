#include "consistency/violation_log.h"

#include <algorithm>

#include "glog/logging.h"

namespace soapstone::consistency {
namespace {

constexpr uint64_t kLogEvery = 1000;

}  // namespace

void ViolationLog::Add(const char* kind, WorkerId worker, Clock clock,
                       absl::FunctionRef<std::string()> text) {
  auto row = std::find_if(rows_.begin(), rows_.end(),
                          [&](const ViolationRow& known) { return known.kind == kind; });
  if (row == rows_.end()) {
    rows_.push_back({.kind = kind, .worker = Index(worker), .clock = clock, .first = text()});
    row = rows_.end() - 1;
  }
  if (row->times++ % kLogEvery == 0) LOG(ERROR) << "guarantee broken: " << text();
}

uint64_t ViolationLog::count() const {
  uint64_t all = 0;
  for (const ViolationRow& row : rows_) all += row.times;
  return all;
}

}  // namespace soapstone::consistency
