#include "apps/daemon/node_place.h"

#include <arpa/inet.h>
#include <sys/wait.h>

#include <cstdio>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::apps {
namespace {

std::string ValueOf(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

std::string EndpointOf(const std::string& host, const std::string& port) {
  return absl::StrCat("tcp://", host, ":", port.empty() ? kSchedulerPort : port);
}

// Letters, digits and what Slurm's lists of hosts have besides: nothing that a shell reads.
bool IsHostList(const std::string& list) {
  return !list.empty() && list.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789-_.,[]") == std::string::npos;
}

}  // namespace

absl::StatusOr<NodePlace> PlaceOf(const RankChoice& index, uint32_t servers, uint32_t workers) {
  const int64_t n = index.rank;
  NodePlace place = {.rank = {.source = absl::StrCat(index.source, "=", n)}};
  if (n == 0) return place;
  if (n <= int64_t{servers}) {
    place.role = wire::Role::kServer;
    place.rank.rank = n - 1;
    return place;
  }
  if (n <= int64_t{servers} + workers) {
    place.role = wire::Role::kWorker;
    place.rank.rank = n - 1 - servers;
    return place;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(place.rank.source, ": the job has a scheduler, ", servers, " servers and ",
                   workers, " workers: numbers 0 to ", int64_t{servers} + workers));
}

absl::StatusOr<NodePlace> PlaceOfDmlc(const std::string& role) {
  NodePlace place = {.rank = {.source = "the scheduler"}};
  if (role == "scheduler") return place;
  if (role != "server" && role != "worker") {
    return absl::InvalidArgumentError(
        absl::StrCat("DMLC_ROLE=", role, ": scheduler, server or worker is needed"));
  }
  place.role = role == "server" ? wire::Role::kServer : wire::Role::kWorker;
  return place;
}

absl::StatusOr<std::string> SchedulerOf(
    const Environment& environment,
    const std::function<absl::StatusOr<std::string>(const std::string&)>& first_host) {
  const std::string master = ValueOf(environment, "MASTER_ADDR");
  const std::string port = ValueOf(environment, "MASTER_PORT");
  if (!master.empty()) return EndpointOf(master, port);
  const std::string root = ValueOf(environment, "DMLC_PS_ROOT_URI");
  if (!root.empty()) return EndpointOf(root, ValueOf(environment, "DMLC_PS_ROOT_PORT"));
  const std::string hosts = ValueOf(environment, "SLURM_STEP_NODELIST");
  if (!hosts.empty()) {
    SOAP_ASSIGN_OR_RETURN(const std::string first, first_host(hosts));
    return EndpointOf(first, port);
  }
  return absl::InvalidArgumentError(
      "cluster.scheduler: nothing says where the scheduler is: --scheduler=tcp://HOST:PORT, "
      "SOAPSTONE_SCHEDULER, or MASTER_ADDR");
}

std::string BindOf(const std::string& endpoint) {
  constexpr size_t kPrefix = sizeof("tcp://") - 1;
  const size_t colon = endpoint.rfind(':');
  if (!absl::StartsWith(endpoint, "tcp://") || colon <= kPrefix) return endpoint;
  const std::string host = endpoint.substr(kPrefix, colon - kPrefix);
  in_addr address{};
  const bool fixed = host == "*" || inet_pton(AF_INET, host.c_str(), &address) == 1;
  if (fixed) return endpoint;
  const std::string port = endpoint.substr(colon);
  return absl::StrCat(host == "localhost" ? "tcp://127.0.0.1" : "tcp://*", port);
}

absl::StatusOr<std::string> FirstSlurmHost(const std::string& list) {
  if (!IsHostList(list)) {
    return absl::InvalidArgumentError(
        absl::StrCat("SLURM_STEP_NODELIST=", list, ": no list of hosts"));
  }
  if (list.find('[') == std::string::npos) return list.substr(0, list.find(','));
  const std::string command =
      absl::StrCat("timeout 10 scontrol show hostnames '", list, "' 2>/dev/null");
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  char line[256] = "";
  const bool read = output != nullptr && std::fgets(line, sizeof(line), output.get()) != nullptr;
  const std::string host(absl::StripAsciiWhitespace(line));
  if (read && !host.empty()) return host;
  return absl::InvalidArgumentError(absl::StrCat(
      "SLURM_STEP_NODELIST=", list, ": scontrol does not say its hosts; set SOAPSTONE_SCHEDULER"));
}

}  // namespace soapstone::apps
