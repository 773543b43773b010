#include "apps/experiment/replay_flags.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/cli/job_flags.h"

namespace soapstone::apps {

CLI::App* AddReplay(CLI::App* app, ReplayFlags* flags) {
  CLI::App* replay = app->add_subcommand(
      "replay", "Run a recorded job again, on its own messages and times, to the same parameters");
  replay->add_option("DIR", flags->dir, "Folder of the recording (--record)")->required();
  const auto job = std::make_shared<JobFlagValues>();
  job->AddDataPaths(replay);
  replay->callback([flags, job] { flags->overrides = job->Given(); });
  replay->footer(
      "Example:\n  soapstone train --config=examples/digits-lenet5.textproto --record=runs/r\n"
      "  soapstone replay runs/r\n"
      "Exit codes: 0 the same parameters, 65 it diverged, 78 no recording, or other data.");
  return replay;
}

}  // namespace soapstone::apps
