#include "apps/job.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/fingerprint.h"
#include "base/status_macros.h"
#include "models/zoo.h"

namespace soapstone::apps {
namespace {

absl::Status Named(const absl::Status& status, const char* what) {
  return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
}

models::DataOptions DataOptionsOf(const wire::JobConfig& config) {
  const wire::Data& data = config.data();
  return {.format = data.format(),
          .path = data.path(),
          .labels_path = data.labels_path(),
          .test_path = data.test_path(),
          .test_labels_path = data.test_labels_path(),
          .test_fraction = data.test_fraction(),
          .scale = data.scale(),
          .height = data.height(),
          .width = data.width(),
          .seed = config.training().seed()};
}

// Stands for the contents of both parts.
uint64_t FingerprintOf(const models::TrainTest& data) {
  Fingerprint fingerprint;
  fingerprint.Add(data.train.Digest());
  fingerprint.Add(data.test.Digest());
  return fingerprint.value().first;
}

// Shards keep their parameters at each point until the run ends.
absl::StatusOr<uint64_t> CurveStepOf(const Job& job) {
  constexpr uint64_t kPoints = 60;
  constexpr uint64_t kPointsMax = 1000;
  const uint64_t samples = job.data->train.size() * job.config.training().epochs();
  const uint64_t every = job.config.output().curve_every();
  if (every == 0) return std::max<uint64_t>(1, samples / kPoints);
  if (samples / every <= kPointsMax) return every;
  return absl::InvalidArgumentError(absl::StrCat("output.curve_every: ", every, " makes ",
                                                 samples / every, " points of a run; at most ",
                                                 kPointsMax, " are kept"));
}

std::string Plural(uint64_t n, const char* noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

std::string SummaryOf(const Job& job) {
  const wire::Cluster& cluster = job.config.cluster();
  return absl::StrFormat(
      "%s (%d parameters) on %s (%d training, %d held-out samples), %s: %s of %s, %s",
      job.config.model(), job.graph->parameter_count(), job.config.data().format(),
      job.data->train.size(), job.data->test.size(), job.specs.policy.spec,
      Plural(ServerCount(job.config, job.specs.policy), "server"),
      Plural(cluster.shards_per_server(), "shard"), Plural(cluster.workers(), "worker"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Job>> PrepareJob(wire::JobConfig config) {
  auto job = std::make_shared<Job>();
  FillDefaults(&config);
  job->config = std::move(config);
  SOAP_ASSIGN_OR_RETURN(job->specs, CheckJobConfig(job->config));

  absl::StatusOr<models::TrainTest> data = models::LoadData(DataOptionsOf(job->config));
  if (!data.ok()) return Named(data.status(), "data");
  if (data->train.size() == 0) return absl::InvalidArgumentError("data: no training samples");
  job->data = std::make_shared<const models::TrainTest>(*std::move(data));

  const models::Dataset& train = job->data->train;
  absl::StatusOr<models::Graph> graph =
      models::BuildModel(job->config.model(), train.shape, train.classes);
  if (!graph.ok()) return Named(graph.status(), "model");
  job->graph = std::make_shared<const models::Graph>(*std::move(graph));

  const wire::Cluster& cluster = job->config.cluster();
  absl::StatusOr<wire::Layout> layout = wire::Layout::Build(
      job->graph->params(), {.shard_count = cluster.servers() * cluster.shards_per_server(),
                             .bucket_bytes = cluster.bucket_bytes()});
  if (!layout.ok()) return Named(layout.status(), "cluster");
  job->layout = std::make_shared<const wire::Layout>(*std::move(layout));
  job->worker_layout =
      job->specs.policy.decentralised()
          ? std::make_shared<const wire::Layout>(wire::Layout::Whole(job->layout->params()))
          : job->layout;

  const wire::Training& training = job->config.training();
  const Clock samples = static_cast<Clock>(train.size());
  job->clocks_per_epoch = (samples + training.batch() - 1) / training.batch();
  job->total_clocks = job->clocks_per_epoch * training.epochs();
  SOAP_ASSIGN_OR_RETURN(job->curve_step, CurveStepOf(*job));
  job->digest = JobDigest(job->config, FingerprintOf(*job->data));
  job->summary = SummaryOf(*job);
  return job;
}

}  // namespace soapstone::apps
