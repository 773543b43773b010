#include "apps/report/job_status.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/plain_text.h"

namespace soapstone::apps {

// Numbers that are not finite are null in JSON, and not known again afterwards.
static double Number(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? 0 : it->get<double>();
}

// No to_json: report_json.cc has one, with the worker's number.
static nlohmann::json TimesJson(const WorkerTimes& t) {
  return {{"compute", t.compute},
          {"injected", t.injected},
          {"policy", t.policy},
          {"shard", t.shard},
          {"network", t.network}};
}

static void to_json(nlohmann::json& object, const WorkerStatus& w) {
  object = {{"worker", w.worker},   {"member", w.member},
            {"clock", w.clock},     {"samples", w.samples},
            {"loss", w.loss},       {"lag_mean", w.lag_mean},
            {"lag_max", w.lag_max}, {"times_s", TimesJson(w.times)},
            {"step_s", w.step_s},   {"slowdown", w.slowdown},
            {"waits", w.waits}};
}

static void from_json(const nlohmann::json& object, WorkerStatus& w) {
  const nlohmann::json& times = object.at("times_s");
  w = {.worker = object.at("worker"),
       .member = object.at("member"),
       .clock = object.at("clock"),
       .samples = object.at("samples"),
       .loss = Number(object, "loss"),
       .lag_mean = Number(object, "lag_mean"),
       .lag_max = object.at("lag_max"),
       .times = {.worker = object.at("worker"),
                 .compute = Number(times, "compute"),
                 .injected = Number(times, "injected"),
                 .policy = Number(times, "policy"),
                 .shard = Number(times, "shard"),
                 .network = Number(times, "network")},
       .step_s = Number(object, "step_s"),
       .slowdown = Number(object, "slowdown"),
       .waits = object.at("waits")};
}

namespace {

using Json = nlohmann::json;

// Cut at a character's beginning.
std::string Cut(std::string line, size_t columns) {
  size_t shown = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(line[i]) & 0xc0) != 0x80;
    if (begins && shown++ == columns) return line.substr(0, i);
  }
  return line;
}

std::string Bar(double share, size_t width, bool utf8) {
  share = std::clamp(share, 0.0, 1.0);
  const auto full = static_cast<size_t>(std::lround(share * static_cast<double>(width)));
  std::string bar;
  for (size_t i = 0; i < width; ++i) bar += i < full ? (utf8 ? "█" : "#") : (utf8 ? "·" : ".");
  return bar;
}

std::string WorkerLine(const WorkerStatus& w, Clock target, bool utf8) {
  const double total = w.times.compute + w.times.injected + w.times.waiting();
  const auto percent = [&](double seconds) {
    return total > 0 ? absl::StrFormat("%3.0f%%", 100 * seconds / total) : "   -";
  };
  std::string line = absl::StrFormat(
      "%6d %9d %s %5.1f %4d    %s    %s   %s    %s %8.1f", w.worker, w.clock,
      Bar(target > 0 ? static_cast<double>(w.clock) / static_cast<double>(target) : 0, 12, utf8),
      w.lag_mean, w.lag_max, percent(w.times.compute + w.times.injected), percent(w.times.policy),
      percent(w.times.shard), percent(w.times.network), 1000 * w.step_s);
  if (w.slowdown > 0) absl::StrAppendFormat(&line, "  x%.1f", w.slowdown);
  if (!w.member) absl::StrAppend(&line, "  not a member");
  if (!w.waits.empty()) absl::StrAppend(&line, "  waits ", PlainText(w.waits));
  return line;
}

}  // namespace

std::string StatusJson(const JobStatus& s) {
  const ProgressReport& p = s.progress;
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
                     {"progress",
                      {{"epoch", p.epoch},
                       {"epochs", p.epochs},
                       {"clock", p.clock},
                       {"clocks", p.clocks},
                       {"samples", p.samples},
                       {"samples_per_s", p.samples_per_s},
                       {"loss", p.loss},
                       {"lag_mean", p.lag_mean},
                       {"lag_max", p.lag_max},
                       {"eta_s", p.eta_s},
                       {"workers", p.workers}}},
                     {"workers", s.workers},
                     {"news", s.news}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<JobStatus> StatusFromJson(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("no status: no JSON object");
  try {
    const Json& p = json.at("progress");
    return JobStatus{.role = json.at("role"),
                     .rank = json.at("rank"),
                     .version = json.at("version"),
                     .job = json.at("job"),
                     .policy = json.at("policy"),
                     .phase = json.at("phase"),
                     .ready = json.at("ready"),
                     .waits = json.at("waits"),
                     .up_s = Number(json, "up_s"),
                     .security = json.at("security"),
                     .servers = json.at("servers"),
                     .servers_there = json.at("servers_there"),
                     .workers_wanted = json.at("workers_wanted"),
                     .progress = {.epoch = p.at("epoch"),
                                  .epochs = p.at("epochs"),
                                  .clock = p.at("clock"),
                                  .clocks = p.at("clocks"),
                                  .samples = p.at("samples"),
                                  .samples_per_s = Number(p, "samples_per_s"),
                                  .loss = Number(p, "loss"),
                                  .lag_max = p.at("lag_max"),
                                  .lag_mean = Number(p, "lag_mean"),
                                  .eta_s = Number(p, "eta_s"),
                                  .workers = p.at("workers")},
                     .workers = json.at("workers").get<std::vector<WorkerStatus>>(),
                     .news = json.at("news").get<std::vector<std::string>>()};
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("no status: ", error.what()));
  }
}

std::string StatusScreen(const JobStatus& s, size_t columns, bool utf8) {
  std::vector<std::string> lines;
  const std::string who = s.rank < 0 ? s.role : absl::StrCat(s.role, " ", s.rank);
  lines.push_back(absl::StrCat(who, "  ", s.phase,
                               s.ready ? "" : ", not ready: ", s.ready ? "" : s.waits, "  up ",
                               DurationText(s.up_s), "  ", s.version));
  lines.push_back(s.job);
  if (s.role == "scheduler") {
    lines.push_back(absl::StrFormat("servers %d of %d  workers %d of %d  clock %d of %d",
                                    s.servers_there, s.servers, s.progress.workers,
                                    s.workers_wanted, s.progress.clock, s.progress.clocks));
    lines.push_back(ToLine(s.progress));
  }
  lines.push_back(absl::StrCat("security ", s.security));
  if (!s.workers.empty()) {
    lines.emplace_back();
    lines.push_back(
        "worker     clock              lag mean  max compute policy shard network  ms/step");
    for (const WorkerStatus& worker : s.workers) {
      lines.push_back(WorkerLine(worker, s.progress.clocks, utf8));
    }
  }
  if (!s.news.empty()) lines.emplace_back();
  for (const std::string& line : s.news) lines.push_back(line);
  for (std::string& line : lines) {
    if (!utf8 || line.find("█") == line.npos) line = PlainText(std::move(line));
    line = Cut(std::move(line), columns);
  }
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace soapstone::apps
