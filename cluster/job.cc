#include "cluster/job.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/fingerprint.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "checkpoint/disk.h"
#include "cluster/model/model_metadata.h"
#include "cluster/replicas/replicas.h"
#include "cluster/resume/job_meaning.h"
#include "cluster/resume/resume.h"
#include "cluster/team/job_strategy.h"
#include "models/formats/onnx/read_onnx.h"
#include "models/formats/weights.h"
#include "models/runtime/model_input.h"
#include "models/zoo/dlrm.h"
#include "models/zoo/zoo.h"

namespace soapstone::apps {
namespace {

absl::Status Named(const absl::Status& status, const char* what) {
  return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
}

std::string DigestOf(const compute::GivenValues& given) {
  Sha256 digest;
  for (const std::vector<float>& values : given) {
    digest.Update(values.data(), values.size() * sizeof(float));
  }
  return digest.HexDigest();
}

// Stands for the contents of both parts of the data, and of what the model is from.
uint64_t FingerprintOf(const Job& job, const std::string& model_sha256) {
  Fingerprint fingerprint;
  const bool dense = job.tables == nullptr;
  fingerprint.Add(dense ? job.data->train.Digest() : job.tables->data().train.Digest());
  fingerprint.Add(dense ? job.data->test.Digest() : job.tables->data().test.Digest());
  fingerprint.Add(model_sha256);
  if (job.given != nullptr) fingerprint.Add(DigestOf(*job.given));
  return fingerprint.value().first;
}

// And for how it is split, and from where it goes on.
uint64_t FingerprintOfAll(const Job& job, uint64_t contents) {
  if (job.team == nullptr && job.first_clock == 0) return contents;
  Fingerprint fingerprint;
  fingerprint.Add(contents);
  fingerprint.Add(job.strategy_sha256);
  fingerprint.Add(job.first_clock);
  return fingerprint.value().first;
}

// Which checkpoints it writes, and which it goes on from.
absl::Status SetCheckpoints(uint64_t contents, Job* job) {
  SOAP_RETURN_IF_ERROR(CheckCheckpoints(*job));
  const wire::Output& output = job->config.output();
  job->meaning = MeaningDigest(job->config, contents);
  if (output.checkpoint_path().empty()) return absl::OkStatus();
  job->checkpoint_every = static_cast<Clock>(output.checkpoint_every());
  if (job->checkpoint_every == 0) job->checkpoint_every = job->clocks_per_epoch;
  const std::unique_ptr<checkpoint::Disk> disk = checkpoint::RealDisk();
  SOAP_ASSIGN_OR_RETURN(job->first_clock, ResumeClockOf(*job, disk.get(), &job->notes));
  if (job->first_clock > 0 && !output.record_path().empty()) {
    return absl::InvalidArgumentError(
        "output.record_path: a run that goes on from a checkpoint is not replayed yet; leave that "
        "out");
  }
  return absl::OkStatus();
}

// Shards keep their parameters at each point until the run ends.
absl::StatusOr<uint64_t> CurveStepOf(const Job& job) {
  constexpr uint64_t kPoints = 60;
  constexpr uint64_t kPointsMax = 1000;
  const wire::Training& training = job.config.training();
  const uint64_t samples = std::min<uint64_t>(job.train_samples * training.epochs(),
                                              job.total_clocks * training.batch());
  const uint64_t every = job.config.output().curve_every();
  if (every == 0) return std::max<uint64_t>(1, samples / kPoints);
  if (samples / every <= kPointsMax) return every;
  return absl::InvalidArgumentError(absl::StrCat("output.curve_every: ", every, " makes ",
                                                 samples / every, " points of a run; at most ",
                                                 kPointsMax, " are kept"));
}

// "4 workers"; "4 workers in 2 teams of 2".
std::string WorkersText(const Job& job) {
  std::string workers = Counted(job.config.cluster().workers(), "worker");
  if (job.team == nullptr || job.team->shape.teams == 1) return workers;
  return absl::StrCat(workers, " in ", job.team->shape.teams, " teams of ", job.team->shape.seats);
}

std::string SummaryOf(const Job& job) {
  const wire::Cluster& cluster = job.config.cluster();
  std::string size;
  if (job.tables != nullptr) size = Counted(job.tables->tables().size(), "table");
  if (job.graph != nullptr) {
    absl::StrAppend(&size, size.empty() ? "" : ", ", job.graph->parameter_count(), " parameters");
  }
  return absl::StrFormat("%s (%s) on %s (%d training, %d held-out samples), %s: %s of %s, %s",
                         job.config.model(), size, job.config.data().format(), job.train_samples,
                         job.test_samples, job.specs.policy.spec,
                         Counted(ServerCount(job.config, job.specs.policy), "server"),
                         Counted(cluster.shards_per_server(), "shard"), WorkersText(job));
}

uint32_t TransferStagesOf(const wire::Cluster& cluster) {
  return cluster.communication() == "priority" ? cluster.shards_per_server() : 1;
}

// What could not be read, of `what`: where nothing is at the data's path, how to get some.
absl::Status NamedData(const absl::Status& status, const char* what, const wire::Data& data) {
  std::error_code error;
  if (data.path().empty() || std::filesystem::exists(data.path(), error)) {
    return Named(status, what);
  }
  return absl::Status(
      status.code(),
      absl::StrCat("data: ", status.message(), "; `soapstone data` says how to get public sets"));
}

absl::StatusOr<models::TrainTest> LoadDenseData(const wire::JobConfig& config) {
  models::DataOptions options = DataOptionsOf(config);
  if (models::IsHashedDlrm(config.model())) {
    const absl::StatusOr<models::DlrmSize> size = models::ParseDlrm(config.model());
    if (!size.ok()) return Named(size.status(), "model");
    options.dense_columns = static_cast<uint64_t>(size->dense);
    options.categorical_columns = static_cast<uint64_t>(size->categorical);
    options.rows_max = static_cast<uint64_t>(size->rows_max);
  }
  absl::StatusOr<models::TrainTest> data = models::LoadData(options);
  if (!data.ok()) return NamedData(data.status(), "data", config.data());
  if (data->train.classes == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", config.data().path(),
                     ": every sample has the same label; a classifier needs two classes"));
  }
  return data;
}

// A model of the zoo, or of an ONNX file with its own values.
absl::Status LoadGraph(const models::TrainTest& data, Job* job, std::string* sha256) {
  const std::string path = OnnxPathOf(job->config.model());
  if (path.empty()) {
    SOAP_ASSIGN_OR_RETURN(models::Graph graph,
                          models::BuildModel(job->config.model(), models::ModelInputOf(data)));
    job->graph = std::make_shared<const models::Graph>(std::move(graph));
  } else {
    SOAP_ASSIGN_OR_RETURN(models::OnnxModel model, models::ReadOnnx(path));
    job->graph = std::make_shared<const models::Graph>(std::move(model.graph));
    job->given = std::make_shared<const compute::GivenValues>(std::move(model.values));
    *sha256 = model.sha256;
  }
  SOAP_RETURN_IF_ERROR(models::CheckFields(*job->graph, data.train));
  // The zoo's are made for the data.
  if (path.empty() || job->graph->classes() >= data.train.classes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, " has ", job->graph->classes(),
                                                 " logits; the data have ", data.train.classes,
                                                 " classes"));
}

absl::Status LoadInitialWeights(Job* job) {
  const std::string& path = job->config.training().initial_weights();
  if (path.empty()) return absl::OkStatus();
  job->given = nullptr;
  if (path == "random") return absl::OkStatus();
  SOAP_ASSIGN_OR_RETURN(compute::GivenValues values, models::LoadWeights(path, *job->graph));
  job->given = std::make_shared<const compute::GivenValues>(std::move(values));
  return absl::OkStatus();
}

// A policy or a model that there is not is said before all else.
absl::Status CheckNames(const wire::JobConfig& config) {
  const auto policy = consistency::ParsePolicy(config.policy());
  if (!policy.ok()) return Named(policy.status(), "policy");
  const bool of_the_zoo =
      OnnxPathOf(config.model()).empty() && !models::IsSparseModel(config.model());
  return of_the_zoo ? Named(models::CheckModelName(config.model()), "model") : absl::OkStatus();
}

// What the configuration says of the training itself.
void SetTraining(Job* job) {
  const wire::Training& training = job->config.training();
  const wire::Cluster& cluster = job->config.cluster();
  job->seed = training.seed();
  job->batch = training.batch();
  job->micro_batches = training.micro_batches();
  job->workers = cluster.workers();
  job->replicas = cluster.replicas();
  job->rebalance = cluster.rebalance();
  job->skip_not_finite = SkipsNotFinite(job->config);
  job->strict = job->config.strict();
  job->patience_ns = NanosOf(cluster.heartbeat_timeout_s());
  job->precision = cluster.precision();
  job->threads = std::max(1, static_cast<int>(cluster.threads()));
}

// How many local steps the data make of the epochs that are asked for.
void SetClocks(Job* job) {
  const wire::Training& training = job->config.training();
  const Clock samples = static_cast<Clock>(job->train_samples);
  job->clocks_per_epoch = (samples + training.batch() - 1) / training.batch();
  job->total_clocks = job->clocks_per_epoch * training.epochs();
  if (training.steps() > 0)
    job->total_clocks = std::min<Clock>(job->total_clocks, training.steps());
}

// The model and its data. Its layout's parameters and tables are in `params` and `options`.
absl::Status LoadModel(Job* job, std::vector<ParamSpec>* params, wire::LayoutOptions* options,
                       std::string* model_sha256) {
  const wire::JobConfig& config = job->config;
  if (models::IsSparseModel(config.model())) {
    const wire::Data& data = config.data();
    absl::StatusOr<std::shared_ptr<const models::SparseModel>> model =
        models::MakeSparseModel(config.model(),
                                {.format = data.format(),
                                 .path = data.path(),
                                 .test_path = data.test_path(),
                                 .test_fraction = data.test_fraction(),
                                 .seed = config.training().seed(),
                                 .vocabulary = data.vocabulary(),
                                 .samples = data.samples()},
                                config.cluster().table_rows_max());
    if (!model.ok()) return NamedData(model.status(), "model", data);
    job->tables = *std::move(model);
    job->test_samples = job->tables->data().test.size();
    options->tables = job->tables->tables();
    job->graph = job->tables->graph();
    if (job->graph != nullptr) *params = job->graph->params();
    return absl::OkStatus();
  }
  absl::StatusOr<models::TrainTest> data = LoadDenseData(config);
  if (!data.ok()) return data.status();
  job->test_samples = data->test.size();
  const absl::Status graph = LoadGraph(*data, job, model_sha256);
  if (!graph.ok()) return Named(graph, "model");
  const absl::Status weights = LoadInitialWeights(job);
  if (!weights.ok()) return Named(weights, "training.initial_weights");
  *params = job->graph->params();
  job->notes = data->notes;
  job->data = std::make_shared<const models::TrainTest>(*std::move(data));
  return absl::OkStatus();
}

// Makes the team of the job's strategy, and the layout of what its seats hold.
absl::StatusOr<wire::Layout> LayoutOfTeam(Job* job, wire::LayoutOptions options) {
  if (job->tables != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("cluster.strategy: a model of tables, as ",
                                                   job->config.model(), ", is not split"));
  }
  SOAP_ASSIGN_OR_RETURN(const JobStrategy file, ReadJobStrategy(job->config));
  SOAP_RETURN_IF_ERROR(CheckStrategyGoes(job->config, job->specs, file.strategy));
  SOAP_ASSIGN_OR_RETURN(job->team, MakeTeams(file, *job->graph,
                                             {.teams = job->config.cluster().teams(),
                                              .train_samples = job->data->train.size(),
                                              .test_samples = job->test_samples,
                                              .policy = job->specs.policy}));
  job->strategy_sha256 = file.sha256;
  if (job->team->plan.owned) {
    job->notes.push_back(absl::StrCat(
        "by ", file.path, job->team->shape.teams > 1 ? " each worker of team 0" : " each worker",
        " keeps parameters: the servers are within the workers' processes"));
  }
  wire::Cluster* cluster = job->config.mutable_cluster();
  const uint32_t sets = job->team->sets();
  if (cluster->shards_per_server() > 1 && cluster->shards_per_server() != sets) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster.shards_per_server: ", cluster->shards_per_server(), "; of ", file.path,
        " a server has ", sets, ", as the workers hold its parameters: leave that out"));
  }
  cluster->set_shards_per_server(sets);
  options.shard_count = cluster->servers() * cluster->shards_per_server();
  return wire::Layout::BuildOfPieces(job->team->plan.params, job->team->plan.holders, options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Job>> PrepareJob(wire::JobConfig config) {
  auto job = std::make_shared<Job>();
  SOAP_RETURN_IF_ERROR(FillFromStrategy(&config));
  FillDefaults(&config);
  job->config = std::move(config);
  SOAP_RETURN_IF_ERROR(CheckNames(job->config));
  SOAP_ASSIGN_OR_RETURN(job->specs, CheckJobConfig(job->config));
  SOAP_RETURN_IF_ERROR(CheckReplicas(job->config, job->specs.policy));
  SetTraining(job.get());

  const wire::Cluster& size = job->config.cluster();
  std::vector<ParamSpec> params;
  wire::LayoutOptions options = {.shard_count = size.servers() * size.shards_per_server(),
                                 .bucket_bytes = size.bucket_bytes(),
                                 .transfer_stages = TransferStagesOf(size)};
  std::string model_sha256;  // of the file that it is from
  SOAP_RETURN_IF_ERROR(LoadModel(job.get(), &params, &options, &model_sha256));
  const bool split = !size.strategy().empty();
  absl::StatusOr<wire::Layout> layout = split ? LayoutOfTeam(job.get(), std::move(options))
                                              : wire::Layout::Build(std::move(params), options);
  if (!layout.ok()) return split ? layout.status() : Named(layout.status(), "cluster");
  job->layout = std::make_shared<const wire::Layout>(*std::move(layout));
  cluster::Complete(job.get());
  if (job->train_samples == 0) return absl::InvalidArgumentError("data: no training samples");
  SetClocks(job.get());
  SOAP_ASSIGN_OR_RETURN(job->curve_step, CurveStepOf(*job));
  // The sampler's batches have all samples then.
  if (job->batch > job->train_samples) {
    job->notes.push_back(absl::StrCat("training.batch: ", job->batch, " is more than the ",
                                      job->train_samples,
                                      " training samples: each step takes all of them once"));
  }
  if (const int64_t named = job->specs.stragglers.workers_max(); named > size.workers()) {
    job->notes.push_back(
        absl::StrCat("training.stragglers: workers=", named, ", and there are ", size.workers()));
  }
  const uint64_t contents = FingerprintOf(*job, model_sha256);
  SOAP_RETURN_IF_ERROR(SetCheckpoints(contents, job.get()));
  job->digest = JobDigest(job->config, FingerprintOfAll(*job, contents));
  job->summary = SummaryOf(*job);
  return job;
}

bool IsLanguageModel(const Job& job) {
  const std::string& format = job.config.data().format();
  return job.data != nullptr && (format == "bytes" || format == "words");
}

absl::StatusOr<std::shared_ptr<const Job>> PrepareDenseJob(wire::JobConfig config, const char* what,
                                                           Splits splits) {
  if (models::IsSparseModel(config.model())) {
    return absl::InvalidArgumentError(absl::StrCat("model: ", config.model(),
                                                   " keeps its parameters in tables, which ", what,
                                                   " does not take; `soapstone train` does"));
  }
  if (splits == Splits::kRefused) SOAP_RETURN_IF_ERROR(CheckUnsplit(config, what));
  return PrepareJob(std::move(config));
}

absl::Status CheckParametersFit(const Job& job, uint64_t available_bytes) {
  if (job.graph == nullptr || job.team != nullptr) return absl::OkStatus();
  const bool on_devices = job.config.cluster().device() == "cuda";
  const uint64_t workers = on_devices ? 0 : job.config.cluster().workers();
  const double bytes = sizeof(float) * static_cast<double>(job.graph->parameter_count());
  const double needed = bytes * static_cast<double>(2 + 2 * workers);
  if (needed <= static_cast<double>(available_bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "model: the parameters of %s need %.1f GB of memory on this machine (two versions on the "
      "servers, values and gradient on each of %d workers), and %.1f are available; take fewer "
      "workers or a smaller model",
      job.config.model(), needed / 1e9, workers, static_cast<double>(available_bytes) / 1e9));
}

}  // namespace soapstone::apps
