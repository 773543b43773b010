#include "apps/experiment/experiment_flags.h"

#include <CLI/CLI.hpp>

namespace soapstone::apps {

CLI::App* AddExperiment(CLI::App* app, ExperimentFlags* flags) {
  CLI::App* experiment = app->add_subcommand(
      "experiment", "Make the runs of an experiment file and write a report that compares them");
  experiment->add_option("SPEC", flags->spec_path, "Experiment file (docs/experiments.md)")
      ->required();
  experiment
      ->add_option("--out", flags->out_dir,
                   "Folder of its runs and its report; one of the same experiment is gone on with")
      ->type_name("DIR");
  experiment->add_option("--jobs", flags->jobs, "Co-simulated runs at once [as many as cores]")
      ->check(CLI::Range(1, 1024));
  experiment->add_flag("--check", flags->check,
                       "Check the file, say how many runs it has, and exit");
  experiment->footer(
      "Example:\n  soapstone experiment experiment/specs/policy-zoo.textproto --out=runs/zoo\n"
      "Exit codes: 0 done, 78 configuration error, 130 Ctrl-C (finished runs are kept).");
  return experiment;
}

}  // namespace soapstone::apps
