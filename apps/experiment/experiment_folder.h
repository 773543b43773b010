// ExperimentFolder: an experiment's output folder: its registry, the file it was started with, and
// what is written from its runs. One process at a time has it.
//
//   runs.jsonl        the registry (experiment/registry.h): appended, each line on disk before the
//                     next run counts; never rewritten
//   spec.textproto    the experiment file
//   report.html, runs.csv, runs.json    written anew from the registry, each at once
//   logs/             of real processes, a folder a run
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiment/agenda.h"
#include "experiment/results.h"
#include "experiment/spec.h"

namespace soapstone::apps {

class ExperimentFolder {
 public:
  // Whether Open may take it, as far as that is seen without a change. Error: InvalidArgument.
  static absl::Status Check(const std::string& path, const experiment::Experiment& experiment);
  // Makes the folder, or takes up one of the same experiment. A line that a kill cut off is
  // dropped. Errors, before anything is changed: InvalidArgument when the folder is that of another
  // experiment, or of no experiment and not empty, or its registry is damaged; or another process
  // has it; or it cannot be written.
  static absl::StatusOr<std::unique_ptr<ExperimentFolder>> Open(
      const std::string& path, const experiment::Experiment& experiment,
      const std::string& spec_text);
  ~ExperimentFolder();
  ExperimentFolder(const ExperimentFolder&) = delete;
  ExperimentFolder& operator=(const ExperimentFolder&) = delete;

  const std::string& path() const { return path_; }
  // Of earlier processes.
  const experiment::Outcomes& outcomes() const { return outcomes_; }
  const experiment::RegistryFacts& facts() const { return facts_; }

  // Appends a run (experiment::RecordJson's text) and waits until it is on disk.
  absl::Status Append(const std::string& run);
  // report.html, runs.csv, runs.json.
  absl::Status WriteReport(const experiment::Results& results) const;

 private:
  ExperimentFolder(std::string path, int registry_fd)
      : path_(std::move(path)), registry_fd_(registry_fd) {}
  absl::Status Load(const experiment::Experiment& experiment);
  absl::Status AppendLine(const std::string& line);

  std::string path_;
  int registry_fd_;
  std::string last_sha256_;
  experiment::Outcomes outcomes_;
  experiment::RegistryFacts facts_;
};

}  // namespace soapstone::apps
