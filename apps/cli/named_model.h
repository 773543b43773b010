// The one way to name a model on a command line: what `models`, `profile` and `plan` take is what a
// job's `model` may be.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"

namespace soapstone::apps {

// model: of the zoo with its options, at its own size ("resnet50:tiny"); "onnx:FILE", relative to
// the working folder; of tables, what it has beside them ("dlrm"). A job's model of the zoo is of
// the size of its data instead (cluster/job.h).
// Errors, a line each: a name, an option or a file that is not there; a model of tables alone.
absl::StatusOr<models::Graph> GraphOf(const std::string& model);

}  // namespace soapstone::apps
