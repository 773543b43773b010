// What joins data sets and models: the sizes that a model takes from the data, and whether the
// samples are what the graph asks for. Called where a job is made.
#pragma once

#include "absl/status/status.h"
#include "models/data/dataset.h"
#include "models/graph/graph.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {

ModelInput ModelInputOf(const TrainTest& data);

// Error: the data's fields are not the graph's inputs; says what either has.
absl::Status CheckFields(const Graph& graph, const Dataset& data);

// Where the samples of a feed begin, by field.
std::vector<const void*> FieldsOf(const MiniBatch& feed);

}  // namespace soapstone::models
