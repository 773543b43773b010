// Models of tables on samples that come after the training: the rows that they need of the model's
// file, and what the model says of them. Called by `predict` and `evaluate`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/predict/trained_model.h"
#include "models/tables/sparse_model.h"

namespace soapstone::apps {

struct TableSamples {
  std::shared_ptr<const models::SparseModel> model;  // its held-out data are the samples
  std::vector<uint64_t> samples;                     // all of them
  std::vector<models::RowBlock> rows;                // by table: with all keys that they name
};

// path: of samples in the training data's format; empty: the job's held-out ones. REQUIRES:
// model.of_tables(). Errors: those of MakeSparseModel, TrainedModel::ReadJob and Rows.
absl::StatusOr<TableSamples> LoadTableSamples(const TrainedModel& model, const std::string& path);

struct TableScores {
  bool classifier = false;    // of two classes
  std::vector<float> labels;  // [samples], as the file has them
  std::vector<float> scores;  // [samples]: of a classifier the probability of class 1, else a value
};

// `batch`: samples that a graph computes together. Errors: InvalidArgument of a model that says
// nothing of samples; those of GraphRunner.
absl::StatusOr<TableScores> ScoreTableSamples(const TrainedModel& model, const TableSamples& data,
                                              int64_t batch);

}  // namespace soapstone::apps
