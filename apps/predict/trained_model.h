// TrainedModel: a model's values from its file or a checkpoint, and what is said there of the model
// and its data. Called by `predict` and `evaluate`; computes nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "apps/predict/predict_flags.h"
#include "base/memory/sparse_rows.h"
#include "base/parameter.h"
#include "cluster/job.h"
#include "compute/init.h"
#include "compute/kernel.h"
#include "models/data/dataset.h"
#include "models/graph/graph.h"
#include "models/runtime/model_reading.h"
#include "wire/config/checkpoint.pb.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// A value; one thread.
class TrainedModel {
 public:
  // Reads what is said of the model, none of its values. Errors, each one line that names the file:
  // there is none, it is no safetensors file or no checkpoint, nothing says which model it is.
  static absl::StatusOr<TrainedModel> Open(const ModelFlags& flags);

  const std::string& name() const { return name_; }          // of its file or folder
  const wire::JobConfig& config() const { return config_; }  // with defaults
  // What the flags say of samples and of training data is looked at. `samples`: they are read apart
  // from the training data. Error: InvalidArgument, one line, of one that means nothing here.
  absl::Status CheckMeant(const ModelFlags& flags, bool samples) const;

  bool of_tables() const;
  bool of_text() const;  // a language model's

  // The job with its training data, read again from where they are. Error: they are not the ones
  // that the model was trained on, as far as that is known; those of PrepareJob.
  absl::StatusOr<std::shared_ptr<const Job>> ReadJob() const;

  // How its samples are read: as the file says, else as the training data, which are read for that.
  absl::StatusOr<models::ModelReading> Reading() const;

  // Of a model of tensors, sized by its data. Errors: those of the zoo and of ReadOnnx.
  absl::StatusOr<models::Graph> BuildGraph(const models::ModelReading& reading) const;
  // The values of a graph's parameters, all finite. Errors: they are not those of this graph, or
  // one is not finite. Tensors of tables are passed over.
  absl::StatusOr<compute::GivenValues> Values(const models::Graph& graph) const;

  // Rows of a table by key, all finite; of keys that have none those that a table begins with.
  // keys: ascending, each once. Error: InvalidArgument where the file has no such table.
  absl::StatusOr<SparseRows> Rows(const TableSpec& spec, uint32_t table,
                                  std::vector<uint64_t> keys) const;

  // How the samples of `path` are read, in the training data's format.
  models::DataOptions OptionsFor(const std::string& path, const std::string& labels_path) const;

  // What computes, as the job's precision says.
  absl::StatusOr<std::shared_ptr<compute::Backend>> MakeBackend() const;

 private:
  absl::Status TakeFile(const ModelFlags& flags);
  absl::Status TakeCheckpoint(const ModelFlags& flags);
  absl::Status TakeConfig(const ModelFlags& flags, const std::string& job_text,
                          const std::string& model);
  absl::StatusOr<compute::GivenValues> ReadValues(const models::Graph& graph) const;
  absl::StatusOr<compute::GivenValues> ReadCheckpoint(const models::Graph& graph) const;
  // Those of the keys that a checkpoint has.
  absl::StatusOr<SparseRows> ReadCheckpointRows(const TableSpec& spec,
                                                const std::vector<uint64_t>& keys) const;
  absl::Status CheckData(const Job& job) const;

  std::string name_;
  wire::JobConfig config_;
  int threads_ = 1;
  std::optional<models::ModelReading> reading_;  // that the file has
  std::optional<wire::Checkpoint> manifest_;     // of a checkpoint
  std::string folder_;                           // likewise
};

}  // namespace soapstone::apps
