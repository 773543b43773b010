#include "models/data/recommendation/clicks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "models/data/split.h"

namespace soapstone::models {
namespace {

constexpr uint64_t kCategoriesMax = uint64_t{1} << 30;
constexpr uint64_t kClickColumnsMax = 4096;
constexpr uint64_t kCellsMax = uint64_t{1} << 28;
constexpr uint64_t kNumbersBelow = 20;
constexpr uint64_t kSigns = uint64_t{1} << 63;  // their streams, beside those of samples

absl::Status CheckClicks(const char* what, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("clicks: ", what, " ", value, " is not within ", low, " and ", high));
}

// n_f
std::vector<uint64_t> CategoriesOf(const SparseDataOptions& options) {
  const auto columns = static_cast<double>(options.categorical_columns);
  const double log_vocabulary = std::log(static_cast<double>(options.vocabulary));
  std::vector<uint64_t> categories;
  for (uint64_t f = 0; f < options.categorical_columns; ++f) {
    const double count = std::exp(log_vocabulary * static_cast<double>(f + 1) / columns);
    // The last is V itself, whatever exp makes of its logarithm.
    categories.push_back(std::max<uint64_t>(2, static_cast<uint64_t>(count + 1e-6)));
  }
  return categories;
}

class ClickDraws {
 public:
  // Both must outlive it.
  ClickDraws(const SparseDataOptions& options, const std::vector<uint64_t>& categories)
      : options_(options), categories_(categories) {}

  void Append(uint64_t sample, SparseDataset* data) const {
    const CounterRandom random(options_.seed, RandomUse::kSynthetic, sample);
    uint64_t draw = 0;
    data->dense_columns = options_.dense_columns;
    for (uint64_t j = 0; j < options_.dense_columns; ++j) {
      data->dense.push_back(std::log1p(static_cast<float>(random.Below(draw++, kNumbersBelow))));
    }
    std::vector<uint64_t> drawn;
    for (const uint64_t count : categories_) {
      const double power = std::pow(static_cast<double>(count + 1), random.Uniform(draw++));
      drawn.push_back(std::min(static_cast<uint64_t>(power) - 1, count - 1));
      data->fields.push_back(static_cast<uint32_t>(drawn.size() - 1));
      data->keys.push_back(drawn.back() + 1);
      data->values.push_back(1);
    }
    const double number = data->dense[data->dense.size() - options_.dense_columns];
    const double score = (number - 2.1) / 2 + PairsOf(drawn);
    data->EndSample(random.Uniform(draw) < 1 / (1 + std::exp(-score)) ? 1 : 0);
  }

 private:
  double PairsOf(const std::vector<uint64_t>& drawn) const {
    const size_t pairs = drawn.size() / 2;
    double sum = 0;
    for (size_t f = 0; f < pairs; ++f) {
      const size_t other = drawn.size() - 1 - f;
      sum += SignOf(f, drawn[f]) * SignOf(other, drawn[other]);
    }
    return pairs == 0 ? 0 : 3 / std::sqrt(static_cast<double>(pairs)) * sum;
  }
  double SignOf(size_t column, uint64_t category) const {
    const CounterRandom random(options_.seed, RandomUse::kSynthetic, kSigns + column);
    return random.Below(category, 2) == 0 ? -1 : 1;
  }

  const SparseDataOptions& options_;
  const std::vector<uint64_t>& categories_;
};

}  // namespace

absl::StatusOr<SparseTrainTest> MakeClicks(const SparseDataOptions& options) {
  SOAP_RETURN_IF_ERROR(CheckClicks("numbers", options.dense_columns, 1, kClickColumnsMax));
  SOAP_RETURN_IF_ERROR(CheckClicks("categories", options.categorical_columns, 1, kClickColumnsMax));
  SOAP_RETURN_IF_ERROR(CheckClicks("vocabulary", options.vocabulary, 2, kCategoriesMax));
  const uint64_t cells = options.dense_columns + options.categorical_columns + 1;
  SOAP_RETURN_IF_ERROR(CheckClicks("samples", options.samples, 2, kCellsMax / cells));
  SOAP_ASSIGN_OR_RETURN(const uint64_t held_out,
                        HeldOutCount("clicks", options.samples, options.test_fraction));
  SparseTrainTest data = {.categories = CategoriesOf(options)};
  const ClickDraws draws(options, data.categories);
  for (uint64_t i = 0; i < options.samples; ++i) {
    draws.Append(i, i < options.samples - held_out ? &data.train : &data.test);
  }
  return data;
}

}  // namespace soapstone::models
