// What is said where training has diverged: what was set, and what to try. Text only.
#pragma once

#include <optional>
#include <string>

#include "base/ids.h"
#include "cluster/job_config.h"

namespace soapstone::apps {

// "learning rate 10000; try a smaller one, ...". `clock`: of the update; none: not known.
std::string DivergenceAdvice(const wire::JobConfig& config, const cluster::JobSpecs& specs,
                             Clock total_clocks, std::optional<Clock> clock);

}  // namespace soapstone::apps
