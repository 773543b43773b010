// Strategies as files (wire/config/strategy.proto): with what they were made for, so that they are
// not taken for another model or machine. Called by the shell, which reads and writes the files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/order.h"
#include "strategy/strategy.h"
#include "wire/config/strategy.pb.h"

namespace soapstone::planner {

// costs_sha256: of the cost model by which it was found. `predicted` is left to the caller.
wire::Strategy MessageOf(const OpGraph& graph, const Machine& machine,
                         const std::string& costs_sha256, const Strategy& strategy);

// `file` stands for the text in errors. Errors: InvalidArgument, one line: not such a text, an
// unknown version.
absl::StatusOr<wire::Strategy> ParseStrategy(const std::string& text, const std::string& file);

// Errors: InvalidArgument, "file: what": it is for another model, batch, chunk of time, number of
// micro-batches, machine or number of devices (both are named); operators, dimensions, devices or
// servers that are not there.
absl::StatusOr<Strategy> StrategyFrom(const wire::Strategy& message, const std::string& file,
                                      const OpGraph& graph, const Machine& machine);

// The same for workers that are to run it, whatever machine it was planned for: devices are their
// seats. Servers are looked at by who knows how many there are. Errors: as above, without the
// machine; a device without a part.
absl::StatusOr<Strategy> StrategyForWorkers(const wire::Strategy& message, const std::string& file,
                                            const OpGraph& graph);

// Of a strategy of the message. REQUIRES: CheckOrder.
void SetOrder(const OpGraph& graph, const Strategy& strategy, const Order& order,
              wire::Strategy* message);

// The order in the message, or the canonical one where there is none.
// Errors: InvalidArgument, "file: what": devices or halves that are not there; those of CheckOrder.
absl::StatusOr<Order> OrderFrom(const wire::Strategy& message, const std::string& file,
                                const OpGraph& graph, const Strategy& strategy);

// "owner", "ring", "servers"
std::string NameOf(Synchronization synchronization);

}  // namespace soapstone::planner
