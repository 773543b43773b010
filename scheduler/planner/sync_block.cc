#include "scheduler/planner/sync_block.h"

#include <algorithm>
#include <map>

namespace soapstone::planner {
namespace {

Nanos TimeFor(double bytes, double bytes_per_second) {
  return static_cast<Nanos>(bytes / bytes_per_second * static_cast<double>(kSecond));
}

// One operator's use of a parameter: the devices of each block.
struct Use {
  const ParamSplit* split;
  std::vector<uint64_t> masks;  // [block · words + word]
  // [dimension][interval of the common refinement] → index of the block along it
  std::vector<std::vector<uint32_t>> index;
};

}  // namespace

SyncBuilder::SyncBuilder(const OpGraph* graph, const Machine* machine, BlockBuilder* builder)
    : graph_(graph),
      machine_(machine),
      builder_(builder),
      devices_(static_cast<uint32_t>(machine->devices().size())),
      words_((devices_ + 63) / 64) {
  backward_parts_.assign(devices_, 0);
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
  std::vector<Use> uses;
  for (uint32_t op : graph_->params[param].ops) {
    const std::vector<uint32_t>& of_op = graph_->ops[op].params;
    const size_t at =
        static_cast<size_t>(std::find(of_op.begin(), of_op.end(), param) - of_op.begin());
    const ParamSplit& split = members[op].split->params[at];
    Use use = {.split = &split};
    use.masks.assign(split.blocks * words_, 0);
    for (uint32_t part = 0; part < split.block_of_part.size(); ++part) {
      const uint32_t device = members[op].devices[part];
      use.masks[split.block_of_part[part] * words_ + device / 64] |= uint64_t{1} << (device % 64);
    }
    uses.push_back(std::move(use));
  }
  const ParamSplit& first = *uses[0].split;
  const size_t rank = first.sides.size();
  std::vector<std::vector<int64_t>> cuts(rank);  // begins of intervals, and the end
  for (size_t t = 0; t < rank; ++t) {
    for (const Use& use : uses) {
      cuts[t].insert(cuts[t].end(), use.split->begins[t].begin(), use.split->begins[t].end());
    }
    std::sort(cuts[t].begin(), cuts[t].end());
    cuts[t].erase(std::unique(cuts[t].begin(), cuts[t].end()), cuts[t].end());
    for (Use& use : uses) {
      std::vector<uint32_t>& index = use.index.emplace_back();
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

uint32_t SyncBuilder::AddTask(uint32_t resource, Nanos busy, SyncBlock* block) {
  CommTask task;
  task.resource = resource;
  task.busy = busy;
  block->tasks.tasks.push_back(task);
  block->tasks.waits.push_back(0);
  return static_cast<uint32_t>(block->tasks.tasks.size()) - 1;
}

uint32_t SyncBuilder::Gate(uint32_t device, SyncBlock* block) {
  int32_t& task = block->task_of_device[device];
  if (task < 0) {
    task = static_cast<int32_t>(AddTask(kNoResource, 1, block));
    block->tasks.waits[static_cast<size_t>(task)] = backward_parts_[device];
  }
  return static_cast<uint32_t>(task);
}

void SyncBuilder::WriteFollows(SyncBlock* block) {
  std::sort(follows_.begin(), follows_.end());
  std::vector<uint32_t>& done = block->tasks.done;
  for (size_t i = 0; i < follows_.size();) {
    CommTask& task = block->tasks.tasks[follows_[i].first];
    task.done_begin = static_cast<uint32_t>(done.size());
    const uint32_t at = follows_[i].first;
    for (; i < follows_.size() && follows_[i].first == at; ++i) {
      done.push_back(follows_[i].second);
      ++block->tasks.waits[follows_[i].second];
    }
    task.done_end = static_cast<uint32_t>(done.size());
  }
}

void SyncBuilder::BuildOwner(SyncBlock* block) {
  std::map<std::pair<uint32_t, uint32_t>, int64_t> bytes;  // owner, holder
  for (const Piece& piece : pieces_) {
    for (uint32_t holder : piece.holders) bytes[{piece.holders[0], holder}] += piece.bytes;
  }
  for (auto it = bytes.begin(); it != bytes.end();) {
    const uint32_t owner = it->first.first;
    const auto begin = it;
    int64_t received = 0;
    for (; it != bytes.end() && it->first.first == owner; ++it) {
      if (it->first.second != owner) received += it->second;
    }
    const int64_t held = begin->second;  // the owner is the first of its pieces' holders
    const uint32_t apply = AddTask(owner, ApplyTime(owner, held, received), block);
    Follow(Gate(owner, block), apply);
    for (auto push = begin; push != it; ++push) {
      const uint32_t holder = push->first.second;
      if (holder == owner) continue;
      uint32_t last = 0;
      const uint32_t first = builder_->AddMessage(machine_->Path(holder, owner), push->second, {},
                                                  &block->tasks, &last);
      Follow(Gate(holder, block), first);
      Follow(last, apply);
      const uint32_t back = builder_->AddMessage(machine_->Path(owner, holder), push->second, {},
                                                 &block->tasks, &last);
      Follow(apply, back);
      block->bytes += 2 * push->second;
    }
  }
}

// A ring of n sends 2·(n − 1)/n of the piece over each of its connections, in 2·(n − 1) rounds.
void SyncBuilder::BuildRing(SyncBlock* block) {
  for (const Piece& piece : pieces_) {
    const size_t n = piece.holders.size();
    uint32_t ready = 0, summed = 0;
    if (n > 1) {
      ready = AddTask(kNoResource, 1, block);
      summed = AddTask(kNoResource, 1, block);
      const auto rounds = 2 * static_cast<int64_t>(n - 1);
      const int64_t sent =
          (piece.bytes * rounds + static_cast<int64_t>(n) - 1) / static_cast<int64_t>(n);
      Nanos latency_max = 0;
      for (size_t i = 0; i < n; ++i) {
        const auto path = machine_->Path(piece.holders[i], piece.holders[(i + 1) % n]);
        Nanos latency = 0;
        for (uint32_t link : path) latency += machine_->links()[link].latency_ns;
        latency_max = std::max(latency_max, latency);
        uint32_t last = 0;
        const uint32_t first = builder_->AddMessage(path, sent, {}, &block->tasks, &last);
        Follow(ready, first);
        Follow(last, summed);
        block->bytes += sent;
      }
      block->tasks.tasks[summed].busy = std::max<Nanos>(1, (rounds - 1) * latency_max);
    }
    for (uint32_t holder : piece.holders) {
      const uint32_t apply = AddTask(holder, ApplyTime(holder, piece.bytes, 0), block);
      Follow(Gate(holder, block), n > 1 ? ready : apply);
      if (n > 1) Follow(summed, apply);
    }
  }
}

// Each server keeps 1/S of every piece: it applies gradients as they arrive, and sends the piece
// back when all have.
void SyncBuilder::BuildServers(SyncBlock* block) {
  const auto servers = static_cast<uint32_t>(machine_->servers().size());
  std::map<uint32_t, int64_t> bytes;  // by holder
  for (const Piece& piece : pieces_) {
    for (uint32_t holder : piece.holders) bytes[holder] += piece.bytes;
  }
  for (uint32_t s = 0; s < servers; ++s) {
    const uint32_t applied = AddTask(kNoResource, 1, block);
    for (const auto& [holder, held] : bytes) {
      const int64_t share = (held + servers - 1) / servers;
      uint32_t last = 0;
      const uint32_t push =
          builder_->AddMessage(machine_->PushPath(holder, s), share, {}, &block->tasks, &last);
      const double rate = machine_->servers()[s].apply_bytes_per_second;
      const uint32_t apply =
          AddTask(builder_->ServerResource(s),
                  std::max<Nanos>(1, TimeFor(static_cast<double>(share), rate)), block);
      Follow(Gate(holder, block), push);
      Follow(last, apply);
      Follow(apply, applied);
      const uint32_t pull =
          builder_->AddMessage(machine_->PullPath(s, holder), share, {}, &block->tasks, &last);
      Follow(applied, pull);
      block->bytes += 2 * share;
    }
  }
}

void SyncBuilder::Build(uint32_t group, absl::Span<const Member> members,
                        Synchronization synchronization, SyncBlock* block) {
  block->tasks.Clear();
  block->task_of_device.assign(devices_, -1);
  block->held.clear();
  block->bytes = 0;
  follows_.clear();
  FindPieces(group, members);
  std::vector<int64_t> held(devices_, 0);
  for (const Piece& piece : pieces_) {
    for (uint32_t holder : piece.holders) held[holder] += piece.bytes;
  }
  for (uint32_t d = 0; d < devices_; ++d) {
    if (held[d] > 0) block->held.emplace_back(d, held[d]);
  }
  switch (synchronization) {
    case Synchronization::kOwner:
      BuildOwner(block);
      break;
    case Synchronization::kRing:
      BuildRing(block);
      break;
    case Synchronization::kServers:
      BuildServers(block);
      break;
  }
  WriteFollows(block);
  const CommTasks* const all[] = {&block->tasks};
  builder_->SumLoads(all, &block->loads);
}

}  // namespace soapstone::planner
