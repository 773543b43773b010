#include "apps/cli/flags.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <string_view>

#include "apps/plan/plan_search.h"
#include "base/exit_codes.h"

namespace soapstone::apps {
namespace {

constexpr char kVersion[] = "soapstone 0.1.0";

// Values of job flags while CLI11 fills them in: it keeps references, so the addresses must last.
struct JobFlagValues {
  std::map<const JobField*, std::string> values;
  std::map<const JobField*, CLI::Option*> options;

  CLI::Option* Add(const JobField& field, CLI::App* app) {
    const std::string flag = std::string("--") + field.flag;
    CLI::Option* option = IsSwitch(field) ? app->add_flag(flag, values[&field], field.help)
                                          : app->add_option(flag, values[&field], field.help);
    return option->type_name("");
  }
  void AddTo(CLI::App* app) {
    for (const JobField& field : JobFields()) {
      options[&field] = Add(field, app)->group("Job (each overrides a field of --config)");
    }
  }
  // The fields that mean something where nothing leaves the process. An option that the command has
  // already overrides its field too.
  void AddToSimulate(CLI::App* app, CLI::Option* job) {
    for (const JobField& field : JobFields()) {
      if (!MattersInSimulation(field)) continue;
      const std::string name = std::string("--") + field.flag;
      CLI::Option* option = app->get_option_no_throw(name);
      if (option == nullptr) {
        option = Add(field, app);
        option->group("Job (each overrides a field of --job)")->needs(job);
      }
      options[&field] = option;
    }
  }
  // Where the data lie, which may differ by machine.
  void AddDataPaths(CLI::App* app) {
    for (const JobField& field : JobFields()) {
      const std::string_view path = field.path;
      if (path.substr(0, 5) != "data." || path.find("path") == path.npos) continue;
      options[&field] = Add(field, app)->group("Data, where they lie elsewhere than in the run");
    }
  }
  std::vector<JobOverride> Given() const {
    std::vector<JobOverride> given;
    for (const JobField& field : JobFields()) {
      const auto it = options.find(&field);
      if (it == options.end() || it->second->count() == 0) continue;
      given.push_back({&field, it->second->results().back()});
    }
    return given;
  }

  static bool MattersInSimulation(const JobField& field) {
    const std::string_view path = field.path;
    return path != "strict" && path.substr(0, 7) != "output." &&
           (path.substr(0, 8) != "cluster." || path == "cluster.workers" ||
            path == "cluster.servers" || path == "cluster.shards_per_server" ||
            path == "cluster.bucket_bytes" || path == "cluster.heartbeat_s" ||
            path == "cluster.heartbeat_timeout_s" || path == "cluster.rebalance");
  }
};

void AddNodeFlags(CLI::App* app, NodeFlags* flags) {
  app->add_option("--config", flags->config_path, "Job file in protobuf text format")
      ->type_name("FILE");
  app->add_flag("--check", flags->check, "Check the job, its data included, and exit: 0 or 78");
  app->add_flag("--print_config", flags->print_config, "Print the job with flags applied and exit");
}

void AddPlaceFlags(const std::string& program, CLI::App* app, NodeFlags* flags) {
  if (program == "soapstone-scheduler") {
    app->add_option("--progress", "Progress on standard output: json, a JSON object a line")
        ->type_name("json")
        ->check(CLI::IsMember({"json"}))
        ->each([flags](const std::string&) { flags->json_progress = true; });
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

// Runs CLI11. Empty: go on. The one place where exceptions are caught.
std::variant<std::monostate, EndNow> Parse(CLI::App* app, int argc, const char* const* argv) {
  try {
    app->parse(argc, argv);
    return std::monostate{};
  } catch (const CLI::Success& success) {  // --help, --version
    app->exit(success, std::cout, std::cerr);
    return EndNow{kExitOk};
  } catch (const CLI::ParseError& error) {
    std::string line = error.what();
    for (char& c : line) {
      if (c == '\n') c = ' ';
    }
    std::cerr << app->get_name() << ": " << line << " (--help lists the flags)\n";
    return EndNow{kExitConfig};
  }
}

// What is said of a run that trains. Returns --job.
CLI::Option* AddCosimulation(CLI::App* app, SimulateFlags* flags) {
  CLI::Option* job =
      app->add_option("--job", flags->job_path,
                      "Job file: train it, in virtual time. Workers, policy and seed are then its "
                      "own, unless given here; the seed is the training's too")
          ->type_name("FILE");
  app->add_option("--curve", flags->curve_path,
                  "With --job: write loss and accuracy against virtual time to this CSV file")
      ->type_name("FILE")
      ->needs(job);
  app->add_option("--curve_every", flags->curve_every,
                  "With --job: samples from one evaluation to the next [a sixtieth of the run]")
      ->check(CLI::PositiveNumber)
      ->needs(job);
  app->add_option("--target", flags->target,
                  "With --job: show when this test accuracy was reached [0.95]")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(job);
  return job;
}

void AddSimulate(CLI::App* app, SimulateFlags* flags) {
  app->add_option("--workers", flags->workers, "Simulated workers [32]")
      ->check(CLI::Range(1, 1000000));
  app->add_option("--shards", flags->shards, "Simulated shards [1]")->check(CLI::Range(1, 100000));
  app->add_option("--policy", flags->policy, "Consistency policy [ssp:s=4]");
  app->add_option("--stragglers", flags->stragglers,
                  "Straggler models joined by +, such as jitter:sigma=0.2+stall:p=0.02,factor=6");
  app->add_flag("--rebalance", flags->rebalance,
                "Share each batch out by the workers' measured speed");
  app->add_option("--micro_batches", flags->micro_batches,
                  "Micro-batches of a batch [one a worker; 16 with --rebalance]")
      ->check(CLI::Range(1, 10'000'000));
  app->add_option("--clocks", flags->clocks, "Stop after this many clocks of each worker")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--duration", flags->duration,
                  "Stop after this much virtual time, in mean iterations [2000, without --clocks]")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--latency_us", flags->latency_us, "Latency of a message [0]")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--iteration_us", flags->iteration_us,
                  "An iteration of a worker where no straggler model applies [1000]")
      ->check(CLI::Range(0.001, 3.6e9));
  app->add_option("--bandwidth_gbps", flags->bandwidth_gbps, "Of each link; 0: no limit [0]")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--heartbeat_timeout_s", flags->heartbeat_timeout_s,
                  "Until a worker that failed (failstop) is counted out [5]")
      ->check(CLI::Range(0.0, 3600.0));
  app->add_option("--elements", flags->elements, "Parameters of the model: sizes messages [1024]")
      ->check(CLI::PositiveNumber);
  app->add_option("--seed", flags->seed, "Seed of the straggler models [1]");
  app->add_option(
         "--seeds", flags->seeds,
         "Runs, with this seed and those after it, whose mean rate is shown [5; 1 if large]")
      ->check(CLI::Range(1, 1000));
  app->add_option("--trace", flags->trace_path, "Write a timeline of the run to this file");
}

void AddExperiment(CLI::App* app, ExperimentFlags* flags) {
  app->add_option("SPEC", flags->spec_path, "Experiment file (docs/experiments.md)")->required();
  app->add_option("--out", flags->out_dir,
                  "Folder of its runs and its report; one of the same experiment is gone on with")
      ->type_name("DIR");
  app->add_option("--jobs", flags->jobs, "Co-simulated runs at once [as many as cores]")
      ->check(CLI::Range(1, 1024));
  app->add_flag("--check", flags->check, "Check the file, say how many runs it has, and exit");
  app->footer(
      "Example:\n  soapstone experiment experiment/specs/policy-zoo.textproto --out=runs/zoo\n"
      "Exit codes: 0 done, 78 configuration error, 130 Ctrl-C (finished runs are kept).");
}

CLI::App* AddReplay(CLI::App* app, ReplayFlags* flags, JobFlagValues* job) {
  CLI::App* replay = app->add_subcommand(
      "replay", "Run a recorded job again, on its own messages and times, to the same parameters");
  replay->add_option("DIR", flags->dir, "Folder of the recording (--record)")->required();
  job->AddDataPaths(replay);
  replay->footer(
      "Example:\n  soapstone train --config=examples/digits-lenet5.textproto --record=runs/r\n"
      "  soapstone replay runs/r\n"
      "Exit codes: 0 the same parameters, 65 it diverged, 78 no recording, or other data.");
  return replay;
}

constexpr int64_t kBatchMax = 1'000'000;

CLI::App* AddModels(CLI::App* app, ModelsFlags* flags) {
  CLI::App* models = app->add_subcommand(
      "models", "List the models, or one model's operators: size, work, memory, splits");
  CLI::Option* name =
      models->add_option("NAME", flags->model, "One model, with its options: rnnlm:hidden=512");
  models->add_option("--batch", flags->batch, "Samples of the step whose memory is shown [8]")
      ->check(CLI::Range(int64_t{1}, kBatchMax));
  CLI::Option* json = models->add_flag("--json", flags->json, "A JSON object instead of a table");
  models->add_flag("--dot", flags->dot, "The graph of NAME in Graphviz' language")
      ->needs(name)
      ->excludes(json);
  models->footer(
      "Examples:\n  soapstone models\n  soapstone models resnet50 --batch=32\n"
      "  soapstone models lenet5:tiny --dot | dot -Tsvg > lenet5.svg\n"
      "Exit codes: 0 done, 78 no such model or option.");
  return models;
}

// What is said of replicas at once, instead of operators.
void AddReplicas(CLI::App* profile, ProfileFlags* flags) {
  CLI::Option* replicas =
      profile
          ->add_option(
              "--replicas", flags->replicas,
              "Steps of so many replicas at once beside steps of one, instead of operators")
          ->check(CLI::Range(1, 256));
  for (const char* of_operators : {"--top", "--trace", "--costs"}) {
    replicas->excludes(profile->get_option(of_operators));
  }
  profile
      ->add_option("--workspace", flags->workspace_mb,
                   "MB for the convolutions of all replicas, divided among them by measured times")
      ->needs(replicas)
      ->check(CLI::Range(1, 1 << 20));
}

CLI::App* AddProfile(CLI::App* app, ProfileFlags* flags) {
  CLI::App* profile = app->add_subcommand(
      "profile", "Measure the operators of a model on this machine, and the memory of its steps");
  profile->add_option("--model", flags->model, "Model with its options: rnnlm:hidden=512")
      ->required();
  profile->add_option("--batch", flags->batch, "Samples of a step [8]")
      ->check(CLI::Range(int64_t{1}, kBatchMax));
  profile->add_option("--threads", flags->threads, "Threads of a kernel [1]")
      ->check(CLI::Range(1, 1024));
  profile->add_option(
      "--device", flags->device,
      "What computes: cpu, cuda (a GPU), cuda:N, auto (a GPU if there is one) [cpu]");
  profile->add_option(
      "--convolutions", flags->convolutions,
      "A GPU's: guessed (by cuDNN), measured, micro (measured, in micro-batches too) "
      "[guessed]");
  profile
      ->add_option("--precision", flags->precision,
                   "Of the factors that are multiplied: float32, bf16, on a GPU tf32 [float32]")
      ->check(CLI::IsMember({"float32", "tf32", "bf16"}));
  profile
      ->add_option("--seconds", flags->seconds,
                   "Of steps that are measured, at each batch size; at least 3 steps [3]")
      ->check(CLI::Range(0.0, 86400.0));
  profile->add_option("--top", flags->top, "Operators shown, those that take longest [25]")
      ->check(CLI::Range(1, 1'000'000));
  profile->add_flag("--recompute", flags->recompute,
                    "Also run steps that compute activations again instead of keeping them");
  profile->add_flag("--json", flags->json, "A JSON object instead of tables");
  profile->add_option("--trace", flags->trace_path, "Write a timeline of a step to this file")
      ->type_name("FILE");
  profile
      ->add_option("--costs", flags->costs_path,
                   "Write the costs to this file, also of half the batch and of one sample")
      ->type_name("FILE");
  AddReplicas(profile, flags);
  profile->footer(
      "Examples:\n  soapstone profile --model=alexnet --batch=16\n"
      "  soapstone profile --model=resnet50 --recompute --trace=resnet50.json\n"
      "  soapstone profile --model=lenet5 --replicas=4 --device=cuda --workspace=64\n"
      "  soapstone profile --model=resnet50 --device=cuda --precision=tf32 --batch=128\n"
      "Exit codes: 0 done, 78 no such model, too little memory, a file that cannot be written.");
  return profile;
}

// What `soapstone plan` reads, and how it searches.
void AddPlanInputs(CLI::App* plan, PlanFlags* flags) {
  plan->add_option("--model", flags->model, "Model with its options: gnmt, rnnlm:hidden=512");
  plan->add_option("--machine", flags->machine_path, "Machine file (examples/machines)")
      ->type_name("FILE");
  plan->add_option("--devices", flags->devices, "Only the first devices of the machine [all]")
      ->check(CLI::Range(1, 1024));
  plan->add_option("--batch", flags->batch, "Samples of a step, of all devices [64 a device]")
      ->check(CLI::Range(int64_t{1}, kBatchMax));
  plan->add_option("--time_chunk", flags->time_chunk,
                   "Cut sequences into chunks of so many steps, each placed by itself [whole]")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  plan->add_option("--micro_batches", flags->micro_batches,
                   "Cut the batch into so many micro-batches, of which as many are under way at "
                   "once as fit on the devices; auto: as many as are best [1]")
      ->type_name("N|auto")
      ->transform(CLI::Validator(ReadMicroBatches, ""));
  plan->add_option("--costs", flags->costs_path,
                   "Measured costs (soapstone profile --costs) [the machine's roofline]")
      ->type_name("FILE");
  plan->add_option("--staleness", flags->staleness,
                   "Also plan a staleness bound up to this: the least within 2% of the best [0]")
      ->check(CLI::Range(0, 64));
  plan->add_option("--moved_gb", flags->moved_gb,
                   "Only plans whose step moves so many gigabytes at most, 10^9 bytes each [any]")
      ->check(CLI::Range(1e-6, 1e9));
  plan->add_option("--jitter", flags->jitter,
                   "Also the mean and 95th percentile of steps whose parts vary, by a log-normal "
                   "factor of this sigma [0]")
      ->check(CLI::Range(0.0, 2.0));
  plan->add_option("--search", flags->search,
                   "Who searches (below); all: each in turn, compared [mcmc]")
      ->check(CLI::IsMember(SearchNames()));
  plan->add_option("--sync", flags->synchronization,
                   "Synchronize by owner, ring or servers [whichever is best]")
      ->check(CLI::IsMember({"owner", "ring", "servers"}));
  CLI::Option* budget =
      plan->add_option("--budget", flags->budget_s, "Time of each search: 10s, 5m, 1h [10s]")
          ->type_name("TIME");
  budget->transform(
      CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}}));
  budget->check(CLI::Range(0.001, 1e6));
  plan->add_option("--proposals", flags->proposals,
                   "Of each chain, instead of a time: the result is then the same everywhere")
      ->check(CLI::PositiveNumber)
      ->excludes(budget);
  plan->add_option("--seed", flags->seed, "Seed of the search [1]");
}

CLI::App* AddPlan(CLI::App* app, PlanFlags* flags) {
  CLI::App* plan = app->add_subcommand(
      "plan",
      "Find out how to spread a model's training step over a machine, and how long it takes");
  AddPlanInputs(plan, flags);
  plan->add_option("--output", flags->output_path, "Write the strategy to this file")
      ->type_name("FILE");
  plan->add_option("--trace", flags->trace_path, "Write the step's timeline, for ui.perfetto.dev")
      ->type_name("FILE");
  plan->add_option("--svg", flags->svg_path, "Write the step's timeline as a drawing")
      ->type_name("FILE");
  plan->add_option("--dot", flags->dot_path, "Write the operators by device, in Graphviz' language")
      ->type_name("FILE");
  CLI::Option* explain =
      plan->add_option("--explain", flags->explain,
                       "What other ways to split this operator, or its chunks, would cost");
  plan->add_flag("--json", flags->json, "A JSON object instead of tables")->excludes(explain);
  plan->add_option("--compare", flags->compare, "Two strategy files, compared on the machine")
      ->type_name("A,B");
  plan->add_option(
          "--measure_machine", flags->measure_machine,
          "Write a machine file of --devices processes at once on this machine [all cores], "
          "which are measured while they do steps of --model with --batch samples each")
      ->type_name("FILE");
  plan->add_option("--step_ms", flags->step_ms,
                   "Without --model: time of their work between meetings [20]")
      ->check(CLI::Range(0.1, 10000.0));
  plan->footer(
      SearchersText() +
      "Examples:\n  soapstone plan --model=gnmt "
      "--machine=examples/machines/k80_16x4.machine.textproto "
      "--time_chunk=8 --budget=30s --output=gnmt.strategy.textproto\n"
      "  soapstone plan --model=alexnet --machine=examples/machines/p100_4x4.machine.textproto "
      "--devices=4 --explain=classifier.1\n"
      "Exit codes: 0 done, 78 a file or a flag that cannot be (docs/planner.md).");
  return plan;
}

// Which flags --measure_machine and --compare do without. False: the line of the error was printed.
bool PlanIsComplete(const PlanFlags& flags) {
  if (!flags.measure_machine.empty() || (!flags.model.empty() && !flags.machine_path.empty())) {
    return true;
  }
  std::cerr << "soapstone plan: " << (flags.model.empty() ? "--model" : "--machine")
            << " is required (--help lists the flags)\n";
  return false;
}

}  // namespace

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

namespace {

CLI::App* AddTrain(CLI::App* app, TrainCommand* train, JobFlagValues* job) {
  CLI::App* command = app->add_subcommand("train", "Train a model with a cluster on this machine");
  AddNodeFlags(command, &train->flags);
  job->AddTo(command);
  command->footer(
      "Example:\n  soapstone train --config=examples/digits-lenet5.textproto --servers=2 "
      "--workers=3 --policy=ssp:s=2\n"
      "Exit codes: 0 done, 76 guarantee broken (--strict), 78 configuration error, 79 training "
      "diverged, 138 peer lost (retry), 143 SIGTERM, 130 Ctrl-C, 70 a bug or a hung device.");
  return command;
}

void AddSimulateCommand(CLI::App* app, SimulateFlags* simulate, JobFlagValues* job) {
  CLI::App* command =
      app->add_subcommand("simulate", "Run a virtual cluster in virtual time: the same actors");
  AddSimulate(command, simulate);
  CLI::Option* job_option = AddCosimulation(command, simulate);
  for (const char* timing_only : {"--shards", "--clocks", "--duration", "--elements", "--seeds"}) {
    command->get_option(timing_only)->excludes(job_option);
  }
  job->AddToSimulate(command, job_option);
  command->footer(
      "Examples:\n  soapstone simulate --workers=32 --policy=ssp:s=4 "
      "--stragglers=jitter:sigma=0.2+stall:p=0.02,factor=6\n"
      "  soapstone simulate --job=examples/digits-lenet5.textproto --workers=32 --batch=128 "
      "--micro_batches=32 --stragglers=stall:p=0.02,factor=6");
}

}  // namespace

std::variant<Command, EndNow> ParseCommand(int argc, const char* const* argv) {
  TrainCommand train;
  SimulateFlags simulate;
  ExperimentFlags experiment;
  ReplayFlags replay;
  ModelsFlags models;
  ProfileFlags profile;
  PlanFlags plan;
  JobFlagValues job, simulated_job, replayed_job;
  CLI::App app("Soapstone: parameter servers with stale-synchronous consistency.", "soapstone");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  const CLI::App* train_app = AddTrain(&app, &train, &job);
  AddSimulateCommand(&app, &simulate, &simulated_job);
  CLI::App* experiment_app = app.add_subcommand(
      "experiment", "Make the runs of an experiment file and write a report that compares them");
  AddExperiment(experiment_app, &experiment);
  const CLI::App* replay_app = AddReplay(&app, &replay, &replayed_job);
  const CLI::App* models_app = AddModels(&app, &models);
  const CLI::App* profile_app = AddProfile(&app, &profile);
  const CLI::App* plan_app = AddPlan(&app, &plan);
  CLI::App* policies_app = app.add_subcommand("policies", "List the consistency policies");
  app.footer(
      "Examples:\n  soapstone train --config=examples/digits-lenet5.textproto\n"
      "  soapstone simulate --workers=32 --policy=ssp:s=4\n"
      "  soapstone models\n"
      "  soapstone profile --model=lenet5\n"
      "  soapstone plan --model=alexnet --machine=examples/machines/p100_4x4.machine.textproto\n"
      "  soapstone policies\n"
      "`soapstone train --help` lists the flags of train.");
  if (argc > 1 && argv[1][0] != '-' &&
      app.get_subcommands([&](CLI::App* s) { return s->check_name(argv[1]); }).empty()) {
    std::cerr << "soapstone: no command \"" << argv[1]
              << "\" (train, simulate, experiment, replay, models, profile, plan, policies)\n";
    return EndNow{kExitConfig};
  }
  const auto parsed = Parse(&app, argc, argv);
  if (const EndNow* end = std::get_if<EndNow>(&parsed)) return *end;
  train.flags.overrides = job.Given();
  if (train_app->parsed()) return Command(std::move(train));
  if (experiment_app->parsed()) return Command(std::move(experiment));
  replay.overrides = replayed_job.Given();
  if (replay_app->parsed()) return Command(std::move(replay));
  if (models_app->parsed()) return Command(std::move(models));
  if (profile_app->parsed()) return Command(std::move(profile));
  if (plan_app->parsed()) {
    if (!PlanIsComplete(plan)) return EndNow{kExitConfig};
    return Command(std::move(plan));
  }
  if (policies_app->parsed()) return Command(PoliciesCommand{});
  simulate.overrides = simulated_job.Given();
  return Command(std::move(simulate));
}

}  // namespace soapstone::apps
