// NodePlace: which of a job's processes `soapstone node` becomes, and where its scheduler is, from
// what launchers say: a number over all processes, or the variables of ps-lite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/rank_choice.h"
#include "wire/message.h"

namespace soapstone::apps {

inline constexpr char kSchedulerPort[] = "7070";  // where nobody says which

struct NodePlace {
  wire::Role role = wire::Role::kScheduler;
  RankChoice rank;  // of a server or a worker
};

// `index`: 0 is the scheduler, 1 .. servers the servers, the rest the workers. Error:
// InvalidArgument, beyond them; names the source.
absl::StatusOr<NodePlace> PlaceOf(const RankChoice& index, uint32_t servers, uint32_t workers);

// DMLC_ROLE: scheduler, server or worker; the scheduler hands out ranks. Error: another word.
absl::StatusOr<NodePlace> PlaceOfDmlc(const std::string& role);

// The scheduler's endpoint as the environment says it: MASTER_ADDR and MASTER_PORT,
// DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT, else the first host of SLURM_STEP_NODELIST, as
// `first_host` reads such a list. Error: InvalidArgument, where none says.
absl::StatusOr<std::string> SchedulerOf(
    const Environment& environment,
    const std::function<absl::StatusOr<std::string>(const std::string&)>& first_host);

// What a scheduler binds that others call at `endpoint`: its port on all interfaces, unless the
// host is an address or localhost.
std::string BindOf(const std::string& endpoint);

// The first host of a Slurm list such as "n[3-5],m1", by `scontrol show hostnames`; without
// scontrol that of a list that has no brackets.
absl::StatusOr<std::string> FirstSlurmHost(const std::string& list);

}  // namespace soapstone::apps
