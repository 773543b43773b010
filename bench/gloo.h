// What gloo does on the same machine in the same run: all-reduces between two processes over
// loopback, by way of torch where it is installed. No part of Soapstone needs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/results.h"

namespace soapstone::bench {

struct GlooLoad {
  std::string script;  // bench/scripts/gloo_all_reduce.py
  std::vector<uint64_t> sizes;
  double seconds = 0.5;
  uint32_t repeats = 5;
};

// A row a size. Errors: Unavailable when no python3 has torch; Internal when it fails.
absl::StatusOr<std::vector<Row>> GlooAllReduce(const GlooLoad& load);

}  // namespace soapstone::bench
