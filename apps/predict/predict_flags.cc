#include "apps/predict/predict_flags.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "apps/checkpoint_command/checkpoint_place.h"
#include "apps/cli/command_line.h"
#include "apps/cli/job_flags.h"

namespace soapstone::apps {
namespace {

constexpr int64_t kTokensMax = 1'000'000;
constexpr double kTemperatureMax = 1000;

// Returns --data.
CLI::Option* AddModelFlags(CLI::App* app, ModelFlags* flags) {
  CLI::Option* file = app->add_option("--model_file", flags->model_file,
                                      "A trained model: what --model_path of `train` wrote, or "
                                      "`soapstone checkpoint export`, or another safetensors file")
                          ->type_name("FILE");
  app->add_option("--checkpoint", flags->checkpoint,
                  "What --checkpoint of the job names, or one of its checkpoints: DIR/1000, "
                  "DIR/best [the newest]")
      ->type_name("DIR[/CLOCK|/best]")
      ->excludes(file);
  app->add_option("--config", flags->config_path,
                  "The job file that says which model it is and how its data are read, where the "
                  "file does not [the file's own]")
      ->type_name("JOB");
  app->add_option("--threads", flags->threads, "Threads that compute [1]")
      ->check(CLI::Range(1, 1024));
  const auto job = std::make_shared<JobFlagValues>();
  job->AddDataPaths(app);
  job->AddMissing(app);
  app->callback([flags, job] { flags->overrides = job->Given(); });
  return app
      ->add_option("--data", flags->data_path,
                   "Samples in the training data's format, such as a CSV or libsvm file")
      ->type_name("FILE");
}

// text: which they need.
void AddTextFlags(CLI::App* app, CLI::Option* text, PredictFlags* flags) {
  constexpr char kGroup[] = "Text (--text)";
  app->add_option("--length", flags->length, "Tokens that continue the text [100]")
      ->check(CLI::Range(int64_t{1}, kTokensMax))
      ->needs(text)
      ->group(kGroup);
  app->add_option("--temperature", flags->temperature,
                  "Divides the logits before a token is drawn; 0: the likeliest is taken [0]")
      ->check(Within(0.0, kTemperatureMax))
      ->needs(text)
      ->group(kGroup);
  app->add_option("--top_k", flags->top_k, "Tokens are drawn among so many likeliest [all]")
      ->check(CLI::Range(int64_t{1}, kTokensMax))
      ->needs(text)
      ->group(kGroup);
  app->add_option("--seed", flags->seed, "What is drawn is a function of it [1]")
      ->check(WholeNumber())
      ->needs(text)
      ->group(kGroup);
  app->add_flag("--unknown_words", flags->unknown_words,
                "Words that the vocabulary lacks are read as <unk> [they are an error]")
      ->needs(text)
      ->group(kGroup);
}

bool NamesModel(const char* command, const ModelFlags& flags) {
  if (!flags.model_file.empty() || !flags.checkpoint.empty()) return true;
  std::cerr << kSoapstone << " " << command
            << ": --model_file or --checkpoint is required (--help lists the flags)\n";
  return false;
}

}  // namespace

CLI::App* AddPredict(CLI::App* app, PredictFlags* flags) {
  CLI::App* predict = app->add_subcommand(
      "predict", "Classes and probabilities of samples, or text continued, by a trained model");
  CLI::Option* data = AddModelFlags(predict, &flags->model);
  CLI::Option* images =
      predict
          ->add_option("--images", flags->images_path,
                       "A folder of PNG (or raw) images, sub-folders included, or one image")
          ->type_name("PATH")
          ->excludes(data);
  CLI::Option* text =
      predict->add_option("--text", flags->text, "The text that a language model continues")
          ->type_name("TEXT")
          ->excludes(data)
          ->excludes(images);
  predict->add_option("--labels", flags->model.labels_path, "With --data of format idx: its labels")
      ->type_name("FILE")
      ->needs(data);
  predict
      ->add_option("--scale", flags->scale,
                   "With --images: pixels are divided by this [as in training, where that was of "
                   "images; else 255]")
      ->check(Within(1e-6, 1e6))
      ->needs(images);
  predict
      ->add_option("--format", flags->format,
                   "csv: a line a sample; json: an array, an object a sample; text, of --text "
                   "[csv; of --text text]")
      ->check(CLI::IsMember({"csv", "json", "text"}));
  predict->add_option("--output", flags->output, "Write to this file [standard output]")
      ->type_name("FILE");
  predict->add_option("--top", flags->top, "Classes shown of a sample, the likeliest first [1]")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->excludes(text);
  predict
      ->add_flag("--probabilities", flags->probabilities,
                 "Also the probability of each class, in the order of the labels")
      ->excludes(text);
  predict->add_option("--batch", flags->batch, "Samples that are computed together [up to 256]")
      ->check(CLI::Range(int64_t{1}, kBatchMax))
      ->excludes(text);
  AddTextFlags(predict, text, flags);
  predict->footer(
      "Examples:\n"
      "  soapstone predict --model_file=runs/quickstart/model.safetensors --images=scans --top=3\n"
      "  soapstone predict --checkpoint=ckpt --data=data/a9a/a9a.t --output=a9a.csv\n"
      "  soapstone predict --model_file=lm.safetensors --text=\"To be\" --length=200 "
      "--temperature=0.8\n"
      "Exit codes: 0 done, 78 no such model or samples, or they do not fit, or the output cannot "
      "be "
      "written.");
  return predict;
}

CLI::App* AddEvaluate(CLI::App* app, EvaluateFlags* flags) {
  CLI::App* evaluate = app->add_subcommand(
      "evaluate",
      "Loss and accuracy of a trained model on held-out samples, as training ends with");
  CLI::Option* data = AddModelFlags(evaluate, &flags->model);
  data->description(
      "Samples with labels, in the training data's format; images: a folder of classes [the job's "
      "held-out samples]");
  evaluate
      ->add_option("--labels", flags->model.labels_path, "With --data of format idx: its labels")
      ->type_name("FILE")
      ->needs(data);
  evaluate->add_option("--output", flags->output, "Write to this file [standard output]")
      ->type_name("FILE");
  evaluate->add_flag("--json", flags->json,
                     "A JSON object instead of text, with the names of a run's ledger.json");
  evaluate->footer(
      "Examples:\n"
      "  soapstone evaluate --model_file=runs/quickstart/model.safetensors\n"
      "  soapstone evaluate --checkpoint=ckpt/1000 --json\n"
      "  soapstone evaluate --model_file=model.safetensors --data=more.csv\n"
      "Exit codes: 0 done, 78 no such model or samples, or they do not fit, or the output cannot "
      "be "
      "written.");
  return evaluate;
}

bool PredictIsComplete(const PredictFlags& flags) {
  if (!NamesModel("predict", flags.model)) return false;
  if (!flags.images_path.empty() || !flags.model.data_path.empty() || flags.text.has_value()) {
    return true;
  }
  std::cerr << kSoapstone
            << " predict: --images, --data or --text is required (--help lists the "
               "flags)\n";
  return false;
}

absl::Status CheckOutputApart(const std::string& output, const ModelFlags& model,
                              const std::string& images_path) {
  for (const std::string& read :
       {model.model_file, model.config_path, images_path, model.data_path, model.labels_path}) {
    std::error_code none;  // of what is not there: no
    if (read.empty() || !std::filesystem::equivalent(read, output, none)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--output: ", output, " is read too: give another file"));
  }
  if (output.empty() || model.checkpoint.empty()) return absl::OkStatus();
  return CheckApartFrom(CheckpointPlaceOf(model.checkpoint).folder, output);
}

bool EvaluateIsComplete(const EvaluateFlags& flags) { return NamesModel("evaluate", flags.model); }

}  // namespace soapstone::apps
