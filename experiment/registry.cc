#include "experiment/registry.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace soapstone::experiment {
namespace {

constexpr absl::string_view kMark = ",\"sha256\":\"";
constexpr size_t kHexDigits = 64;
constexpr size_t kTail = kMark.size() + kHexDigits + 2;  // and "}

std::string Sealed(absl::string_view text, const std::string& previous) {
  Sha256 digest;
  digest.Update(text.data(), text.size());
  digest.Update(previous.data(), previous.size());
  return absl::StrCat(text, kMark, digest.HexDigest(), "\"}\n");
}

// The text of a line, up to its seal. Error: the seal is none, or not of this text.
absl::StatusOr<absl::string_view> Unsealed(absl::string_view line, const std::string& previous) {
  if (line.size() > kTail) {
    const absl::string_view text = line.substr(0, line.size() - kTail);
    if (Sealed(text, previous) == absl::StrCat(line, "\n")) return text;
  }
  return absl::InvalidArgumentError("altered, or not what followed the line before");
}

absl::Status TakeHeader(absl::string_view line, Registry* registry) {
  SOAP_ASSIGN_OR_RETURN(const absl::string_view text, Unsealed(line, ""));
  const nlohmann::json object = nlohmann::json::parse(absl::StrCat(text, "}"), nullptr, false);
  if (!object.is_object() || !object.contains("experiment") || !object["experiment"].is_string()) {
    return absl::InvalidArgumentError("not the first line of a registry");
  }
  registry->experiment = object["experiment"];
  return absl::OkStatus();
}

absl::Status TakeRun(absl::string_view line, Registry* registry) {
  SOAP_ASSIGN_OR_RETURN(const absl::string_view text, Unsealed(line, registry->last_sha256));
  const std::string head = absl::StrCat("{\"previous\":\"", registry->last_sha256, "\",\"run\":");
  if (text.substr(0, head.size()) != head) {
    return absl::InvalidArgumentError("does not continue the line before");
  }
  std::string run(text.substr(head.size()));
  SOAP_ASSIGN_OR_RETURN(Record record, ParseRecord(run));
  registry->runs.push_back(std::move(record));
  registry->run_texts.push_back(std::move(run));
  return absl::OkStatus();
}

}  // namespace

std::string HeaderLine(const std::string& experiment_digest) {
  return Sealed(absl::StrCat("{\"experiment\":\"", experiment_digest, "\",\"version\":1"), "");
}

std::string RunLine(const std::string& previous, const std::string& run) {
  return Sealed(absl::StrCat("{\"previous\":\"", previous, "\",\"run\":", run), previous);
}

std::string Sha256Of(absl::string_view line) {
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  return std::string(line.substr(line.size() - kHexDigits - 2, kHexDigits));
}

absl::StatusOr<Registry> ParseRegistry(absl::string_view text) {
  Registry registry;
  std::set<std::string> ids;
  size_t number = 0;
  while (registry.good_bytes < text.size()) {
    ++number;
    const absl::string_view rest = text.substr(registry.good_bytes);
    const size_t end = rest.find('\n');
    const bool whole = end != absl::string_view::npos;
    const bool last = !whole || end + 1 == rest.size();
    const absl::string_view line = rest.substr(0, whole ? end : rest.size());
    absl::Status taken = absl::InvalidArgumentError("cut off");
    if (whole) taken = number == 1 ? TakeHeader(line, &registry) : TakeRun(line, &registry);
    if (!taken.ok() && last) {  // a header too: a kill before the first run
      registry.torn = true;
      return registry;
    }
    if (!taken.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, ": ", taken.message(),
          "; the registry is damaged: put the file back as it was, or begin in a new folder"));
    }
    if (number > 1 && !ids.insert(registry.runs.back().id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": run ", registry.runs.back().id, " is listed twice"));
    }
    registry.last_sha256 = Sha256Of(line);
    registry.good_bytes += line.size() + 1;
  }
  return registry;
}

}  // namespace soapstone::experiment
