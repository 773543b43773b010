#include "apps/daemon/node_command.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/cli/job_source.h"
#include "apps/daemon/node_main.h"
#include "apps/daemon/node_place.h"
#include "base/status_macros.h"
#include "cluster/job_config.h"
#include "cluster/team/job_strategy.h"

namespace soapstone::apps {
namespace {

const char* Variable(const char* name) { return std::getenv(name); }

bool IsSet(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// DMLC_NUM_SERVER and DMLC_NUM_WORKER, where no flag says it.
void AddDmlcCounts(NodeFlags* flags) {
  for (const auto& [flag, variable] :
       {std::pair("servers", "DMLC_NUM_SERVER"), std::pair("workers", "DMLC_NUM_WORKER")}) {
    const auto has_flag = [name = flag](const auto& field) {
      return std::string(field.flag) == name;
    };
    const bool said = std::any_of(flags->overrides.begin(), flags->overrides.end(),
                                  [&](const JobOverride& o) { return has_flag(*o.field); });
    if (said || !IsSet(variable)) continue;
    const auto field = std::find_if(JobFields().begin(), JobFields().end(), has_flag);
    flags->overrides.push_back({&*field, std::getenv(variable), variable});
    flags->variables.push_back(absl::StrCat(variable, "=", std::getenv(variable)));
  }
}

absl::StatusOr<NodePlace> Place(const NodeFlags& flags, const wire::JobConfig& config) {
  SOAP_ASSIGN_OR_RETURN(const RankChoice index, ChooseIndex(flags.index, Variable));
  if (index.rank < 0 && IsSet("DMLC_ROLE")) return PlaceOfDmlc(std::getenv("DMLC_ROLE"));
  if (index.rank < 0) {
    return absl::InvalidArgumentError(
        "nothing says which process of the job this is: --index, JOB_COMPLETION_INDEX, "
        "SLURM_PROCID, RANK or DMLC_ROLE");
  }
  SOAP_ASSIGN_OR_RETURN(const cluster::JobSpecs specs, CheckJobConfig(config));
  SOAP_ASSIGN_OR_RETURN(const uint32_t servers, ServerProcesses(config, specs));
  return PlaceOf(index, servers, config.cluster().workers());
}

bool HasNumber(const NodeFlags& flags) {
  const absl::StatusOr<RankChoice> index = ChooseIndex(flags.index, Variable);
  return !index.ok() || index->rank >= 0 || IsSet("DMLC_ROLE");  // a wrong one is to be said
}

// The place, and in `config` where the scheduler is: for the scheduler, where it listens.
absl::StatusOr<NodePlace> Settle(const NodeFlags& flags, wire::JobConfig* config) {
  SOAP_ASSIGN_OR_RETURN(const NodePlace place, Place(flags, *config));
  wire::Cluster* const cluster = config->mutable_cluster();
  if (cluster->scheduler().empty()) {
    SOAP_ASSIGN_OR_RETURN(*cluster->mutable_scheduler(), SchedulerOf(Variable, FirstSlurmHost));
  }
  if (place.role == wire::Role::kScheduler) cluster->set_scheduler(BindOf(cluster->scheduler()));
  return place;
}

}  // namespace

int RunNodeCommand(NodeFlags flags) {
  AddDmlcCounts(&flags);
  absl::StatusOr<wire::JobConfig> config = ConfigFromFlags(flags);
  if (!config.ok()) return SayConfigError("soapstone node", config.status());
  // Of a process without a number only the job is known.
  if (!flags.check || !HasNumber(flags)) {
    const auto outputs = [&](const Job& job) {
      const absl::Status apart = CheckOutputsApart(job.config, flags);
      return apart.ok() ? CheckOutputs(job.config, {}) : apart;
    };
    if (flags.print_config || flags.check) {
      return PrintOrCheck("soapstone node", flags, *config, outputs);
    }
  }
  const absl::StatusOr<NodePlace> place = Settle(flags, &*config);
  if (!place.ok()) return SayConfigError("soapstone node", place.status());
  flags.place = place->rank;
  return RunRole(place->role, absl::StrCat("soapstone node (", RoleName(place->role), ")"), flags,
                 *config);
}

}  // namespace soapstone::apps
