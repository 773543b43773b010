#include "scheduler/planner/simulator/strategy_evaluator.h"

#include <utility>

#include "absl/hash/hash.h"
#include "base/status_macros.h"

namespace soapstone::planner {

std::vector<Synchronization> SynchronizationsOf(const Machine& machine) {
  std::vector<Synchronization> ways = {Synchronization::kOwner, Synchronization::kRing};
  if (!machine.servers().empty()) ways.push_back(Synchronization::kServers);
  return ways;
}

size_t CostCache::Hash::operator()(const Strategy& strategy) const {
  size_t hash = absl::HashOf(strategy.synchronization, strategy.staleness, strategy.servers);
  for (const OpConfig& config : strategy.ops) {
    hash = absl::HashOf(hash, config.degrees, config.devices, config.cuts);
  }
  return hash;
}

std::optional<Score> CostCache::Find(const Strategy& strategy) const {
  const MutexLock lock(&mutex_);
  const auto it = prices_.find(strategy);
  if (it == prices_.end()) return std::nullopt;
  return it->second;
}

void CostCache::Add(const Strategy& strategy, const Score& found) {
  const MutexLock lock(&mutex_);
  prices_.insert_or_assign(strategy, found);
}

StrategyEvaluator::StrategyEvaluator(const OpGraph* graph, const Machine* machine,
                                     const CostModel* costs, const SimulatorOptions& options,
                                     std::vector<Synchronization> ways, CostCache* list)
    : ways_(ways.empty() ? SynchronizationsOf(*machine) : std::move(ways)),
      simulator_(graph, machine, costs, options),
      list_(list == nullptr ? &own_ : list) {}

absl::StatusOr<Score> StrategyEvaluator::Price(const Strategy& strategy) {
  SOAP_RETURN_IF_ERROR(simulator_.SetStrategy(strategy, give_up_));
  ++priced_;
  if (strategy.staleness > 0) return Score{simulator_.IterationTime(), simulator_.Overflow()};
  SOAP_ASSIGN_OR_RETURN(const Nanos step, simulator_.StepTimeUnless(give_up_));
  return Score{step, simulator_.Overflow()};
}

absl::StatusOr<Score> StrategyEvaluator::Look(const Strategy& strategy) {
  if (const std::optional<Score> known = list_->Find(strategy)) return *known;
  absl::StatusOr<Score> found = Price(strategy);
  if (absl::IsDeadlineExceeded(found.status())) found = Score();
  if (found.ok()) list_->Add(strategy, *found);
  return found;
}

absl::StatusOr<Score> StrategyEvaluator::PriceBest(Strategy* strategy) {
  Score best;
  const Strategy asked = *strategy;
  for (const Synchronization way : ways_) {
    Strategy tried = asked;
    SetSynchronization(way, &tried);
    SOAP_ASSIGN_OR_RETURN(const Score found, Look(tried));
    if (!(found < best)) continue;
    best = found;
    *strategy = std::move(tried);
  }
  return best;
}

ProposalCounts StrategyEvaluator::counts() const {
  ProposalCounts counts = simulator_.counts();
  counts.proposed += priced_;
  counts.simulated += priced_;
  return counts;
}

}  // namespace soapstone::planner
