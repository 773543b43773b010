// Job: everything a process of a job derives from its configuration and data, once, before it
// starts: what is trained (training_job.h), and what the process is to write and to say. Immutable
// and shared by all parts of the process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "cluster/job_config.h"
#include "cluster/training_job.h"

namespace soapstone::apps {

struct Job : cluster::TrainingJob {
  wire::JobConfig config;  // with defaults
  uint64_t test_samples = 0;
  Clock clocks_per_epoch = 0;
  uint64_t curve_step = 1;  // samples from a point of the learning curve to the next
  uint64_t digest = 0;
  uint64_t meaning = 0;         // of what a checkpoint must be of to go on from it (job_meaning.h)
  Clock checkpoint_every = 0;   // 0: none are written
  Clock first_clock = 0;        // of the checkpoint that it goes on from; 0: from the start
  std::string strategy_sha256;  // of the text of its file
  std::string summary;          // one line for people
  std::vector<std::string> notes;  // what they should know before it runs, a line each
};

// Checks the configuration, loads the data, builds the model's graph and the layout. Errors: one
// line that says what to mend; the job cannot run as it is (kExitConfig).
absl::StatusOr<std::shared_ptr<const Job>> PrepareJob(wire::JobConfig config);

// The same, of a model of tensors; `what`, which needs one, is named in the error where it is of
// tables, and where a strategy splits it, unless `what` takes that.
enum class Splits : uint8_t { kRefused, kTaken };
absl::StatusOr<std::shared_ptr<const Job>> PrepareDenseJob(wire::JobConfig config, const char* what,
                                                           Splits splits = Splits::kRefused);

// Whether its loss is a token's, so that exp(loss) is the perplexity: of texts, all of whose
// sequences have as many tokens. Not of pairs of sentences, where it is the mean of a sentence's.
bool IsLanguageModel(const Job& job);

// Whether all processes of the job can hold its parameters at once: the servers two versions of
// them, each worker values and a gradient, unless its device has them. What else they need each
// says for itself, and seats of a strategy what they hold. Error: ResourceExhausted.
absl::Status CheckParametersFit(const Job& job, uint64_t available_bytes);

// Those that it begins: fewer than its configuration says where that ends it after some steps.
inline uint32_t EpochsOf(const Job& job) {
  return static_cast<uint32_t>((job.total_clocks + job.clocks_per_epoch - 1) /
                               std::max<Clock>(1, job.clocks_per_epoch));
}

inline Nanos NanosOf(double seconds) {
  return static_cast<Nanos>(seconds * static_cast<double>(kSecond));
}

}  // namespace soapstone::apps
