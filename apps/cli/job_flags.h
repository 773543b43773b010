// A job's fields as flags, and the run of CLI11, whose exceptions end here. Included by the .cc
// files of flags alone.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "apps/cli/command_line.h"
#include "cluster/job_config.h"

namespace soapstone::apps {

inline constexpr int64_t kBatchMax = 1'000'000;  // samples of a step, where a flag says how many

// Values of job flags while CLI11 fills them in: it keeps references, so the addresses must last.
class JobFlagValues {
 public:
  // All fields.
  void AddTo(CLI::App* app);
  // The fields that mean something where nothing leaves the process; each needs `job`. An option
  // that the command has already overrides its field too.
  void AddToSimulate(CLI::App* app, CLI::Option* job);
  // Where the data lie, which may differ by machine.
  void AddDataPaths(CLI::App* app);
  // What becomes of a CSV file's missing values.
  void AddMissing(CLI::App* app);
  // What the command line said, in the order of JobFields().
  std::vector<JobOverride> Given() const;

 private:
  CLI::Option* Add(const JobField& field, CLI::App* app);

  std::map<const JobField*, std::string> values_;
  std::map<const JobField*, CLI::Option*> options_;
};

// Runs CLI11. Empty: go on. The one place where exceptions are caught.
std::variant<std::monostate, EndNow> Parse(CLI::App* app, int argc, const char* const* argv);

}  // namespace soapstone::apps
