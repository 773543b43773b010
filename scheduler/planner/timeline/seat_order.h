// The order in which workers run their parts, as a timeline has them: what is predicted is what
// runs, with as many micro-batches under way as were found to fit.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "scheduler/planner/timeline/timeline_task.h"
#include "strategy/op_graph.h"
#include "strategy/order.h"
#include "strategy/planned_times.h"

namespace soapstone::planner {

// By device, its forward and backward tasks in the order in which they start. It passes CheckOrder:
// in a timeline nothing starts before what it waits for has ended. Empty where the timeline is: no
// step that ends was found.
Order SeatOrder(const OpGraph& graph, uint32_t devices, absl::Span<const TimelineTask> timeline);

// When the halves of an order are run in a timeline of the same strategy, which may be of an
// iteration among many: counted from the first of them. Empty where the timeline is.
PlannedTimes SeatTimes(const Order& order, absl::Span<const TimelineTask> timeline);

}  // namespace soapstone::planner
