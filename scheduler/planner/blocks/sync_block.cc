#include "scheduler/planner/blocks/sync_block.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>

namespace soapstone::planner {
namespace {

Nanos TimeFor(double bytes, double bytes_per_second) {
  return static_cast<Nanos>(bytes / bytes_per_second * static_cast<double>(kSecond));
}

}  // namespace

SyncBuilder::SyncBuilder(const OpGraph* graph, const Machine* machine, FlowBuilder* flows,
                         Options options)
    : graph_(graph),
      machine_(machine),
      flows_(flows),
      options_(options),
      devices_(static_cast<uint32_t>(machine->devices().size())),
      pieces_(graph, devices_) {
  backward_parts_.assign(devices_, 0);
  all_servers_.resize(machine->servers().size());
  std::iota(all_servers_.begin(), all_servers_.end(), 0);
}

// How many backward parts of the group each device has.
void SyncBuilder::CountParts(uint32_t group, absl::Span<const PlacedSplit> ops) {
  std::fill(backward_parts_.begin(), backward_parts_.end(), 0);
  for (uint32_t op : graph_->groups[group]) {
    if (graph_->ops[op].params.empty()) continue;
    for (uint32_t device : ops[op].devices) ++backward_parts_[device];
  }
}

// Reads gradient and parameter and writes the parameter; each received piece is read and added.
Nanos SyncBuilder::ApplyTime(uint32_t device, int64_t held, int64_t received) const {
  const DeviceKind& kind = machine_->kind_of(device);
  const auto bytes = static_cast<double>(3 * held + 2 * received);
  return std::max<Nanos>(1, kind.launch_ns + TimeFor(bytes, kind.bytes_per_second));
}

uint32_t SyncBuilder::AddTask() {
  const auto flows = static_cast<uint32_t>(tasks_.flows.size());
  tasks_.tasks.push_back({.flows_begin = flows, .flows_end = flows});
  return static_cast<uint32_t>(tasks_.tasks.size()) - 1;
}

uint32_t SyncBuilder::AddApply(uint32_t resource, Nanos busy) {
  const uint32_t task = AddTask();
  const auto uses = static_cast<uint32_t>(tasks_.uses.size());
  const auto done = static_cast<uint32_t>(tasks_.done.size());
  tasks_.uses.push_back({.resource = resource, .busy = busy});
  tasks_.flows.push_back(
      {.uses_begin = uses, .uses_end = uses + 1, .done_begin = done, .done_end = done});
  tasks_.tasks[task].flows_end = static_cast<uint32_t>(tasks_.flows.size());
  return task;
}

void SyncBuilder::FollowParts(uint32_t device, uint32_t task) {
  device_tasks_.emplace_back(device, task);
  tasks_.tasks[task].waits += backward_parts_[device];
}

std::vector<SyncBuilder::Share> SyncBuilder::SharesOfOwners(const std::vector<ParamPiece>& pieces) {
  std::vector<Share> shares;
  for (const ParamPiece& piece : pieces) {
    for (uint32_t holder : piece.holders) shares.push_back({piece.holders[0], holder, piece.bytes});
  }
  return shares;
}

// Range i of n elements among k holders is [i·n/k, (i + 1)·n/k), rounded down, of each cell by
// itself (wire/layout.cc).
std::vector<SyncBuilder::Share> SyncBuilder::SharesInRanges(const std::vector<ParamPiece>& pieces) {
  std::vector<Share> shares;
  for (const ParamPiece& piece : pieces) {
    const auto count = static_cast<int64_t>(piece.holders.size());
    for (int64_t i = 0; i < count; ++i) {
      int64_t elements = 0;
      for (const int64_t bytes : piece.cells) {
        const int64_t cell = bytes / kElementBytes;
        elements += cell * (i + 1) / count - cell * i / count;
      }
      if (elements == 0) continue;
      for (uint32_t holder : piece.holders) {
        shares.push_back({piece.holders[i], holder, elements * kElementBytes});
      }
    }
  }
  return shares;
}

void SyncBuilder::AddUp(std::vector<Share>* shares) {
  const auto by = [](const Share& a, const Share& b) {
    return std::pair(a.owner, a.holder) < std::pair(b.owner, b.holder);
  };
  std::sort(shares->begin(), shares->end(), by);
  size_t kept = 0;
  for (const Share& share : *shares) {
    if (kept > 0 && !by((*shares)[kept - 1], share)) {
      (*shares)[kept - 1].bytes += share.bytes;
    } else {
      (*shares)[kept++] = share;
    }
  }
  shares->resize(kept);
}

// Each owner applies what the nodes push to it, and then sends it back to them. A node pushes all
// that it has of the group at once. An owner is one of the holders.
void SyncBuilder::BuildOwners(std::vector<Share> shares) {
  AddUp(&shares);
  std::vector<uint32_t> apply_of(devices_, 0);  // by owner
  for (size_t begin = 0, end = 0; begin < shares.size(); begin = end) {
    const uint32_t owner = shares[begin].owner;
    int64_t kept = 0, received = 0;
    for (end = begin; end < shares.size() && shares[end].owner == owner; ++end) {
      (shares[end].holder == owner ? kept : received) += shares[end].bytes;
    }
    apply_of[owner] = AddApply(owner, ApplyTime(owner, kept, received));
    FollowParts(owner, apply_of[owner]);
  }
  PushToOwners(shares, apply_of);
  PullFromOwners(shares, apply_of);
}

void SyncBuilder::BuildInRanges(const std::vector<ParamPiece>& pieces) {
  const std::vector<Share> shares = SharesInRanges(pieces);
  std::vector<int64_t> elsewhere(devices_, 0);
  for (const Share& share : shares) {
    if (share.owner != share.holder) elsewhere[share.holder] += share.bytes;
  }
  for (uint32_t d = 0; d < devices_; ++d) {
    if (elsewhere[d] > 0) kept_elsewhere_.push_back({d, elsewhere[d]});
  }
  BuildOwners(shares);
}

void SyncBuilder::PushToOwners(const std::vector<Share>& shares,
                               const std::vector<uint32_t>& apply_of) {
  std::vector<Share> pushes;
  std::copy_if(shares.begin(), shares.end(), std::back_inserter(pushes),
               [](const Share& share) { return share.owner != share.holder; });
  std::sort(pushes.begin(), pushes.end(), [&](const Share& a, const Share& b) {
    return std::tuple(NodeOf(a.holder), a.owner, a.holder) <
           std::tuple(NodeOf(b.holder), b.owner, b.holder);
  });
  uint32_t task = 0;
  for (size_t begin = 0, end = 0; begin < pushes.size(); begin = end) {
    const uint32_t node = NodeOf(pushes[begin].holder), owner = pushes[begin].owner;
    if (begin == 0 || flows_->cuts_flows() || NodeOf(pushes[begin - 1].holder) != node) {
      task = AddTask();
    }
    for (end = begin;
         end < pushes.size() && NodeOf(pushes[end].holder) == node && pushes[end].owner == owner;
         ++end) {
      flows_->AddMessage(machine_->Path(pushes[end].holder, owner), pushes[end].bytes);
      bytes_ += pushes[end].bytes;
      const std::pair<uint32_t, uint32_t> waits = {pushes[end].holder, task};
      if (std::find(device_tasks_.begin(), device_tasks_.end(), waits) == device_tasks_.end()) {
        FollowParts(pushes[end].holder, task);
      }
    }
    ++tasks_.tasks[apply_of[owner]].waits;
    flows_->EndFlow({&apply_of[owner], 1}, &tasks_);
  }
}

void SyncBuilder::PullFromOwners(const std::vector<Share>& shares,
                                 const std::vector<uint32_t>& apply_of) {
  for (size_t begin = 0; begin < shares.size();) {
    const uint32_t owner = shares[begin].owner;
    std::vector<uint32_t> pulls;
    for (; begin < shares.size() && shares[begin].owner == owner;) {
      const uint32_t node = NodeOf(shares[begin].holder);
      const size_t first = begin;
      bool sends = false;
      for (; begin < shares.size() && shares[begin].owner == owner &&
             NodeOf(shares[begin].holder) == node;
           ++begin) {
        sends |= shares[begin].holder != owner;
      }
      if (!sends) continue;
      if (pulls.empty() || flows_->cuts_flows()) {
        pulls.push_back(AddTask());
        tasks_.tasks[pulls.back()].waits = 1;
      }
      for (size_t i = first; i < begin; ++i) {
        if (shares[i].holder == owner) continue;
        flows_->AddMessage(machine_->Path(owner, shares[i].holder), shares[i].bytes);
        bytes_ += shares[i].bytes;
      }
      flows_->EndFlow({}, &tasks_);
    }
    SetDone(apply_of[owner], pulls);
  }
}

void SyncBuilder::SetDone(uint32_t apply, absl::Span<const uint32_t> tasks) {
  Flow& flow = tasks_.flows[tasks_.tasks[apply].flows_begin];
  flow.done_begin = static_cast<uint32_t>(tasks_.done.size());
  tasks_.done.insert(tasks_.done.end(), tasks.begin(), tasks.end());
  flow.done_end = static_cast<uint32_t>(tasks_.done.size());
}

// A ring of n sends 2·(n − 1)/n of the piece over each of its connections, in 2·(n − 1) rounds: a
// flow over all of them, behind which the slowest one's latency comes once for each round but the
// first.
void SyncBuilder::BuildRing(const std::vector<ParamPiece>& pieces) {
  std::vector<uint32_t> applies;
  for (const ParamPiece& piece : pieces) {
    const size_t n = piece.holders.size();
    applies.clear();
    for (uint32_t holder : piece.holders) {
      applies.push_back(AddApply(holder, ApplyTime(holder, piece.bytes, 0)));
      if (n == 1) FollowParts(holder, applies.back());
      if (n > 1) tasks_.tasks[applies.back()].waits = 1;
    }
    if (n == 1) continue;
    const uint32_t ring = AddTask();
    const auto rounds = 2 * static_cast<int64_t>(n - 1);
    const int64_t sent =
        (piece.bytes * rounds + static_cast<int64_t>(n) - 1) / static_cast<int64_t>(n);
    Nanos latency_max = 0;
    for (size_t i = 0; i < n; ++i) {
      FollowParts(piece.holders[i], ring);
      const auto path = machine_->Path(piece.holders[i], piece.holders[(i + 1) % n]);
      Nanos latency = 0;
      for (uint32_t link : path) latency += machine_->links()[link].latency_ns;
      latency_max = std::max(latency_max, latency);
      flows_->AddMessage(path, sent);
      bytes_ += sent;
    }
    const size_t first = tasks_.uses.size();
    flows_->EndFlow(applies, &tasks_);
    for (size_t i = first; i < tasks_.uses.size(); ++i) {
      tasks_.uses[i].rest +=
          static_cast<uint32_t>(std::min<Nanos>((rounds - 1) * latency_max, UINT32_MAX / 2));
    }
  }
}

// Each of S servers keeps 1/S of every piece: it applies gradients as they arrive, and sends the
// piece back when all have.
void SyncBuilder::BuildServers(const std::vector<ParamPiece>& pieces,
                               absl::Span<const uint32_t> servers) {
  const auto count = static_cast<int64_t>(servers.size());
  std::vector<int64_t> bytes(devices_, 0);  // by holder
  for (const ParamPiece& piece : pieces) {
    for (uint32_t holder : piece.holders) bytes[holder] += piece.bytes;
  }
  const auto share = [&](uint32_t holder) { return (bytes[holder] + count - 1) / count; };
  std::vector<std::vector<uint32_t>> nodes;  // holders of each
  for (uint32_t d = 0; d < devices_; ++d) {
    if (bytes[d] == 0) continue;
    const uint32_t node = machine_->devices()[d].node;
    const auto it = std::find_if(nodes.begin(), nodes.end(), [&](const auto& holders) {
      return machine_->devices()[holders[0]].node == node;
    });
    if (it == nodes.end()) {
      nodes.push_back({d});
    } else {
      it->push_back(d);
    }
  }
  std::vector<std::vector<uint32_t>> pulls(servers.size());
  for (size_t s = 0; s < servers.size(); ++s) {
    for (const std::vector<uint32_t>& holders : nodes) {
      if (pulls[s].empty() || flows_->cuts_flows()) {
        pulls[s].push_back(AddTask());
        tasks_.tasks[pulls[s].back()].waits = static_cast<uint32_t>(nodes.size());
      }
      for (uint32_t holder : holders) {
        flows_->AddMessage(machine_->PullPath(servers[s], holder), share(holder));
        bytes_ += 2 * share(holder);
      }
      flows_->EndFlow({}, &tasks_);
    }
  }
  for (const std::vector<uint32_t>& holders : nodes) {
    std::vector<uint32_t> applies;
    int64_t pushed = 0;
    for (uint32_t holder : holders) pushed += share(holder);
    for (size_t s = 0; s < servers.size(); ++s) {
      const Nanos busy = TimeFor(static_cast<double>(pushed),
                                 machine_->servers()[servers[s]].apply_bytes_per_second);
      applies.push_back(AddApply(flows_->ServerResource(servers[s]), std::max<Nanos>(1, busy)));
      SetDone(applies.back(), pulls[s]);
      tasks_.tasks[applies.back()].waits = 1;
    }
    uint32_t task = 0;
    for (size_t s = 0; s < servers.size(); ++s) {
      if (s == 0 || flows_->cuts_flows()) {
        task = AddTask();
        for (uint32_t holder : holders) FollowParts(holder, task);
      }
      for (uint32_t holder : holders) {
        flows_->AddMessage(machine_->PushPath(holder, servers[s]), share(holder));
      }
      flows_->EndFlow({&applies[s], 1}, &tasks_);
    }
  }
}

void SyncBuilder::CountHeld(const std::vector<ParamPiece>& pieces) {
  std::vector<int64_t> held(devices_, 0);
  for (const ParamPiece& piece : pieces) {
    for (uint32_t holder : piece.holders) held[holder] += piece.bytes;
  }
  for (uint32_t d = 0; d < devices_; ++d) {
    if (held[d] > 0) held_.push_back({d, held[d]});
  }
}

void SyncBuilder::Build(uint32_t group, absl::Span<const PlacedSplit> ops,
                        Synchronization synchronization, absl::Span<const uint32_t> servers,
                        SyncBlock* block) {
  tasks_.Clear();
  held_.clear();
  kept_elsewhere_.clear();
  bytes_ = 0;
  device_tasks_.clear();
  CountParts(group, ops);
  const std::vector<ParamPiece>& pieces = pieces_.Find(group, ops);
  CountHeld(pieces);
  switch (synchronization) {
    case Synchronization::kOwner:
      BuildOwners(SharesOfOwners(pieces));
      break;
    case Synchronization::kRing:
      if (!options_.rings_by_ranges) {
        BuildRing(pieces);
        break;
      }
      BuildInRanges(pieces);
      break;
    case Synchronization::kServers:
      BuildServers(pieces, servers.empty() ? all_servers_ : servers);
      break;
  }
  ListByPart(devices_, device_tasks_, &device_to_);
  const OpenTasks* const all[] = {&tasks_};
  flows_->SumLoads(all, &loads_);
  BlockMemory& memory = block->memory;
  memory.Reset(tasks_.bytes() + BlockMemory::BytesFor(device_to_) + BlockMemory::BytesFor(held_) +
               BlockMemory::BytesFor(kept_elsewhere_) + BlockMemory::BytesFor(loads_));
  block->device_to.all = memory.Add(device_to_).begin();
  block->tasks = tasks_.PackInto(&memory);
  block->held = memory.Add(held_);
  block->kept_elsewhere = memory.Add(kept_elsewhere_);
  block->loads = memory.Add(loads_);
  block->bytes = bytes_;
}

}  // namespace soapstone::planner
