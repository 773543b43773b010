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

SyncBuilder::SyncBuilder(const OpGraph* graph, const Machine* machine, BlockBuilder* builder)
    : graph_(graph),
      machine_(machine),
      builder_(builder),
      devices_(static_cast<uint32_t>(machine->devices().size())),
      words_((devices_ + 63) / 64) {
  backward_parts_.assign(devices_, 0);
  all_servers_.resize(machine->servers().size());
  std::iota(all_servers_.begin(), all_servers_.end(), 0);
}

void SyncBuilder::AddPiece(const std::vector<uint64_t>& mask, int64_t bytes) {
  for (size_t i = piece_masks_.size(); i-- > 0;) {
    if (piece_masks_[i] != mask) continue;
    pieces_[i].bytes += bytes;
    return;
  }
  Piece piece = {.bytes = bytes};
  for (uint32_t d = 0; d < devices_; ++d) {
    if ((mask[d / 64] >> (d % 64) & 1) != 0) piece.holders.push_back(d);
  }
  if (piece.holders.empty()) return;
  piece_masks_.push_back(mask);
  pieces_.push_back(std::move(piece));
}

// Cuts the parameter at all boundaries of all its operators; each cell's holders are the devices
// of the blocks, one an operator, in which it lies.
void SyncBuilder::AddParam(uint32_t param, absl::Span<const Member> members) {
  const std::vector<uint32_t>& ops = graph_->params[param].ops;
  if (uses_.size() < ops.size()) uses_.resize(ops.size());
  const absl::Span<Use> uses(uses_.data(), ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    const uint32_t op = ops[i];
    const std::vector<uint32_t>& of_op = graph_->ops[op].params;
    const size_t at =
        static_cast<size_t>(std::find(of_op.begin(), of_op.end(), param) - of_op.begin());
    const ParamSplit& split = members[op].split->params[at];
    Use& use = uses[i];
    use.split = &split;
    use.masks.assign(split.blocks * words_, 0);
    for (uint32_t part = 0; part < split.block_of_part.size(); ++part) {
      const uint32_t device = members[op].devices[part];
      use.masks[split.block_of_part[part] * words_ + device / 64] |= uint64_t{1} << (device % 64);
    }
  }
  const ParamSplit& first = *uses[0].split;
  const size_t rank = first.sides.size();
  std::vector<std::vector<int64_t>>& cuts = cuts_;
  if (cuts.size() < rank) cuts.resize(rank);
  for (size_t t = 0; t < rank; ++t) {
    cuts[t].clear();
    for (const Use& use : uses) {
      cuts[t].insert(cuts[t].end(), use.split->begins[t].begin(), use.split->begins[t].end());
    }
    std::sort(cuts[t].begin(), cuts[t].end());
    cuts[t].erase(std::unique(cuts[t].begin(), cuts[t].end()), cuts[t].end());
    for (Use& use : uses) {
      if (use.index.size() <= t) use.index.emplace_back();
      std::vector<uint32_t>& index = use.index[t];
      index.clear();
      const std::vector<int64_t>& begins = use.split->begins[t];
      uint32_t at = 0;
      for (int64_t cut : cuts[t]) {
        while (at + 1 < begins.size() && begins[at + 1] <= cut) ++at;
        index.push_back(at);
      }
    }
    cuts[t].push_back(first.sides[t]);
  }
  std::vector<size_t> cell(rank, 0);
  std::vector<uint64_t> mask(words_);
  while (true) {
    int64_t elements = first.sections;
    for (size_t t = 0; t < rank; ++t) elements *= cuts[t][cell[t] + 1] - cuts[t][cell[t]];
    std::fill(mask.begin(), mask.end(), 0);
    for (const Use& use : uses) {
      size_t block = 0;
      for (size_t t = 0; t < rank; ++t) {
        block = block * use.split->begins[t].size() + use.index[t][cell[t]];
      }
      for (size_t w = 0; w < words_; ++w) mask[w] |= use.masks[block * words_ + w];
    }
    if (elements > 0) AddPiece(mask, elements * kElementBytes);
    size_t t = rank;
    while (t > 0 && ++cell[t - 1] + 1 == cuts[t - 1].size()) cell[--t] = 0;
    if (t == 0) return;
  }
}

void SyncBuilder::FindPieces(uint32_t group, absl::Span<const Member> members) {
  pieces_.clear();
  piece_masks_.clear();
  std::fill(backward_parts_.begin(), backward_parts_.end(), 0);
  std::vector<uint32_t> params;
  for (uint32_t op : graph_->groups[group]) {
    if (graph_->ops[op].params.empty()) continue;
    for (uint32_t device : members[op].devices) ++backward_parts_[device];
    params.insert(params.end(), graph_->ops[op].params.begin(), graph_->ops[op].params.end());
  }
  std::sort(params.begin(), params.end());
  params.erase(std::unique(params.begin(), params.end()), params.end());
  for (uint32_t param : params) AddParam(param, members);
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

// By owner and holder.
std::vector<SyncBuilder::Share> SyncBuilder::SharesOfOwners() const {
  std::vector<Share> shares;
  for (const Piece& piece : pieces_) {
    for (uint32_t holder : piece.holders) shares.push_back({piece.holders[0], holder, piece.bytes});
  }
  const auto by = [](const Share& a, const Share& b) {
    return std::pair(a.owner, a.holder) < std::pair(b.owner, b.holder);
  };
  std::sort(shares.begin(), shares.end(), by);
  size_t kept = 0;
  for (const Share& share : shares) {
    if (kept > 0 && !by(shares[kept - 1], share)) {
      shares[kept - 1].bytes += share.bytes;
    } else {
      shares[kept++] = share;
    }
  }
  shares.resize(kept);
  return shares;
}

// Each owner applies what the nodes push to it, and then sends it back to them. A node pushes all
// that it has of the group at once.
void SyncBuilder::BuildOwner() {
  const std::vector<Share> shares = SharesOfOwners();
  std::vector<uint32_t> apply_of(devices_, 0);  // by owner
  for (size_t begin = 0, end = 0; begin < shares.size(); begin = end) {
    const uint32_t owner = shares[begin].owner;
    int64_t received = 0;
    for (end = begin; end < shares.size() && shares[end].owner == owner; ++end) {
      if (shares[end].holder != owner) received += shares[end].bytes;
    }
    // The owner is the first of its pieces' holders.
    apply_of[owner] = AddApply(owner, ApplyTime(owner, shares[begin].bytes, received));
    FollowParts(owner, apply_of[owner]);
  }
  PushToOwners(shares, apply_of);
  PullFromOwners(shares, apply_of);
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
    if (begin == 0 || builder_->cuts_flows() || NodeOf(pushes[begin - 1].holder) != node) {
      task = AddTask();
    }
    for (end = begin;
         end < pushes.size() && NodeOf(pushes[end].holder) == node && pushes[end].owner == owner;
         ++end) {
      builder_->AddMessage(machine_->Path(pushes[end].holder, owner), pushes[end].bytes);
      bytes_ += pushes[end].bytes;
      const std::pair<uint32_t, uint32_t> waits = {pushes[end].holder, task};
      if (std::find(device_tasks_.begin(), device_tasks_.end(), waits) == device_tasks_.end()) {
        FollowParts(pushes[end].holder, task);
      }
    }
    ++tasks_.tasks[apply_of[owner]].waits;
    builder_->EndFlow({&apply_of[owner], 1}, &tasks_);
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
      if (pulls.empty() || builder_->cuts_flows()) {
        pulls.push_back(AddTask());
        tasks_.tasks[pulls.back()].waits = 1;
      }
      for (size_t i = first; i < begin; ++i) {
        if (shares[i].holder == owner) continue;
        builder_->AddMessage(machine_->Path(owner, shares[i].holder), shares[i].bytes);
        bytes_ += shares[i].bytes;
      }
      builder_->EndFlow({}, &tasks_);
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
void SyncBuilder::BuildRing() {
  std::vector<uint32_t> applies;
  for (const Piece& piece : pieces_) {
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
      builder_->AddMessage(path, sent);
      bytes_ += sent;
    }
    const size_t first = tasks_.uses.size();
    builder_->EndFlow(applies, &tasks_);
    for (size_t i = first; i < tasks_.uses.size(); ++i) {
      tasks_.uses[i].rest +=
          static_cast<uint32_t>(std::min<Nanos>((rounds - 1) * latency_max, UINT32_MAX / 2));
    }
  }
}

// Each of S servers keeps 1/S of every piece: it applies gradients as they arrive, and sends the
// piece back when all have.
void SyncBuilder::BuildServers(absl::Span<const uint32_t> servers) {
  const auto count = static_cast<int64_t>(servers.size());
  std::vector<int64_t> bytes(devices_, 0);  // by holder
  for (const Piece& piece : pieces_) {
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
      if (pulls[s].empty() || builder_->cuts_flows()) {
        pulls[s].push_back(AddTask());
        tasks_.tasks[pulls[s].back()].waits = static_cast<uint32_t>(nodes.size());
      }
      for (uint32_t holder : holders) {
        builder_->AddMessage(machine_->PullPath(servers[s], holder), share(holder));
        bytes_ += 2 * share(holder);
      }
      builder_->EndFlow({}, &tasks_);
    }
  }
  for (const std::vector<uint32_t>& holders : nodes) {
    std::vector<uint32_t> applies;
    int64_t pushed = 0;
    for (uint32_t holder : holders) pushed += share(holder);
    for (size_t s = 0; s < servers.size(); ++s) {
      const Nanos busy = TimeFor(static_cast<double>(pushed),
                                 machine_->servers()[servers[s]].apply_bytes_per_second);
      applies.push_back(AddApply(builder_->ServerResource(servers[s]), std::max<Nanos>(1, busy)));
      SetDone(applies.back(), pulls[s]);
      tasks_.tasks[applies.back()].waits = 1;
    }
    uint32_t task = 0;
    for (size_t s = 0; s < servers.size(); ++s) {
      if (s == 0 || builder_->cuts_flows()) {
        task = AddTask();
        for (uint32_t holder : holders) FollowParts(holder, task);
      }
      for (uint32_t holder : holders) {
        builder_->AddMessage(machine_->PushPath(holder, servers[s]), share(holder));
      }
      builder_->EndFlow({&applies[s], 1}, &tasks_);
    }
  }
}

void SyncBuilder::Build(uint32_t group, absl::Span<const Member> members,
                        Synchronization synchronization, absl::Span<const uint32_t> servers,
                        SyncBlock* block) {
  tasks_.Clear();
  held_.clear();
  bytes_ = 0;
  device_tasks_.clear();
  FindPieces(group, members);
  std::vector<int64_t> held(devices_, 0);
  for (const Piece& piece : pieces_) {
    for (uint32_t holder : piece.holders) held[holder] += piece.bytes;
  }
  for (uint32_t d = 0; d < devices_; ++d) {
    if (held[d] > 0) held_.push_back({d, held[d]});
  }
  switch (synchronization) {
    case Synchronization::kOwner:
      BuildOwner();
      break;
    case Synchronization::kRing:
      BuildRing();
      break;
    case Synchronization::kServers:
      BuildServers(servers.empty() ? all_servers_ : servers);
      break;
  }
  ListByPart(devices_, device_tasks_, &device_to_);
  const OpenTasks* const all[] = {&tasks_};
  builder_->SumLoads(all, &loads_);
  BlockMemory& memory = block->memory;
  memory.Reset(tasks_.bytes() + BlockMemory::BytesFor(device_to_) + BlockMemory::BytesFor(held_) +
               BlockMemory::BytesFor(loads_));
  block->device_to.all = memory.Add(device_to_).begin();
  block->tasks = tasks_.PackInto(&memory);
  block->held = memory.Add(held_);
  block->loads = memory.Add(loads_);
  block->bytes = bytes_;
}

}  // namespace soapstone::planner
