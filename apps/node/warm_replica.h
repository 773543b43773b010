// WarmReplica: a worker's replica whose kernels have been compiled. Who calls: the worker's shell,
// before it registers, so that the start barrier opens when all workers can compute: compiling
// takes 0.1 to 0.6 s, which the first step of every process would else wait for.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cluster/job.h"
#include "models/runtime/graph_runner.h"

namespace soapstone::apps {

// Null for a model of tables alone, which has no kernels. For the mini-batches of an equal share,
// of full batches and of the epoch's last. Parameters are zero, and are replaced by the first load.
// Errors: an operator or a precision that this machine cannot run; a step that does not fit into
// its memory.
absl::StatusOr<std::shared_ptr<models::GraphRunner>> WarmReplica(const Job& job, uint32_t rank);

}  // namespace soapstone::apps
