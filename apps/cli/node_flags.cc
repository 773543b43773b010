#include "apps/cli/node_flags.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/cli/job_flags.h"

namespace soapstone::apps {
namespace {

void AddNodeFlags(CLI::App* app, NodeFlags* flags) {
  app->add_option("--config", flags->config_path, "Job file in protobuf text format")
      ->type_name("FILE")
      ->check(
          [](const std::string& file) { return file.empty() ? std::string("no file named") : ""; });
  app->add_flag("--check", flags->check, "Check the job, its data included, and exit: 0 or 78");
  app->add_flag("--print_config", flags->print_config, "Print the job with flags applied and exit");
}

void AddProgressEvery(CLI::App* app, NodeFlags* flags) {
  app->add_option("--progress_every", flags->progress_every_s,
                  "Where standard output is no terminal: seconds from a line of progress to the "
                  "next; 0: each [10]")
      ->type_name("SECONDS");
}

void AddPlaceFlags(const std::string& program, CLI::App* app, NodeFlags* flags) {
  if (program == "soapstone-scheduler") {
    app->add_option("--progress", "Progress on standard output: json, a JSON object a line")
        ->type_name("json")
        ->check(CLI::IsMember({"json"}))
        ->each([flags](const std::string&) { flags->json_progress = true; });
    AddProgressEvery(app, flags);
    return;
  }
  app->add_option("--rank", flags->rank,
                  "Rank in its role. Without it: JOB_COMPLETION_INDEX, SLURM_PROCID or RANK from "
                  "the environment, else the scheduler hands one out")
      ->type_name("N");
  app->add_option("--cpus", flags->placement.cpus, "Run on these CPUs only, such as 0-3,8 [any]")
      ->type_name("LIST");
  app->add_option("--numa_node", flags->placement.numa_node,
                  "Take memory from this node while it has some, and run on its CPUs [any]")
      ->type_name("N");
  if (program == "soapstone-server") {
    app->add_flag("--pin_shards", flags->placement.pin_shards,
                  "Keep the thread of each shard on one CPU, of --cpus in turn [any of them]");
    app->add_option("--bind", flags->bind,
                    "Endpoint to listen on, such as tcp://10.0.0.7:* [a free port, on the address "
                    "that reaches the scheduler]")
        ->type_name("ENDPOINT");
    app->add_option(
           "--stream_port", flags->stream_port,
           "Port at which streams of data are taken, where only some are open [a free one]")
        ->type_name("PORT");
  }
  app->add_option("--progress", "json: closing counters as a JSON line on standard output")
      ->type_name("json")
      ->check(CLI::IsMember({"json"}))
      ->each([flags](const std::string&) { flags->json_progress = true; });
}

}  // namespace

ConsoleOptions ConsoleOf(const NodeFlags& flags) {
  ConsoleOptions options = StdoutConsole();
  options.plain_every = flags.progress_every_s * kSecond;
  return options;
}

std::variant<NodeFlags, EndNow> ParseNodeFlags(const std::string& program, int argc,
                                               const char* const* argv) {
  NodeFlags flags;
  JobFlagValues job;
  CLI::App app("One process of a Soapstone job. `soapstone train` starts them all on one machine.",
               program);
  app.set_version_flag("--version", kVersion);
  AddNodeFlags(&app, &flags);
  AddPlaceFlags(program, &app, &flags);
  job.AddTo(&app);
  app.footer(
      "Example:\n  " + program +
      " --config=examples/digits-lenet5.textproto --scheduler=tcp://127.0.0.1:7070\n"
      "Exit codes: 0 done, 76 guarantee broken (--strict), 78 configuration error, 79 training "
      "diverged, 138 peer lost (retry), 143 SIGTERM, 130 Ctrl-C, 70 a bug or a hung device.");
  const auto parsed = Parse(&app, argc, argv);
  if (const EndNow* end = std::get_if<EndNow>(&parsed)) return *end;
  flags.overrides = job.Given();
  return flags;
}

CLI::App* AddTrain(CLI::App* app, NodeFlags* flags) {
  CLI::App* command = app->add_subcommand("train", "Train a model with a cluster on this machine");
  AddNodeFlags(command, flags);
  AddProgressEvery(command, flags);
  const auto job = std::make_shared<JobFlagValues>();
  job->AddTo(command);
  command->callback([flags, job] { flags->overrides = job->Given(); });
  command->footer(
      "Example:\n  soapstone train --config=examples/digits-lenet5.textproto --servers=2 "
      "--workers=3 --policy=ssp:s=2\n"
      "Exit codes: 0 done, 76 guarantee broken (--strict), 78 configuration error, 79 training "
      "diverged, 138 peer lost (retry), 143 SIGTERM, 130 Ctrl-C, 70 a bug or a hung device.");
  return command;
}

}  // namespace soapstone::apps
