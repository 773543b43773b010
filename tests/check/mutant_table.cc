#include "tests/check/mutant_table.h"

#include <cstdio>
#include <variant>

namespace soapstone::check {
namespace {

using M = GuaranteeMutant;

const std::vector<MutantRow>& Rows() {
  static const auto& rows = *new std::vector<MutantRow>([] {
    const std::vector<M> bound = {M::kBoundPlusOne, M::kOneShardGate, M::kUpdateLost,
                                  M::kUpdateTwice};
    const std::vector<M> once = {M::kUpdateLost, M::kUpdateTwice};
    const std::vector<M> paced = {M::kBoundPlusOne, M::kOneShardGate, M::kCreditUnbounded,
                                  M::kUpdateLost, M::kUpdateTwice};
    const std::vector<M> mass = {M::kMassIgnored, M::kUpdateLost, M::kUpdateTwice};
    const std::vector<M> batch = {M::kGatherTwice, M::kUpdateLost, M::kUpdateTwice};
    return std::vector<MutantRow>{
        {"bsp", 0, bound},
        {"ssp:s=0", 0, bound},
        {"ssp:s=1", 1, bound},
        {"ssp:s=2", 2, bound},
        {"essp:s=0", 0, bound},
        {"essp:s=1", 1, bound},
        {"dssp:lower=0,upper=2", 2, paced},
        {"dssp:lower=1,upper=1", 1, paced},
        {"psp:sample=1,s=0", 0, bound},
        {"psp:sample=1,s=1", 1, bound},
        {"pssp:s=1,p=0.5", 1, once},
        {"pssp:s=1,p=1", 1, bound},
        {"async", 0, once},
        {"softsync:n=1,rate=mean", 0, batch},
        {"softsync:n=2,rate=each", 0, batch},
        {"backup:b=1", 0, bound, Space::kBackup},
        {"backup:b=0", 0, bound, Space::kBackup},
        {"tree:group=2,s=1", 1, bound, Space::kTree},
        {"tree:group=3,s=0", 0, bound, Space::kTree},
        {"dcasgd:lambda=0.04,m=0", 0, once},
        {"value:v0=1", 0, mass},
        {"value:v0=4", 1, mass},
        {"easgd:tau=1,beta=0.9,mode=sync", 0, bound},
        {"easgd:tau=1,beta=0.9,mode=async", 0, once},
        {"eamsgd:tau=1,beta=0.9,mode=async,delta=0.9", 0, once},
        {"localsgd:h=1", 0, bound},
        {"bmuf:h=1,zeta=1,nesterov=1,eta=0.5", 0, bound},
        {"allreduce", 0, once, Space::kPeer},
        {"allreduce:group=2", 0, once, Space::kPeer},
        {"eager:mode=solo,seed=1", 0, once, Space::kPeer},
        {"eager:mode=majority,seed=1", 0, once, Space::kPeer},
        {"gossip:mode=dpsgd,graph=ring", 0, once, Space::kPeer},
        {"gossip:mode=gossipgrad,seed=1", 0, once, Space::kPeer},
        {"gossip:mode=adpsgd,graph=complete,seed=1", 0, once, Space::kPeer},
        {"gossip:mode=pushsum,graph=exponential", 0, once, Space::kPeer},
    };
  }());
  return rows;
}

struct FindBound {
  Clock* operator()(consistency::BoundedTraits& gate) const { return &gate.bound; }
  Clock* operator()(consistency::SubscribedTraits& gate) const { return &gate.bound; }
  Clock* operator()(consistency::DynamicTraits& gate) const { return &gate.upper; }
  Clock* operator()(consistency::SampledTraits& gate) const { return &gate.bound; }
  Clock* operator()(consistency::RoundTraits&) const { return nullptr; }
  Clock* operator()(consistency::BatchTraits&) const { return nullptr; }
  Clock* operator()(consistency::ValueTraits&) const { return nullptr; }
  Clock* operator()(consistency::BackupTraits&) const { return nullptr; }
};

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
