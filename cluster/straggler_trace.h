// ReadStragglerTrace: recorded iteration times as straggler factors. The file is CSV with a header
// that names its columns, in any order; others are passed over:
//   worker, clock            whole numbers from 0
//   and one of: factor       used as it stands
//               duration_us  divided by the base
//               compute_us   divided by the base; injected_us is added where there is one
// The base is given, or is the median of all durations. What `--record_trace` writes is such a
// file.
//
// A worker's rows are taken in the order of their clocks, and begin again after the last: iteration
// c is row c mod n. Recorded workers begin again too: the w-th of W serves the workers w, w + W,
// ... Who calls: cluster/straggler.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace soapstone::sim {

// Factors by worker in ascending order, by clock; neither is empty. `base_us` 0: the median.
// Errors: NotFound where the file cannot be read; InvalidArgument, "file:line: what".
absl::StatusOr<std::vector<std::vector<double>>> ReadStragglerTrace(const std::string& path,
                                                                    double base_us);

}  // namespace soapstone::sim
