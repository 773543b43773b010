#include "scheduler/planner/blocks/block_cache.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"

namespace soapstone::planner {
namespace {

template <typename Block>
size_t WordsOf(const Block& block) {
  return (sizeof(Block) + block.memory.bytes()) / 4 + 16;
}

}  // namespace

template <typename Key, typename T, typename Hash>
std::unique_ptr<T> BlockCache::Found<Key, T, Hash>::New() {
  if (spare.empty()) return std::make_unique<T>();
  std::unique_ptr<T> block = std::move(spare.back());
  spare.pop_back();
  return block;
}

template <typename Key, typename T, typename Hash>
void BlockCache::Found<Key, T, Hash>::Forget() {
  for (auto& of_class : by_class) {
    for (auto& [key, block] : of_class) spare.push_back(std::move(block));
    of_class.clear();
  }
}

size_t BlockCache::ConfigHash::operator()(const OpConfig& config) const {
  return absl::HashOf(config.degrees, config.devices, config.cuts);
}

BlockCache::BlockCache(const ConnectionGraph* connections, const Machine* machine,
                       const CostModel* costs, Options options)
    : connections_(connections),
      machine_(machine),
      options_(options),
      splits_(&connections->graph(), machine, costs, &connections->classes()),
      flow_builder_(machine, {.segment_bytes = options.segment_bytes}),
      edge_builder_(machine, &flow_builder_),
      sync_builder_(&connections->graph(), machine, &flow_builder_,
                    {.rings_by_ranges = options.rings_by_ranges}),
      members_(connections->ops()) {
  ops_.by_class.resize(connections->classes().ops);
  edges_.by_class.resize(connections->edge_classes());
  syncs_.by_class.resize(connections->classes().groups);
}

void BlockCache::SetTimes(OpState* state) const {
  const OpSplit& split = *state->split;
  state->forward.resize(split.parts);
  state->backward.resize(split.parts);
  state->forward_min = state->backward_min = INT64_MAX;
  state->forward_max = state->backward_max = 0;
  const std::vector<Nanos> exchange = ExchangeTimes(split, state->config.devices, *machine_);
  for (uint32_t part = 0; part < split.parts; ++part) {
    const uint32_t kind = machine_->devices()[state->config.devices[part]].kind;
    const Nanos forward = split.costs[kind][part].forward_ns + exchange[part];
    const Nanos backward = split.costs[kind][part].backward_ns + exchange[part];
    state->forward[part] = forward;
    state->backward[part] = backward;
    state->forward_min = std::min(state->forward_min, forward);
    state->forward_max = std::max(state->forward_max, forward);
    state->backward_min = std::min(state->backward_min, backward);
    state->backward_max = std::max(state->backward_max, backward);
  }
}

const OpState* BlockCache::FindOp(uint32_t op, const OpConfig& config) {
  auto& of_class = ops_.by_class[connections_->classes().of_op[op]];
  std::unique_ptr<OpState>& state = of_class[config];
  if (state != nullptr) return state.get();
  state = ops_.New();
  state->config = config;
  state->split = splits_.Find(op, config);
  state->id = static_cast<uint32_t>(of_class.size()) - 1;
  for (uint64_t i : {0, 1}) {
    state->hash[i] = absl::HashOf(i, config.degrees, config.devices, config.cuts);
  }
  SetTimes(state.get());
  words_ += 64 + 6 * size_t{state->split->parts};
  return state.get();
}

const EdgeBlock* BlockCache::FindEdge(uint32_t edge, const OpState& from, const OpState& to) {
  const Connection& connection = connections_->edge(edge);
  std::unique_ptr<EdgeBlock>& block =
      edges_.by_class[connection.equivalence_class][uint64_t{from.id} << 32 | to.id];
  if (block == nullptr) {
    block = edges_.New();
    overlaps_.clear();
    for (uint32_t e : connection.edges) {
      overlaps_.push_back(&splits_.Overlaps(e, *from.split, *to.split));
    }
    edge_builder_.Build(overlaps_, from.config.devices, to.config.devices, connection.gradient,
                        block.get());
    words_ += WordsOf(*block);
  }
  return block.get();
}

const SyncBlock* BlockCache::FindSync(uint32_t group, absl::Span<const OpState* const> ops,
                                      Synchronization synchronization,
                                      const std::vector<uint32_t>& servers) {
  const std::vector<uint32_t>& members = connections_->graph().groups[group];
  sync_key_.assign(1, static_cast<uint32_t>(synchronization));
  for (uint32_t op : members) {
    if (connections_->group_of(op) == group) sync_key_.push_back(ops[op]->id);
  }
  sync_key_.insert(sync_key_.end(), servers.begin(), servers.end());
  std::unique_ptr<SyncBlock>& block =
      syncs_.by_class[connections_->classes().of_group[group]][sync_key_];
  if (block == nullptr) {
    block = syncs_.New();
    for (uint32_t op : members) members_[op] = {ops[op]->split, ops[op]->config.devices};
    sync_builder_.Build(group, members_, synchronization, servers, block.get());
    words_ += WordsOf(*block) + sync_key_.size();
  }
  return block.get();
}

void BlockCache::Clear() {
  splits_.ForgetOverlaps();
  ops_.Forget();
  edges_.Forget();
  syncs_.Forget();
  words_ = held_words_ = 0;
}

}  // namespace soapstone::planner
