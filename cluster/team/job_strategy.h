// What a strategy file means for a job: the sizes that it settles, what it does not go with, and
// the team that it makes of the workers (team_options.h). Called by PrepareJob, and before it where
// the job's defaults are chosen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/job_specs.h"
#include "cluster/team/team_options.h"
#include "consistency/traits.h"
#include "models/graph/graph.h"
#include "wire/config/job.pb.h"
#include "wire/config/strategy.pb.h"

namespace soapstone::apps {

// In place of a file: `soapstone train` finds one before it starts processes. A file of that name
// is
// ./auto.
inline constexpr char kAutoStrategy[] = "auto";
inline bool IsAutoStrategy(const wire::JobConfig& config) {
  return config.cluster().strategy() == kAutoStrategy;
}
// The same job with each worker running all of the model, defaults filled in; of several teams all
// workers together.
wire::JobConfig WithoutStrategy(wire::JobConfig config);

struct JobStrategy {
  std::string path;
  wire::Strategy strategy;
  std::string sha256;  // of its text
};

// The job's, which it must name. Errors: the file and why, one line.
absl::StatusOr<JobStrategy> ReadJobStrategy(const wire::JobConfig& config);

// Sets what the job leaves open and the strategy says, for as many teams as the job has: model,
// workers, batch, micro-batches, and of one with a staleness s the policy ssp:s. Where its workers
// keep the parameters there is a server beside each of team 0, whatever the job says.
// Errors: as ReadJobStrategy; kAutoStrategy, which is to be settled before; nothing where the job
// names none.
absl::Status FillFromStrategy(wire::JobConfig* config);

// Whether the job is of the strategy's sizes, and asks for nothing that teams cannot do. Error:
// InvalidArgument, one line that names the field. REQUIRES: defaults are filled in.
absl::Status CheckStrategyGoes(const wire::JobConfig& config, const cluster::JobSpecs& specs,
                               const wire::Strategy& strategy);

// Processes of servers that a job has: none where its strategy has the workers keep the parameters,
// server k in the process of worker k. REQUIRES: FillFromStrategy. Errors: as ReadJobStrategy.
absl::StatusOr<uint32_t> ServerProcesses(const wire::JobConfig& config,
                                         const cluster::JobSpecs& specs);

// `what` does not run split models: error where the job has a strategy.
absl::Status CheckUnsplit(const wire::JobConfig& config, const char* what);

// Sizes of the batches of an epoch, the full one first.
std::vector<int64_t> BatchSizes(uint64_t train_samples, uint64_t batch);

struct TeamsOf {
  uint32_t teams = 1;
  uint64_t train_samples = 0, test_samples = 0;
  consistency::PolicyTraits policy;
};
// The teams, which are alike. Errors: those of PlanTeam, naming the file; no held-out samples; a
// last batch of an epoch of which some micro-batch has nothing, or that teams would cut into others
// than the fixed tree is of; pieces that several seats hold, where each steps its own by itself.
absl::StatusOr<std::shared_ptr<const cluster::TeamJob>> MakeTeams(const JobStrategy& file,
                                                                  const models::Graph& graph,
                                                                  const TeamsOf& of);

}  // namespace soapstone::apps
