#include "scheduler/spoken.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace soapstone::scheduler {

using wire::Role;

const char* Spoken(Role role) {
  switch (role) {
    case Role::kScheduler:
      return "scheduler";
    case Role::kServer:
      return "server";
    case Role::kWorker:
      return "worker";
    case Role::kShard:
      return "shard";
    case Role::kPeer:
      return "peer";
    case Role::kNone:
      break;
  }
  return "nobody";
}

std::string Spoken(wire::Address node) { return absl::StrCat(Spoken(node.role), " ", node.index); }

std::string Seconds(Nanos duration) {
  return absl::StrFormat("%.1f s", static_cast<double>(duration) / kSecond);
}

std::string Divergence(Clock clock, const wire::NotFinite& what) {
  const std::string worker = what.worker < 0 ? "some worker" : absl::StrCat("worker ", what.worker);
  const std::string where =
      what.parameters
          ? absl::StrCat(what.tensor, " is not finite after an update of ", worker)
          : absl::StrCat("the gradient of ", what.tensor, " by ", worker, " is not finite");
  return absl::StrCat("diverged at clock ", clock, ": ", where);
}

}  // namespace soapstone::scheduler
