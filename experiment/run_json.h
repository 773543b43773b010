// Runs as JSON objects of one line: the registry's records and runs.json. Numbers that JSON has not
// (NaN, infinity) are null.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "experiment/run.h"
#include "experiment/spec.h"

namespace soapstone::experiment {

// What decides the result, names left out: equal for runs that are one.
std::string MeaningOf(const RunPlan& plan);
// The first 16 hex digits of its SHA-256.
std::string IdOf(const RunPlan& plan);

// {"id", "tuning", "subject", ..., "outcome": {...}}.
std::string RecordJson(const Experiment& experiment, const RunPlan& plan,
                       const RunOutcome& outcome);

struct Record {
  std::string id;
  RunOutcome outcome;
};
// Error: InvalidArgument when the text is no such record.
absl::StatusOr<Record> ParseRecord(const std::string& json);

}  // namespace soapstone::experiment
