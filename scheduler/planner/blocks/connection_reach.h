// A connection's reach says which parts of two operators it ties together, whatever their
// configurations are. It follows from shapes and rules alone. ConnectionGraph asks once for each
// class of connections; the bounds on a step's time are over such connections only (bounds.h).
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "strategy/op_graph.h"

namespace soapstone::planner {

struct ConnectionReach {
  bool feeds_all = false;  // any part of the consumer reads some of the producer's output
  bool reads_all = false;  // any part of the producer is read by some part of the consumer
};

// edges: all of them between the same two operators. False does not say that there is a split of
// which it is not true: operators whose dimensions share a tensor's dimension are not looked into.
ConnectionReach FindReach(const OpGraph& graph, absl::Span<const uint32_t> edges);

}  // namespace soapstone::planner
