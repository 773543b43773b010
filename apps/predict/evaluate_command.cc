#include "apps/predict/evaluate_command.h"

#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/job_source.h"
#include "apps/predict/graph_predictor.h"
#include "apps/predict/later_samples.h"
#include "apps/predict/table_samples.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "cluster/evaluator.h"
#include "models/runtime/confusion.h"
#include "models/runtime/model_input.h"
#include "wire/layout.h"
#include "worker/device/executor.h"

namespace soapstone::apps {
namespace {

constexpr char kEvaluateProgram[] = "soapstone evaluate";

// What a worker does at the end of a run, with these values.
absl::StatusOr<worker::DeviceEvent> EvaluateGraph(const TrainedModel& model,
                                                  const models::Graph& graph,
                                                  models::TrainTest data) {
  SOAP_ASSIGN_OR_RETURN(const compute::GivenValues values, model.Values(graph));
  SOAP_ASSIGN_OR_RETURN(std::shared_ptr<compute::Backend> backend, model.MakeBackend());
  SOAP_ASSIGN_OR_RETURN(std::shared_ptr<models::GraphRunner> runner,
                        MakeTrainedRunner(graph, values, std::move(backend)));
  SOAP_ASSIGN_OR_RETURN(
      const std::unique_ptr<worker::Executor> executor,
      worker::Executor::Create(
          {.graph = graph,
           .data = std::make_shared<models::TrainTest>(std::move(data)),
           .layout = std::make_shared<const wire::Layout>(wire::Layout::Whole(graph.params())),
           .now = [] { return Nanos{0}; },
           .replica = std::move(runner)}));
  return executor->Evaluate();
}

ResultReport ReportOf(const worker::DeviceEvent& event) {
  const experiment::HeldOut held_out = experiment::HeldOutOf(event);
  return {.test_samples = event.samples,
          .test_accuracy = held_out.accuracy,
          .test_loss = held_out.loss};
}

void AddConfusion(models::Confusion confusion, ResultReport* report) {
  if (confusion.empty()) return;
  report->balanced_accuracy = models::BalancedAccuracy(confusion);
  report->confusion = std::move(confusion);
}

absl::StatusOr<ResultReport> EvaluateTables(const TrainedModel& model, const std::string& path) {
  SOAP_ASSIGN_OR_RETURN(TableSamples samples, LoadTableSamples(model, path));
  if (samples.model->graph() == nullptr) {
    models::SparseLoss loss =
        samples.model->Run({.held_out = true, .samples = samples.samples}, &samples.rows);
    ResultReport report = ReportOf({.samples = samples.samples.size(),
                                    .loss_sum = loss.loss_sum,
                                    .correct = static_cast<double>(loss.correct)});
    AddConfusion(std::move(loss.confusion), &report);
    return report;
  }
  models::TrainTest over = samples.model->DataOver(&samples.rows);
  over.train = over.test;  // which an evaluation does not look at
  SOAP_ASSIGN_OR_RETURN(const worker::DeviceEvent event,
                        EvaluateGraph(model, *samples.model->graph(), std::move(over)));
  ResultReport report = ReportOf(event);
  SOAP_ASSIGN_OR_RETURN(models::Confusion confusion, models::ConfusionOf(event.frames));
  AddConfusion(std::move(confusion), &report);
  return report;
}

absl::StatusOr<ResultReport> EvaluateTensors(const TrainedModel& model, const ModelFlags& flags) {
  models::TrainTest data;
  models::ModelReading reading;
  if (flags.data_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job, model.ReadJob());
    data = *job->data;
    reading = models::ReadingOf(data);
  } else {
    SOAP_ASSIGN_OR_RETURN(reading, model.Reading());
    SOAP_ASSIGN_OR_RETURN(LaterSamples later, LoadLaterSamples(model, reading,
                                                               {.path = flags.data_path,
                                                                .labels_path = flags.labels_path}));
    if (!later.labels) {
      return absl::InvalidArgumentError(
          absl::StrCat(flags.data_path, ": these samples have no labels of the model's classes"));
    }
    SayNotes(kEvaluateProgram, later.notes);
    data.test = data.train = std::move(later.data);
  }
  SOAP_ASSIGN_OR_RETURN(const models::Graph graph, model.BuildGraph(reading));
  SOAP_RETURN_IF_ERROR(models::CheckFields(graph, data.test));
  SOAP_ASSIGN_OR_RETURN(const worker::DeviceEvent event,
                        EvaluateGraph(model, graph, std::move(data)));
  ResultReport report = ReportOf(event);
  report.class_names = reading.class_names;
  if (model.of_text()) report.test_perplexity = std::exp(report.test_loss);
  SOAP_ASSIGN_OR_RETURN(models::Confusion confusion, models::ConfusionOf(event.frames));
  AddConfusion(std::move(confusion), &report);
  return report;
}

std::string JsonOf(const TrainedModel& model, const ResultReport& report) {
  nlohmann::ordered_json json = {{"model", model.config().model()},
                                 {"model_path", model.name()},
                                 {"test_samples", report.test_samples},
                                 {"test_accuracy", report.test_accuracy},
                                 {"test_loss", report.test_loss}};
  if (model.of_text()) json["test_perplexity"] = report.test_perplexity;
  if (!report.confusion.empty()) {
    json["balanced_accuracy"] = report.balanced_accuracy;
    json["class_names"] = report.class_names;
    json["confusion"] = report.confusion;
  }
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return json.dump(2, ' ', false, kReplace) + "\n";
}

absl::Status RunEvaluation(const EvaluateFlags& flags) {
  SOAP_RETURN_IF_ERROR(CheckOutputApart(flags.output, flags.model, ""));
  SOAP_ASSIGN_OR_RETURN(const TrainedModel model, TrainedModel::Open(flags.model));
  SOAP_RETURN_IF_ERROR(model.CheckMeant(flags.model, !flags.model.data_path.empty()));
  SOAP_ASSIGN_OR_RETURN(const ResultReport report, EvaluateModel(model, flags.model));
  std::string text = JsonOf(model, report);
  if (!flags.json) {
    text = absl::StrCat(model.config().model(), " of ", model.name(), "\n", TestRows(report));
  }
  if (!flags.output.empty()) return WriteWholeFile(flags.output, text);
  std::cout << text;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ResultReport> EvaluateModel(const TrainedModel& model, const ModelFlags& flags) {
  return model.of_tables() ? EvaluateTables(model, flags.data_path) : EvaluateTensors(model, flags);
}

int Evaluate(const EvaluateFlags& flags) {
  const absl::Status done = RunEvaluation(flags);
  if (done.ok()) return kExitOk;
  // Whatever the disk says, it is of what the user names.
  return SayConfigError(kEvaluateProgram, absl::InvalidArgumentError(done.message()));
}

}  // namespace soapstone::apps
