#include "tests/check/mutant_table.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <variant>

#include "consistency/catalogue.h"
#include "glog/logging.h"

namespace soapstone::check {
namespace {

using consistency::PolicyTraits;
using M = GuaranteeMutant;

struct FindBound {
  template <class Numbers>
  Clock* operator()([[maybe_unused]] Numbers& gate) const {
    if constexpr (requires { gate.bound; }) return &gate.bound;
    return nullptr;
  }
  Clock* operator()(consistency::DynamicTraits& gate) const { return &gate.upper; }
};

Space SpaceOf(const PolicyTraits& traits) {
  if (traits.decentralised()) return Space::kPeer;
  if (traits.backup()) return Space::kBackup;
  return traits.tree() ? Space::kTree : Space::kPolicy;
}

// What a policy is held to by what it says of itself: who has a bound, or reads snapshots, to that;
// all to exactly-once.
MutantRow RowOf(const std::string& spec) {
  PolicyTraits traits = *consistency::ParsePolicy(spec);
  MutantRow row = {.spec = spec, .space = SpaceOf(traits)};
  const Clock* bound = BoundOf(&traits.gate);
  const bool bounded = bound != nullptr && *bound < kClockMax;
  if (bounded) row.bound = *bound;
  const bool snapshots = traits.guarantee.snapshot_reads && !traits.decentralised();
  if (bounded || snapshots) row.mutants = {M::kBoundPlusOne, M::kOneShardGate};
  row.mutants.insert(row.mutants.end(), {M::kUpdateLost, M::kUpdateTwice});
  return row;
}

// Rows of which that is not the whole truth.
std::vector<MutantRow> Exceptions() {
  const std::vector<M> once = {M::kUpdateLost, M::kUpdateTwice};
  const std::vector<M> paced = {M::kBoundPlusOne, M::kOneShardGate, M::kCreditUnbounded,
                                M::kUpdateLost, M::kUpdateTwice};
  const std::vector<M> mass = {M::kMassIgnored, M::kUpdateLost, M::kUpdateTwice};
  const std::vector<M> batch = {M::kGatherTwice, M::kUpdateLost, M::kUpdateTwice};
  return {
      {"dssp:lower=0,upper=2", 2, paced},
      {"dssp:lower=1,upper=1", 1, paced},
      {"pssp:s=1,p=0.5", 1, once},
      {"softsync:n=1,rate=mean", 0, batch},
      {"softsync:n=2,rate=each", 0, batch},
      {"value:v0=1", 0, mass},
      {"value:v0=4", 1, mass},
  };
}

const std::vector<MutantRow>& Rows() {
  static const auto& rows = *new std::vector<MutantRow>([] {
    std::vector<MutantRow> all;
    for (auto examples : {consistency::ExamplePolicies, consistency::ExamplePeerPolicies}) {
      for (const std::string& spec : examples()) all.push_back(RowOf(spec));
    }
    for (MutantRow& exception : Exceptions()) {
      const auto row = std::find_if(all.begin(), all.end(), [&](const MutantRow& candidate) {
        return candidate.spec == exception.spec;
      });
      CHECK(row != all.end()) << exception.spec << " is no example of the catalogue";
      *row = std::move(exception);
    }
    return all;
  }());
  return rows;
}

}  // namespace

Clock* BoundOf(consistency::GateTraits* gate) { return std::visit(FindBound{}, *gate); }

std::string Name(GuaranteeMutant mutant) {
  switch (mutant) {
    case M::kBoundPlusOne:
      return "bound off by one";
    case M::kOneShardGate:
      return "one shard is asked";
    case M::kCreditUnbounded:
      return "credit unbounded";
    case M::kMassIgnored:
      return "mass ignored";
    case M::kGatherTwice:
      return "gathered twice";
    case M::kUpdateLost:
      return "an update lost";
    case M::kUpdateTwice:
      return "an update twice";
  }
  return "?";
}

std::string Name(LinkMutant mutant) {
  return mutant == LinkMutant::kNoResume ? "no resume" : "no word of the loss";
}

void PrintHang(const char* space, const std::string& spec, const std::string& size,
               LinkMutant mutant, uint64_t states, const std::string& how) {
  std::printf("  %-6s %-44s %-14s %-20s %6llu states: %s\n", space, spec.c_str(), size.c_str(),
              Name(mutant).c_str(), static_cast<unsigned long long>(states), how.c_str());
}

absl::Span<const MutantRow> MutantTable() { return Rows(); }

const MutantRow* FindRow(const std::string& spec) {
  for (const MutantRow& row : Rows()) {
    if (spec == row.spec) return &row;
  }
  return nullptr;
}

std::vector<std::string> SpecsOf(Space space) {
  std::vector<std::string> specs;
  for (const MutantRow& row : Rows()) {
    if (row.space == space) specs.emplace_back(row.spec);
  }
  return specs;
}

}  // namespace soapstone::check
