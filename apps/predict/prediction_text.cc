#include "apps/predict/prediction_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/predict/graph_predictor.h"
#include "apps/report/result_text.h"

namespace soapstone::apps {
namespace {

std::string Digits(double value) { return absl::StrFormat("%.7g", value); }

double Rounded(double value) {
  double rounded = value;
  return absl::SimpleAtod(Digits(value), &rounded) ? rounded : value;
}

}  // namespace

PredictionText::PredictionText(PredictionLayout layout) : layout_(std::move(layout)) {
  if (layout_.json) {
    text_ = "[";
    return;
  }
  std::vector<std::string> header = {layout_.files ? "file" : "sample"};
  if (layout_.labels) header.emplace_back("label");
  if (layout_.classes == 0) header.emplace_back("value");
  for (int64_t k = 1; k <= std::min(layout_.top, layout_.classes); ++k) {
    const std::string behind = k == 1 ? "" : absl::StrCat("_", k);
    header.push_back("class" + behind);
    header.push_back("probability" + behind);
  }
  for (int64_t k = 0; layout_.probabilities && k < layout_.classes; ++k) {
    header.push_back("p_" + NameOf(k));
  }
  for (std::string& cell : header) cell = CsvCell(cell);
  for (size_t i = 0; i < header.size(); ++i) {
    absl::StrAppend(&text_, i == 0 ? "" : ",", header[i]);
  }
  text_ += "\n";
}

std::string PredictionText::NameOf(int64_t label) const {
  const auto k = static_cast<size_t>(label);
  return k < layout_.class_names.size() ? layout_.class_names[k] : absl::StrCat(label);
}

void PredictionText::Add(const Sample& sample) {
  std::vector<int64_t> shown;
  if (layout_.classes > 0) shown = Largest(sample.probabilities, layout_.top);
  layout_.json ? AddJson(sample, shown) : AddCsv(sample, shown);
  ++samples_;
}

void PredictionText::AddCsv(const Sample& sample, const std::vector<int64_t>& shown) {
  text_ += layout_.files ? CsvCell(sample.name) : absl::StrCat(samples_);
  if (layout_.labels) absl::StrAppend(&text_, ",", CsvCell(sample.label.value_or("")));
  if (layout_.classes == 0) absl::StrAppend(&text_, ",", Digits(sample.value));
  for (const int64_t k : shown) {
    const double p = static_cast<double>(sample.probabilities[static_cast<size_t>(k)]);
    absl::StrAppend(&text_, ",", CsvCell(NameOf(k)), ",", Digits(p));
  }
  if (layout_.probabilities) {
    for (const float p : sample.probabilities) {
      absl::StrAppend(&text_, ",", Digits(static_cast<double>(p)));
    }
  }
  text_ += "\n";
}

void PredictionText::AddJson(const Sample& sample, const std::vector<int64_t>& shown) {
  nlohmann::ordered_json json;
  layout_.files ? json["file"] = sample.name : json["sample"] = samples_;
  if (layout_.labels) json["label"] = sample.label.value_or("");
  if (layout_.classes == 0) json["value"] = Rounded(sample.value);
  for (size_t i = 0; i < shown.size(); ++i) {
    const double p =
        Rounded(static_cast<double>(sample.probabilities[static_cast<size_t>(shown[i])]));
    if (i == 0) {
      json["class"] = NameOf(shown[i]);
      json["probability"] = p;
    }
    if (shown.size() > 1) {
      json["top"].push_back({{"class", NameOf(shown[i])}, {"probability", p}});
    }
  }
  if (layout_.probabilities) {
    for (const float p : sample.probabilities) {
      json["probabilities"].push_back(Rounded(static_cast<double>(p)));
    }
  }
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  absl::StrAppend(&text_, samples_ == 0 ? "\n" : ",\n", json.dump(-1, ' ', false, kReplace));
}

std::string PredictionText::Finish() {
  if (layout_.json) text_ += "\n]\n";
  return std::move(text_);
}

}  // namespace soapstone::apps
