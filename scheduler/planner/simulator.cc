#include "scheduler/planner/simulator.h"

#include <algorithm>
#include <bit>

#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::planner {
namespace {

constexpr uint32_t kSmallestBlock = 4;
constexpr size_t kCachedWordsMax = size_t{1} << 25;  // 128 MB of edge blocks

uint32_t ClassOf(size_t size) { return std::bit_width(std::max<size_t>(size, kSmallestBlock) - 1); }

size_t WordsOf(const EdgeBlock& block) {
  const size_t tasks = block.forward.tasks.size() + block.backward.tasks.size();
  const size_t items = block.forward_to.items.size() + block.backward_to.items.size() +
                       block.forward_from.items.size() + block.backward_from.items.size();
  return 10 * tasks + items + 128;
}

}  // namespace

Simulator::Simulator(const OpGraph* graph, const Machine* machine, const CostModel* costs,
                     SimulatorOptions options)
    : graph_(graph),
      machine_(machine),
      options_(options),
      splits_(graph, machine, costs),
      builder_(machine, {.segment_bytes = options.segment_bytes}),
      sync_builder_(graph, machine, &builder_),
      n_(static_cast<uint32_t>(graph->ops.size())),
      e_(static_cast<uint32_t>(graph->edges.size())),
      g_(static_cast<uint32_t>(graph->groups.size())),
      reach_(FindReaches()),
      edge_cache_(e_),
      config_ids_(n_) {
  for (uint32_t i = 0; i < n_; ++i) roles_.push_back({BlockKind::kForward, i});
  for (uint32_t i = 0; i < e_; ++i) roles_.push_back({BlockKind::kTransfer, i});
  for (uint32_t i = 0; i < n_; ++i) roles_.push_back({BlockKind::kBackward, i});
  for (uint32_t i = 0; i < e_; ++i) roles_.push_back({BlockKind::kGradient, i});
  for (uint32_t i = 0; i < g_; ++i) roles_.push_back({BlockKind::kSync, i});
  block_bits_ = std::bit_width(BlockCount());
  for (const std::vector<uint32_t>& group : graph->groups) {
    group_has_params_.push_back(std::any_of(
        group.begin(), group.end(), [&](uint32_t op) { return !graph->ops[op].params.empty(); }));
  }
  ops_.resize(n_);
  edges_.assign(e_, nullptr);
  syncs_.resize(g_);
  for (auto& sync : syncs_) sync = std::make_unique<SyncBlock>();
  compute_load_.assign(machine->devices().size(), 0);
  device_tail_.assign(machine->devices().size(), 0);
  memory_.assign(machine->devices().size(), 0);
  comm_load_.assign(builder_.resources(), 0);
  free_blocks_.resize(33);
  blocks_.resize(BlockCount());
  starts_at_once_.assign(n_, false);
  mark_.assign(std::max({n_, e_, g_}), 0);
}

Simulator::~Simulator() = default;

Strategy Simulator::strategy() const {
  Strategy strategy = strategy_;
  for (const OpState& op : ops_) strategy.ops.push_back(op.config);
  return strategy;
}

absl::Status Simulator::SetStrategy(const Strategy& strategy) {
  CHECK(!pending_) << "Accept or Reject first";
  SOAP_RETURN_IF_ERROR(CheckStrategy(*graph_, *machine_, strategy));
  strategy_ = strategy;
  strategy_.ops.clear();
  std::fill(compute_load_.begin(), compute_load_.end(), 0);
  std::fill(comm_load_.begin(), comm_load_.end(), 0);
  std::fill(memory_.begin(), memory_.end(), 0);
  transfer_bytes_ = sync_bytes_ = 0;
  for (uint32_t op = 0; op < n_; ++op) {
    ops_[op].config = strategy.ops[op];
    FillOp(op, &ops_[op]);
    AddCompute(ops_[op], 1);
  }
  FlushCaches();
  for (uint32_t edge = 0; edge < e_; ++edge) AddEdge(*edges_[edge], 1);
  for (uint32_t group = 0; group < g_; ++group) {
    BuildSync(group, syncs_[group].get());
    AddSync(*syncs_[group], 1);
  }
  overflow_ = FindOverflow();
  for (std::vector<uint32_t>& free : free_blocks_) free.clear();
  slots_ = tasks_ = 0;
  blocks_.assign(BlockCount(), Block{});
  touched_ops_.clear();
  touched_edges_.clear();
  touched_groups_.clear();
  for (uint32_t op = 0; op < n_; ++op) touched_ops_.push_back(op);
  for (uint32_t edge = 0; edge < e_; ++edge) touched_edges_.push_back(edge);
  for (uint32_t group = 0; group < g_; ++group) touched_groups_.push_back(group);
  PlaceTouched(touched_ops_);
  undo_.blocks.clear();
  step_known_ = false;
  return absl::OkStatus();
}

void Simulator::FillOp(uint32_t op, OpState* state) {
  const Split* split = state->split = splits_.Find(op, state->config);
  state->config_id = UINT32_MAX;
  state->forward.resize(split->parts);
  state->backward.resize(split->parts);
  state->forward_min = state->backward_min = INT64_MAX;
  state->forward_max = state->backward_max = 0;
  for (uint32_t part = 0; part < split->parts; ++part) {
    const uint32_t kind = machine_->devices()[state->config.devices[part]].kind;
    const Nanos exchange = ExchangeTime(*split, state->config.devices, *machine_, part);
    const Nanos forward = split->costs[kind][part].forward_ns + exchange;
    const Nanos backward = split->costs[kind][part].backward_ns + exchange;
    state->forward[part] = forward;
    state->backward[part] = backward;
    state->forward_min = std::min(state->forward_min, forward);
    state->forward_max = std::max(state->forward_max, forward);
    state->backward_min = std::min(state->backward_min, backward);
    state->backward_max = std::max(state->backward_max, backward);
  }
}

uint32_t Simulator::InternConfig(uint32_t op, const OpState& state) {
  intern_key_.assign(1, state.split->id);
  intern_key_.insert(intern_key_.end(), state.config.devices.begin(), state.config.devices.end());
  const auto next = static_cast<uint32_t>(config_ids_[op].size());
  const auto [it, is_new] = config_ids_[op].try_emplace(intern_key_, next);
  if (is_new) cached_words_ += intern_key_.size() + 16;
  return it->second;
}

const EdgeBlock* Simulator::FindEdge(uint32_t edge) {
  const PlanEdge& e = graph_->edges[edge];
  const OpState& from = ops_[e.from];
  const OpState& to = ops_[e.to];
  const uint64_t key = uint64_t{from.config_id} << 32 | to.config_id;
  const auto [it, is_new] = edge_cache_[edge].try_emplace(key);
  if (is_new) {
    it->second = std::make_unique<EdgeBlock>();
    builder_.BuildEdge(splits_.Overlaps(edge, *from.split, *to.split), from.config.devices,
                       to.config.devices, e.gradient, it->second.get());
    cached_words_ += WordsOf(*it->second);
  }
  return it->second.get();
}

// Forgets all blocks of edges but the current strategy's.
void Simulator::FlushCaches() {
  for (auto& cache : edge_cache_) cache.clear();
  for (auto& ids : config_ids_) ids.clear();
  cached_words_ = 0;
  for (uint32_t op = 0; op < n_; ++op) ops_[op].config_id = InternConfig(op, ops_[op]);
  for (uint32_t edge = 0; edge < e_; ++edge) edges_[edge] = FindEdge(edge);
}

void Simulator::BuildSync(uint32_t group, SyncBlock* block) {
  members_.resize(n_);
  for (uint32_t op : graph_->groups[group]) {
    members_[op] = {ops_[op].split, ops_[op].config.devices};
  }
  sync_builder_.Build(group, members_, strategy_.synchronization, block);
}

void Simulator::AddCompute(const OpState& op, int sign) {
  for (uint32_t part = 0; part < op.split->parts; ++part) {
    const uint32_t device = op.config.devices[part];
    compute_load_[device] += sign * (op.forward[part] + op.backward[part]);
    memory_[device] += sign * op.split->output_bytes[part];
  }
}

void Simulator::AddEdge(const EdgeBlock& edge, int sign) {
  for (const Load& load : edge.loads) comm_load_[load.resource] += sign * load.busy;
  for (const auto& [device, bytes] : edge.received) memory_[device] += sign * bytes;
  transfer_bytes_ += sign * edge.bytes;
}

void Simulator::AddSync(const SyncBlock& sync, int sign) {
  for (const Load& load : sync.loads) comm_load_[load.resource] += sign * load.busy;
  const double copies = 2 + options_.optimizer_floats + strategy_.staleness;
  for (const auto& [device, bytes] : sync.held) {
    memory_[device] += sign * static_cast<int64_t>(static_cast<double>(bytes) * copies);
  }
  sync_bytes_ += sign * sync.bytes;
}

int64_t Simulator::FindOverflow() const {
  int64_t overflow = 0;
  for (uint32_t d = 0; d < memory_.size(); ++d) {
    const auto capacity = static_cast<int64_t>(machine_->kind_of(d).memory_bytes);
    overflow += std::max<int64_t>(0, memory_[d] - capacity);
  }
  return overflow;
}

void Simulator::ReleaseBlock(const Block& block) {
  if (block.capacity > 0) free_blocks_[ClassOf(block.capacity)].push_back(block.base);
}

void Simulator::PlaceBlock(uint32_t block, size_t size) {
  undo_.blocks.emplace_back(block, blocks_[block]);
  const uint32_t c = ClassOf(size);
  Block placed = {.size = static_cast<uint32_t>(size), .capacity = uint32_t{1} << c};
  if (free_blocks_[c].empty()) {
    placed.base = static_cast<uint32_t>(slots_);
    slots_ += placed.capacity;
    if (slots_ > waits_.size()) {
      waits_.resize(2 * slots_, 0);
      states_.resize(2 * slots_);
    }
  } else {
    placed.base = free_blocks_[c].back();
    free_blocks_[c].pop_back();
  }
  tasks_ += size;
  tasks_ -= blocks_[block].size;
  blocks_[block] = placed;
  index_bits_ = std::max(index_bits_, static_cast<uint32_t>(std::bit_width(size)));
}

void Simulator::SetWaits(const CommTasks& tasks, uint32_t block) {
  PlaceBlock(block, tasks.tasks.size());
  const uint32_t base = blocks_[block].base;
  for (size_t i = 0; i < tasks.waits.size(); ++i) {
    waits_[base + i] = tasks.waits[i];
    states_[base + i] = {.ready = 0, .missing = tasks.waits[i]};
  }
}

void Simulator::SetOpWaits(uint32_t op) {
  const uint32_t forward = blocks_[ForwardBlock(op)].base;
  const uint32_t backward = blocks_[BackwardBlock(op)].base;
  const uint32_t parts = ops_[op].split->parts;
  bool at_once = false;
  for (uint32_t part = 0; part < parts; ++part) {
    uint32_t before = 0, behind = 0;
    for (uint32_t edge : graph_->ops[op].in) {
      const PartLists& from = edges_[edge]->forward_from;
      before += from.begin[part + 1] - from.begin[part];
    }
    for (uint32_t edge : graph_->ops[op].out) {
      const PartLists& from = edges_[edge]->backward_from;
      behind += from.begin[part + 1] - from.begin[part];
    }
    at_once |= before == 0;
    states_[forward + part] = {.ready = 0, .missing = before};
    states_[backward + part] = {.ready = 0, .missing = std::max<uint32_t>(behind, 1)};
    waits_[forward + part] = before | (behind == 0 ? kStartsBackward : 0);
    waits_[backward + part] = std::max<uint32_t>(behind, 1);
  }
  starts_at_once_[op] = at_once;
}

// Places the blocks of touched edges and groups and of `changed` operators, and counts anew what
// touched operators wait for.
void Simulator::PlaceTouched(absl::Span<const uint32_t> changed) {
  for (uint32_t op : changed) {
    PlaceBlock(ForwardBlock(op), ops_[op].split->parts);
    PlaceBlock(BackwardBlock(op), ops_[op].split->parts);
  }
  for (uint32_t edge : touched_edges_) {
    SetWaits(edges_[edge]->forward, TransferBlock(edge));
    SetWaits(edges_[edge]->backward, GradientBlock(edge));
  }
  for (uint32_t group : touched_groups_) SetWaits(syncs_[group]->tasks, SyncBlockOf(group));
  for (uint32_t op : touched_ops_) SetOpWaits(op);
}

// Edges, groups and operators that a change of these operators touches, each once.
void Simulator::CollectTouched(absl::Span<const uint32_t> changed) {
  const auto collect = [this](auto&& visit, std::vector<uint32_t>* into) {
    into->clear();
    visit([&](uint32_t id) {
      if (mark_[id] != 0) return;
      mark_[id] = 1;
      into->push_back(id);
    });
    for (uint32_t id : *into) mark_[id] = 0;
  };
  collect(
      [&](auto add) {
        for (uint32_t op : changed) {
          for (uint32_t edge : graph_->ops[op].in) add(edge);
          for (uint32_t edge : graph_->ops[op].out) add(edge);
        }
      },
      &touched_edges_);
  collect(
      [&](auto add) {
        for (uint32_t op : changed) {
          if (group_has_params_[graph_->ops[op].group]) add(graph_->ops[op].group);
        }
      },
      &touched_groups_);
  collect(
      [&](auto add) {
        for (uint32_t op : changed) add(op);
        for (uint32_t edge : touched_edges_) {
          add(graph_->edges[edge].from);
          add(graph_->edges[edge].to);
        }
      },
      &touched_ops_);
}

bool Simulator::LoadsAllow(Nanos cutoff) const {
  for (size_t i = 0; i < comm_load_.size(); ++i) {
    const Nanos compute = i < compute_load_.size() ? compute_load_[i] : 0;
    if (comm_load_[i] + compute > cutoff) return false;
  }
  return true;
}

void Simulator::SwapOps(absl::Span<const Change> changes) {
  changed_.clear();
  for (const Change& change : changes) {
    if (spare_ops_.empty()) spare_ops_.push_back(std::make_unique<OpState>());
    std::unique_ptr<OpState> state = std::move(spare_ops_.back());
    spare_ops_.pop_back();
    state->config = change.config;
    FillOp(change.op, state.get());
    std::swap(*state, ops_[change.op]);
    AddCompute(*state, -1);
    AddCompute(ops_[change.op], 1);
    undo_.ops.emplace_back(change.op, std::move(state));
    changed_.push_back(change.op);
  }
}

void Simulator::SwapBlocks() {
  for (uint32_t op : changed_) ops_[op].config_id = InternConfig(op, ops_[op]);
  CollectTouched(changed_);
  for (uint32_t edge : touched_edges_) {
    undo_.edges.emplace_back(edge, edges_[edge]);
    AddEdge(*edges_[edge], -1);
    edges_[edge] = FindEdge(edge);
    AddEdge(*edges_[edge], 1);
  }
  for (uint32_t group : touched_groups_) {
    if (spare_syncs_.empty()) spare_syncs_.push_back(std::make_unique<SyncBlock>());
    AddSync(*syncs_[group], -1);
    undo_.groups.emplace_back(group, std::move(syncs_[group]));
    syncs_[group] = std::move(spare_syncs_.back());
    spare_syncs_.pop_back();
    BuildSync(group, syncs_[group].get());
    AddSync(*syncs_[group], 1);
  }
}

Nanos Simulator::Propose(absl::Span<const Change> changes, Nanos cutoff) {
  CHECK(!pending_) << "Accept or Reject first";
  if (cached_words_ > kCachedWordsMax) FlushCaches();
  ++counts_.proposed;
  pending_ = true;
  undo_.step = step_;
  undo_.step_known = step_known_;
  undo_.overflow = overflow_;
  undo_.placed = false;
  SwapOps(changes);
  if (early_rejection_) {
    if (*std::max_element(compute_load_.begin(), compute_load_.end()) > cutoff) {
      ++counts_.by_compute;
      return kNever;
    }
    if (PathBound() > cutoff || DeviceBound() > cutoff) {
      ++counts_.by_path;
      return kNever;
    }
  }
  SwapBlocks();
  overflow_ = FindOverflow();
  if (overflow_ > undo_.overflow) {
    ++counts_.by_memory;
    return kNever;
  }
  if (early_rejection_ && !LoadsAllow(cutoff)) {
    ++counts_.by_load;
    return kNever;
  }
  undo_.placed = true;
  PlaceTouched(changed_);
  step_ = RunTimeline<false>(early_rejection_ ? cutoff : kNever, 1, nullptr);
  step_known_ = true;
  ++(step_ == kNever ? counts_.aborted : counts_.simulated);
  return step_ <= cutoff ? step_ : kNever;
}

void Simulator::Accept() {
  CHECK(pending_ && undo_.placed && step_ != kNever) << "nothing to accept";
  for (auto& [op, state] : undo_.ops) spare_ops_.push_back(std::move(state));
  for (auto& [group, sync] : undo_.groups) spare_syncs_.push_back(std::move(sync));
  for (const auto& [block, old] : undo_.blocks) ReleaseBlock(old);
  ForgetUndo();
}

void Simulator::Reject() {
  CHECK(pending_) << "nothing to reject";
  for (auto& [op, state] : undo_.ops) {
    AddCompute(ops_[op], -1);
    AddCompute(*state, 1);
    std::swap(*state, ops_[op]);
    spare_ops_.push_back(std::move(state));
  }
  for (auto& [edge, old] : undo_.edges) {
    AddEdge(*edges_[edge], -1);
    edges_[edge] = old;
    AddEdge(*old, 1);
  }
  for (auto& [group, sync] : undo_.groups) {
    AddSync(*syncs_[group], -1);
    spare_syncs_.push_back(std::move(syncs_[group]));
    syncs_[group] = std::move(sync);
    AddSync(*syncs_[group], 1);
  }
  for (const auto& [block, old] : undo_.blocks) {
    ReleaseBlock(blocks_[block]);
    tasks_ += old.size;
    tasks_ -= blocks_[block].size;
    blocks_[block] = old;
  }
  if (undo_.placed) {
    for (uint32_t op : touched_ops_) SetOpWaits(op);
  }
  step_ = undo_.step;
  step_known_ = undo_.step_known;
  overflow_ = undo_.overflow;
  ForgetUndo();
}

void Simulator::ForgetUndo() {
  undo_.ops.clear();
  undo_.edges.clear();
  undo_.groups.clear();
  undo_.blocks.clear();
  pending_ = false;
}

Breakdown Simulator::Explain() {
  Breakdown result;
  result.step_ns = StepTime();
  result.busy_ns = comm_load_;
  for (size_t d = 0; d < compute_load_.size(); ++d) result.busy_ns[d] += compute_load_[d];
  result.compute_ns = *std::max_element(compute_load_.begin(), compute_load_.end());
  result.exposed_ns = result.step_ns - result.compute_ns;
  result.transfer_bytes = transfer_bytes_;
  result.sync_bytes = sync_bytes_;
  result.memory_bytes = memory_;
  return result;
}

}  // namespace soapstone::planner
