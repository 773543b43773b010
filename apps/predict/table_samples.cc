#include "apps/predict/table_samples.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "apps/predict/graph_predictor.h"
#include "base/status_macros.h"
#include "models/data/mini_batch.h"

namespace soapstone::apps {
namespace {

bool Is(const std::string& model, const char* name) {
  return model.substr(0, model.find(':')) == name;
}

// Of these models a sample says nothing of itself without what the training data were.
bool NeedsTrainingData(const std::string& model) {
  return Is(model, "matrix_factorisation") || Is(model, "skip_gram");
}

absl::StatusOr<std::shared_ptr<const models::SparseModel>> MakeModel(const TrainedModel& trained,
                                                                     const std::string& path) {
  const wire::JobConfig& config = trained.config();
  if (path.empty()) {
    SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job, trained.ReadJob());
    return job->tables;
  }
  const wire::Data& data = config.data();
  const bool alone = !NeedsTrainingData(config.model());
  if (Is(config.model(), "skip_gram") || data.format() == "clicks") {
    return absl::InvalidArgumentError(absl::StrCat("samples of format ", data.format(),
                                                   " are not read apart from the training data"));
  }
  return models::MakeSparseModel(config.model(),
                                 {.format = data.format(),
                                  .path = data.path(),
                                  .test_path = path,
                                  .test_fraction = data.test_fraction(),
                                  .seed = config.training().seed()},
                                 config.cluster().table_rows_max(),
                                 alone ? models::LoadLaterSparseData : models::LoadSparseData);
}

absl::StatusOr<std::vector<float>> ScoresOfGraph(const TrainedModel& trained,
                                                 const TableSamples& data, int64_t batch) {
  const models::Graph& graph = *data.model->graph();
  SOAP_ASSIGN_OR_RETURN(const compute::GivenValues values, trained.Values(graph));
  SOAP_ASSIGN_OR_RETURN(std::shared_ptr<compute::Backend> backend, trained.MakeBackend());
  SOAP_ASSIGN_OR_RETURN(GraphPredictor predictor,
                        GraphPredictor::Create(graph, values, std::move(backend)));
  const models::TrainTest over = data.model->DataOver(&data.rows);
  std::vector<float> scores;
  models::MiniBatch feed;
  const size_t all = data.samples.size();
  for (const std::vector<uint64_t>& part : EvenBatches(all, batch)) {
    over.test.Gather(part, &feed);
    SOAP_ASSIGN_OR_RETURN(std::vector<float> logits, predictor.Logits(feed));
    const auto classes = static_cast<size_t>(predictor.classes());
    for (size_t i = 0; i < logits.size() && scores.size() < all; i += classes) {
      const absl::Span<float> of_sample = absl::MakeSpan(logits).subspan(i, classes);
      Softmax(of_sample);
      scores.push_back(of_sample[1]);
    }
  }
  return scores;
}

}  // namespace

absl::StatusOr<TableSamples> LoadTableSamples(const TrainedModel& model, const std::string& path) {
  TableSamples data;
  SOAP_ASSIGN_OR_RETURN(data.model, MakeModel(model, path));
  data.samples.resize(data.model->data().test.size());
  std::iota(data.samples.begin(), data.samples.end(), 0);
  const std::vector<TableSpec>& tables = data.model->tables();
  std::vector<std::vector<uint64_t>> keys(tables.size());
  data.model->AddKeys({.held_out = true, .samples = data.samples}, &keys);
  for (uint32_t t = 0; t < tables.size(); ++t) {
    std::sort(keys[t].begin(), keys[t].end());
    keys[t].erase(std::unique(keys[t].begin(), keys[t].end()), keys[t].end());
    SOAP_ASSIGN_OR_RETURN(SparseRows rows, model.Rows(tables[t], t, std::move(keys[t])));
    data.rows.emplace_back(std::move(rows), tables[t].dim);
  }
  return data;
}

absl::StatusOr<TableScores> ScoreTableSamples(const TrainedModel& model, const TableSamples& data,
                                              int64_t batch) {
  const std::string& name = model.config().model();
  TableScores out = {.labels = data.model->data().test.labels};
  if (data.model->graph() != nullptr) {
    out.classifier = true;
    SOAP_ASSIGN_OR_RETURN(out.scores, ScoresOfGraph(model, data, batch));
    return out;
  }
  out.classifier = Is(name, "logistic");
  out.scores = data.model->Score({.held_out = true, .samples = data.samples}, data.rows);
  if (!out.classifier) return out;
  for (float& z : out.scores) z = static_cast<float>(Sigmoid(static_cast<double>(z)));
  return out;
}

}  // namespace soapstone::apps
