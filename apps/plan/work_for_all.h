// Workers that hold no part of a model are refused: where the best plan leaves devices without
// work, the nearest one that does not. Called where the number of workers is given.
#pragma once

#include <functional>

#include "apps/plan/planning.h"
#include "strategy/strategy.h"

namespace soapstone::apps {

// Devices without a part of any operator.
std::vector<uint32_t> IdleDevices(const planner::Strategy& strategy, uint32_t devices);

// `strategy`, changed operator by operator (with all its chunks and micro-batches) until each
// device has work, every time by what makes the step least. As it was where that cannot be, or
// where give_up says so before there is a change that gives work.
planner::Strategy WithWorkForAll(const Planning& planning, planner::Strategy strategy,
                                 const std::function<bool()>& give_up);

}  // namespace soapstone::apps
