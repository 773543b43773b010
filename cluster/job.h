// Job: everything a process of a job derives from its configuration and data, once, before it
// starts. Immutable and shared by all parts of the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "cluster/job_config.h"
#include "compute/init.h"
#include "models/data/dataset.h"
#include "models/graph/graph.h"
#include "models/tables/sparse_model.h"
#include "server/store/store_fault.h"
#include "wire/layout.h"

namespace soapstone::apps {

struct Job {
  wire::JobConfig config;  // with defaults
  JobSpecs specs;
  // A model of tensors: its data and its graph. Of tables (models/tables/sparse_model.h): `tables`,
  // which has the data, and the graph of those that have tensors too.
  std::shared_ptr<const models::TrainTest> data;
  std::shared_ptr<const models::Graph> graph;
  std::shared_ptr<const models::SparseModel> tables;
  std::shared_ptr<const compute::GivenValues>
      given;  // initial values from a file; null: the seed's
  uint64_t train_samples = 0;
  uint64_t test_samples = 0;
  std::shared_ptr<const wire::Layout> layout;
  // What workers see of who keeps the parameters: the layout, or that of their own peer.
  std::shared_ptr<const wire::Layout> worker_layout;
  Clock clocks_per_epoch = 0;
  Clock total_clocks = 0;   // local steps of a worker
  uint64_t curve_step = 1;  // samples from a point of the learning curve to the next
  uint64_t digest = 0;
  std::string summary;             // one line for people
  std::vector<std::string> notes;  // what they should know before it runs, a line each
  server::StoreFault store_fault = server::StoreFault::kNone;  // of all stores; for tests
};

// Checks the configuration, loads the data, builds the model's graph and the layout. Errors: one
// line that says what to mend; the job cannot run as it is (kExitConfig).
absl::StatusOr<std::shared_ptr<const Job>> PrepareJob(wire::JobConfig config);

// The same, of a model of tensors; `what`, which needs one, is named in the error where it is of
// tables.
absl::StatusOr<std::shared_ptr<const Job>> PrepareDenseJob(wire::JobConfig config,
                                                           const char* what);

// Whether its loss is a token's, so that exp(loss) is the perplexity: of texts, all of whose
// sequences have as many tokens. Not of pairs of sentences, where it is the mean of a sentence's.
bool IsLanguageModel(const Job& job);

inline Nanos NanosOf(double seconds) {
  return static_cast<Nanos>(seconds * static_cast<double>(kSecond));
}

}  // namespace soapstone::apps
