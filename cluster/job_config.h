// The job's configuration as text and as a message (files: job_paths.h): applies flags to it, fills
// in defaults, and checks everything that can be checked without data. Every command calls it
// first. Knows nothing of data sets and models' insides: job.h builds on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cluster/job_specs.h"
#include "consistency/levels.h"
#include "consistency/policy.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// A field of wire::JobConfig that a flag of the same meaning overrides. The one list of them: the
// flags, their help and docs/jobs.md follow it.
struct JobField {
  const char* flag;  // "epochs", given as --epochs=10
  const char* path;  // "training.epochs"
  const char* help;
};
absl::Span<const JobField> JobFields();
// True where the field is true or false: its flag may stand without a value.
bool IsSwitch(const JobField& field);

// A flag as given.
struct JobOverride {
  const JobField* field = nullptr;
  std::string value;
  std::string variable;  // of the environment; empty: it was on the command line
};

// Parses a text-format JobConfig. `name` stands for the file in errors.
// Error: InvalidArgument, "name:line:column: what". Unknown fields are errors.
absl::StatusOr<wire::JobConfig> ParseJobText(const std::string& text, const std::string& name);

// Sets the fields that flags name. Error: InvalidArgument that names the flag and what it takes.
absl::Status ApplyOverrides(absl::Span<const JobOverride> overrides, wire::JobConfig* config);

void FillDefaults(wire::JobConfig* config);

// What its spec strings mean. REQUIRES: FillDefaults was called. Error: InvalidArgument with one
// line that names the field.
absl::StatusOr<cluster::JobSpecs> CheckJobConfig(const wire::JobConfig& config);

// Whether processes can meet at cluster.scheduler, where it is set. Error: InvalidArgument.
absl::Status CheckEndpoint(const wire::Cluster& cluster);
// Whether a node can call the scheduler there: where it may listen is not always somewhere to call.
// Error: InvalidArgument.
absl::Status CheckCalled(const wire::Cluster& cluster);
// Whether a process that has keys, or has none, may take part. Error: InvalidArgument, with what to
// do.
absl::Status CheckSecurity(const wire::Cluster& cluster, bool has_keys);

// training.on_nonfinite is "skip".
bool SkipsNotFinite(const wire::JobConfig& config);

// The file of a model "onnx:FILE"; empty for others.
std::string OnnxPathOf(const std::string& model);

// Server processes of the job: cluster.servers for each level of a tree of servers.
uint32_t ServerCount(const wire::JobConfig& config, const consistency::PolicyTraits& policy);

// What the processes of a job must agree on. Leaves out what may differ by machine or does not
// change the result: endpoints, paths, outputs, timeouts.
wire::JobConfig WhatIsAgreedOn(const wire::JobConfig& config);
// The same number for all of them, and another one for another job or another number of servers,
// workers or shards. `data_fingerprint` stands for the contents of the data and of files that the
// model and its initial values are from, and for the checkpoint that it goes on from.
uint64_t JobDigest(const wire::JobConfig& config, uint64_t data_fingerprint);

// Text format, all set fields.
std::string JobText(const wire::JobConfig& config);

}  // namespace soapstone::apps
