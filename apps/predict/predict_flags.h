// The command lines of `soapstone predict` and `soapstone evaluate`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cluster/job_config.h"

namespace CLI {
class App;
}

namespace soapstone::apps {

// Which trained model, and what it is of where its file does not say so.
struct ModelFlags {
  std::string model_file;              // safetensors
  std::string checkpoint;              // DIR, DIR/CLOCK or DIR/best
  std::string config_path;             // a job file
  std::vector<JobOverride> overrides;  // where the training data lie
  int threads = 1;
  // Of samples that are read apart from the training data.
  std::string data_path;
  std::string labels_path;  // idx
};

struct PredictFlags {
  ModelFlags model;
  std::string images_path;  // a folder, or a file
  std::optional<std::string> text;
  double scale = 0;            // PNGs are divided by it; 0: as the training images, else 255
  std::string format;          // "csv", "json", "text"; empty: csv, of --text text
  std::string output;          // empty: standard output
  int64_t top = 1;             // classes that are shown
  bool probabilities = false;  // of all classes
  int64_t batch = 0;           // 0: as an evaluation
  // Of --text.
  int64_t length = 100;    // tokens
  double temperature = 0;  // 0: the likeliest
  int64_t top_k = 0;       // drawn among so many; 0: all
  uint64_t seed = 1;
  bool unknown_words = false;  // are <unk>, and no error
};

struct EvaluateFlags {
  ModelFlags model;
  std::string output;  // empty: standard output
  bool json = false;
};

// The commands; `flags` is filled in when `app` is parsed.
CLI::App* AddPredict(CLI::App* app, PredictFlags* flags);
CLI::App* AddEvaluate(CLI::App* app, EvaluateFlags* flags);

// Whether a model is named, and what of: says on standard error what is missing.
bool PredictIsComplete(const PredictFlags& flags);
bool EvaluateIsComplete(const EvaluateFlags& flags);

// What is read is not written over. output: a path, or empty.
absl::Status CheckOutputApart(const std::string& output, const ModelFlags& model,
                              const std::string& images_path);

}  // namespace soapstone::apps
