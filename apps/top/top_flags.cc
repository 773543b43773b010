#include "apps/top/top_flags.h"

#include <CLI/CLI.hpp>

#include "apps/cli/command_line.h"
namespace soapstone::apps {

CLI::App* AddTop(CLI::App* app, TopFlags* flags) {
  CLI::App* top = app->add_subcommand("top", "Show how a job is: its workers, lags, waits, news");
  top->add_option("WHERE", flags->where,
                  "Where a node's pages are, such as http://host:9400, or the log folder of "
                  "`soapstone train`")
      ->required();
  top->add_flag("--once", flags->once, "Print it once, for scripts");
  top->add_option(
         "--save", flags->save,
         "Write the dashboard as it is now into this file, which a browser shows without a "
         "server, and end")
      ->type_name("FILE.html")
      ->excludes("--once");
  top->add_option("--every", flags->every_s, "Seconds from a look to the next [1]")
      ->type_name("SECONDS")
      ->check(Within(0.1, 3600.0));
  top->footer(
      "Example:\n  soapstone top runs/quickstart\n  soapstone top http://host0:9400 --once\n"
      "  soapstone top http://host0:9400 --save=page.html\n"
      "Exit codes: 0 done, or the job has ended; 78 nothing answers there; 130 Ctrl-C.");
  return top;
}

}  // namespace soapstone::apps
