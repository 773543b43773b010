#include "models/tables/dlrm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::models {
namespace {

// One of the columns that the graph takes. The model, and the rows, outlive it.
class SampleColumn : public Column {
 public:
  SampleColumn(FieldSpec spec, int64_t limit, const SparseDataset* data)
      : Column(std::move(spec), limit), data_(*data) {}
  uint64_t size() const override { return data_.size(); }

 protected:
  const SparseDataset& data() const { return data_; }

 private:
  const SparseDataset& data_;
};

class DenseColumn final : public SampleColumn {
 public:
  explicit DenseColumn(const SparseDataset* data)
      : SampleColumn({.name = "dense", .shape = {static_cast<int64_t>(data->dense_columns)}}, 0,
                     data) {}
  void Read(uint64_t index, std::byte* words) const override {
    const absl::Span<const float> x = data().DenseOf(index);
    std::memcpy(words, x.data(), x.size() * sizeof(float));
  }
};

class LabelColumn final : public SampleColumn {
 public:
  explicit LabelColumn(const SparseDataset* data)
      : SampleColumn({.name = "labels", .is_float = false}, 2, data) {}
  void Read(uint64_t index, std::byte* words) const override {
    const int32_t label = data().labels[index] > 0 ? 1 : 0;
    std::memcpy(words, &label, sizeof(label));
  }
};

// e_f of each field: Σ of the rows of its keys.
class RowSumColumn final : public SampleColumn {
 public:
  RowSumColumn(int64_t fields, int64_t dim, const SparseDataset* data,
               const std::vector<RowBlock>* rows)
      : SampleColumn({.name = "rows", .shape = {fields, dim}}, 0, data), rows_(*rows) {}
  void Read(uint64_t index, std::byte* words) const override {
    const auto dim = static_cast<size_t>(spec().shape[1]);
    const absl::Span<const uint64_t> keys = data().KeysOf(index);
    const absl::Span<const uint32_t> fields = data().FieldsOf(index);
    auto* sums = reinterpret_cast<float*>(words);
    std::fill_n(sums, elements(), 0.0f);
    for (size_t k = 0; k < keys.size(); ++k) {
      const RowBlock& table = rows_[fields[k]];
      const absl::Span<const float> row = table.row(table.Find(keys[k]));
      float* sum = sums + fields[k] * dim;
      for (size_t e = 0; e < dim; ++e) sum[e] += row[e];
    }
  }

 private:
  const std::vector<RowBlock>& rows_;
};

// Rows begin with a length of 1/4 on average.
std::vector<TableSpec> TablesOf(const DlrmSize& size, uint64_t rows_max) {
  std::vector<TableSpec> tables;
  for (int64_t f = 0; f < size.categorical; ++f) {
    tables.push_back({.name = absl::StrCat("embedding.", f),
                      .dim = static_cast<uint32_t>(size.dim),
                      .init = InitKind::kNormal,
                      .scale = 1 / std::sqrt(static_cast<double>(size.dim)) / 4,
                      .rows_max = rows_max});
  }
  return tables;
}

class Dlrm final : public SparseModel {
 public:
  Dlrm(SparseTrainTest data, const DlrmSize& size, Graph graph, uint64_t rows_max)
      : SparseModel(std::move(data), TablesOf(size, rows_max),
                    std::make_shared<const Graph>(std::move(graph))),
        size_(size) {}

  TensorId rows_input() const override { return graph()->inputs()[1]; }

  void AddKeys(const SparseBatch& batch, std::vector<std::vector<uint64_t>>* keys) const override {
    for (const uint64_t sample : batch.samples) {
      const absl::Span<const uint64_t> of_sample = PartOf(batch).KeysOf(sample);
      const absl::Span<const uint32_t> fields = PartOf(batch).FieldsOf(sample);
      for (size_t k = 0; k < of_sample.size(); ++k) (*keys)[fields[k]].push_back(of_sample[k]);
    }
  }

  TrainTest DataOver(const std::vector<RowBlock>* rows) const override {
    TrainTest over;
    for (const auto& [from, to] :
         {std::pair(&data().train, &over.train), std::pair(&data().test, &over.test)}) {
      to->classes = 2;
      to->columns = {std::make_shared<DenseColumn>(from),
                     std::make_shared<RowSumColumn>(size_.categorical, size_.dim, from, rows),
                     std::make_shared<LabelColumn>(from)};
    }
    return over;
  }

  // A sum passes its gradient on to each of its terms.
  void AddGradients(const SparseBatch& batch, absl::Span<const float> gradient,
                    std::vector<RowBlock>* rows) const override {
    const auto dim = static_cast<size_t>(size_.dim);
    const size_t of_sample = dim * static_cast<size_t>(size_.categorical);
    CHECK_EQ(gradient.size(), batch.samples.size() * of_sample);
    for (size_t i = 0; i < batch.samples.size(); ++i) {
      const absl::Span<const uint64_t> keys = PartOf(batch).KeysOf(batch.samples[i]);
      const absl::Span<const uint32_t> fields = PartOf(batch).FieldsOf(batch.samples[i]);
      for (size_t k = 0; k < keys.size(); ++k) {
        RowBlock& table = (*rows)[fields[k]];
        const absl::Span<float> to = table.gradient(table.Find(keys[k]));
        const float* from = gradient.data() + i * of_sample + fields[k] * dim;
        for (size_t e = 0; e < dim; ++e) to[e] += from[e];
      }
    }
  }

 private:
  const DlrmSize size_;
};

}  // namespace

bool IsDlrm(std::string_view spec) { return spec.substr(0, spec.find(':')) == kDlrmName; }

absl::StatusOr<Graph> BuildDlrm(const DlrmSize& size) {
  GraphBuilder b(kDlrmName);
  const TensorId numbers = b.Input("dense", DataType::kFloat32, {size.dense});
  const TensorId rows = b.Input("rows", DataType::kFloat32, {size.categorical, size.dim});
  AddDlrmTop(size, AddDlrmBottom(size, numbers, &b), {rows}, &b);
  return b.Build();
}

absl::StatusOr<std::shared_ptr<const SparseModel>> MakeDlrm(std::string_view spec,
                                                            SparseDataOptions options,
                                                            uint64_t rows_max, SparseLoader load) {
  SOAP_ASSIGN_OR_RETURN(const DlrmSize size, ParseDlrm(spec));
  if (options.format != "criteo" && options.format != "clicks") {
    return absl::InvalidArgumentError(
        absl::StrCat("dlrm takes data of format criteo or clicks, not ", options.format));
  }
  options.dense_columns = static_cast<uint64_t>(size.dense);
  options.categorical_columns = static_cast<uint64_t>(size.categorical);
  SOAP_ASSIGN_OR_RETURN(Graph graph, BuildDlrm(size));
  SOAP_ASSIGN_OR_RETURN(SparseTrainTest data, load(options));
  return std::make_shared<const Dlrm>(std::move(data), size, std::move(graph), rows_max);
}

}  // namespace soapstone::models
