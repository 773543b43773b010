// Flags from the environment: SOAPSTONE_<FLAG> sets --<flag> where the command line does not, and
// over the job file. Included by the .cc files of flags alone.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace soapstone::apps {

// "progress_every" -> "SOAPSTONE_PROGRESS_EVERY".
std::string EnvironmentName(std::string_view flag);

// Lets all flags of `app` be set so; an empty variable is none. Left out: what is asked of one call
// (--help, --check and the like). Paths of secrets are left out too: an environment is handed on.
void TakeFromEnvironment(CLI::App* app);

// After the parse: "SOAPSTONE_WORKERS=4" for each flag of `app` that the environment has set;
// first, "SOAPSTONE_WORKER is no flag's; did you mean SOAPSTONE_WORKERS?" for each that is near
// one.
std::vector<std::string> TakenFromEnvironment(const CLI::App& app);

}  // namespace soapstone::apps
