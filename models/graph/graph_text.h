// A graph as text, an operator a line, and the hash of it: what tables of costs and plans of a
// model are kept under, so that they are not used for another. As a drawing too.
#pragma once

#include <string>

#include "models/graph/graph.h"

namespace soapstone::models {

// All that fixes what the graph computes, but the initial values. Inputs and operators in order:
//   input [3,224,224] f32
//   conv1 = conv2d(channels=64, ...) of input -> [64,55,55]
std::string TextOf(const Graph& graph);

// SHA-256 of TextOf, as hex.
std::string HashOf(const Graph& graph);

// In Graphviz' language: operators as boxes, tensors as arrows with their shapes of a sample.
std::string DotOf(const Graph& graph);

}  // namespace soapstone::models
