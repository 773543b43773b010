#include "apps/cli/node_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/environment_flags.h"
#include "apps/cli/job_flags.h"
#include "base/version.h"

namespace soapstone::apps {
namespace {

void AddNodeFlags(CLI::App* app, NodeFlags* flags) {
  app->add_option("--config", flags->config_path, "Job file in protobuf text format")
      ->type_name("FILE")
      ->check(
          [](const std::string& file) { return file.empty() ? std::string("no file named") : ""; });
  app->add_option("--key", flags->key,
                  "Speak encrypted, and with those alone that have keys of the same `soapstone "
                  "keygen`: its folder, or in it ROLE.key; train needs all of it [everybody]")
      ->type_name("PATH")
      ->check([](const std::string& path) { return path.empty() ? "no file named" : ""; });
  app->add_flag("--check", flags->check, "Check the job, its data included, and exit: 0 or 78");
  app->add_flag("--print_config", flags->print_config, "Print the job with flags applied and exit");
}

void AddLogFormat(CLI::App* app, NodeFlags* flags) {
  app->add_option("--log_format", "Of standard error: text, or json, an object a line [text]")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->each([flags](const std::string& format) { flags->json_log = format == "json"; });
}

// Empty: it is one, or "off".
std::string WhyNoAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  const bool is_address = colon != text.npos && colon > 0 &&
                          absl::SimpleAtoi(text.substr(colon + 1), &port) && port <= 65535;
  if (is_address || text.empty() || text == "off") return "";
  return absl::StrCat("'", text, "' is not ADDRESS:PORT, such as 127.0.0.1:9400, or off");
}

void AddHttp(const std::string& usual, CLI::App* app, NodeFlags* flags) {
  app->add_option("--http", flags->http,
                  "Serve /metrics, /healthz, /readyz and /statusz there, and of the scheduler a "
                  "dashboard at /; such as 127.0.0.1:9400 or *:9400; off: nowhere [" +
                      usual + "]")
      ->type_name("ADDRESS:PORT")
      ->check(WhyNoAddress);
  app->add_option(
         "--http_name", flags->http_name,
         "A host name that these pages may be asked for by, beside addresses, localhost and this "
         "machine's own")
      ->type_name("NAME");
}

void AddProgressEvery(CLI::App* app, NodeFlags* flags) {
  app->add_option("--progress_every", flags->progress_every_s,
                  "Where standard output is no terminal: seconds from a line of progress to the "
                  "next; 0: each [10]")
      ->type_name("SECONDS");
}

void AddHosts(CLI::App* app, NodeFlags* flags) {
  CLI::Option* hosts = app->add_option(
      "--hosts", flags->hosts_path,
      "Run servers and workers on the hosts of this file, a line each: host [slots=N] "
      "[role=server|worker] [addr=IP] [cpus=LIST] [this machine]");
  hosts->type_name("FILE");
  app->add_option("--ssh", flags->ssh,
                  "What reaches a host: its name and a command follow [ssh -o BatchMode=yes]")
      ->type_name("COMMAND")
      ->needs(hosts);
}

void AddPlanning(CLI::App* app, NodeFlags* flags) {
  app->add_option(
         "--machine", flags->machine_path,
         "With --strategy=auto, or --replan: the machine file to plan for [this machine is "
         "measured]")
      ->type_name("FILE")
      ->check([](const std::string& file) { return file.empty() ? "no file named" : ""; });
  app->add_option("--plan_budget", flags->plan_budget_s,
                  "With --strategy=auto: time of the search: 10s, 5m, 1h [10s]")
      ->type_name("TIME")
      ->transform(
          CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}}))
      ->check(Within(0.001, 1e6));
  app->add_option("--restarts", flags->restarts,
                  "With --checkpoint: where a process is lost and the job cannot go on, start it "
                  "again from its newest checkpoint, at most so often without a new one [0]")
      ->type_name("N")
      ->check(CLI::Range(0, 1000));
  app->add_flag("--replan", flags->replan,
                "Of a job with a strategy: where a worker becomes slower or faster for good, find "
                "another one, stop at a clock, and go on by it");
}

void AddJson(const std::string& help, CLI::App* app, NodeFlags* flags) {
  app->add_option("--progress", help)
      ->type_name("json")
      ->check(CLI::IsMember({"json"}))
      ->each([flags](const std::string&) { flags->json_progress = true; });
}

void AddPlacement(CLI::App* app, NodeFlags* flags) {
  app->add_option("--cpus", flags->placement.cpus, "Run on these CPUs only, such as 0-3,8 [any]")
      ->type_name("LIST");
  app->add_option("--numa_node", flags->placement.numa_node,
                  "Take memory from this node while it has some, and run on its CPUs [any]")
      ->type_name("N");
}

void AddServerPlace(CLI::App* app, NodeFlags* flags) {
  app->add_flag("--pin_shards", flags->placement.pin_shards,
                "Keep the thread of each shard on one CPU, of --cpus in turn [any of them]");
  app->add_option("--bind", flags->bind,
                  "Endpoint to listen on, such as tcp://10.0.0.7:0 [a free port, on the address "
                  "that reaches the scheduler]")
      ->type_name("ENDPOINT");
  app->add_option("--stream_port", flags->stream_port,
                  "Port at which streams of data are taken, where only some are open [a free one]")
      ->type_name("PORT");
}

void AddPlaceFlags(const std::string& program, CLI::App* app, NodeFlags* flags) {
  if (program == "soapstone-scheduler") {
    AddJson("Progress on standard output: json, a JSON object a line", app, flags);
    AddProgressEvery(app, flags);
    return;
  }
  app->add_option("--rank", flags->rank,
                  "Rank in its role; hostname: the number that ends the host's name. Without it: "
                  "JOB_COMPLETION_INDEX, SLURM_PROCID or RANK from the environment, else the "
                  "scheduler hands one out")
      ->type_name("N");
  AddPlacement(app, flags);
  if (program == "soapstone-server") AddServerPlace(app, flags);
  AddJson("json: closing counters as a JSON line on standard output", app, flags);
}

constexpr char kVariables[] =
    "SOAPSTONE_<FLAG> in the environment, such as SOAPSTONE_WORKERS=4, sets a flag that the "
    "command "
    "line does not.\n";
constexpr char kCodes[] =
    "Exit codes: 0 done, 76 guarantee broken (--strict), 78 configuration error, 79 training "
    "diverged, 138 peer lost (retry), 143 SIGTERM, 130 Ctrl-C, 70 a bug or a hung device.";

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
  AddLogFormat(&app, &flags);
  AddHttp("off", &app, &flags);
  job.AddTo(&app);
  app.footer("Example:\n  " + program +
             " --config=examples/digits-lenet5.textproto --scheduler=tcp://127.0.0.1:7070\n" +
             kVariables + kCodes);
  TakeFromEnvironment(&app);
  const auto parsed = Parse(&app, argc, argv);
  if (const EndNow* end = std::get_if<EndNow>(&parsed)) return *end;
  flags.overrides = job.Given();
  flags.variables = TakenFromEnvironment(app);
  return flags;
}

CLI::App* AddTrain(CLI::App* app, NodeFlags* flags) {
  CLI::App* command = app->add_subcommand(
      "train", "Train a model with a cluster on this machine, or on hosts reached by ssh");
  AddNodeFlags(command, flags);
  AddProgressEvery(command, flags);
  AddHttp("a free port of 127.0.0.1", command, flags);
  AddHosts(command, flags);
  AddPlanning(command, flags);
  const auto job = std::make_shared<JobFlagValues>();
  job->AddTo(command);
  command->callback([flags, job, command] {
    flags->overrides = job->Given();
    flags->variables = TakenFromEnvironment(*command);
  });
  command->footer(
      std::string("Example:\n  soapstone train --config=examples/digits-lenet5.textproto "
                  "--servers=2 --workers=3 --policy=ssp:s=2\n"
                  "  soapstone train --model=alexnet --workers=2 --strategy=auto\n") +
      kVariables + kCodes);
  return command;
}

CLI::App* AddNode(CLI::App* app, NodeFlags* flags) {
  CLI::App* command = app->add_subcommand(
      "node", "One process of a job, whose role follows from a number over all of them");
  AddNodeFlags(command, flags);
  command
      ->add_option("--index", flags->index,
                   "0: the scheduler; then the servers; then the workers. Without it: "
                   "JOB_COMPLETION_INDEX, SLURM_PROCID or RANK from the environment")
      ->type_name("N");
  AddPlacement(command, flags);
  AddServerPlace(command, flags);
  AddJson("json: reports on standard output, a JSON object a line", command, flags);
  AddProgressEvery(command, flags);
  AddLogFormat(command, flags);
  AddHttp("off", command, flags);
  const auto job = std::make_shared<JobFlagValues>();
  job->AddTo(command);
  command->callback([flags, job, command] {
    flags->overrides = job->Given();
    flags->variables = TakenFromEnvironment(*command);
  });
  command->footer(
      std::string("Example:\n  srun -n 7 soapstone node --config=job.textproto\n"
                  "The scheduler is where --scheduler says, else MASTER_ADDR and MASTER_PORT, else "
                  "on the first of SLURM_STEP_NODELIST; port 7070. DMLC_ROLE, DMLC_PS_ROOT_URI, "
                  "DMLC_PS_ROOT_PORT, DMLC_NUM_SERVER and DMLC_NUM_WORKER are understood.\n") +
      kVariables + kCodes);
  return command;
}

void ForgetNodeVariables() {
  for (const char* program : {"soapstone-scheduler", "soapstone-server", "soapstone-worker"}) {
    NodeFlags flags;
    JobFlagValues job;
    CLI::App app;
    AddNodeFlags(&app, &flags);
    AddPlaceFlags(program, &app, &flags);
    AddLogFormat(&app, &flags);
    AddHttp("off", &app, &flags);
    job.AddTo(&app);
    for (const CLI::Option* option : app.get_options()) {
      unsetenv(EnvironmentName(option->get_single_name()).c_str());
    }
  }
}

}  // namespace soapstone::apps
