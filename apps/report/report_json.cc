#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "apps/report/report.h"
#include "base/strict_json.h"

namespace soapstone {

// {"max": 40, "counts": [[0, 12], [1, 3], [32, 1]]}: by the least value of each bucket that is not
// empty.
static void to_json(nlohmann::json& object, const Histogram& histogram) {
  auto counts = nlohmann::json::array();
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    if (histogram.CountIn(i) > 0) counts.push_back({Histogram::First(i), histogram.CountIn(i)});
  }
  object = {{"max", histogram.max()}, {"counts", std::move(counts)}};
}
static void from_json(const nlohmann::json& object, Histogram& histogram) {
  histogram = {};
  std::vector<std::pair<uint64_t, uint64_t>> counts;
  ReadField(object.at("counts"), counts);
  for (const auto& [value, times] : counts) histogram.Add(value, times);
  histogram.Add(WholeFrom<uint64_t>(object.at("max")), 0);
}

}  // namespace soapstone

namespace soapstone::transport {

SOAPSTONE_JSON(BytesByCause, push, pull, parcels, blocks, model, header, control, framing)
SOAPSTONE_JSON(SocketCounts, connections, given_bytes, taken_bytes, resent_bytes)

}  // namespace soapstone::transport

namespace soapstone::apps {

SOAPSTONE_JSON(Listening, endpoint, http)
SOAPSTONE_JSON(News, text)
SOAPSTONE_JSON(ProgressReport, epoch, epochs, clock, clocks, samples, samples_per_s, loss,
               perplexity, lag_max, lag_mean, eta_s, workers)
SOAPSTONE_JSON(SlownessReport, clock, slowness)
SOAPSTONE_JSON(WorkerTimes, worker, compute, injected, policy, shard, network)
SOAPSTONE_JSON(LeftOutRow, worker, tensor, updates, first_clock)
SOAPSTONE_JSON(LossPoint, samples, loss)
SOAPSTONE_JSON(BestReport, clock, by_loss, samples, accuracy, loss, path)
SOAPSTONE_JSON(ResultReport, code, reason, job, guarantee, test_samples, test_accuracy, test_loss,
               test_perplexity, confusion, class_names, balanced_accuracy, seconds, samples,
               samples_per_s, train_loss, train_perplexity, losses, pushed_bytes, pulled_bytes,
               read_lags, times, left_out, leaving, violations, rejects, malformed, strangers,
               sha256, model_path, best, stopped_early)
SOAPSTONE_JSON(LedgerRow, worker, shard, read_lags, stalenesses, violations)
SOAPSTONE_JSON(ViolationRow, by, kind, worker, clock, times, first)
SOAPSTONE_JSON(NodeReport, name, sent, received, sockets, shared_bytes, malformed, strangers,
               rejects, duplicates, left_out, heartbeat_gap_s, resident_peak_bytes, answers, ledger,
               violations)

namespace {

using Json = nlohmann::json;

constexpr const char* kEventNames[] = {"listening", "news", "progress",
                                       "result",    "node", "slowness"};

// The alternative of Report that `event` names, read from `object`. Throws as nlohmann does.
template <size_t I = 0>
absl::StatusOr<Report> ReadAs(const std::string& event, const Json& object) {
  if constexpr (I == std::variant_size_v<Report>) {
    return absl::InvalidArgumentError(absl::StrCat("not a report: no event \"", event, "\""));
  } else {
    if (event != kEventNames[I]) return ReadAs<I + 1>(event, object);
    return Report(object.get<std::variant_alternative_t<I, Report>>());
  }
}

}  // namespace

std::string ToJson(const Report& report) {
  Json object;
  std::visit([&object](const auto& value) { object = value; }, report);
  object["event"] = kEventNames[report.index()];
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Report> FromJson(const std::string& line) {
  try {  // nlohmann's interface; its exceptions stay here
    Json object = Json::parse(line);
    for (Json& value : object) {
      if (value.is_null()) value = std::numeric_limits<double>::quiet_NaN();
    }
    return ReadAs(object.at("event").get<std::string>(), object);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a report: ", error.what()));
  }
}

std::string LedgerJson(const ResultReport& result, const std::vector<NodeReport>& nodes) {
  const Json object = {{"result", result}, {"nodes", nodes}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace soapstone::apps
