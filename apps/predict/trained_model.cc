#include "apps/predict/trained_model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/checkpoint_command/checkpoint_place.h"
#include "apps/node/compute_backend.h"
#include "base/finite.h"
#include "base/status_macros.h"
#include "checkpoint/box.h"
#include "checkpoint/disk.h"
#include "checkpoint/image.h"
#include "cluster/job_paths.h"
#include "cluster/model/model_metadata.h"
#include "models/formats/onnx/read_onnx.h"
#include "models/formats/safetensors_reader.h"
#include "models/formats/weights.h"
#include "models/tables/sparse_model.h"
#include "models/zoo/zoo.h"

namespace soapstone::apps {
namespace {

template <class... Args>
absl::Status BadModel(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

bool StartsFromFile(const wire::JobConfig& config) {
  const std::string& path = config.training().initial_weights();
  return !path.empty() && path != "random";
}

absl::Status NotFinite(const std::string& name, const std::string& tensor) {
  return BadModel(name, ": ", tensor,
                  " has values that are not finite: its training diverged, or the file is damaged");
}

// A table's keys and rows as they are in the file.
absl::StatusOr<SparseRows> ReadTable(const std::string& path, const TableSpec& spec) {
  SOAP_ASSIGN_OR_RETURN(const auto tensors, models::ReadSafetensorsHeader(path));
  const models::StoredTensor* keys = nullptr;
  const models::StoredTensor* rows = nullptr;
  for (const models::StoredTensor& tensor : tensors) {
    if (tensor.name == spec.name + ".keys") keys = &tensor;
    if (tensor.name == spec.name + ".rows") rows = &tensor;
  }
  if (keys == nullptr || rows == nullptr) {
    return BadModel(path, " does not fit the model: it has no table ", spec.name);
  }
  SparseRows table;
  if (keys->begin < keys->end) {
    SOAP_ASSIGN_OR_RETURN(table.keys, models::ReadKeys(path, *keys));
  }
  const std::vector<int64_t> shape = {static_cast<int64_t>(table.keys.size()), spec.dim};
  if (rows->shape != shape || !AscendStrictly(table.keys)) {
    return BadModel(path, " does not fit the model: ", spec.name, ".rows has shape [",
                    absl::StrJoin(rows->shape, ", "), "], not [", absl::StrJoin(shape, ", "),
                    "], or its keys do not ascend");
  }
  SOAP_ASSIGN_OR_RETURN(table.rows, models::ReadFloats(path, *rows));
  return table;
}

// The job that data are read by: for one process that writes nothing, the rest as it was.
wire::JobConfig JobOfData(wire::JobConfig config) {
  config.clear_output();
  wire::Cluster* cluster = config.mutable_cluster();
  for (std::string* path : {cluster->mutable_strategy(), cluster->mutable_scheduler()}) {
    path->clear();
  }
  cluster->clear_teams();
  cluster->clear_shards_per_server();
  cluster->clear_replicas();
  if (cluster->workers() == 0) cluster->set_workers(1);
  if (cluster->servers() == 0) cluster->set_servers(1);
  wire::Training* training = config.mutable_training();
  training->clear_stragglers();
  if (StartsFromFile(config)) training->clear_initial_weights();
  if (training->epochs() == 0) training->set_epochs(1);
  if (training->batch() == 0) training->set_batch(1);
  return config;
}

}  // namespace

absl::StatusOr<TrainedModel> TrainedModel::Open(const ModelFlags& flags) {
  TrainedModel model;
  model.threads_ = flags.threads;
  SOAP_RETURN_IF_ERROR(flags.checkpoint.empty() ? model.TakeFile(flags)
                                                : model.TakeCheckpoint(flags));
  return model;
}

absl::Status TrainedModel::TakeFile(const ModelFlags& flags) {
  name_ = flags.model_file;
  SOAP_ASSIGN_OR_RETURN(const auto said, models::ReadSafetensorsMetadata(name_));
  const auto text_of = [&](const char* key) {
    const auto at = said.find(key);
    return at == said.end() ? std::string() : at->second;
  };
  SOAP_RETURN_IF_ERROR(TakeConfig(flags, text_of("job"), text_of("model")));
  const std::string reading = text_of("reading");
  // What a job file says takes the place of what the file does.
  if (reading.empty() || !flags.config_path.empty()) return absl::OkStatus();
  absl::StatusOr<models::ModelReading> parsed = models::ParseReading(reading);
  if (!parsed.ok()) return BadModel(name_, ": ", parsed.status().message());
  reading_ = *std::move(parsed);
  return absl::OkStatus();
}

absl::Status TrainedModel::TakeCheckpoint(const ModelFlags& flags) {
  const CheckpointPlace place = CheckpointPlaceOf(flags.checkpoint);
  folder_ = place.folder;
  const std::unique_ptr<checkpoint::Disk> disk = checkpoint::RealDisk();
  SOAP_ASSIGN_OR_RETURN(manifest_, ManifestAt(disk.get(), place));
  name_ = absl::StrCat(folder_, ", checkpoint ", manifest_->clock());
  return TakeConfig(flags, manifest_->job(), "");
}

absl::Status TrainedModel::TakeConfig(const ModelFlags& flags, const std::string& job_text,
                                      const std::string& model) {
  if (!flags.config_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(config_, ReadJobFile(flags.config_path));
  } else if (!job_text.empty()) {
    SOAP_ASSIGN_OR_RETURN(config_, ParseJobText(job_text, absl::StrCat(name_, ", its job")));
  } else {
    return BadModel(name_,
                    model.empty() ? " says of no model what it is"
                                  : absl::StrCat(" says that it is ", absl::CHexEscape(model),
                                                 ", but not how its data are read"),
                    ": give --config=JOB, the file of the job");
  }
  SOAP_RETURN_IF_ERROR(ApplyOverrides(flags.overrides, &config_));
  config_ = JobOfData(std::move(config_));
  FillDefaults(&config_);
  return absl::OkStatus();
}

absl::Status TrainedModel::CheckMeant(const ModelFlags& flags, bool samples) const {
  const std::string& format = config_.data().format();
  if (!flags.labels_path.empty() && format != "idx") {
    return BadModel("--labels is of data of format idx, and ", name_, " was trained on ", format,
                    ": leave it out");
  }
  // A file with `reading` says how samples are read, and tables but for these read theirs alone.
  const std::string model = config_.model().substr(0, config_.model().find(':'));
  const bool alone =
      of_tables() ? model != "matrix_factorisation" && model != "skip_gram" : reading_.has_value();
  for (const JobOverride& override : flags.overrides) {
    const std::string path = override.field->path;
    if (path == "data.missing" && format == "csv") continue;
    if (path == "data.missing") {
      return BadModel("--missing is of data of format csv, and ", name_, " was trained on ", format,
                      ": leave it out");
    }
    if (!samples || !alone) continue;
    return BadModel("--", override.field->flag, " says where training data lie, and none of ",
                    name_, " are read here (--data, --images and --text are read): leave it out");
  }
  return absl::OkStatus();
}

bool TrainedModel::of_tables() const { return models::IsSparseModel(config_.model()); }

bool TrainedModel::of_text() const {
  return !of_tables() && (config_.data().format() == "bytes" || config_.data().format() == "words");
}

absl::StatusOr<std::shared_ptr<const Job>> TrainedModel::ReadJob() const {
  absl::StatusOr<std::shared_ptr<const Job>> job = PrepareJob(config_);
  if (!job.ok()) return BadModel(job.status().message());
  SOAP_RETURN_IF_ERROR(CheckData(**job));
  return job;
}

absl::Status TrainedModel::CheckData(const Job& job) const {
  constexpr char kOther[] = " was trained on other data than there are now at ";
  if (reading_.has_value() && job.data != nullptr && models::ReadingOf(*job.data) != *reading_) {
    return BadModel(name_, kOther, config_.data().path());
  }
  if (!manifest_.has_value()) return absl::OkStatus();
  const auto before = ParseJobText(manifest_->job(), "job");
  // Values that it began with are part of what it means.
  if (!before.ok() || StartsFromFile(*before)) return absl::OkStatus();
  if (manifest_->meaning() == absl::StrCat(absl::Hex(job.meaning, absl::kZeroPad16))) {
    return absl::OkStatus();
  }
  return BadModel(name_, kOther, config_.data().path(), ", or by another job than --config says");
}

absl::StatusOr<models::ModelReading> TrainedModel::Reading() const {
  if (reading_.has_value()) return *reading_;
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job, ReadJob());
  if (job->data == nullptr) return BadModel(name_, ": ", config_.model(), " has no tensors");
  return models::ReadingOf(*job->data);
}

absl::StatusOr<models::Graph> TrainedModel::BuildGraph(const models::ModelReading& reading) const {
  const std::string onnx = OnnxPathOf(config_.model());
  if (!onnx.empty()) {
    SOAP_ASSIGN_OR_RETURN(models::OnnxModel model, models::ReadOnnx(onnx));
    return std::move(model.graph);
  }
  return models::BuildModel(config_.model(), reading.input);
}

absl::StatusOr<compute::GivenValues> TrainedModel::ReadValues(const models::Graph& graph) const {
  if (manifest_.has_value()) return ReadCheckpoint(graph);
  if (!of_tables()) return models::LoadWeights(name_, graph);
  SOAP_ASSIGN_OR_RETURN(const auto tensors, models::ReadSafetensorsHeader(name_));
  std::map<std::string, const models::StoredTensor*> by_name;
  for (const models::StoredTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  compute::GivenValues values;
  for (const ParamSpec& param : graph.params()) {
    const auto at = by_name.find(param.name);
    if (at == by_name.end() || at->second->shape != param.shape) {
      return BadModel(name_, " does not fit ", config_.model(), ": it has no ", param.name,
                      " of shape [", absl::StrJoin(param.shape, ", "), "]");
    }
    SOAP_ASSIGN_OR_RETURN(values.emplace_back(), models::ReadFloats(name_, *at->second));
  }
  return values;
}

absl::StatusOr<compute::GivenValues> TrainedModel::ReadCheckpoint(
    const models::Graph& graph) const {
  const std::unique_ptr<checkpoint::Disk> disk = checkpoint::RealDisk();
  SOAP_ASSIGN_OR_RETURN(checkpoint::Image image,
                        checkpoint::Image::Open(disk.get(), folder_, *manifest_));
  SOAP_RETURN_IF_ERROR(image.CheckAllThere());
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const checkpoint::Image::Param& param : image.Params()) shapes[param.name] = param.shape;
  compute::GivenValues values;
  for (const ParamSpec& param : graph.params()) {
    const auto at = shapes.find(param.name);
    if (at == shapes.end() || at->second != param.shape) {
      return BadModel(name_, " does not fit ", graph.name(), ": it has no ", param.name,
                      " of shape [", absl::StrJoin(param.shape, ", "), "]");
    }
    const checkpoint::Box whole = checkpoint::WholeBox(param.shape);
    std::vector<float>& of_param = values.emplace_back(param.elements());
    SOAP_RETURN_IF_ERROR(image.Fill(param.name, whole, 0, {.values = absl::MakeSpan(of_param)}));
  }
  return values;
}

absl::StatusOr<compute::GivenValues> TrainedModel::Values(const models::Graph& graph) const {
  absl::StatusOr<compute::GivenValues> values = ReadValues(graph);
  if (!values.ok()) return BadModel(values.status().message());
  for (size_t p = 0; p < values->size(); ++p) {
    if (!AllFinite((*values)[p])) return NotFinite(name_, graph.params()[p].name);
  }
  return values;
}

absl::StatusOr<SparseRows> TrainedModel::ReadCheckpointRows(
    const TableSpec& spec, const std::vector<uint64_t>& keys) const {
  const std::unique_ptr<checkpoint::Disk> disk = checkpoint::RealDisk();
  SOAP_ASSIGN_OR_RETURN(checkpoint::Image image,
                        checkpoint::Image::Open(disk.get(), folder_, *manifest_));
  SOAP_ASSIGN_OR_RETURN(const std::vector<checkpoint::Image::Table> tables, image.Tables());
  const bool fits = std::ranges::any_of(tables, [&](const checkpoint::Image::Table& table) {
    return table.name == spec.name && table.form.dim == spec.dim;
  });
  if (!fits) {
    return BadModel(name_, " does not fit the model: it has no table ", spec.name, " of ", spec.dim,
                    " floats a row");
  }
  std::map<uint64_t, std::vector<float>> rows;
  const auto wanted = [&keys](uint64_t key) { return std::ranges::binary_search(keys, key); };
  const auto take = [&](size_t /*part*/, const RowBlock& block) {
    for (size_t i = 0; i < block.keys.size(); ++i) {
      const float* row = block.values.data() + i * spec.dim;
      const bool first = rows.try_emplace(block.keys[i], row, row + spec.dim).second;
      if (!first) {
        return BadModel(name_, ": table ", spec.name, ": key ", block.keys[i], " is there twice");
      }
    }
    return absl::OkStatus();
  };
  SOAP_RETURN_IF_ERROR(image.ReadRows(spec.name, wanted, /*state=*/false, take));
  SparseRows stored;
  for (const auto& [key, row] : rows) {
    stored.keys.push_back(key);
    stored.rows.insert(stored.rows.end(), row.begin(), row.end());
  }
  return stored;
}

absl::StatusOr<SparseRows> TrainedModel::Rows(const TableSpec& spec, uint32_t table,
                                              std::vector<uint64_t> keys) const {
  absl::StatusOr<SparseRows> read =
      manifest_.has_value() ? ReadCheckpointRows(spec, keys) : ReadTable(name_, spec);
  if (!read.ok()) return BadModel(read.status().message());
  const SparseRows stored = *std::move(read);
  if (!AllFinite(stored.rows)) return NotFinite(name_, spec.name);
  const compute::RowInit init = {
      .kind = spec.init, .scale = spec.scale, .seed = config_.training().seed(), .table = table};
  SparseRows rows = {.keys = std::move(keys)};
  rows.rows.resize(rows.keys.size() * spec.dim);
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    const absl::Span<float> to = absl::MakeSpan(rows.rows).subspan(i * spec.dim, spec.dim);
    const auto at = std::lower_bound(stored.keys.begin(), stored.keys.end(), rows.keys[i]);
    if (at == stored.keys.end() || *at != rows.keys[i]) {
      compute::InitRow(init, rows.keys[i], to);
      continue;
    }
    const auto from = static_cast<size_t>(at - stored.keys.begin()) * spec.dim;
    std::copy_n(stored.rows.begin() + static_cast<ptrdiff_t>(from), spec.dim, to.begin());
  }
  return rows;
}

models::DataOptions TrainedModel::OptionsFor(const std::string& path,
                                             const std::string& labels_path) const {
  models::DataOptions options = DataOptionsOf(config_);
  options.path = path;
  options.labels_path = labels_path;
  options.test_path.clear();
  options.test_labels_path.clear();
  options.augment.clear();
  return options;
}

absl::StatusOr<std::shared_ptr<compute::Backend>> TrainedModel::MakeBackend() const {
  return MakeChosenBackend({.precision = config_.cluster().precision(), .threads = threads_});
}

}  // namespace soapstone::apps
