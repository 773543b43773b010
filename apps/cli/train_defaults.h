// What `soapstone train` takes where nothing is said: the example, and as many processes as the
// machine has cores for. Daemons have no such defaults: all nodes of a job must agree, and their
// machines differ.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "apps/cli/node_flags.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// The job of examples/digits-lenet5.textproto, which is compiled in: LeNet-5 on the digits that
// ship with the project.
wire::JobConfig ExampleJob();

// Of `flags`. Without a job file, and without a word of model or data, it is the example, with what
// the flags change. Where flags name a model or data and there is no file: 10 epochs,
// batches of 32. Servers and workers that neither file nor flags name: one server, and a worker a
// core, eight at most. The digits are taken from the folder of the project where the
// working folder has none. With --strategy=auto micro-batches that nothing says
// are left open (0), as are those of the example. `said` gets a line for people of what was chosen,
// or nothing. Errors: as ConfigFromFlags.
absl::StatusOr<wire::JobConfig> TrainConfigFromFlags(const NodeFlags& flags, std::string* said);

}  // namespace soapstone::apps
