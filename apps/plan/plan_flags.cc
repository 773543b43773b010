#include "apps/plan/plan_flags.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>

#include "absl/status/status.h"
#include "apps/cli/command_line.h"
#include "apps/cli/job_flags.h"
#include "apps/cli/named_model.h"
#include "apps/plan/plan_search.h"

namespace soapstone::apps {
namespace {

// What `soapstone plan` reads.
void AddPlanInputs(CLI::App* plan, PlanFlags* flags) {
  plan->add_option("--model", flags->model,
                   "Model with its options: gnmt, rnnlm:hidden=512; or onnx:FILE");
  plan->add_option("--config", flags->config_path,
                   "Job file: its model at the size of its data, its batch, a device a worker; "
                   "flags come before it")
      ->type_name("JOB");
  plan->add_option("--machine", flags->machine_path, "Machine file (examples/machines)")
      ->type_name("FILE");
  plan->add_option("--devices", flags->devices, "Only the first devices of the machine [all]")
      ->check(CLI::Range(1, 1024));
  plan->add_option("--slowness", flags->slowness,
                   "How many times as long as the machine says each device takes: 1,3 [1 each]")
      ->type_name("F,F,..")
      ->delimiter(',')
      ->check(Within(0.001, 1000.0));
  plan->add_option("--batch", flags->batch, "Samples of a step, of all devices [64 a device]")
      ->check(CLI::Range(int64_t{1}, kBatchMax));
  plan->add_option("--time_chunk", flags->time_chunk,
                   "Cut sequences into chunks of so many steps, each placed by itself [whole]")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  plan->add_option(
          "--micro_batches", flags->micro_batches,
          "Cut the batch into so many micro-batches, of which as many are under way at "
          "once as fit on the devices; auto: as many as are best [1; the job's, for workers]")
      ->type_name("N|auto")
      ->transform(CLI::Validator(ReadMicroBatches, ""));
  plan->add_option("--costs", flags->costs_path,
                   "Measured costs (soapstone profile --costs) [the machine's roofline]")
      ->type_name("FILE");
}

// Which plans are asked for, and how long they are searched.
void AddSearch(CLI::App* plan, PlanFlags* flags) {
  plan->add_option("--staleness", flags->staleness,
                   "Also plan a staleness bound up to this: the least within 2% of the best [0]")
      ->check(CLI::Range(0, static_cast<int>(planner::kStalenessMax)));
  plan->add_option("--moved_gb", flags->moved_gb,
                   "Only plans whose step moves so many gigabytes at most, 10^9 bytes each [any]")
      ->check(Within(1e-6, 1e9));
  plan->add_option("--jitter", flags->jitter,
                   "Also the mean and 95th percentile of steps whose parts vary, by a log-normal "
                   "factor of this sigma [0]")
      ->check(Within(0.0, 2.0));
  plan->add_option("--search", flags->search,
                   "Who searches (below); all: each in turn, compared [mcmc]")
      ->check(CLI::IsMember(SearchNames()));
  plan->add_option("--sync", flags->synchronization,
                   "Synchronize by owner, ring or servers [whichever is best]")
      ->check(CLI::IsMember({"owner", "ring", "servers"}));
  plan->add_flag("--for_workers", flags->for_workers,
                 "Only what `soapstone train --strategy` can run: parts that compute alone; a ring "
                 "as workers run it, in ranges")
      ->excludes(plan->get_option("--time_chunk"));
  plan->add_flag("--all_devices", flags->all_devices,
                 "With --for_workers: where the best leaves a device without work, the nearest "
                 "that does not")
      ->needs(plan->get_option("--for_workers"));
  plan->add_option("--optimizer", flags->optimizer,
                   "Whose state counts as memory, as in a job: adam:lr=1e-3 [the job's, or sgd]");
  CLI::Option* budget =
      plan->add_option("--budget", flags->budget_s, "Time of each search: 10s, 5m, 1h [10s]")
          ->type_name("TIME");
  budget->transform(
      CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}}));
  budget->check(Within(0.001, 1e6));
  plan->add_option("--proposals", flags->proposals,
                   "Of each chain, instead of a time: the result is then the same everywhere")
      ->check(WholeNumber(1, 1'000'000'000))
      ->excludes(budget);
  plan->add_option("--seed", flags->seed, "Seed of the search [1]")->check(WholeNumber());
}

// What is said and written of the plan.
void AddPlanOutputs(CLI::App* plan, PlanFlags* flags) {
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
}

// Strategies that are there, instead of a search.
void AddGivenStrategies(CLI::App* plan, PlanFlags* flags) {
  CLI::Option* compare =
      plan->add_option("--compare", flags->compare, "Two strategy files, compared on the machine")
          ->type_name("A,B");
  CLI::Option* strategy =
      plan->add_option("--strategy", flags->strategy_path,
                       "A strategy file, priced (and drawn) as it is, without a search")
          ->type_name("FILE")
          ->excludes(compare);
  for (const char* of_searches : {"--search", "--budget", "--proposals", "--staleness", "--sync",
                                  "--seed", "--for_workers"}) {
    compare->excludes(plan->get_option(of_searches));
    strategy->excludes(plan->get_option(of_searches));
  }
  // One strategy is drawn; --strategy draws either.
  for (const char* of_one : {"--output", "--trace", "--svg", "--dot", "--explain"}) {
    compare->excludes(plan->get_option(of_one));
  }
}

void AddMeasurement(CLI::App* plan, PlanFlags* flags) {
  CLI::Option* measure =
      plan->add_option(
              "--measure_machine", flags->measure_machine,
              "Write a machine file of --devices processes at once on this machine [all cores], "
              "which are measured while they do steps of --model with --batch samples each")
          ->type_name("FILE");
  for (const char* of_plans :
       {"--config", "--strategy", "--compare", "--machine", "--search", "--budget", "--proposals",
        "--sync", "--staleness", "--moved_gb", "--jitter", "--slowness", "--micro_batches",
        "--output", "--trace", "--svg", "--dot", "--explain", "--json"}) {
    measure->excludes(plan->get_option(of_plans));
  }
  plan->add_option("--step_ms", flags->step_ms,
                   "Without --model: time of their work between meetings [20]")
      ->check(Within(0.1, 10000.0))
      ->needs(measure)
      ->excludes(plan->get_option("--model"));
}

}  // namespace

CLI::App* AddPlan(CLI::App* app, PlanFlags* flags) {
  CLI::App* plan = app->add_subcommand(
      "plan",
      "Find out how to spread a model's training step over a machine, and how long it takes");
  AddPlanInputs(plan, flags);
  AddSearch(plan, flags);
  AddPlanOutputs(plan, flags);
  AddGivenStrategies(plan, flags);
  AddMeasurement(plan, flags);
  plan->footer(
      SearchersText() +
      "Examples:\n  soapstone plan --model=gnmt "
      "--machine=examples/machines/k80_16x4.machine.textproto "
      "--time_chunk=8 --budget=30s --output=gnmt.strategy.textproto\n"
      "  soapstone plan --model=alexnet --machine=examples/machines/p100_4x4.machine.textproto "
      "--devices=4 --explain=classifier.1\n"
      "  soapstone plan --config=examples/digits-lenet5.textproto "
      "--machine=examples/machines/p100_4x4.machine.textproto --svg=lenet5.svg\n"
      "Exit codes: 0 done, 78 a file or a flag that cannot be (docs/planner.md).");
  return plan;
}

bool PlanIsComplete(const PlanFlags& flags) {
  const bool has_model = !flags.model.empty() || !flags.config_path.empty() ||
                         !flags.strategy_path.empty() || !flags.compare.empty();
  if (!flags.measure_machine.empty() || (has_model && !flags.machine_path.empty())) return true;
  // A wrong model is said before a machine is asked for.
  const absl::Status named = flags.model.empty() ? absl::OkStatus() : GraphOf(flags.model).status();
  if (!named.ok()) {
    std::cerr << "soapstone plan: " << named.message() << "\n";
    return false;
  }
  std::cerr << "soapstone plan: " << (has_model ? "--machine" : "--model")
            << " is required (--help lists the flags)\n";
  return false;
}

}  // namespace soapstone::apps
