#include "apps/profile/profile_flags.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/cli/command_line.h"
#include "apps/cli/job_flags.h"

namespace soapstone::apps {
namespace {

// What is said of replicas at once, instead of operators.
void AddReplicas(CLI::App* profile, ProfileFlags* flags) {
  CLI::Option* replicas =
      profile
          ->add_option(
              "--replicas", flags->replicas,
              "Steps of so many replicas at once beside steps of one, instead of operators")
          ->check(CLI::Range(1, 256));
  for (const char* of_operators : {"--config", "--top", "--trace", "--costs"}) {
    replicas->excludes(profile->get_option(of_operators));
  }
  profile
      ->add_option("--workspace", flags->workspace_mb,
                   "MB for the convolutions of all replicas, divided among them by measured times")
      ->needs(replicas)
      ->check(CLI::Range(1, 1 << 20));
}

}  // namespace

CLI::App* AddProfile(CLI::App* app, ProfileFlags* flags) {
  CLI::App* profile = app->add_subcommand(
      "profile", "Measure the operators of a model on this machine, and the memory of its steps");
  CLI::Option* model = profile->add_option(
      "--model", flags->model, "Model with its options: rnnlm:hidden=512; or onnx:FILE");
  profile
      ->add_option("--config", flags->config_path,
                   "Job file: its model at the size of its data, its batch of one worker")
      ->type_name("JOB")
      ->excludes(model);
  profile->add_option("--batch", flags->batch, "Samples of a step [8; the job's share of a worker]")
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
      ->check(Within(0.0, 86400.0));
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
      "  soapstone profile --config=examples/digits-lenet5.textproto --costs=lenet5.costs\n"
      "  soapstone profile --model=resnet50 --recompute --trace=resnet50.json\n"
      "  soapstone profile --model=lenet5 --replicas=4 --device=cuda --workspace=64\n"
      "  soapstone profile --model=resnet50 --device=cuda --precision=tf32 --batch=128\n"
      "Exit codes: 0 done, 78 no such model, too little memory, a file that cannot be written.");
  return profile;
}

bool ProfileIsComplete(const ProfileFlags& flags) {
  if (!flags.model.empty() || !flags.config_path.empty()) return true;
  std::cerr << "soapstone profile: --model or --config is required (--help lists the flags)\n";
  return false;
}

}  // namespace soapstone::apps
