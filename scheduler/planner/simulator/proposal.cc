#include "scheduler/planner/simulator/proposal.h"

#include "glog/logging.h"

namespace soapstone::planner {

Proposal::Proposal(StrategyState* now, Loads* loads, TaskGraph* tasks)
    : now_(now), loads_(loads), tasks_(tasks), touched_(&now->connections()) {}

void Proposal::Begin(absl::Span<const Change> changes, absl::Span<const ServerChange> servers) {
  CHECK(servers.empty() || now_->synchronization() == Synchronization::kServers);
  pending_ = true;
  placed_ = false;
  hash_ = now_->hash();
  fit_ = loads_->fit();
  for (const Change& change : changes) {
    const OpState* const before = now_->SetOp(change.op, change.config);
    ops_.emplace_back(change.op, before);
    loads_->AddOp(change.op, *before, -1);
    loads_->AddOp(change.op, now_->op(change.op), 1);
  }
  for (const ServerChange& change : servers) {
    servers_.emplace_back(change.group, now_->SetServers(change.group, change.servers));
  }
}

void Proposal::SwapBlocks(absl::Span<const Change> changes,
                          absl::Span<const ServerChange> servers) {
  touched_.Collect(changes, servers);
  for (uint32_t edge : touched_.edges()) {
    const EdgeBlock* const before = now_->UpdateEdge(edge);
    edges_.emplace_back(edge, before);
    loads_->AddEdge(edge, *before, -1);
    loads_->AddEdge(edge, now_->edge(edge), 1);
  }
  for (uint32_t group : touched_.groups()) {
    const SyncBlock* const before = now_->UpdateSync(group);
    groups_.emplace_back(group, before);
    loads_->AddSync(*before, -1);
    loads_->AddSync(now_->sync(group), 1);
  }
  loads_->FindFit();
}

void Proposal::Place() {
  placed_ = true;
  tasks_->Place(touched_, *now_);
}

void Proposal::Keep() {
  CHECK(pending_ && placed_) << "nothing to keep";
  Forget();
}

void Proposal::TakeBack() {
  CHECK(pending_) << "nothing to take back";
  // Last first: an operator may have changed twice.
  for (auto it = ops_.rbegin(); it != ops_.rend(); ++it) {
    loads_->AddOp(it->first, now_->op(it->first), -1);
    loads_->AddOp(it->first, *it->second, 1);
    now_->RestoreOp(it->first, it->second);
  }
  for (const auto& [edge, before] : edges_) {
    loads_->AddEdge(edge, now_->edge(edge), -1);
    loads_->AddEdge(edge, *before, 1);
    now_->RestoreEdge(edge, before);
  }
  for (const auto& [group, before] : groups_) {
    loads_->AddSync(now_->sync(group), -1);
    loads_->AddSync(*before, 1);
    now_->RestoreSync(group, before);
  }
  for (auto& [group, before] : servers_) now_->RestoreServers(group, std::move(before));
  now_->RestoreHash(hash_);
  loads_->set_fit(fit_);
  if (placed_) tasks_->Place(touched_, *now_);
  Forget();
}

void Proposal::Forget() {
  ops_.clear();
  edges_.clear();
  groups_.clear();
  servers_.clear();
  pending_ = false;
}

}  // namespace soapstone::planner
