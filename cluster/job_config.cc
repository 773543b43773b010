#include "cluster/job_config.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/fingerprint.h"
#include "base/status_macros.h"
#include "cluster/job_paths.h"
#include "models/data/augmentation.h"
#include "models/readers/csv_reader.h"
#include "models/tables/sparse_model.h"
#include "observe/timeline/clock_range.h"
#include "wire/config/text_config.h"

namespace soapstone::apps {
namespace {

// Micro-batches a worker by default with cluster.rebalance: shares of whole micro-batches are then
// within about 1 / 16 of what speeds ask for.
constexpr uint32_t kLeavesEachToRebalance = 16;

// Shards a server by default with cluster.communication: priority.
constexpr uint32_t kTransferStages = 8;

absl::Status Invalid(const std::string& text) { return absl::InvalidArgumentError(text); }

absl::Status CheckTraining(const wire::JobConfig& config) {
  const wire::Training& training = config.training();
  const wire::Cluster& cluster = config.cluster();
  if (training.epochs() < 1) return Invalid("training.epochs: at least 1 is needed");
  if (training.batch() < 1) return Invalid("training.batch: at least 1 is needed");
  const bool split = !cluster.strategy().empty();  // all workers compute the same micro-batches
  if (!split && training.micro_batches() < cluster.workers()) {
    return Invalid(absl::StrCat("training.micro_batches: ", training.micro_batches(),
                                " is less than the ", cluster.workers(),
                                " workers: each needs one at least"));
  }
  if (training.batch() < training.micro_batches()) {
    return Invalid(absl::StrCat("training.batch: ", training.batch(), " samples is less than the ",
                                training.micro_batches(), " micro-batches of a batch"));
  }
  if (training.on_nonfinite() != "stop" && training.on_nonfinite() != "skip") {
    return Invalid(absl::StrCat("training.on_nonfinite: \"", training.on_nonfinite(),
                                "\" is neither stop nor skip"));
  }
  if (training.evaluation() != "end" && training.evaluation() != "none") {
    return Invalid(absl::StrCat("training.evaluation: \"", training.evaluation(),
                                "\" is neither end nor none"));
  }
  if (!(training.base_ms() >= 0 && training.base_ms() <= 3.6e6)) {
    return Invalid(
        absl::StrCat("training.base_ms: ", training.base_ms(), " is not within 0 and 3600000 ms"));
  }
  return absl::OkStatus();
}

absl::Status CheckSeconds(double value, const char* name) {
  if (std::isfinite(value) && value >= 0.001 && value <= 1e6) return absl::OkStatus();
  return Invalid(absl::StrCat(name, ": ", value, " is not within 0.001 and 1000000 seconds"));
}

constexpr uint32_t kThreadsMax = 1024;
constexpr uint32_t kNodesMax = 100'000;  // as wire/frame.h

// What the processor has is known where the worker runs.
absl::Status CheckArithmetic(const wire::Cluster& cluster) {
  const std::string& precision = cluster.precision();
  if (precision != "float32" && precision != "tf32" && precision != "bf16") {
    return Invalid(
        absl::StrCat("cluster.precision: \"", precision, "\" is none of float32, tf32 and bf16"));
  }
  if (precision == "tf32" && cluster.device() == "cpu") {
    return Invalid("cluster.precision: processors have no tf32; take float32 or bf16");
  }
  const std::string& isa = cluster.isa();
  if (isa != "auto" && isa != "sse41" && isa != "avx2" && isa != "avx512") {
    return Invalid(absl::StrCat("cluster.isa: \"", isa, "\" is none of auto, sse41, avx2, avx512"));
  }
  if (precision == "bf16" && cluster.device() == "cpu" && isa != "auto") {
    return Invalid(absl::StrCat("cluster.isa: ", isa, " has no bf16; take --precision=float32"));
  }
  return absl::OkStatus();
}

absl::Status CheckCluster(const wire::Cluster& cluster) {
  const auto within = [](uint32_t value, const char* name) {
    if (value >= 1 && value <= kNodesMax) return absl::OkStatus();
    return Invalid(absl::StrCat(name, ": ", value, " is not within 1 and ", kNodesMax));
  };
  SOAP_RETURN_IF_ERROR(within(cluster.servers(), "cluster.servers"));
  SOAP_RETURN_IF_ERROR(within(cluster.workers(), "cluster.workers"));
  SOAP_RETURN_IF_ERROR(within(cluster.shards_per_server(), "cluster.shards_per_server"));
  if (cluster.teams() > 1 && cluster.strategy().empty()) {
    return Invalid(absl::StrCat("cluster.teams: ", cluster.teams(),
                                ", and no cluster.strategy that says what a team's workers run"));
  }
  if (uint64_t{cluster.servers()} * cluster.shards_per_server() > kNodesMax) {
    return Invalid(absl::StrCat("cluster: more than ", kNodesMax, " shards"));
  }
  SOAP_RETURN_IF_ERROR(CheckSeconds(cluster.heartbeat_s(), "cluster.heartbeat_s"));
  SOAP_RETURN_IF_ERROR(CheckSeconds(cluster.heartbeat_timeout_s(), "cluster.heartbeat_timeout_s"));
  SOAP_RETURN_IF_ERROR(CheckSeconds(cluster.link_timeout_s(), "cluster.link_timeout_s"));
  SOAP_RETURN_IF_ERROR(CheckSeconds(cluster.start_timeout_s(), "cluster.start_timeout_s"));
  SOAP_RETURN_IF_ERROR(CheckSeconds(cluster.grace_s(), "cluster.grace_s"));
  if (cluster.heartbeat_timeout_s() < 2 * cluster.heartbeat_s()) {
    return Invalid(absl::StrCat("cluster.heartbeat_timeout_s: ", cluster.heartbeat_timeout_s(),
                                " is less than two heartbeats of ", cluster.heartbeat_s(), " s"));
  }
  const std::string& transport = cluster.transport();
  if (transport != "auto" && transport != "sockets" && transport != "zeromq") {
    return Invalid(absl::StrCat("cluster.transport: \"", transport,
                                "\" is neither auto nor sockets nor zeromq"));
  }
  const std::string& security = cluster.security();
  if (security != "auto" && security != "required" && security != "off") {
    return Invalid(
        absl::StrCat("cluster.security: \"", security, "\" is none of auto, required and off"));
  }
  const std::string& device = cluster.device();
  if (device != "auto" && device != "cpu" && device != "cuda") {
    return Invalid(absl::StrCat("cluster.device: \"", device, "\" is none of auto, cpu and cuda"));
  }
  SOAP_RETURN_IF_ERROR(CheckArithmetic(cluster));
  if (cluster.threads() > kThreadsMax) {
    return Invalid(
        absl::StrCat("cluster.threads: ", cluster.threads(), " is more than ", kThreadsMax));
  }
  if (cluster.bucket_bytes() < 4) return Invalid("cluster.bucket_bytes: at least 4 is needed");
  return absl::OkStatus();
}

absl::Status CheckTree(const wire::JobConfig& config, const consistency::PolicyTraits& policy) {
  const uint64_t servers = uint64_t{config.cluster().servers()} *
                           consistency::ServerCopies(policy, config.cluster().workers());
  if (servers * config.cluster().shards_per_server() <= kNodesMax) return absl::OkStatus();
  return Invalid(absl::StrCat("policy: ", policy.spec, " needs ", servers,
                              " servers, a set for each group: more than ", kNodesMax, " shards"));
}

absl::Status CheckCommunication(const wire::Cluster& cluster,
                                const consistency::PolicyTraits& policy) {
  const std::string& order = cluster.communication();
  if (order == "fifo" || (order == "priority" && policy.pulls_ahead())) return absl::OkStatus();
  if (order != "priority") {
    return Invalid(
        absl::StrCat("cluster.communication: \"", order, "\" is neither fifo nor priority"));
  }
  return Invalid(
      absl::StrCat("cluster.communication: priority goes with policies whose workers "
                   "pull each clock's parameters, such as bsp, ssp and async; not with ",
                   policy.spec));
}

absl::Status CheckRebalance(const wire::JobConfig& config,
                            const consistency::PolicyTraits& policy) {
  if (!config.cluster().rebalance()) return absl::OkStatus();
  if (!policy.weighs_samples()) {
    return Invalid(absl::StrCat("cluster.rebalance: with ", policy.spec,
                                " not every gradient is taken by its samples; it goes with "
                                "policies that push gradients, such as bsp and ssp"));
  }
  const uint32_t workers = config.cluster().workers();
  if (config.training().micro_batches() <= workers) {
    return Invalid(absl::StrCat("cluster.rebalance: needs more micro-batches than the ", workers,
                                " workers (", uint64_t{kLeavesEachToRebalance} * workers,
                                " let speeds be matched well); training.micro_batches is ",
                                config.training().micro_batches()));
  }
  return absl::OkStatus();
}

// Models over tables (models/tables/sparse_model.h): what does not go with them.
absl::Status CheckTables(const wire::JobConfig& config, const consistency::PolicyTraits& policy) {
  if (!models::IsSparseModel(config.model())) return absl::OkStatus();
  if (!policy.takes_tables()) {
    return Invalid(absl::StrCat("policy: ", policy.spec,
                                " moves whole tensors; a model of tables, as ", config.model(),
                                ", goes with bsp, ssp, async, dssp, psp, pssp and softsync"));
  }
  if (config.cluster().precision() != "float32") {
    return Invalid(absl::StrCat("cluster.precision: a model of tables, as ", config.model(),
                                ", has no large products; take float32"));
  }
  if (config.cluster().communication() == "priority") {
    return Invalid(
        absl::StrCat("cluster.communication: priority is by layers; a model of tables, as ",
                     config.model(), ", has none"));
  }
  for (const auto& [field, value] :
       {std::pair("output.curve_path", config.output().curve_path()),
        std::pair("output.record_path", config.output().record_path()),
        std::pair("data.augment", config.data().augment()),
        std::pair("training.initial_weights", config.training().initial_weights())}) {
    if (value.empty()) continue;
    return Invalid(absl::StrCat(field, ": not for a model of tables, as ", config.model()));
  }
  return absl::OkStatus();
}

absl::Status CheckFailures(const wire::Output& output, const sim::StragglerModel& stragglers) {
  if (!stragglers.fails()) return absl::OkStatus();
  for (const auto& [field, path] :
       {std::pair("trace_path", output.trace_path()), std::pair("curve_path", output.curve_path()),
        std::pair("record_path", output.record_path())}) {
    if (path.empty()) continue;
    return Invalid(absl::StrCat("training.stragglers: failstop does not go with output.", field,
                                ": what a worker that fails had to write is lost"));
  }
  return absl::OkStatus();
}

absl::Status CheckTimeline(const wire::Output& output) {
  if (!output.timeline_clocks().empty() && output.timeline_path().empty()) {
    return Invalid("output.timeline_clocks: of no timeline; set output.timeline_path too");
  }
  absl::Status range = timeline::ParseClockRange(output.timeline_clocks()).status();
  if (range.ok()) return range;
  return Invalid(absl::StrCat("output.timeline_clocks: ", range.message()));
}

// What means something for some formats only, and would be ignored for others.
absl::Status CheckFormatsFields(const wire::Data& data) {
  struct Field {
    const char* name;
    bool set;
    std::vector<std::string> formats;
  };
  const bool sized = data.height() > 0 || data.width() > 0;
  const Field fields[] = {
      {"labels_path", !data.labels_path().empty(), {"idx"}},
      {"test_labels_path", !data.test_labels_path().empty(), {"idx"}},
      {"height and data.width", sized, {"csv", "images"}},
      {"channels", data.channels() > 0, {"images"}},
      {"length", data.length() > 0, {"bytes", "words", "parallel", "copy"}},
      {"vocabulary", data.vocabulary() > 0, {"words", "parallel", "copy", "clicks"}},
      {"samples", data.samples() > 0, {"copy", "clicks"}},
      {"label_column", !data.label_column().empty(), {"csv"}},
      {"separator", !data.separator().empty(), {"csv"}},
      {"missing", !data.missing().empty(), {"csv"}},
  };
  for (const Field& field : fields) {
    if (!field.set || absl::c_linear_search(field.formats, data.format())) continue;
    return Invalid(absl::StrCat("data.", field.name, ": of format ",
                                absl::StrJoin(field.formats, ", "), ", not of ", data.format()));
  }
  return absl::OkStatus();
}

absl::Status CheckData(const wire::Data& data) {
  if (data.path().empty() && data.format() != "copy" && data.format() != "clicks") {
    return Invalid(absl::StrCat("data.path: format ", data.format(), " needs one"));
  }
  const absl::Status augment = models::ParseAugmentation(data.augment()).status();
  if (!augment.ok()) return Invalid(absl::StrCat("data.augment: ", augment.message()));
  if (!(data.test_fraction() > 0 && data.test_fraction() < 1)) {
    return Invalid(
        absl::StrCat("data.test_fraction: ", data.test_fraction(), " is not between 0 and 1"));
  }
  if (!std::isfinite(data.scale()) || data.scale() < 0) {
    return Invalid(absl::StrCat("data.scale: ", data.scale(), " is negative"));
  }
  if ((data.height() == 0) != (data.width() == 0)) {
    return Invalid("data.height and data.width: set both, or none for flat vectors");
  }
  const absl::Status separator = models::ParseSeparator(data.separator()).status();
  if (!separator.ok()) return Invalid(absl::StrCat("data.separator: ", separator.message()));
  if (!data.missing().empty() && data.missing() != "stop" && data.missing() != "drop") {
    return Invalid(absl::StrCat("data.missing: \"", data.missing(), "\" is neither stop nor drop"));
  }
  return CheckFormatsFields(data);
}

}  // namespace

bool SkipsNotFinite(const wire::JobConfig& config) {
  return config.training().on_nonfinite() == "skip";
}

std::string OnnxPathOf(const std::string& model) {
  return absl::StartsWith(model, "onnx:") ? model.substr(5) : std::string();
}

uint32_t ServerCount(const wire::JobConfig& config, const consistency::PolicyTraits& policy) {
  const wire::Cluster& cluster = config.cluster();
  return cluster.servers() * consistency::ServerCopies(policy, cluster.workers());
}

absl::StatusOr<wire::JobConfig> ParseJobText(const std::string& text, const std::string& name) {
  wire::JobConfig config;
  SOAP_RETURN_IF_ERROR(wire::ParseTextConfig(text, name, &config));
  return config;
}

namespace {

// Sizes of the formats that have them; 0 for others, where they mean nothing.
struct SequenceDefaults {
  const char* format;
  uint32_t length;
  uint32_t vocabulary;
  uint32_t samples;
};
constexpr SequenceDefaults kSequenceDefaults[] = {{"bytes", 40, 0, 0},
                                                  {"words", 40, 10'000, 0},
                                                  {"parallel", 40, 32'000, 0},
                                                  {"copy", 8, 32, 10'000},
                                                  {"clicks", 0, 1000, 20'000}};

void FillSequenceDefaults(wire::Data* data) {
  for (const SequenceDefaults& defaults : kSequenceDefaults) {
    if (data->format() != defaults.format) continue;
    if (data->length() == 0) data->set_length(defaults.length);
    if (data->vocabulary() == 0) data->set_vocabulary(defaults.vocabulary);
    if (data->samples() == 0) data->set_samples(defaults.samples);
  }
}

}  // namespace

void FillDefaults(wire::JobConfig* config) {
  wire::Data* data = config->mutable_data();
  if (data->format().empty()) data->set_format("digits");
  if (data->format() == "digits" && data->path().empty()) {
    data->set_path("data/digits/digits.csv.gz");
  }
  if (data->test_fraction() == 0) data->set_test_fraction(0.2);
  FillSequenceDefaults(data);
  if (config->policy().empty()) config->set_policy("bsp");
  wire::Training* training = config->mutable_training();
  if (training->optimizer().empty()) training->set_optimizer("sgd:lr=0.05");
  if (training->schedule().empty()) training->set_schedule("constant");
  if (training->stragglers().empty()) training->set_stragglers("none");
  if (training->on_nonfinite().empty()) training->set_on_nonfinite("stop");
  if (training->evaluation().empty()) training->set_evaluation("end");
  wire::Cluster* cluster = config->mutable_cluster();
  if (training->micro_batches() == 0) {
    const uint32_t micro_batches_each = cluster->rebalance() ? kLeavesEachToRebalance : 1;
    const uint64_t micro_batches = uint64_t{micro_batches_each} * cluster->workers();
    training->set_micro_batches(static_cast<uint32_t>(std::max<uint64_t>(
        std::min<uint64_t>(micro_batches, training->batch()), cluster->workers())));
  }
  if (cluster->communication().empty()) cluster->set_communication("fifo");
  if (cluster->shards_per_server() == 0) {
    cluster->set_shards_per_server(cluster->communication() == "priority" ? kTransferStages : 1);
  }
  if (cluster->replicas() == 0) cluster->set_replicas(1);
  if (cluster->transport().empty()) cluster->set_transport("auto");
  if (cluster->security().empty()) cluster->set_security("auto");
  if (cluster->device().empty()) cluster->set_device("cpu");
  if (cluster->threads() == 0) cluster->set_threads(1);
  if (cluster->precision().empty()) cluster->set_precision("float32");
  if (cluster->isa().empty()) cluster->set_isa("auto");
  if (cluster->heartbeat_s() == 0) cluster->set_heartbeat_s(0.5);
  if (cluster->heartbeat_timeout_s() == 0) cluster->set_heartbeat_timeout_s(5);
  if (cluster->link_timeout_s() == 0) cluster->set_link_timeout_s(cluster->heartbeat_timeout_s());
  if (cluster->start_timeout_s() == 0) cluster->set_start_timeout_s(60);
  if (cluster->grace_s() == 0) cluster->set_grace_s(25);
  if (cluster->bucket_bytes() == 0) cluster->set_bucket_bytes(uint64_t{1} << 20);
}

absl::StatusOr<cluster::JobSpecs> CheckJobConfig(const wire::JobConfig& config) {
  const auto named = [](const absl::Status& status, const char* field) {
    return Invalid(absl::StrCat(field, ": ", status.message()));
  };
  SOAP_RETURN_IF_ERROR(CheckCluster(config.cluster()));
  SOAP_RETURN_IF_ERROR(CheckTraining(config));
  SOAP_RETURN_IF_ERROR(CheckData(config.data()));
  absl::StatusOr<consistency::PolicyTraits> policy = consistency::ParsePolicy(config.policy());
  if (!policy.ok()) return named(policy.status(), "policy");
  const absl::Status fits = consistency::CheckWorkers(
      *policy, config.cluster().strategy().empty() ? config.cluster().workers()
                                                   : std::max(1u, config.cluster().teams()));
  if (!fits.ok()) return named(fits, "policy");
  SOAP_RETURN_IF_ERROR(CheckTree(config, *policy));
  SOAP_RETURN_IF_ERROR(CheckRebalance(config, *policy));
  SOAP_RETURN_IF_ERROR(CheckTables(config, *policy));
  SOAP_RETURN_IF_ERROR(CheckCommunication(config.cluster(), *policy));
  absl::StatusOr<compute::OptimizerSpec> optimizer =
      compute::ParseOptimizer(config.training().optimizer());
  if (!optimizer.ok()) return named(optimizer.status(), "training.optimizer");
  absl::StatusOr<compute::ScheduleSpec> schedule =
      compute::ParseSchedule(config.training().schedule());
  if (!schedule.ok()) return named(schedule.status(), "training.schedule");
  absl::StatusOr<sim::StragglerModel> stragglers =
      sim::StragglerModel::Parse(config.training().stragglers(), config.training().seed());
  if (!stragglers.ok()) return named(stragglers.status(), "training.stragglers");
  SOAP_RETURN_IF_ERROR(CheckFailures(config.output(), *stragglers));
  if (const int64_t spoilt = stragglers->spoilt_worker_max();
      spoilt >= config.cluster().workers()) {
    return Invalid(absl::StrCat("training.stragglers: nan:worker=", spoilt, ": there are ",
                                config.cluster().workers(), " workers, from 0 on"));
  }
  SOAP_RETURN_IF_ERROR(CheckTimeline(config.output()));
  if (config.cluster().precision() != "float32" && !config.output().record_path().empty()) {
    return Invalid("output.record_path: a replay computes in float32; take cluster.precision so");
  }
  return cluster::JobSpecs{.policy = *std::move(policy),
                           .optimizer = *optimizer,
                           .schedule = *schedule,
                           .stragglers = *std::move(stragglers)};
}

absl::Status CheckEndpoint(const wire::Cluster& cluster) {
  const std::string& scheduler = cluster.scheduler();
  if (scheduler.empty() || absl::StartsWith(scheduler, "ipc://")) return absl::OkStatus();
  const auto refuse = [&scheduler](const char* why) {
    return Invalid(absl::StrCat("cluster.scheduler: \"", scheduler, "\" ", why));
  };
  absl::string_view rest = scheduler;
  const size_t colon = rest.rfind(':');
  if (!absl::ConsumePrefix(&rest, "tcp://") || colon <= sizeof("tcp://") - 1) {
    return refuse("is not tcp://HOST:PORT or ipc://PATH");
  }
  const absl::string_view host = rest.substr(0, rest.rfind(':'));
  if (absl::StrContains(host, ':')) return refuse("is of IPv6, which is not spoken: name the host");
  int port = -1;
  if (!absl::SimpleAtoi(rest.substr(host.size() + 1), &port) || port < 0 || port > 65535) {
    return refuse("has no port from 0 to 65535");
  }
  return absl::OkStatus();
}

absl::Status CheckCalled(const wire::Cluster& cluster) {
  const std::string& scheduler = cluster.scheduler();
  const bool anywhere =
      absl::StartsWith(scheduler, "tcp://*:") || absl::StartsWith(scheduler, "tcp://0.0.0.0:");
  const bool any_port = absl::StartsWith(scheduler, "tcp://") && absl::EndsWith(scheduler, ":0");
  if (!anywhere && !any_port) return absl::OkStatus();
  return Invalid(
      absl::StrCat("cluster.scheduler: \"", scheduler, "\" is where a scheduler may listen, ",
                   "not where it is called: name its host and its port, such as tcp://host0:7070"));
}

absl::Status CheckSecurity(const wire::Cluster& cluster, bool has_keys) {
  if (cluster.security() == "required" && !has_keys) {
    return Invalid(
        "cluster.security: required, and there is no --key: soapstone keygen --out=keys makes "
        "keys, and --key=keys at each process uses them");
  }
  if (cluster.security() == "off" && has_keys) {
    return Invalid("cluster.security: off, and there is a --key: leave out one of the two");
  }
  return absl::OkStatus();
}

wire::JobConfig WhatIsAgreedOn(const wire::JobConfig& config) {
  wire::JobConfig meaning = config;
  meaning.clear_output();
  meaning.mutable_cluster()->clear_scheduler();
  meaning.mutable_cluster()->clear_transport();
  // Who has no keys does not come as far as to say a digest.
  meaning.mutable_cluster()->clear_security();
  meaning.mutable_cluster()->clear_link_bytes();
  meaning.mutable_cluster()->clear_strategy();  // its text is in the fingerprint
  meaning.mutable_cluster()->clear_heartbeat_s();
  meaning.mutable_cluster()->clear_heartbeat_timeout_s();
  meaning.mutable_cluster()->clear_start_timeout_s();
  meaning.mutable_cluster()->clear_link_timeout_s();
  meaning.mutable_cluster()->clear_grace_s();
  if (config.cluster().isa() == "auto") meaning.mutable_cluster()->clear_isa();
  wire::Data* data = meaning.mutable_data();
  data->clear_path();
  data->clear_labels_path();
  data->clear_test_path();
  data->clear_test_labels_path();
  data->clear_separator();
  data->clear_label_column();
  data->clear_missing();
  // Their contents, and what was read of them, are in the fingerprint.
  meaning.mutable_training()->clear_initial_weights();
  if (!OnnxPathOf(config.model()).empty()) meaning.set_model("onnx");
  meaning.mutable_training()->set_stragglers(
      StragglersWithoutFolders(config.training().stragglers()));
  return meaning;
}

uint64_t JobDigest(const wire::JobConfig& config, uint64_t data_fingerprint) {
  Fingerprint fingerprint;
  fingerprint.Add(JobText(WhatIsAgreedOn(config)));
  fingerprint.Add(data_fingerprint);
  return fingerprint.value().first;
}

std::string JobText(const wire::JobConfig& config) { return wire::TextOf(config); }

}  // namespace soapstone::apps
