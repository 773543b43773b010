#include "apps/profile/quiet_job.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/cli/console.h"
#include "apps/cli/launcher.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "cluster/iteration_trace.h"

namespace soapstone::apps {
namespace {

absl::StatusOr<double> MedianStepNs(const std::string& trace, size_t warm_up) {
  std::ifstream file(trace);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = absl::StrSplit(line, ',');
  const auto end =
      static_cast<size_t>(std::find(names.begin(), names.end(), "end_us") - names.begin());
  std::map<std::string, std::vector<double>> ends;  // by worker
  while (std::getline(file, line)) {
    const std::vector<std::string> row = absl::StrSplit(line, ',');
    double us = 0;
    if (end >= row.size() || !absl::SimpleAtod(row[end], &us)) continue;
    ends[row[0]].push_back(us);
  }
  std::vector<double> steps;
  for (const auto& [worker, of] : ends) {
    for (size_t i = warm_up + 1; i < of.size(); ++i) steps.push_back(of[i] - of[i - 1]);
  }
  if (steps.empty()) return absl::InternalError("it had too few steps to be timed");
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return 1000 * *middle;
}

std::string LastLine(const std::string& said) {
  const std::vector<std::string> lines = absl::StrSplit(said, '\n', absl::SkipWhitespace());
  return lines.empty() ? "" : std::string(absl::StripAsciiWhitespace(lines.back()));
}

}  // namespace

absl::StatusOr<double> MedianStepOfJob(wire::JobConfig config, const std::string& folder,
                                       size_t warm_up) {
  const std::string trace = absl::StrCat(folder, "/trace.csv");
  const uint32_t workers = config.cluster().workers();
  config.clear_output();
  config.mutable_output()->set_log_dir(absl::StrCat(folder, "/logs"));
  config.mutable_output()->set_trace_path(trace);
  SOAP_ASSIGN_OR_RETURN(LauncherOptions options, PrepareLaunch(std::move(config)));
  std::ostringstream said;
  Console console(&said, false);
  if (Launcher(std::move(options), &console).Run() != kExitOk) {
    return absl::InternalError(absl::StrCat("it failed: ", LastLine(said.str())));
  }
  SOAP_RETURN_IF_ERROR(JoinTraceParts(trace, workers));
  return MedianStepNs(trace, warm_up);
}

}  // namespace soapstone::apps
