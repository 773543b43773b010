// Which deliberate bugs every fault space of a policy must find: a row for each example spec of the
// catalogue. A bug of the table breaks what the policy guarantees; who has no bound is held to
// exactly-once. Spaces whose clocks do not reach beyond the bound cannot find them, and fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"

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

struct MutantRow {
  const char* spec;  // as the catalogue's example
  Clock bound;  // clocks beyond which its fault spaces must reach: they have bound + 2 at least
  std::vector<GuaranteeMutant> mutants;
};

// All rows, and that of a spec, or null.
absl::Span<const MutantRow> MutantTable();
const MutantRow* FindRow(const std::string& spec);

}  // namespace soapstone::check
