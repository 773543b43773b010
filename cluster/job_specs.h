// JobSpecs: what the spec strings of a job mean. job_config.h parses and checks them.
#pragma once

#include "cluster/straggler.h"
#include "compute/optimizer.h"
#include "compute/schedule.h"
#include "consistency/traits.h"

namespace soapstone::cluster {

struct JobSpecs {
  consistency::PolicyTraits policy;
  compute::OptimizerSpec optimizer;
  compute::ScheduleSpec schedule;
  sim::StragglerModel stragglers;
};

}  // namespace soapstone::cluster
