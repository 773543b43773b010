// Models over tables: what a sample needs of which rows, its loss, and the gradients of those rows;
// some have tensors beside their tables, and a graph that takes the rows as an input. A worker's
// sparse executor runs one on the rows that it has pulled; nobody holds a whole table. Knows
// nothing of workers, shards or messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "base/memory/sparse_rows.h"
#include "base/parameter.h"
#include "models/data/dataset.h"
#include "models/data/sparse_dataset.h"
#include "models/graph/graph.h"

namespace soapstone::models {

// Samples of one part of the data, in order.
struct SparseBatch {
  bool held_out = false;
  Clock clock = 0;  // training: of what is drawn for them (negatives)
  absl::Span<const uint64_t> samples;
};

// The rows that a worker has of one table, and beside each the sum of its gradients.
class RowBlock {
 public:
  // rows.keys as asked for; their gradients are zero, and untouched.
  RowBlock(SparseRows rows, uint32_t dim);
  RowBlock() = default;

  const std::vector<uint64_t>& keys() const { return rows_.keys; }
  // Where a key's row is. CHECKs that it is here.
  size_t Find(uint64_t key) const {
    const bool placed = key < places_.size() && places_[key] != 0;
    return placed ? places_[key] - 1 : Search(key);
  }
  absl::Span<const float> row(size_t i) const {
    return absl::MakeConstSpan(rows_.rows).subspan(i * dim_, dim_);
  }
  // To be added to; counts as touched from now on.
  absl::Span<float> gradient(size_t i) {
    touched_[i] = 1;
    return absl::MakeSpan(gradients_).subspan(i * dim_, dim_);
  }
  // The rows touched since the last call, with their gradients, which are zero afterwards.
  SparseRows TakeGradients();

 private:
  size_t Search(uint64_t key) const;

  uint32_t dim_ = 1;
  SparseRows rows_;
  std::vector<float> gradients_;
  std::vector<uint8_t> touched_;
  std::vector<uint32_t>
      places_;  // by key: 1 + where its row is, 0 of none; empty for keys far apart
};

struct SparseLoss {
  double loss_sum = 0;
  uint64_t correct = 0;
  // Of a classifier: samples by label, by the class that they were taken for. Else none.
  std::vector<std::vector<uint32_t>> confusion;
};

// Immutable; holds its data.
class SparseModel {
 public:
  virtual ~SparseModel() = default;

  const std::vector<TableSpec>& tables() const { return tables_; }
  const SparseTrainTest& data() const { return data_; }

  // Appends, by table, the keys of the rows that these samples need: in any order, some twice.
  virtual void AddKeys(const SparseBatch& batch,
                       std::vector<std::vector<uint64_t>>* keys) const = 0;

  // The graph that a GraphRunner runs on the rows, up to the loss; null for a model of tables
  // alone, which has Run in its place.
  const std::shared_ptr<const Graph>& graph() const { return graph_; }

  // Of a model without a graph.
  // Loss of the samples, and whether each is predicted right; for training samples the gradients of
  // their losses are added to the rows', in the order of the samples.
  // rows: by table; REQUIRES: with all keys that AddKeys names.
  virtual SparseLoss Run(const SparseBatch& batch, std::vector<RowBlock>* rows) const;

  // What the model says of each sample: [samples], of a classifier of two classes z of σ(z), else
  // the value predicted, of a pair of words their likeness u.v. rows: as Run's.
  virtual std::vector<float> Score(const SparseBatch& batch,
                                   const std::vector<RowBlock>& rows) const;

  // Of a model with one.
  // The input that is made of rows.
  virtual TensorId rows_input() const;
  // Both parts of the data as the graph takes them. What is made of rows is read from *rows when a
  // sample is gathered: with the keys that AddKeys names, on one thread, as long as model and rows
  // live.
  virtual TrainTest DataOver(const std::vector<RowBlock>* rows) const;
  // Adds what the gradient of rows_input() says to the rows', in the order of the samples.
  // gradient: [samples, its shape]
  virtual void AddGradients(const SparseBatch& batch, absl::Span<const float> gradient,
                            std::vector<RowBlock>* rows) const;

 protected:
  SparseModel(SparseTrainTest data, std::vector<TableSpec> tables,
              std::shared_ptr<const Graph> graph = nullptr)
      : data_(std::move(data)), tables_(std::move(tables)), graph_(std::move(graph)) {}
  const SparseDataset& PartOf(const SparseBatch& batch) const {
    return batch.held_out ? data_.test : data_.train;
  }

 private:
  SparseTrainTest data_;
  std::vector<TableSpec> tables_;
  std::shared_ptr<const Graph> graph_;
};

// Names that MakeSparseModel knows, and what they are.
struct SparseModelEntry {
  std::string name;
  std::string usage;  // with its options
  std::string data;   // what it reads
  std::string tables;
};
std::vector<SparseModelEntry> SparseModels();
bool IsSparseModel(std::string_view spec);

// The graph of one that has tensors beside its tables, without data. Error: InvalidArgument also
// where it has none.
absl::StatusOr<Graph> GraphOfSparseModel(std::string_view spec);

// Reads the data (options' window and min_count come from the spec) and makes the model.
//   logistic                            libsvm; two classes, labels above 0 and not; table
//   "weight",
//                                       rows of 1, key = index, 0 = bias; loss log(1 + exp(-y w.x))
//   matrix_factorisation:dim=8          triples; tables "row" and "column", rows of dim + 1, the
//   last a
//                                       bias; loss (r - m - b_i - c_j - p_i.q_j)^2 / 2, m the mean
//                                       of the training values; right: within 0.5 (Koren, Bell and
//                                       Volinsky, "Matrix factorization techniques", 2009, eq. 4)
//   skip_gram:dim=32,window=2,negatives=5,min_count=5
//                                       text; tables "input" and "output"; loss of a pair (c, o)
//                                       and negatives n_k: -log s(u_c.v_o) - sum_k log
//                                       s(-u_c.v_nk), drawn from counts^(3/4) (Mikolov et al., NIPS
//                                       2013, eq. 4); right: the pair scores above its first
//                                       negative
//   dlrm, dlrm:tiny                       criteo (dlrm.h)
// rows_max: of each table on each shard (TableSpec). Errors: InvalidArgument; those of
// LoadSparseData.
// `load`: what reads the data.
using SparseLoader = absl::StatusOr<SparseTrainTest> (*)(const SparseDataOptions& options);
absl::StatusOr<std::shared_ptr<const SparseModel>> MakeSparseModel(
    std::string_view spec, SparseDataOptions options, uint64_t rows_max,
    SparseLoader load = LoadSparseData);

}  // namespace soapstone::models
