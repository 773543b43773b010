// The registry of an experiment's runs, as text: a line for each finished run, appended and never
// changed. Each line holds the SHA-256 of the one before and its own, so that a run that was left
// out, altered or moved is found out (rule 3 of honesty.h: all runs are kept). Reads no file:
// apps/experiment/experiment_folder.h does.
//
//   {"experiment":DIGEST,"version":1,"sha256":...}
//   {"previous":...,"run":{...},"sha256":...}
//
// sha256 of a line: of its text up to ,"sha256": and the sha256 of the line before.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "experiment/run_json.h"

namespace soapstone::experiment {

struct Registry {
  std::string experiment;  // its digest
  std::vector<Record> runs;
  std::vector<std::string> run_texts;  // as RecordJson wrote them
  std::string last_sha256;             // what the next line continues
  size_t good_bytes = 0;               // the text up to there is to be kept
  bool torn = false;                   // the last line was cut off or garbled, as by a kill
};

// Lines with their newline.
std::string HeaderLine(const std::string& experiment_digest);
// `run`: RecordJson's. `previous`: Registry::last_sha256, or the sha256 of the line before.
std::string RunLine(const std::string& previous, const std::string& run);
// Of a line that one of the two made.
std::string Sha256Of(absl::string_view line);

// Errors: InvalidArgument with the line's number: a line other than the last is damaged, or does
// not continue the one before; a run that is listed twice; no header.
absl::StatusOr<Registry> ParseRegistry(absl::string_view text);

}  // namespace soapstone::experiment
