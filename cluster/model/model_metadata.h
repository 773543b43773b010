// What a model's file says beside its values, as texts by name that other tools pass over:
//
//   model    as the job file has it, such as "lenet5"
//   policy
//   job      the job file's text, without what concerns processes and outputs
//   reading  how samples are read as the training data were (models/runtime/model_reading.h); of
//            tensors; left out where its words are too many for a header
//   vocabulary  of tables of words: a line a word
//
// Server 0 writes it, `soapstone checkpoint export` what it can; `soapstone predict` and `evaluate`
// read it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cluster/job.h"
#include "models/data/dataset.h"
#include "models/formats/safetensors_writer.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

models::Metadata ModelMetadataOf(const Job& job);

// The same job, as far as it says what the model and its data are: for one process, without
// outputs.
wire::JobConfig JobOfModel(const wire::JobConfig& config);

// How the job's data are read: its fields as the readers have them.
models::DataOptions DataOptionsOf(const wire::JobConfig& config);

}  // namespace soapstone::apps
