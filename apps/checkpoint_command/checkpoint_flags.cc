#include "apps/checkpoint_command/checkpoint_flags.h"

#include <CLI/CLI.hpp>

namespace soapstone::apps {

CLI::App* AddCheckpoint(CLI::App* app, CheckpointFlags* flags) {
  CLI::App* checkpoint =
      app->add_subcommand("checkpoint", "List, show, verify or export a job's checkpoints");
  checkpoint->add_option("ACTION", flags->action, "ls, show, verify or export")
      ->required()
      ->check(CLI::IsMember({"ls", "show", "verify", "export"}))
      ->type_name("");
  checkpoint
      ->add_option("WHERE", flags->where,
                   "What --checkpoint of the job names; or one of its checkpoints: DIR/1000")
      ->required()
      ->type_name("DIR[/CLOCK]");
  checkpoint->add_option("OUT", flags->out, "The file that export writes")->type_name("FILE");
  checkpoint->add_flag("--json", flags->json, "A JSON object instead of text");
  checkpoint->footer(
      "ls lists those of DIR; show says of one, by default the newest, from which job it is and\n"
      "which tensors it has; verify reads every byte of one or all; export writes the whole\n"
      "tensors of one into a safetensors file, as --initial_weights reads it.\n"
      "Examples:\n  soapstone checkpoint ls ckpt\n  soapstone checkpoint verify ckpt/1000\n"
      "  soapstone checkpoint export ckpt model.safetensors\n"
      "Exit codes: 0 done; 78 no such checkpoint, or not whole, or OUT cannot be written.");
  return checkpoint;
}

}  // namespace soapstone::apps
