#include "apps/checkpoint_command/checkpoint_flags.h"

#include <CLI/CLI.hpp>

namespace soapstone::apps {

CLI::App* AddCheckpoint(CLI::App* app, CheckpointFlags* flags) {
  CLI::App* checkpoint = app->add_subcommand(
      "checkpoint", "List, show, verify, export, compare or prune a job's checkpoints");
  checkpoint->add_option("ACTION", flags->action, "ls, show, verify, export, diff or prune")
      ->required()
      ->check(CLI::IsMember({"ls", "show", "verify", "export", "diff", "prune"}))
      ->type_name("");
  checkpoint
      ->add_option(
          "WHERE", flags->where,
          "What --checkpoint of the job names; or one of its checkpoints: DIR/1000, DIR/best")
      ->required()
      ->type_name("DIR[/CLOCK|/best]");
  checkpoint
      ->add_option("OTHER", flags->other,
                   "The file that export writes; the checkpoint that diff compares it with")
      ->type_name("FILE|DIR[/CLOCK|/best]");
  checkpoint
      ->add_option("--keep", flags->keep, "prune leaves so many, the newest that are whole [2]")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  checkpoint->add_flag("--json", flags->json, "A JSON object instead of text");
  checkpoint->footer(
      "ls lists those of DIR; show says of one, by default the newest, from which job it is and\n"
      "which tensors it has; verify reads every byte of one or all; export writes the whole\n"
      "tensors of one into a safetensors file, as --initial_weights reads it; diff says by how "
      "much\n"
      "each tensor changed from one to another; prune removes what is older than the\n"
      "newest that are whole, but for the best, where no job is writing. DIR/best is the best\n"
      "of a job with --keep_best.\n"
      "Examples:\n  soapstone checkpoint ls ckpt\n  soapstone checkpoint verify ckpt/1000\n"
      "  soapstone checkpoint export ckpt model.safetensors\n"
      "  soapstone checkpoint diff ckpt/1000 ckpt/2000\n  soapstone checkpoint prune ckpt "
      "--keep=1\n"
      "Exit codes: 0 done; 78 no such checkpoint, or not whole, or OTHER cannot be written;\n"
      "prune: a job is writing there.");
  return checkpoint;
}

}  // namespace soapstone::apps
