#include "models/data/recommendation/category_columns.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/data/sparse_dataset.h"

namespace soapstone::models {
namespace {

// The number of each category of one column.
class CategoryNumbers {
 public:
  // keys: of the training part, in any order, some twice. categories: how many there are, of keys
  // from 1 on; 0: those that `keys` has.
  CategoryNumbers(size_t column, std::vector<uint64_t> keys, uint64_t categories, uint64_t rows_max)
      : hash_(0, RandomUse::kRowIndex, column) {
    if (categories == 0) {
      std::sort(keys.begin(), keys.end());
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      categories = keys.size();
      keys_ = std::move(keys);
    }
    hashed_ = categories >= rows_max;
    limit_ = hashed_ ? rows_max : categories + 1;
  }

  // Numbers are below it.
  int64_t limit() const { return static_cast<int64_t>(limit_); }

  int32_t Of(uint64_t key) const {
    if (hashed_) return static_cast<int32_t>(hash_.Below(key, limit_));
    if (keys_.empty()) {
      CHECK_LT(key, limit_);
      return static_cast<int32_t>(key);
    }
    const auto at = std::lower_bound(keys_.begin(), keys_.end(), key);
    return at != keys_.end() && *at == key ? static_cast<int32_t>(at - keys_.begin()) + 1 : 0;
  }

 private:
  const CounterRandom hash_;
  std::vector<uint64_t> keys_;  // ascending; none where keys are numbers already
  bool hashed_ = false;
  uint64_t limit_ = 0;
};

// Each sample has one key a column, in the order of the columns.
absl::Status CheckCells(const DataOptions& options, const SparseDataset& data) {
  for (size_t i = 0; i < data.size(); ++i) {
    if (data.KeysOf(i).size() == options.categorical_columns) continue;
    const absl::Span<const uint32_t> fields = data.FieldsOf(i);
    const auto twice = std::adjacent_find(fields.begin(), fields.end());
    return absl::InvalidArgumentError(
        absl::StrCat(options.path, ": a cell of categorical column ", *twice + 1,
                     " has several categories; dlrm_hashed takes one a cell, dlrm any number"));
  }
  return absl::OkStatus();
}

std::vector<uint64_t> KeysOfColumn(const SparseDataset& data, size_t column) {
  std::vector<uint64_t> keys(data.size());
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = data.KeysOf(i)[column];
  return keys;
}

Dataset ColumnsOf(const DataOptions& options, const std::vector<CategoryNumbers>& numbers,
                  SparseDataset data) {
  Dataset columns = {.classes = 2};
  columns.columns.push_back(
      FloatColumn({.name = "dense", .shape = {static_cast<int64_t>(options.dense_columns)}},
                  std::move(data.dense)));
  for (size_t f = 0; f < numbers.size(); ++f) {
    std::vector<int32_t> values(data.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = numbers[f].Of(data.KeysOf(i)[f]);
    columns.columns.push_back(
        IntColumn({.name = absl::StrCat("category.", f), .is_float = false, .shape = {1}},
                  numbers[f].limit(), std::move(values)));
  }
  std::vector<int32_t> labels;
  for (const float label : data.labels) labels.push_back(label > 0 ? 1 : 0);
  columns.columns.push_back(IntColumn({.name = "labels", .is_float = false}, 2, std::move(labels)));
  return columns;
}

}  // namespace

absl::StatusOr<TrainTest> LoadCategories(const DataOptions& options) {
  if (options.categorical_columns == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.format, " is a data format of dlrm and dlrm_hashed, which have columns for it"));
  }
  SOAP_ASSIGN_OR_RETURN(SparseTrainTest data,
                        LoadSparseData({.format = options.format,
                                        .path = options.path,
                                        .test_path = options.test_path,
                                        .test_fraction = options.test_fraction,
                                        .seed = options.seed,
                                        .dense_columns = options.dense_columns,
                                        .categorical_columns = options.categorical_columns,
                                        .vocabulary = static_cast<uint64_t>(options.vocabulary),
                                        .samples = static_cast<uint64_t>(options.samples)}));
  SOAP_RETURN_IF_ERROR(CheckCells(options, data.train));
  SOAP_RETURN_IF_ERROR(CheckCells(options, data.test));
  std::vector<CategoryNumbers> numbers;
  for (size_t f = 0; f < options.categorical_columns; ++f) {
    const uint64_t categories = data.categories.empty() ? 0 : data.categories[f];
    numbers.emplace_back(f, KeysOfColumn(data.train, f), categories, options.rows_max);
  }
  TrainTest columns;
  columns.train = ColumnsOf(options, numbers, std::move(data.train));
  columns.test = ColumnsOf(options, numbers, std::move(data.test));
  return columns;
}

}  // namespace soapstone::models
