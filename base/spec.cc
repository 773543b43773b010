#include "base/spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace soapstone {
namespace {

constexpr size_t kTellingLetters = 3;  // of fewer, any other name of one letter is near

std::vector<std::string> Split(std::string_view text, char separator) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), separator);
}

}  // namespace

absl::StatusOr<Spec> Spec::Parse(std::string_view text) {
  Spec spec;
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), absl::MaxSplits(':', 1));
  spec.name = parts[0];
  if (spec.name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", std::string(text), "' has no name"));
  }
  if (parts.size() == 1) return spec;
  for (const std::string& argument : Split(parts[1], ',')) {
    const std::vector<std::string> pair = absl::StrSplit(argument, absl::MaxSplits('=', 1));
    if (pair.size() != 2 || pair[0].empty() || pair[1].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", std::string(text), "': '", argument, "' is not of the form key=value"));
    }
    if (!spec.arguments.emplace(pair[0], pair[1]).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", std::string(text), "': '", pair[0], "' is given twice"));
    }
  }
  return spec;
}

absl::StatusOr<std::vector<Spec>> Spec::ParseList(std::string_view text) {
  std::vector<Spec> specs;
  for (const std::string& part : Split(text, '+')) {
    SOAP_ASSIGN_OR_RETURN(Spec spec, Parse(part));
    specs.push_back(std::move(spec));
  }
  return specs;
}

absl::StatusOr<int64_t> Spec::Int(std::string_view key, int64_t fallback, int64_t low,
                                  int64_t high) const {
  const auto it = arguments.find(std::string(key));
  if (it == arguments.end()) return fallback;
  int64_t value = 0;
  if (!absl::SimpleAtoi(it->second, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", it->first, "=", it->second, " is not a whole number"));
  }
  if (value < low || value > high) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", it->first, "=", value, " is outside [", low, ", ", high, "]"));
  }
  return value;
}

absl::StatusOr<double> Spec::Real(std::string_view key, double fallback, double low,
                                  double high) const {
  const auto it = arguments.find(std::string(key));
  if (it == arguments.end()) return fallback;
  double value = 0;
  if (!absl::SimpleAtod(it->second, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", it->first, "=", it->second, " is not a number"));
  }
  if (!(value >= low && value <= high)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", it->first, "=", it->second,
                                                   " is outside [", low, ", ", high, "]"));
  }
  return value;
}

std::string Spec::Text(std::string_view key, std::string_view fallback) const {
  const auto it = arguments.find(std::string(key));
  return it == arguments.end() ? std::string(fallback) : it->second;
}

absl::Status Spec::AllowOnly(const std::vector<std::string>& known) const {
  for (const auto& [key, value] : arguments) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": unknown argument '", key, "'",
        key.size() < kTellingLetters ? std::string() : DidYouMean(key, known), "; it takes ",
        known.empty() ? std::string("none") : absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

std::string Spec::ToString() const {
  if (arguments.empty()) return name;
  return absl::StrCat(name, ":", absl::StrJoin(arguments, ",", absl::PairFormatter("=")));
}

}  // namespace soapstone
