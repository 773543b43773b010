#include "tests/check/mutant_table.h"

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
    const std::vector<M> credit = {M::kBoundPlusOne, M::kCreditUnbounded, M::kUpdateLost,
                                   M::kUpdateTwice};
    const std::vector<M> mass = {M::kMassIgnored, M::kUpdateLost, M::kUpdateTwice};
    const std::vector<M> batch = {M::kGatherTwice, M::kUpdateLost, M::kUpdateTwice};
    return std::vector<MutantRow>{
        {"bsp", 0, bound},
        {"ssp:s=0", 0, bound},
        {"ssp:s=1", 1, bound},
        {"ssp:s=2", 2, bound},
        {"essp:s=0", 0, bound},
        {"essp:s=1", 1, bound},
        {"dssp:lower=0,upper=2", 2, credit},
        {"dssp:lower=1,upper=1", 1, paced},
        {"psp:sample=1,s=0", 0, bound},
        {"psp:sample=1,s=1", 1, bound},
        {"pssp:s=1,p=0.5", 1, once},
        {"pssp:s=1,p=1", 1, bound},
        {"async", 0, once},
        {"softsync:n=1,rate=mean", 0, batch},
        {"softsync:n=2,rate=each", 0, batch},
        {"backup:b=1", 0, bound},
        {"backup:b=0", 0, bound},
        {"tree:group=2,s=1", 1, bound},
        {"tree:group=3,s=0", 0, bound},
        {"dcasgd:lambda=0.04,m=0", 0, once},
        {"value:v0=1", 0, mass},
        {"value:v0=4", 1, mass},
        {"easgd:tau=1,beta=0.9,mode=sync", 0, bound},
        {"easgd:tau=1,beta=0.9,mode=async", 0, once},
        {"eamsgd:tau=1,beta=0.9,mode=async,delta=0.9", 0, once},
        {"localsgd:h=1", 0, bound},
        {"bmuf:h=1,zeta=1,nesterov=1,eta=0.5", 0, bound},
        {"allreduce", 0, once},
        {"allreduce:group=2", 0, once},
        {"eager:mode=solo,seed=1", 0, once},
        {"eager:mode=majority,seed=1", 0, once},
        {"gossip:mode=dpsgd,graph=ring", 0, once},
        {"gossip:mode=gossipgrad,seed=1", 0, once},
        {"gossip:mode=adpsgd,graph=complete,seed=1", 0, once},
        {"gossip:mode=pushsum,graph=exponential", 0, once},
    };
  }());
  return rows;
}

}  // namespace

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

absl::Span<const MutantRow> MutantTable() { return Rows(); }

const MutantRow* FindRow(const std::string& spec) {
  for (const MutantRow& row : Rows()) {
    if (spec == row.spec) return &row;
  }
  return nullptr;
}

}  // namespace soapstone::check
