#include "models/tables/sparse_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/spec.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/tables/dlrm.h"

namespace soapstone::models {
namespace {

constexpr uint64_t kBiasKey = 0;       // libsvm's indexes begin with 1
constexpr uint64_t kPlacesPerKey = 4;  // keys closer than this on average are found by a look-up

float Dot(absl::Span<const float> a, absl::Span<const float> b) {
  float sum = 0;
  for (size_t e = 0; e < b.size(); ++e) sum += a[e] * b[e];
  return sum;
}

void AddScaled(float factor, absl::Span<const float> from, absl::Span<float> to) {
  for (size_t e = 0; e < from.size(); ++e) to[e] += factor * from[e];
}

// s(x) = 1 / (1 + exp(-x)), and -log s(x) = log(1 + exp(-x)), without overflow.
float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
double MinusLogSigmoid(double x) {
  return x > 0 ? std::log1p(std::exp(-x)) : -x + std::log1p(std::exp(x));
}

class Logistic final : public SparseModel {
 public:
  Logistic(SparseTrainTest data, uint64_t rows_max)
      : SparseModel(std::move(data), {{.name = "weight", .dim = 1, .rows_max = rows_max}}) {}

  void AddKeys(const SparseBatch& batch, std::vector<std::vector<uint64_t>>* keys) const override {
    std::vector<uint64_t>& wanted = (*keys)[0];
    wanted.push_back(kBiasKey);
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> of_sample = PartOf(batch).KeysOf(sample);
      wanted.insert(wanted.end(), of_sample.begin(), of_sample.end());
    }
  }

  std::vector<float> Score(const SparseBatch& batch,
                           const std::vector<RowBlock>& rows) const override {
    const SparseDataset& data = PartOf(batch);
    std::vector<float> scores;
    scores.reserve(batch.samples.size());
    if (batch.samples.empty()) return scores;
    const RowBlock& weights = rows[0];
    const float bias = weights.row(weights.Find(kBiasKey))[0];
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> keys = data.KeysOf(sample);
      const absl::Span<const float> values = data.ValuesOf(sample);
      float z = bias;
      for (size_t k = 0; k < keys.size(); ++k) {
        z += weights.row(weights.Find(keys[k]))[0] * values[k];
      }
      scores.push_back(z);
    }
    return scores;
  }

  // z = w.x + b, y in {0, 1}: d loss / d w_k = (s(z) - y) x_k
  SparseLoss Run(const SparseBatch& batch, std::vector<RowBlock>* rows) const override {
    const SparseDataset& data = PartOf(batch);
    RowBlock& weights = (*rows)[0];
    SparseLoss loss;
    if (batch.samples.empty()) return loss;
    if (batch.held_out) loss.confusion = {{0, 0}, {0, 0}};
    const size_t bias = weights.Find(kBiasKey);
    std::vector<size_t> at;
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> keys = data.KeysOf(sample);
      const absl::Span<const float> values = data.ValuesOf(sample);
      at.resize(keys.size());
      float z = weights.row(bias)[0];
      for (size_t k = 0; k < keys.size(); ++k) {
        at[k] = weights.Find(keys[k]);
        z += weights.row(at[k])[0] * values[k];
      }
      const bool positive = data.labels[sample] > 0;
      loss.loss_sum += MinusLogSigmoid(positive ? z : -z);
      loss.correct += (z > 0) == positive ? 1 : 0;
      if (batch.held_out) {
        ++loss.confusion[positive ? 1 : 0][z > 0 ? 1 : 0];
        continue;
      }
      const float slope = Sigmoid(z) - (positive ? 1.0f : 0.0f);
      weights.gradient(bias)[0] += slope;
      for (size_t k = 0; k < keys.size(); ++k) weights.gradient(at[k])[0] += slope * values[k];
    }
    return loss;
  }
};

class MatrixFactorisation final : public SparseModel {
 public:
  MatrixFactorisation(SparseTrainTest data, uint32_t dim, uint64_t rows_max)
      : SparseModel(std::move(data), {Table("row", dim, rows_max), Table("column", dim, rows_max)}),
        dim_(dim) {
    double sum = 0;
    for (const float label : this->data().train.labels) sum += label;
    mean_ = static_cast<float>(sum / static_cast<double>(this->data().train.size()));
  }

  void AddKeys(const SparseBatch& batch, std::vector<std::vector<uint64_t>>* keys) const override {
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> of_sample = PartOf(batch).KeysOf(sample);
      (*keys)[0].push_back(of_sample[0]);
      (*keys)[1].push_back(of_sample[1]);
    }
  }

  std::vector<float> Score(const SparseBatch& batch,
                           const std::vector<RowBlock>& rows) const override {
    std::vector<float> scores;
    scores.reserve(batch.samples.size());
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> keys = PartOf(batch).KeysOf(sample);
      const absl::Span<const float> p = rows[0].row(rows[0].Find(keys[0]));
      const absl::Span<const float> q = rows[1].row(rows[1].Find(keys[1]));
      scores.push_back(mean_ + p[dim_] + q[dim_] + Dot(p, q.first(dim_)));
    }
    return scores;
  }

  // e = m + b_i + c_j + p_i.q_j - r: the loss is e^2 / 2, d / d p_i = e q_j, d / d q_j = e p_i, and
  // e for both biases.
  SparseLoss Run(const SparseBatch& batch, std::vector<RowBlock>* rows) const override {
    const SparseDataset& data = PartOf(batch);
    SparseLoss loss;
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> keys = data.KeysOf(sample);
      const size_t i = (*rows)[0].Find(keys[0]);
      const size_t j = (*rows)[1].Find(keys[1]);
      const absl::Span<const float> p = (*rows)[0].row(i);
      const absl::Span<const float> q = (*rows)[1].row(j);
      const float error = mean_ + p[dim_] + q[dim_] + Dot(p, q.first(dim_)) - data.labels[sample];
      loss.loss_sum += 0.5 * static_cast<double>(error) * static_cast<double>(error);
      loss.correct += std::abs(error) <= 0.5f ? 1 : 0;
      if (batch.held_out) continue;
      const absl::Span<float> of_p = (*rows)[0].gradient(i);
      const absl::Span<float> of_q = (*rows)[1].gradient(j);
      AddScaled(error, q.first(dim_), of_p);
      AddScaled(error, p.first(dim_), of_q);
      of_p[dim_] += error;
      of_q[dim_] += error;
    }
    return loss;
  }

 private:
  static TableSpec Table(const char* name, uint32_t dim, uint64_t rows_max) {
    return {.name = name,
            .dim = dim + 1,
            .init = InitKind::kNormal,
            .scale = 1 / std::sqrt(static_cast<double>(dim)) / 4,
            .rows_max = rows_max};
  }

  uint32_t dim_;
  float mean_ = 0;
};

class SkipGram final : public SparseModel {
 public:
  SkipGram(SparseTrainTest data, uint32_t dim, uint32_t negatives, uint64_t seed, uint64_t rows_max)
      : SparseModel(std::move(data), {{.name = "input",
                                       .dim = dim,
                                       .init = InitKind::kUniform,
                                       .scale = 0.5 / static_cast<double>(dim),
                                       .rows_max = rows_max},
                                      {.name = "output", .dim = dim, .rows_max = rows_max}}),
        negatives_(negatives),
        seed_(seed) {
    double sum = 0;
    for (const uint64_t count : this->data().word_counts) {
      sum += std::pow(static_cast<double>(count), 0.75);
      up_to_.push_back(sum);
    }
  }

  void AddKeys(const SparseBatch& batch, std::vector<std::vector<uint64_t>>* keys) const override {
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> pair = PartOf(batch).KeysOf(sample);
      (*keys)[0].push_back(pair[0]);
      (*keys)[1].push_back(pair[1]);
      for (uint32_t k = 0; k < negatives_; ++k) {
        (*keys)[1].push_back(Negative(batch, sample, k));
      }
    }
  }

  std::vector<float> Score(const SparseBatch& batch,
                           const std::vector<RowBlock>& rows) const override {
    std::vector<float> scores;
    scores.reserve(batch.samples.size());
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> pair = PartOf(batch).KeysOf(sample);
      scores.push_back(Dot(rows[0].row(rows[0].Find(pair[0])), rows[1].row(rows[1].Find(pair[1]))));
    }
    return scores;
  }

  // For the word o (y = 1) and each negative (y = 0), x = u.v: d loss / d u = (s(x) - y) v, d / d v
  // = (s(x) - y) u. A negative that is o itself counts as one.
  SparseLoss Run(const SparseBatch& batch, std::vector<RowBlock>* rows) const override {
    SparseLoss loss;
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> pair = PartOf(batch).KeysOf(sample);
      const size_t centre = (*rows)[0].Find(pair[0]);
      const absl::Span<const float> u = (*rows)[0].row(centre);
      float score = 0;
      for (uint32_t k = 0; k <= negatives_; ++k) {
        const bool positive = k == 0;
        const uint64_t word = positive ? pair[1] : Negative(batch, sample, k - 1);
        const size_t other = (*rows)[1].Find(word);
        const absl::Span<const float> v = (*rows)[1].row(other);
        const float x = Dot(u, v);
        loss.loss_sum += MinusLogSigmoid(positive ? x : -x);
        if (positive) score = x;
        if (k == 1) loss.correct += score > x ? 1 : 0;
        if (batch.held_out) continue;
        const float slope = Sigmoid(x) - (positive ? 1.0f : 0.0f);
        AddScaled(slope, v, (*rows)[0].gradient(centre));
        AddScaled(slope, u, (*rows)[1].gradient(other));
      }
    }
    return loss;
  }

 private:
  // Drawn anew at each clock; of held-out samples always the same.
  uint64_t Negative(const SparseBatch& batch, uint64_t sample, uint32_t k) const {
    const uint64_t stream = batch.held_out ? ~uint64_t{0} : static_cast<uint64_t>(batch.clock);
    const CounterRandom random(seed_, RandomUse::kNegatives, stream);
    const double drawn = random.Uniform(sample * negatives_ + k) * up_to_.back();
    const auto at = std::upper_bound(up_to_.begin(), up_to_.end() - 1, drawn);
    return static_cast<uint64_t>(at - up_to_.begin());
  }

  uint32_t negatives_;
  uint64_t seed_;
  std::vector<double> up_to_;  // sums of counts^(3/4)
};

struct SkipGramSpec {
  int64_t dim = 0;
  int64_t negatives = 0;
};

absl::StatusOr<SkipGramSpec> ParseSkipGram(const Spec& spec, SparseDataOptions* options) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"dim", "window", "negatives", "min_count"}));
  SkipGramSpec parsed;
  SOAP_ASSIGN_OR_RETURN(parsed.dim, spec.Int("dim", 32, 1, 4096));
  SOAP_ASSIGN_OR_RETURN(parsed.negatives, spec.Int("negatives", 5, 1, 1000));
  SOAP_ASSIGN_OR_RETURN(const int64_t window, spec.Int("window", 2, 1, 100));
  SOAP_ASSIGN_OR_RETURN(const int64_t min_count, spec.Int("min_count", 5, 1, 1'000'000'000));
  options->window = static_cast<uint64_t>(window);
  options->min_count = static_cast<uint64_t>(min_count);
  return parsed;
}

absl::Status NeedsFormat(const Spec& spec, const SparseDataOptions& options, const char* format) {
  if (options.format == format) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(spec.name, " takes data of format ", format, ", not ", options.format));
}

}  // namespace

SparseLoss SparseModel::Run(const SparseBatch& /*batch*/, std::vector<RowBlock>* /*rows*/) const {
  LOG(FATAL) << "a model with a graph is run by a replica";
}

std::vector<float> SparseModel::Score(const SparseBatch& /*batch*/,
                                      const std::vector<RowBlock>& /*rows*/) const {
  LOG(FATAL) << "a model with a graph is run by a replica";
}

TensorId SparseModel::rows_input() const { LOG(FATAL) << "a model without a graph"; }

TrainTest SparseModel::DataOver(const std::vector<RowBlock>* /*rows*/) const {
  LOG(FATAL) << "a model without a graph";
}

void SparseModel::AddGradients(const SparseBatch& /*batch*/, absl::Span<const float> /*gradient*/,
                               std::vector<RowBlock>* /*rows*/) const {
  LOG(FATAL) << "a model without a graph";
}

RowBlock::RowBlock(SparseRows rows, uint32_t dim)
    : dim_(dim),
      rows_(std::move(rows)),
      gradients_(rows_.rows.size()),
      touched_(rows_.keys.size()) {
  CHECK_EQ(rows_.rows.size(), rows_.keys.size() * dim);
  const size_t n = rows_.keys.size();
  if (n == 0 || rows_.keys.back() >= kPlacesPerKey * n) return;
  places_.resize(rows_.keys.back() + 1);
  for (size_t i = 0; i < n; ++i) places_[rows_.keys[i]] = static_cast<uint32_t>(i + 1);
}

size_t RowBlock::Search(uint64_t key) const {
  const auto at = std::lower_bound(rows_.keys.begin(), rows_.keys.end(), key);
  CHECK(at != rows_.keys.end() && *at == key) << "row " << key << " was not asked for";
  return static_cast<size_t>(at - rows_.keys.begin());
}

SparseRows RowBlock::TakeGradients() {
  SparseRows taken;
  for (size_t i = 0; i < touched_.size(); ++i) {
    if (touched_[i] == 0) continue;
    touched_[i] = 0;
    taken.keys.push_back(rows_.keys[i]);
    const auto begin = gradients_.begin() + static_cast<ptrdiff_t>(i * dim_);
    taken.rows.insert(taken.rows.end(), begin, begin + dim_);
    std::fill(begin, begin + dim_, 0.0f);
  }
  return taken;
}

std::vector<SparseModelEntry> SparseModels() {
  return {{"logistic", "logistic", "libsvm: two classes", "weight: rows of 1"},
          {"matrix_factorisation", "matrix_factorisation:dim=8", "triples: row, column, value",
           "row, column: rows of dim + 1"},
          {"skip_gram", "skip_gram:dim=32,window=2,negatives=5,min_count=5", "text",
           "input, output: rows of dim"},
          {std::string(kDlrmName), std::string(kDlrmUsage), "criteo: numbers and categories",
           "embedding.0, embedding.1, ..: rows of dim, one a categorical column"}};
}

bool IsSparseModel(std::string_view spec) {
  const std::string_view name = spec.substr(0, spec.find(':'));
  const std::vector<SparseModelEntry> all = SparseModels();
  return std::any_of(all.begin(), all.end(),
                     [&](const SparseModelEntry& entry) { return entry.name == name; });
}

absl::StatusOr<Graph> GraphOfSparseModel(std::string_view spec) {
  if (IsDlrm(spec)) {
    SOAP_ASSIGN_OR_RETURN(const DlrmSize size, ParseDlrm(spec));
    return BuildDlrm(size);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(spec.data(), spec.size()),
                   " is a model over tables alone: it has no operators (docs/tables.md)"));
}

absl::StatusOr<std::shared_ptr<const SparseModel>> MakeSparseModel(std::string_view text,
                                                                   SparseDataOptions options,
                                                                   uint64_t rows_max,
                                                                   SparseLoader load) {
  if (IsDlrm(text)) return MakeDlrm(text, std::move(options), rows_max, load);
  SOAP_ASSIGN_OR_RETURN(const Spec spec, Spec::Parse(text));
  if (spec.name == "logistic") {
    SOAP_RETURN_IF_ERROR(spec.AllowOnly({}));
    SOAP_RETURN_IF_ERROR(NeedsFormat(spec, options, "libsvm"));
    SOAP_ASSIGN_OR_RETURN(SparseTrainTest data, load(options));
    return std::make_shared<const Logistic>(std::move(data), rows_max);
  }
  if (spec.name == "matrix_factorisation") {
    SOAP_RETURN_IF_ERROR(spec.AllowOnly({"dim"}));
    SOAP_ASSIGN_OR_RETURN(const int64_t dim, spec.Int("dim", 8, 1, 4096));
    SOAP_RETURN_IF_ERROR(NeedsFormat(spec, options, "triples"));
    SOAP_ASSIGN_OR_RETURN(SparseTrainTest data, load(options));
    return std::make_shared<const MatrixFactorisation>(std::move(data), static_cast<uint32_t>(dim),
                                                       rows_max);
  }
  if (spec.name == "skip_gram") {
    SOAP_ASSIGN_OR_RETURN(const SkipGramSpec parsed, ParseSkipGram(spec, &options));
    SOAP_RETURN_IF_ERROR(NeedsFormat(spec, options, "text"));
    SOAP_ASSIGN_OR_RETURN(SparseTrainTest data, load(options));
    return std::make_shared<const SkipGram>(std::move(data), static_cast<uint32_t>(parsed.dim),
                                            static_cast<uint32_t>(parsed.negatives), options.seed,
                                            rows_max);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown model over tables '", spec.name, "'"));
}

}  // namespace soapstone::models
