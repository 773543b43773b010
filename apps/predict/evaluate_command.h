// `soapstone evaluate`: what a run's end says of held-out samples, said again of a trained model,
// on the same samples or others.
#pragma once

#include "absl/status/statusor.h"
#include "apps/predict/predict_flags.h"
#include "apps/predict/trained_model.h"
#include "apps/report/report.h"

namespace soapstone::apps {

// The part of a run's result that is about held-out samples. Errors: those of TrainedModel, and of
// the samples.
absl::StatusOr<ResultReport> EvaluateModel(const TrainedModel& model, const ModelFlags& flags);

// Returns the exit code.
int Evaluate(const EvaluateFlags& flags);

}  // namespace soapstone::apps
