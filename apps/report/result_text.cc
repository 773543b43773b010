#include "apps/report/result_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "apps/report/folded_rows.h"

namespace soapstone::apps {
namespace {

constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr char kSigns[] = "_.:-=+*#";
constexpr size_t kLevels = 8;
constexpr size_t kNameBytesMax = 24;
constexpr size_t kLabelIndent = 4;

std::string ClassName(size_t k, const std::vector<std::string>& names) {
  return k < names.size() ? names[k] : absl::StrCat(k);
}

bool ContinuesACharacter(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// A name on one line, and short: no character is cut in two.
std::string ShortName(std::string name) {
  if (name.size() > kNameBytesMax) {
    size_t end = kNameBytesMax;
    while (end > 0 && ContinuesACharacter(name[end])) --end;
    name.resize(end);
  }
  return absl::Utf8SafeCHexEscape(name);
}

}  // namespace

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string Sparkline(absl::Span<const double> values, bool utf8) {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  std::string line;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      line += '?';
      continue;
    }
    // Halves, because a difference may be more than a double holds.
    const double range = greatest / 2 - least / 2;
    const double share = range > 0 ? (value / 2 - least / 2) / range : 0;
    const auto level = std::min(kLevels - 1, static_cast<size_t>(share * kLevels));
    line += utf8 ? std::string(kBlocks[level]) : std::string(1, kSigns[level]);
  }
  return line;
}

std::string ConfusionText(const std::vector<std::vector<uint32_t>>& confusion,
                          const std::vector<std::string>& names) {
  uint32_t greatest = 0;
  size_t label_width = 0;
  std::vector<std::string> labels;
  for (size_t k = 0; k < confusion.size(); ++k) {
    for (const uint32_t count : confusion[k]) greatest = std::max(greatest, count);
    labels.push_back(absl::StrCat(k));
    if (k < names.size()) absl::StrAppend(&labels.back(), " ", ShortName(names[k]));
    label_width = std::max(label_width, WidthOf(labels.back()));
  }
  const size_t numbers = std::max<uint64_t>(greatest, confusion.size() - 1);
  const int width = static_cast<int>(absl::StrCat(numbers).size()) + 1;
  const std::string indent(kLabelIndent, ' ');
  std::string text = absl::StrCat(indent, std::string(label_width, ' '));
  for (size_t k = 0; k < confusion.size(); ++k) absl::StrAppendFormat(&text, "%*d", width, k);
  for (size_t k = 0; k < confusion.size(); ++k) {
    absl::StrAppend(&text, "\n", indent, labels[k],
                    std::string(label_width - WidthOf(labels[k]), ' '));
    for (const uint32_t count : confusion[k]) absl::StrAppendFormat(&text, "%*d", width, count);
  }
  return text + "\n";
}

std::string ConfusionCsv(const std::vector<std::vector<uint32_t>>& confusion,
                         const std::vector<std::string>& names) {
  std::string csv = "label";
  for (size_t k = 0; k < confusion.size(); ++k) {
    absl::StrAppend(&csv, ",", CsvCell(ClassName(k, names)));
  }
  for (size_t k = 0; k < confusion.size(); ++k) {
    absl::StrAppend(&csv, "\n", CsvCell(ClassName(k, names)));
    for (const uint32_t count : confusion[k]) absl::StrAppend(&csv, ",", count);
  }
  return csv + "\n";
}

std::string LossesCsv(const std::vector<LossPoint>& losses) {
  std::string csv = "samples,loss\n";
  for (const LossPoint& point : losses) {
    absl::StrAppend(&csv, point.samples, ",", absl::StrFormat("%.9g", point.loss), "\n");
  }
  return csv;
}

std::optional<double> MeanLoss(double sum_before, double sum, uint64_t samples) {
  constexpr double kShown = 1e-3;  // four places are printed
  // Of each loss that was added, which may have been a sample's.
  const double rounding =
      std::max(std::abs(sum_before), std::abs(sum)) * std::numeric_limits<double>::epsilon();
  const double mean = (sum - sum_before) / static_cast<double>(samples);
  const bool told = rounding < std::max(kShown, kShown * mean);
  return std::isfinite(mean) && told ? std::optional<double>(mean) : std::nullopt;
}

void LossHistory::Take(uint64_t samples, double loss_sum) {
  const uint64_t fresh = samples > last_samples_ ? samples - last_samples_ : 0;
  const double before = std::exchange(last_sum_, loss_sum);
  last_samples_ = samples;
  const std::optional<double> mean = fresh == 0 ? std::nullopt : MeanLoss(before, loss_sum, fresh);
  if (!mean.has_value()) return;
  if (readings_ == 0) {
    if (stretches_.size() == 2 * kPoints) {
      Halve(&stretches_);
      per_stretch_ *= 2;
    }
    stretches_.emplace_back();
  }
  Stretch& stretch = stretches_.back();
  stretch.end = samples;
  stretch.samples += fresh;
  stretch.loss_sum += loss_sum - before;
  readings_ = (readings_ + 1) % per_stretch_;
}

void LossHistory::Halve(std::vector<Stretch>* stretches) {
  std::vector<Stretch> halved;
  for (size_t i = 0; i < stretches->size(); ++i) {
    const Stretch& stretch = (*stretches)[i];
    if (i % 2 == 0) halved.emplace_back();
    halved.back().end = stretch.end;
    halved.back().samples += stretch.samples;
    halved.back().loss_sum += stretch.loss_sum;
  }
  *stretches = std::move(halved);
}

std::vector<LossPoint> LossHistory::Points() const {
  std::vector<Stretch> stretches = stretches_;
  if (stretches.size() > kPoints) Halve(&stretches);
  std::vector<LossPoint> points;
  for (const Stretch& stretch : stretches) {
    const double loss = stretch.loss_sum / static_cast<double>(stretch.samples);
    if (std::isfinite(loss)) points.push_back({.samples = stretch.end, .loss = loss});
  }
  return points;
}

}  // namespace soapstone::apps
