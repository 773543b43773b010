#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/report/job_status.h"
#include "base/strict_json.h"

namespace soapstone::apps {

using Json = nlohmann::json;

// Numbers that are not finite are null in JSON, and not known again afterwards.
static double Number(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? 0 : it->get<double>();
}

// No to_json: report_json.cc has one, with the worker's number.
static Json TimesJson(const WorkerTimes& t) {
  return {{"compute", t.compute},
          {"injected", t.injected},
          {"policy", t.policy},
          {"shard", t.shard},
          {"network", t.network}};
}

static void to_json(Json& object, const WorkerStatus& w) {
  object = {{"worker", w.worker},     {"host", w.host},         {"member", w.member},
            {"clock", w.clock},       {"samples", w.samples},   {"loss", w.loss},
            {"lag_mean", w.lag_mean}, {"lag_max", w.lag_max},   {"times_s", TimesJson(w.times)},
            {"step_s", w.step_s},     {"slowdown", w.slowdown}, {"waits", w.waits}};
}

static void from_json(const Json& object, WorkerStatus& w) {
  const Json& times = object.at("times_s");
  w = {.worker = Whole{object.at("worker")},
       .host = object.at("host"),
       .member = object.at("member"),
       .clock = Whole{object.at("clock")},
       .samples = Whole{object.at("samples")},
       .loss = Number(object, "loss"),
       .lag_mean = Number(object, "lag_mean"),
       .lag_max = Whole{object.at("lag_max")},
       .times = {.worker = Whole{object.at("worker")},
                 .compute = Number(times, "compute"),
                 .injected = Number(times, "injected"),
                 .policy = Number(times, "policy"),
                 .shard = Number(times, "shard"),
                 .network = Number(times, "network")},
       .step_s = Number(object, "step_s"),
       .slowdown = Number(object, "slowdown"),
       .waits = object.at("waits")};
}

// Null where nothing is promised.
static Json BoundJson(const std::optional<Clock>& bound) {
  return bound.has_value() ? Json(*bound) : Json();
}

static std::optional<Clock> BoundFrom(const Json& object) {
  if (object.is_null()) return std::nullopt;
  return WholeFrom<Clock>(object);
}

// A reader is a list of its numbers: there is one for each worker and shard.
static void to_json(Json& object, const ShardLags& s) {
  Json readers = Json::array();
  for (const wire::ReaderState& r : s.reads.readers) {
    readers.push_back({Index(r.worker), r.clock, r.reads, r.lag_sum, r.lag_max, r.parked_ms});
  }
  object = {{"shard", Index(s.reads.shard)},
            {"server", s.server},
            {"groups", s.groups},
            {"age_s", s.age_s},
            {"read_lag_max", BoundJson(s.read_lag_max)},
            {"clock_gap_max", BoundJson(s.clock_gap_max)},
            {"frontier", s.reads.frontier},
            {"reader_count", s.reads.reader_count},
            {"parked_count", s.reads.parked_count},
            {"readers", std::move(readers)}};
}

static void from_json(const Json& object, ShardLags& s) {
  s = {.server = Whole{object.at("server")},
       .groups = object.at("groups"),
       .age_s = Number(object, "age_s"),
       .read_lag_max = BoundFrom(object.at("read_lag_max")),
       .clock_gap_max = BoundFrom(object.at("clock_gap_max")),
       .reads = {.shard = ShardId{WholeFrom<uint32_t>(object.at("shard"))},
                 .frontier = Whole{object.at("frontier")},
                 .reader_count = Whole{object.at("reader_count")},
                 .parked_count = Whole{object.at("parked_count")}}};
  for (const Json& r : object.at("readers")) {
    s.reads.readers.push_back({.worker = WorkerId{WholeFrom<uint32_t>(r.at(0))},
                               .clock = Whole{r.at(1)},
                               .reads = Whole{r.at(2)},
                               .lag_sum = Whole{r.at(3)},
                               .lag_max = Whole{r.at(4)},
                               .parked_ms = Whole{r.at(5)}});
  }
}

static void to_json(Json& object, const HistoryPoint& p) {
  object = {p.at_s, p.clock, p.samples_per_s, p.loss, p.lag_mean};
}

static void from_json(const Json& object, HistoryPoint& p) {
  const auto number = [&](size_t i) {
    return object.at(i).is_null() ? 0 : object.at(i).get<double>();
  };
  p = {.at_s = number(0),
       .clock = Whole{object.at(1)},
       .samples_per_s = number(2),
       .loss = number(3),
       .lag_mean = number(4)};
}

static Json EndJson(const std::optional<JobEnd>& end) {
  if (!end.has_value()) return nullptr;
  return {{"code", end->code}, {"reason", end->reason}};
}

static std::optional<JobEnd> EndFrom(const Json& object) {
  if (object.is_null()) return std::nullopt;
  return JobEnd{.code = Whole{object.at("code")}, .reason = object.at("reason")};
}

static Json ProgressJson(const ProgressReport& p) {
  return {{"epoch", p.epoch},   {"epochs", p.epochs},     {"clock", p.clock},
          {"clocks", p.clocks}, {"samples", p.samples},   {"samples_per_s", p.samples_per_s},
          {"loss", p.loss},     {"lag_mean", p.lag_mean}, {"lag_max", p.lag_max},
          {"eta_s", p.eta_s},   {"workers", p.workers}};
}

static ProgressReport ProgressFrom(const Json& p) {
  return {.epoch = Whole{p.at("epoch")},
          .epochs = Whole{p.at("epochs")},
          .clock = Whole{p.at("clock")},
          .clocks = Whole{p.at("clocks")},
          .samples = Whole{p.at("samples")},
          .samples_per_s = Number(p, "samples_per_s"),
          .loss = Number(p, "loss"),
          .lag_max = Whole{p.at("lag_max")},
          .lag_mean = Number(p, "lag_mean"),
          .eta_s = Number(p, "eta_s"),
          .workers = Whole{p.at("workers")}};
}

std::string StatusJson(const JobStatus& s) {
  const Json json = {{"role", s.role},
                     {"rank", s.rank},
                     {"version", s.version},
                     {"job", s.job},
                     {"policy", s.policy},
                     {"phase", s.phase},
                     {"ready", s.ready},
                     {"waits", s.waits},
                     {"up_s", s.up_s},
                     {"security", s.security},
                     {"servers", s.servers},
                     {"servers_there", s.servers_there},
                     {"workers_wanted", s.workers_wanted},
                     {"missing", s.missing},
                     {"decentralised", s.decentralised},
                     {"progress", ProgressJson(s.progress)},
                     {"workers", s.workers},
                     {"shards", s.shards},
                     {"history", s.history},
                     {"news", s.news},
                     {"ended", EndJson(s.ended)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<JobStatus> StatusFromJson(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("no status: no JSON object");
  try {
    return JobStatus{.role = json.at("role"),
                     .rank = Whole{json.at("rank")},
                     .version = json.at("version"),
                     .job = json.at("job"),
                     .policy = json.at("policy"),
                     .phase = json.at("phase"),
                     .ready = json.at("ready"),
                     .waits = json.at("waits"),
                     .up_s = Number(json, "up_s"),
                     .security = json.at("security"),
                     .servers = Whole{json.at("servers")},
                     .servers_there = Whole{json.at("servers_there")},
                     .workers_wanted = Whole{json.at("workers_wanted")},
                     .missing = json.at("missing"),
                     .decentralised = json.at("decentralised"),
                     .progress = ProgressFrom(json.at("progress")),
                     .workers = json.at("workers").get<std::vector<WorkerStatus>>(),
                     .shards = json.at("shards").get<std::vector<ShardLags>>(),
                     .history = json.at("history").get<std::vector<HistoryPoint>>(),
                     .news = json.at("news").get<std::vector<std::string>>(),
                     .ended = EndFrom(json.at("ended"))};
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("no status: ", error.what()));
  }
}

}  // namespace soapstone::apps
