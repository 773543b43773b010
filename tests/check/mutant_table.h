// Which deliberate bugs every fault space of a policy must find: a row for each example spec of the
// catalogue, made of what the policy says of itself where the table has no other. A bug of a row
// breaks what the policy guarantees; who has no bound is held to exactly-once. Spaces whose clocks
// do not reach beyond the bound cannot find them, and fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"
#include "consistency/traits.h"

namespace soapstone::check {

enum class GuaranteeMutant : uint8_t {
  kBoundPlusOne,     // reads (of backup: rounds) of one too few
  kOneShardGate,     // one shard is asked, all are read
  kCreditUnbounded,  // dssp: credit beyond the upper bound
  kMassIgnored,      // value: updates count as weightless
  kGatherTwice,      // softsync: what was gathered is gathered again
  kUpdateLost,
  kUpdateTwice,
};
std::string Name(GuaranteeMutant mutant);

// Where a spec is explored.
enum class Space : uint8_t {
  kPolicy,  // policy_space_test.cc
  kBackup,  // backup_space_test.cc
  kTree,    // actor_space_test.cc
  kPeer,    // peer_space_test.cc
};

// Of connections. The space of every spec, with a connection that breaks and with one that is lost
// for good, finds the hang of either mutant within kStatesToHang states.
enum class LinkMutant : uint8_t {
  kNoResume,    // what a broken connection had under way is not sent again
  kNoLinkLost,  // who cannot reach another any more says so to nobody
};
inline constexpr LinkMutant kLinkMutants[] = {LinkMutant::kNoResume, LinkMutant::kNoLinkLost};
inline constexpr uint64_t kStatesToHang = 1'000;
std::string Name(LinkMutant mutant);
// A line of the table that the spaces print: space × spec × mutant -> states to the hang.
void PrintHang(const char* space, const std::string& spec, const std::string& size,
               LinkMutant mutant, uint64_t states, const std::string& how);

struct MutantRow {
  std::string spec;  // as the catalogue's example
  Clock bound = 0;  // clocks beyond which its fault spaces must reach: they have bound + 2 at least
  std::vector<GuaranteeMutant> mutants;
  Space space = Space::kPolicy;
};

// The bound of the reads that a gate admits, for mutants to change; null: it has none.
Clock* BoundOf(consistency::GateTraits* gate);

// All rows, and that of a spec, or null.
absl::Span<const MutantRow> MutantTable();
const MutantRow* FindRow(const std::string& spec);
// Of the specs that are explored there.
std::vector<std::string> SpecsOf(Space space);

}  // namespace soapstone::check
