// Metrics as text that Prometheus reads (exposition format 0.0.4).
#pragma once

#include <string>

#include "observe/metrics/family.h"

namespace soapstone::metrics {

inline constexpr char kExpositionType[] = "text/plain; version=0.0.4; charset=utf-8";

// What is absent of the catalogue is left out. Label values may be any text: it is escaped.
std::string Exposition(const Families& families);

}  // namespace soapstone::metrics
