#include "apps/cli/models_flags.h"

#include <CLI/CLI.hpp>

#include "apps/cli/job_flags.h"

namespace soapstone::apps {

CLI::App* AddModels(CLI::App* app, ModelsFlags* flags) {
  CLI::App* models = app->add_subcommand(
      "models", "List the models, or one model's operators: size, work, memory, splits");
  CLI::Option* name = models->add_option(
      "NAME", flags->model, "One model, with its options: rnnlm:hidden=512; or onnx:FILE");
  models->add_option("--batch", flags->batch, "Samples of the step whose memory is shown [8]")
      ->check(CLI::Range(int64_t{1}, kBatchMax));
  models->add_option(
      "--optimizer", flags->optimizer,
      "Whose state counts as well, as in a job: adam:lr=1e-3 [none: servers have it]");
  CLI::Option* json = models->add_flag("--json", flags->json, "A JSON object instead of a table");
  models->add_flag("--dot", flags->dot, "The graph of NAME in Graphviz' language")
      ->needs(name)
      ->excludes(json);
  models->footer(
      "Examples:\n  soapstone models\n  soapstone models resnet50 --batch=32\n"
      "  soapstone models lenet5:tiny --dot | dot -Tsvg > lenet5.svg\n"
      "Exit codes: 0 done, 78 no such model, option or file.");
  return models;
}

}  // namespace soapstone::apps
