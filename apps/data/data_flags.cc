#include "apps/data/data_flags.h"

#include <CLI/CLI.hpp>

namespace soapstone::apps {

CLI::App* AddData(CLI::App* app, DataFlags* flags) {
  CLI::App* data = app->add_subcommand(
      "data",
      "List public data sets: where they are, how to load them; check one that was fetched");
  CLI::Option* name = data->add_option("NAME", flags->name, "One data set");
  CLI::Option* from =
      data->add_option("--from", flags->from,
                       "Check this file, or the files of this folder, and lay them out for a job")
          ->type_name("FILE_OR_FOLDER")
          ->needs(name);
  data->add_option("--to", flags->to, "Folder for that [data/NAME]")
      ->type_name("FOLDER")
      ->needs(from);
  data->footer(
      "Example:\n  soapstone data mnist\n  soapstone data mnist --from=Downloads\n"
      "Exit codes: 0 done, 78 no such data set, or not its files.");
  return data;
}

}  // namespace soapstone::apps
