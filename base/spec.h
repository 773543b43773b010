// Spec strings of the command line and the job file: `name:key=value,key=value`, as in `ssp:s=2`,
// and lists of them joined by `+`, as in `jitter:sigma=0.2+stall:p=0.02,factor=6`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace soapstone {

struct Spec {
  std::string name;
  std::map<std::string, std::string> arguments;

  // "name" or "name:key=value,...". Error: InvalidArgument with the offending part.
  static absl::StatusOr<Spec> Parse(std::string_view text);
  // Specs joined by '+'. REQUIRES (else error): at least one.
  static absl::StatusOr<std::vector<Spec>> ParseList(std::string_view text);

  // Value of `key`, or `fallback` where absent. Errors: not a number; outside [low, high].
  absl::StatusOr<int64_t> Int(std::string_view key, int64_t fallback, int64_t low,
                              int64_t high) const;
  absl::StatusOr<double> Real(std::string_view key, double fallback, double low, double high) const;
  std::string Text(std::string_view key, std::string_view fallback) const;

  // Error that names the first argument not in `known`, and lists `known`.
  absl::Status AllowOnly(const std::vector<std::string>& known) const;

  std::string ToString() const;
  friend bool operator==(const Spec&, const Spec&) = default;
};

}  // namespace soapstone
