#include "experiment/run_json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "wire/config/text_config.h"

namespace soapstone::experiment {
namespace {

using Json = nlohmann::json;

double Real(const Json& object, const char* key) {
  const Json& value = object.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Json CurveJson(const std::vector<CurvePoint>& curve) {
  Json points = Json::array();
  for (const CurvePoint& p : curve) {
    points.push_back({p.time_s, p.samples, p.train_loss, p.test_loss, p.test_accuracy, p.bytes});
  }
  return points;
}

double RealAt(const Json& row, size_t i) {
  const Json& value = row.at(i);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::vector<CurvePoint> CurveOf(const Json& points) {
  std::vector<CurvePoint> curve;
  curve.reserve(points.size());
  for (const Json& row : points) {
    curve.push_back({.time_s = RealAt(row, 0),
                     .samples = row.at(1).get<uint64_t>(),
                     .train_loss = RealAt(row, 2),
                     .test_loss = RealAt(row, 3),
                     .test_accuracy = RealAt(row, 4),
                     .bytes = row.at(5).get<uint64_t>()});
  }
  return curve;
}

Json ProvenanceJson(const Provenance& p) {
  return {{"hardware", p.hardware},
          {"build", p.build},
          {"train_sha256", p.train_sha256},
          {"test_sha256", p.test_sha256},
          {"files_sha256", p.files_sha256},
          {"traces_sha256", p.traces_sha256},
          {"train_samples", p.train_samples},
          {"test_samples", p.test_samples},
          {"test_in_train", p.test_in_train},
          {"parameters", p.parameters},
          {"chance", p.chance},
          {"precision", p.precision},
          {"communication", p.communication},
          {"codec", p.codec}};
}

Provenance ProvenanceOf(const Json& object) {
  return {
      .hardware = object.at("hardware"),
      .build = object.at("build"),
      .train_sha256 = object.at("train_sha256"),
      .test_sha256 = object.at("test_sha256"),
      .files_sha256 = object.value("files_sha256", ""),  // of these two, runs of before say nothing
      .traces_sha256 = object.value("traces_sha256", ""),
      .train_samples = object.at("train_samples"),
      .test_samples = object.at("test_samples"),
      .test_in_train = object.at("test_in_train"),
      .parameters = object.at("parameters"),
      .chance = object.value("chance", 0.0),  // of these four, runs of before say nothing
      .precision = object.value("precision", ""),
      .communication = object.value("communication", ""),
      .codec = object.value("codec", "")};
}

Json OutcomeJson(const RunOutcome& o) {
  Json object = {{"curve", CurveJson(o.curve)},
                 {"test_accuracy", o.test_accuracy},
                 {"train_loss", o.train_loss},
                 {"duration_s", o.duration_s},
                 {"samples", o.samples},
                 {"bytes", o.bytes},
                 {"read_lags", o.read_lags},
                 {"compute_s", o.compute_s},
                 {"waiting_s", o.waiting_s},
                 {"violations", o.violations},
                 {"diverged", o.diverged},
                 {"parameters_sha256", o.parameters_sha256},
                 {"provenance", ProvenanceJson(o.provenance)},
                 {"spent_s", o.spent_s}};
  if (o.replicas.has_value()) {
    object["replicas"] = {o.replicas->min, o.replicas->median, o.replicas->max};
  }
  return object;
}

RunOutcome OutcomeOf(const Json& object) {
  RunOutcome outcome{.curve = CurveOf(object.at("curve")),
                     .test_accuracy = Real(object, "test_accuracy"),
                     .train_loss = Real(object, "train_loss"),
                     .duration_s = Real(object, "duration_s"),
                     .samples = object.at("samples"),
                     .bytes = object.at("bytes"),
                     .read_lags = object.at("read_lags").get<std::vector<uint64_t>>(),
                     .compute_s = Real(object, "compute_s"),
                     .waiting_s = Real(object, "waiting_s"),
                     .violations = object.at("violations"),
                     .diverged = object.value("diverged", false),
                     .parameters_sha256 = object.at("parameters_sha256"),
                     .provenance = ProvenanceOf(object.at("provenance")),
                     .spent_s = Real(object, "spent_s")};
  if (object.contains("replicas")) {
    const Json& row = object.at("replicas");
    outcome.replicas = ReplicaAccuracy{RealAt(row, 0), RealAt(row, 1), RealAt(row, 2)};
  }
  return outcome;
}

Json TimingJson(const RunPlan& plan) {
  return {{"mode", plan.real ? "real" : "cosim"},
          {"stragglers", plan.stragglers},
          {"iteration_ms", plan.iteration_ms},
          {"latency_us", plan.latency_us},
          {"bandwidth_mbps", plan.bandwidth_mbps}};
}

}  // namespace

std::string MeaningOf(const RunPlan& plan) {
  Json object = TimingJson(plan);
  object["job"] = wire::TextOf(plan.config);
  return object.dump();
}

std::string IdOf(const RunPlan& plan) {
  const std::string meaning = MeaningOf(plan);
  Sha256 digest;
  digest.Update(meaning.data(), meaning.size());
  return digest.HexDigest().substr(0, 16);
}

std::string RecordJson(const Experiment& experiment, const RunPlan& plan,
                       const RunOutcome& outcome) {
  Json object = TimingJson(plan);
  object["id"] = plan.id;
  object["tuning"] = plan.tuning;
  object["subject"] = experiment.subjects[plan.cell.subject].name;
  object["policy"] = experiment.policies[plan.cell.policy].name;
  object["under"] = experiment.stragglers[plan.cell.straggler].name();
  object["workers"] = plan.cell.workers;
  object["seed"] = plan.config.training().seed();
  object["optimizer"] = plan.config.training().optimizer();
  object["schedule"] = plan.config.training().schedule();
  object["guarantee"] = experiment.policies[plan.cell.policy].traits.guarantee.ToString();
  object["job"] = wire::TextOf(plan.config);
  object["outcome"] = OutcomeJson(outcome);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Record> ParseRecord(const std::string& json) {
  try {  // nlohmann's interface; its exceptions stay here
    const Json object = Json::parse(json);
    return Record{.id = object.at("id"), .outcome = OutcomeOf(object.at("outcome"))};
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a run: ", error.what()));
  }
}

}  // namespace soapstone::experiment
