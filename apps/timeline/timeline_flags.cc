#include "apps/timeline/timeline_flags.h"

#include <CLI/CLI.hpp>

#include "apps/cli/command_line.h"
namespace soapstone::apps {

CLI::App* AddTimeline(CLI::App* app, TimelineFlags* flags) {
  CLI::App* timeline =
      app->add_subcommand("timeline", "Draw what a job's processes did, for ui.perfetto.dev");
  timeline
      ->add_option("FOLDER", flags->folder, "What --timeline of the job names; it may be running")
      ->required();
  timeline
      ->add_option("--clocks", flags->clocks,
                   "These clocks, such as 100:120; the last is not included [all that are there]")
      ->type_name("FIRST:END");
  timeline->add_option("--out", flags->out, "The file [FOLDER/timeline.json]")->type_name("FILE");
  timeline
      ->add_option("--wait", flags->wait_s,
                   "Seconds in which a running job may come to the last of --clocks [60]")
      ->type_name("SECONDS")
      ->check(Within(0.0, 86400.0));
  timeline->footer(
      "Example:\n  soapstone train --config=examples/digits-lenet5.textproto --timeline=events\n"
      "  soapstone timeline events --clocks=100:120\n"
      "Exit codes: 0 done; 78 no events, none of these clocks, or the file cannot be written.");
  return timeline;
}

}  // namespace soapstone::apps
