#include "apps/loop/cpu_placement.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace soapstone::apps {
namespace {

constexpr int kNumaNodesMax = 1024;

absl::StatusOr<std::string> CpusOfNode(int node) {
  std::string cpus;
  std::ifstream file(absl::StrCat("/sys/devices/system/node/node", node, "/cpulist"));
  if (!std::getline(file, cpus) || cpus.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--numa_node=", node, ": this machine has no such node with CPUs"));
  }
  return cpus;
}

// From now on, while there is any. Without a system call of that name nothing is preferred.
absl::Status PreferMemoryOf(int node) {
  constexpr size_t kBits = 8 * sizeof(unsigned long);      // NOLINT: the kernel's word
  std::vector<unsigned long> mask(kNumaNodesMax / kBits);  // NOLINT: likewise
  mask[static_cast<size_t>(node) / kBits] = 1UL << (static_cast<size_t>(node) % kBits);
  if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), kNumaNodesMax + 1) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--numa_node=", node, ": the system does not let its memory be chosen"));
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCpuList(const std::string& text) {
  std::vector<int> cpus;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    const bool one = part.find('-') == absl::string_view::npos;
    if (!absl::SimpleAtoi(ends.first, &first) ||
        !absl::SimpleAtoi(one ? ends.first : ends.second, &last) || first < 0 || last < first ||
        last >= CPU_SETSIZE) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is no list of CPUs, such as 0-3,8"));
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

absl::Status Place(const CpuPlacement& placement) {
  std::string list = placement.cpus;
  if (placement.numa_node.has_value()) {
    const int node = *placement.numa_node;
    if (node < 0 || node >= kNumaNodesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("--numa_node=", node, ": not from 0 to ", kNumaNodesMax - 1));
    }
    SOAP_ASSIGN_OR_RETURN(const std::string of_node, CpusOfNode(node));
    if (list.empty()) list = of_node;
    SOAP_RETURN_IF_ERROR(PreferMemoryOf(node));
  }
  if (list.empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<int>> cpus = ParseCpuList(list);
  if (!cpus.ok())
    return absl::InvalidArgumentError(absl::StrCat("--cpus: ", cpus.status().message()));
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : *cpus) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--cpus=", list,
                                                 ": none of them may be used; this machine has ",
                                                 sysconf(_SC_NPROCESSORS_ONLN)));
}

int CpuInTurn(size_t index) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) == 0) return 0;
  auto left = index % static_cast<size_t>(CPU_COUNT(&set));
  int cpu = 0;
  while (!CPU_ISSET(cpu, &set) || left-- > 0) ++cpu;
  return cpu;
}

bool StayOn(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

}  // namespace soapstone::apps
