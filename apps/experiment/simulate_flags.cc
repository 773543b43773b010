#include "apps/experiment/simulate_flags.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "apps/cli/command_line.h"
#include "apps/cli/job_flags.h"

namespace soapstone::apps {
namespace {

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
      ->check(WholeNumber(1, uint64_t{1} << 62))
      ->needs(job);
  app->add_option("--target", flags->target,
                  "With --job: show when this test accuracy was reached [0.95]")
      ->check(Within(0.0, 1.0))
      ->needs(job);
  CLI::Option* machine =
      app->add_option("--machine", flags->machine_path,
                      "With --job and --strategy: what parts take on the devices of this machine "
                      "file, and messages on its links, as `soapstone plan` predicts it")
          ->type_name("FILE")
          ->needs(job);
  app->add_option("--costs", flags->costs_path,
                  "With --machine: measured costs of the model (soapstone profile --costs) "
                  "[a roofline]")
      ->type_name("FILE")
      ->needs(machine);
  for (const char* instead : {"--iteration_us", "--latency_us", "--bandwidth_gbps"}) {
    app->get_option(instead)->excludes(machine);
  }
  return job;
}

// What is said of a run of timing alone.
void AddTiming(CLI::App* app, SimulateFlags* flags) {
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
      ->check(WholeNumber(0, (uint64_t{1} << 61) - 1));
  app->add_option("--duration", flags->duration,
                  "Stop after this much virtual time, in mean iterations [2000, without --clocks]")
      ->check(Within(1, 1e7));
  app->add_option("--latency_us", flags->latency_us, "Latency of a message [0]")
      ->check(Within(0.0, 1e9));
  app->add_option("--iteration_us", flags->iteration_us,
                  "An iteration of a worker where no straggler model applies [1000]")
      ->check(Within(0.001, 3.6e9));
  app->add_option("--bandwidth_gbps", flags->bandwidth_gbps, "Of each link; 0: no limit [0]")
      ->check(Within(0.0, 1e6));
  app->add_option("--heartbeat_timeout_s", flags->heartbeat_timeout_s,
                  "Until a worker that failed (failstop) is counted out [5]")
      ->check(Within(0.0, 3600.0));
  app->add_option("--elements", flags->elements, "Parameters of the model: sizes messages [1024]")
      ->check(WholeNumber(1, uint64_t{1} << 40));
  app->add_option("--seed", flags->seed, "Seed of the straggler models [1]")->check(WholeNumber());
  app->add_option(
         "--seeds", flags->seeds,
         "Runs, with this seed and those after it, whose mean rate is shown [5; 1 if large]")
      ->check(CLI::Range(1, 1000));
  app->add_option("--trace", flags->trace_path, "Write a timeline of the run to this file");
}

}  // namespace

CLI::App* AddSimulate(CLI::App* app, SimulateFlags* flags) {
  CLI::App* command =
      app->add_subcommand("simulate", "Run a virtual cluster in virtual time: the same actors");
  AddTiming(command, flags);
  CLI::Option* job_option = AddCosimulation(command, flags);
  for (const char* timing_only : {"--shards", "--clocks", "--duration", "--elements", "--seeds"}) {
    command->get_option(timing_only)->excludes(job_option);
  }
  const auto job = std::make_shared<JobFlagValues>();
  job->AddToSimulate(command, job_option);
  command->callback([flags, job] { flags->overrides = job->Given(); });
  command->footer(
      "Examples:\n  soapstone simulate --workers=32 --policy=ssp:s=4 "
      "--stragglers=jitter:sigma=0.2+stall:p=0.02,factor=6\n"
      "  soapstone simulate --job=examples/digits-lenet5.textproto --workers=32 --batch=128 "
      "--micro_batches=32 --stragglers=stall:p=0.02,factor=6\n"
      "  soapstone simulate --job=job.textproto --strategy=lab.strategy.textproto "
      "--machine=lab.machine.textproto\n"
      "Exit codes: 0 done, 70 a guarantee was broken, 78 configuration error, 79 training "
      "diverged.");
  return command;
}

}  // namespace soapstone::apps
