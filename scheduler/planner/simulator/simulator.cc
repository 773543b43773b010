#include "scheduler/planner/simulator/simulator.h"

#include <algorithm>
#include <tuple>

#include "absl/hash/hash.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::planner {
namespace {

constexpr size_t kCachedWordsMax = size_t{1} << 26;  // 256 MB of blocks and overlaps
constexpr size_t kMemories = size_t{1} << 16;

template <typename Block>
size_t WordsOf(const Block& block) {
  return (sizeof(Block) + block.memory.bytes()) / 4 + 16;
}

// Blocks are used again with the memory that they have.
template <typename T>
std::unique_ptr<T> Spare(std::vector<std::unique_ptr<T>>* spare) {
  if (spare->empty()) return std::make_unique<T>();
  std::unique_ptr<T> block = std::move(spare->back());
  spare->pop_back();
  return block;
}

template <typename Cache, typename T>
void Forget(Cache* cache, std::vector<std::unique_ptr<T>>* spare) {
  for (auto& [key, block] : *cache) spare->push_back(std::move(block));
  cache->clear();
}

}  // namespace

size_t Simulator::ConfigHash::operator()(const OpConfig& config) const {
  return absl::HashOf(config.degrees, config.devices, config.cuts);
}

Simulator::Simulator(const OpGraph* graph, const Machine* machine, const CostModel* costs,
                     SimulatorOptions options)
    : graph_(graph),
      machine_(machine),
      costs_(costs),
      options_(options),
      classes_(FindEquivalenceClasses(*graph)),
      splits_(graph, machine, costs, &classes_),
      builder_(machine, {.segment_bytes = options.segment_bytes}),
      sync_builder_(graph, machine, &builder_),
      n_(static_cast<uint32_t>(graph->ops.size())),
      g_(static_cast<uint32_t>(graph->groups.size())),
      op_cache_(classes_.ops),
      sync_cache_(classes_.groups),
      memories_(kMemories) {
  for (const std::vector<uint32_t>& group : graph->groups) {
    group_has_params_.push_back(std::any_of(
        group.begin(), group.end(), [&](uint32_t op) { return !graph->ops[op].params.empty(); }));
  }
  MakeConnections();
  for (const PlanOp& op : graph->ops) {
    group_of_.push_back(op.params.empty() ? UINT32_MAX : op.group);
  }
  routes_out_.resize(e_);
  routes_in_.resize(e_);
  ops_.assign(n_, nullptr);
  edges_.assign(e_, nullptr);
  syncs_.assign(g_, nullptr);
  members_.resize(n_);
  compute_load_.assign(machine->devices().size(), 0);
  device_tail_.assign(machine->devices().size(), 0);
  memory_.assign(machine->devices().size(), 0);
  if (in_micro_batches()) {
    activations_.assign(memory_.size() * static_cast<size_t>(graph->micro_batches), 0);
  }
  for (uint32_t op = 0; op < n_; ++op) {
    CHECK_LE(first_ops_.size(), graph->ops[op].micro_batch + size_t{1});
    if (first_ops_.size() == graph->ops[op].micro_batch) first_ops_.push_back(op);
  }
  first_ops_.push_back(n_);
  comm_load_.assign(builder_.resources(), 0);
  blocks_.resize(BlockCount());
  tail_forward_.assign(n_, 0);
  tail_backward_.assign(n_, 0);
  mark_.assign(std::max({n_, e_, g_}), 0);
}

Simulator::~Simulator() = default;

std::unique_ptr<Simulator> Simulator::CloneEmpty() const {
  auto clone = std::make_unique<Simulator>(graph_, machine_, costs_, options_);
  clone->early_rejection_ = early_rejection_;
  return clone;
}

void Simulator::MakeConnections() {
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, bool>, uint32_t> numbers;
  for (uint32_t id = 0; id < graph_->edges.size(); ++id) {
    const PlanEdge& edge = graph_->edges[id];
    const auto [it, is_new] = numbers.try_emplace({edge.from, edge.to, edge.gradient}, e_);
    if (is_new) {
      connections_.push_back({.from = edge.from, .to = edge.to, .gradient = edge.gradient});
      ++e_;
    }
    connections_[it->second].edges.push_back(id);
  }
  // An edge's class names its operators' ones.
  absl::flat_hash_map<std::vector<uint32_t>, uint32_t> firsts;
  std::vector<std::vector<EdgeEnd>> in(n_), out(n_);
  for (uint32_t id = 0; id < e_; ++id) {
    Connection& connection = connections_[id];
    std::vector<uint32_t> key;
    for (uint32_t edge : connection.edges) key.push_back(classes_.of_edge[edge]);
    const auto [it, is_new] = firsts.try_emplace(std::move(key), id);
    const Connection& first = connections_[it->second];
    if (is_new) {
      FindReach(&connection);
      connection.equivalence_class = static_cast<uint32_t>(edge_cache_.size());
      edge_cache_.emplace_back();
    } else {
      connection.feeds_all = first.feeds_all;
      connection.reads_all = first.reads_all;
      connection.equivalence_class = first.equivalence_class;
    }
    out[connection.from].push_back({id, connection.to});
    in[connection.to].push_back({id, connection.from});
  }
  in_.Set(in);
  out_.Set(out);
}

Strategy Simulator::strategy() const {
  Strategy strategy = strategy_;
  for (const OpState* op : ops_) strategy.ops.push_back(op->config);
  DropEqualShares(&strategy);
  return strategy;
}

absl::Status Simulator::SetStrategy(const Strategy& strategy) {
  CHECK(!pending_) << "Accept or Reject first";
  SOAP_RETURN_IF_ERROR(CheckStrategy(*graph_, *machine_, strategy));
  // What is remembered is of one way to synchronize.
  if (strategy.synchronization != strategy_.synchronization) memories_.assign(kMemories, {});
  strategy_ = strategy;
  strategy_.ops.clear();
  strategy_.servers.resize(g_);
  std::fill(compute_load_.begin(), compute_load_.end(), 0);
  std::fill(comm_load_.begin(), comm_load_.end(), 0);
  std::fill(memory_.begin(), memory_.end(), 0);
  std::fill(activations_.begin(), activations_.end(), 0);
  transfer_bytes_ = sync_bytes_ = 0;
  FindAll(strategy.ops);
  FlushFullCaches();
  hash_[0] = hash_[1] = 0;
  for (uint32_t op = 0; op < n_; ++op) {
    AddCompute(op, *ops_[op], 1);
    for (int i : {0, 1}) hash_[i] ^= absl::HashOf(op, ops_[op]->hash[i]);
  }
  for (uint32_t group = 0; group < g_; ++group) HashServers(group);
  for (uint32_t edge = 0; edge < e_; ++edge) AddEdge(edge, *edges_[edge], 1);
  for (const SyncBlock* sync : syncs_) AddSync(*sync, 1);
  FindOverflow();
  PlaceAll();
  step_known_ = false;
  return absl::OkStatus();
}

const Simulator::OpState* Simulator::FindOp(uint32_t op, const OpConfig& config) {
  auto& cache = op_cache_[classes_.of_op[op]];
  std::unique_ptr<OpState>& state = cache[config];
  if (state != nullptr) return state.get();
  state = Spare(&spare_ops_);
  state->config = config;
  const OpSplit* split = state->split = splits_.Find(op, config);
  state->id = static_cast<uint32_t>(cache.size()) - 1;
  for (uint64_t i : {0, 1}) {
    state->hash[i] = absl::HashOf(i, config.degrees, config.devices, config.cuts);
  }
  state->forward.resize(split->parts);
  state->backward.resize(split->parts);
  state->forward_min = state->backward_min = INT64_MAX;
  state->forward_max = state->backward_max = 0;
  for (uint32_t part = 0; part < split->parts; ++part) {
    const uint32_t kind = machine_->devices()[config.devices[part]].kind;
    const Nanos exchange = ExchangeTime(*split, config.devices, *machine_, part);
    const Nanos forward = split->costs[kind][part].forward_ns + exchange;
    const Nanos backward = split->costs[kind][part].backward_ns + exchange;
    state->forward[part] = forward;
    state->backward[part] = backward;
    state->forward_min = std::min(state->forward_min, forward);
    state->forward_max = std::max(state->forward_max, forward);
    state->backward_min = std::min(state->backward_min, backward);
    state->backward_max = std::max(state->backward_max, backward);
  }
  cached_words_ += 64 + 6 * size_t{split->parts};
  return state.get();
}

const EdgeBlock* Simulator::FindEdge(uint32_t edge) {
  const Connection& connection = connections_[edge];
  const OpState& from = *ops_[connection.from];
  const OpState& to = *ops_[connection.to];
  std::unique_ptr<EdgeBlock>& block =
      edge_cache_[connection.equivalence_class][uint64_t{from.id} << 32 | to.id];
  if (block == nullptr) {
    block = Spare(&spare_edges_);
    overlaps_.clear();
    for (uint32_t e : connection.edges) {
      overlaps_.push_back(&splits_.Overlaps(e, *from.split, *to.split));
    }
    builder_.BuildEdge(overlaps_, from.config.devices, to.config.devices, connection.gradient,
                       block.get());
    cached_words_ += WordsOf(*block);
  }
  return block.get();
}

const SyncBlock* Simulator::FindSync(uint32_t group) {
  sync_key_.assign(1, static_cast<uint32_t>(strategy_.synchronization));
  for (uint32_t op : graph_->groups[group]) {
    if (group_of_[op] == group) sync_key_.push_back(ops_[op]->id);
  }
  const std::vector<uint32_t>& servers = strategy_.servers[group];
  sync_key_.insert(sync_key_.end(), servers.begin(), servers.end());
  std::unique_ptr<SyncBlock>& block = sync_cache_[classes_.of_group[group]][sync_key_];
  if (block == nullptr) {
    block = Spare(&spare_syncs_);
    for (uint32_t op : graph_->groups[group]) {
      members_[op] = {ops_[op]->split, ops_[op]->config.devices};
    }
    sync_builder_.Build(group, members_, strategy_.synchronization, servers, block.get());
    cached_words_ += WordsOf(*block) + sync_key_.size();
  }
  return block.get();
}

void Simulator::FindAll(absl::Span<const OpConfig> configs) {
  for (uint32_t op = 0; op < n_; ++op) ops_[op] = FindOp(op, configs[op]);
  for (uint32_t edge = 0; edge < e_; ++edge) edges_[edge] = FindEdge(edge);
  for (uint32_t group = 0; group < g_; ++group) syncs_[group] = FindSync(group);
}

// Forgets all states and blocks but the current strategy's, and all overlaps, if they are too many.
void Simulator::FlushFullCaches() {
  if (cached_words_ + splits_.overlap_words() <= kCachedWordsMax) return;
  splits_.ForgetOverlaps();
  const std::vector<OpConfig> configs = strategy().ops;
  for (auto& cache : op_cache_) Forget(&cache, &spare_ops_);
  for (auto& cache : edge_cache_) Forget(&cache, &spare_edges_);
  for (auto& cache : sync_cache_) Forget(&cache, &spare_syncs_);
  cached_words_ = 0;
  FindAll(configs);
  for (uint32_t op = 0; op < n_; ++op) LinkSuccessors(op);
}

void Simulator::AddCompute(uint32_t op, const OpState& state, int sign) {
  const uint32_t micro_batch = graph_->ops[op].micro_batch;
  for (uint32_t part = 0; part < state.split->parts; ++part) {
    const uint32_t device = state.config.devices[part];
    compute_load_[device] += sign * (state.forward[part] + state.backward[part]);
    AddMemory(device, micro_batch, sign * state.split->output_bytes[part]);
  }
}

void Simulator::AddEdge(uint32_t edge, const EdgeBlock& block, int sign) {
  const uint32_t micro_batch = graph_->ops[connections_[edge].to].micro_batch;
  for (const Load& load : block.loads) comm_load_[load.resource] += sign * load.busy;
  for (const auto& [device, bytes] : block.received) AddMemory(device, micro_batch, sign * bytes);
  transfer_bytes_ += sign * block.bytes;
}

void Simulator::AddSync(const SyncBlock& sync, int sign) {
  for (const Load& load : sync.loads) comm_load_[load.resource] += sign * load.busy;
  const double copies = 2 + options_.optimizer_floats + strategy_.staleness;
  for (const auto& [device, bytes] : sync.held) {
    memory_[device] += sign * static_cast<int64_t>(static_cast<double>(bytes) * copies);
  }
  sync_bytes_ += sign * sync.bytes;
}

// Edges, groups and operators that these changes touch, each once.
void Simulator::CollectTouched(absl::Span<const Change> changes,
                               absl::Span<const ServerChange> servers) {
  touched_edges_.clear();
  touched_groups_.clear();
  touched_ops_.clear();
  const auto add = [this](uint32_t id, uint8_t bit, std::vector<uint32_t>* into) {
    if ((mark_[id] & bit) != 0) return;
    mark_[id] |= bit;
    into->push_back(id);
  };
  for (const Change& change : changes) {
    add(change.op, 1, &touched_ops_);
    if (group_of_[change.op] != UINT32_MAX) add(group_of_[change.op], 2, &touched_groups_);
    for (const EdgeEnds* ends : {&in_, &out_}) {
      for (const EdgeEnd& end : ends->of(change.op)) {
        add(end.edge, 4, &touched_edges_);
        add(end.other, 1, &touched_ops_);
      }
    }
  }
  for (const ServerChange& change : servers) add(change.group, 2, &touched_groups_);
  for (uint32_t id : touched_ops_) mark_[id] = 0;
  for (uint32_t id : touched_edges_) mark_[id] = 0;
  for (uint32_t id : touched_groups_) mark_[id] = 0;
}

bool Simulator::LoadsAllow(Nanos cutoff) const {
  for (size_t i = 0; i < comm_load_.size(); ++i) {
    const Nanos compute = i < compute_load_.size() ? compute_load_[i] : 0;
    if (comm_load_[i] + compute > cutoff) return false;
  }
  return true;
}

void Simulator::SwapOps(absl::Span<const Change> changes) {
  for (const Change& change : changes) {
    const OpState* const before = ops_[change.op];
    const OpState* const now = FindOp(change.op, change.config);
    undo_.ops.emplace_back(change.op, before);
    ops_[change.op] = now;
    AddCompute(change.op, *before, -1);
    AddCompute(change.op, *now, 1);
    for (int i : {0, 1}) {
      hash_[i] ^= absl::HashOf(change.op, before->hash[i]) ^ absl::HashOf(change.op, now->hash[i]);
    }
  }
}

void Simulator::SwapBlocks() {
  for (uint32_t edge : touched_edges_) {
    undo_.edges.emplace_back(edge, edges_[edge]);
    AddEdge(edge, *edges_[edge], -1);
    edges_[edge] = FindEdge(edge);
    AddEdge(edge, *edges_[edge], 1);
  }
  for (uint32_t group : touched_groups_) {
    undo_.groups.emplace_back(group, syncs_[group]);
    AddSync(*syncs_[group], -1);
    syncs_[group] = FindSync(group);
    AddSync(*syncs_[group], 1);
  }
}

Nanos Simulator::Propose(absl::Span<const Change> changes, Nanos cutoff,
                         absl::Span<const ServerChange> servers) {
  CHECK(!pending_) << "Accept or Reject first";
  FlushFullCaches();
  ++counts_.proposed;
  pending_ = true;
  undo_.step = step_;
  undo_.step_known = step_known_;
  undo_.overflow = overflow_;
  undo_.in_flight = in_flight_;
  undo_.placed = false;
  for (int i : {0, 1}) undo_.hash[i] = hash_[i];
  SwapOps(changes);
  SwapServers(servers);
  // Bounds on time say nothing where less overflow may count for more.
  const bool bounded = early_rejection_ && undo_.overflow == 0;
  if (bounded) {
    const Memory& memory = Remembered();
    if (memory.hash[0] == hash_[0] && memory.hash[1] == hash_[1] && memory.at_least > cutoff) {
      ++counts_.remembered;
      return kNever;
    }
    if (*std::max_element(compute_load_.begin(), compute_load_.end()) > cutoff) {
      ++counts_.by_compute;
      return kNever;
    }
    if (PathBound() > cutoff || DeviceBound() > cutoff) {
      ++counts_.by_path;
      return kNever;
    }
  }
  CollectTouched(changes, servers);
  SwapBlocks();
  FindOverflow();
  if (overflow_ > undo_.overflow) {
    ++counts_.by_memory;
    return kNever;
  }
  if (overflow_ < undo_.overflow) cutoff = kNever - 1;
  if (bounded && !LoadsAllow(cutoff)) {
    ++counts_.by_load;
    return kNever;
  }
  undo_.placed = true;
  PlaceTouched();
  step_ = bounded && cutoff != kNever ? SimulateUpTo(cutoff) : Simulate();
  step_known_ = true;
  if (bounded) {
    Remembered() = {{hash_[0], hash_[1]}, step_ == kNever ? cutoff + 1 : step_};
  }
  ++(step_ == kNever ? counts_.aborted : counts_.simulated);
  return step_ <= cutoff ? step_ : kNever;
}

void Simulator::Accept() {
  CHECK(pending_ && undo_.placed && step_ != kNever) << "nothing to accept";
  ForgetUndo();
}

void Simulator::Reject() {
  CHECK(pending_) << "nothing to reject";
  // Last first: an operator may have changed twice.
  for (auto it = undo_.ops.rbegin(); it != undo_.ops.rend(); ++it) {
    AddCompute(it->first, *ops_[it->first], -1);
    AddCompute(it->first, *it->second, 1);
    ops_[it->first] = it->second;
  }
  for (const auto& [edge, old] : undo_.edges) {
    AddEdge(edge, *edges_[edge], -1);
    edges_[edge] = old;
    AddEdge(edge, *old, 1);
  }
  for (const auto& [group, old] : undo_.groups) {
    AddSync(*syncs_[group], -1);
    syncs_[group] = old;
    AddSync(*old, 1);
  }
  TakeServersBack();
  for (int i : {0, 1}) hash_[i] = undo_.hash[i];
  if (undo_.placed) PlaceTouched();
  step_ = undo_.step;
  step_known_ = undo_.step_known;
  overflow_ = undo_.overflow;
  in_flight_ = undo_.in_flight;
  ForgetUndo();
}

void Simulator::ForgetUndo() {
  undo_.ops.clear();
  undo_.edges.clear();
  undo_.groups.clear();
  undo_.servers.clear();
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
  result.in_flight = in_flight_;
  for (uint32_t d = 0; d < memory_.size(); ++d) {
    result.memory_bytes.push_back(MemoryOf(d, in_flight_));
  }
  return result;
}

}  // namespace soapstone::planner
