// Samples without meaning that any graph can run on: what `soapstone profile` feeds.
#pragma once

#include <cstdint>

#include "models/data/mini_batch.h"
#include "models/graph/graph.h"

namespace soapstone::apps {

// By input of the graph: floats uniform in [-1, 1); integers that the operators reading them take
// (tokens below the rows of the embedding, labels below the classes). A function of the arguments.
models::MiniBatch RandomBatch(const models::Graph& graph, int64_t samples, uint64_t seed);

}  // namespace soapstone::apps
