#include "apps/keygen/keygen_flags.h"

#include <CLI/CLI.hpp>

namespace soapstone::apps {

CLI::App* AddKeygen(CLI::App* app, KeygenFlags* flags) {
  CLI::App* keygen = app->add_subcommand(
      "keygen", "Make the keys by which the processes of a job know each other");
  keygen
      ->add_option("--out", flags->out,
                   "Folder for scheduler.key, server.key and worker.key; nothing is overwritten")
      ->type_name("FOLDER")
      ->required();
  keygen->footer(
      "Example:\n  soapstone keygen --out=keys\n  soapstone train --key=keys "
      "--config=examples/digits-lenet5.textproto\n"
      "Exit codes: 0 done, 78 a file is there already, or cannot be written.");
  return keygen;
}

}  // namespace soapstone::apps
