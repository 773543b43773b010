#include "scheduler/planner/blocks/op_split.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "glog/logging.h"

namespace soapstone::planner {
namespace {

using models::Block;
using models::DimKind;
using models::DimUse;
using models::Range;

int64_t ElementsOf(const models::TensorUse& use, const std::vector<int64_t>& shape,
                   const Block& part) {
  const Block block = models::BlockOf(use, shape, part);
  int64_t elements = 1;
  for (size_t i = 0; i < block.size(); ++i) elements *= block[i].size() * use[i].repeats;
  return elements;
}

// Whether parts along this dimension exchange while they compute.
bool Exchanges(const PlanOp& op, size_t dim) {
  const models::IterationDim& d = op.rule.dims[dim];
  return d.exchanges_statistics || (op.rule.exchanges > 0 && d.kind == DimKind::kParameter);
}

void SetRings(const PlanOp& op, OpSplit* split) {
  uint32_t ring = 1;
  for (size_t d = 0; d < split->degrees.size(); ++d) {
    if (Exchanges(op, d)) ring *= split->degrees[d];
  }
  if (ring == 1) return;
  std::map<std::vector<uint32_t>, std::vector<uint32_t>> rings;
  int64_t statistics = 0;  // of batch norm: a part's mean and variance by channel, summed up
  for (uint32_t part = 0; part < split->parts; ++part) {
    std::vector<uint32_t> key;
    int64_t channels = 1;
    for (size_t d = 0; d < split->degrees.size(); ++d) {
      if (Exchanges(op, d)) continue;
      const uint32_t at = split->IndexAlong(d, part);
      key.push_back(at);
      channels *= split->bounds[d][at + 1] - split->bounds[d][at];
    }
    statistics = 2 * channels * kElementBytes;
    // lstm: all-gather of a step's units; batch norm: all-reduce, which passes n-ths.
    split->exchange_bytes.push_back(op.rule.exchanges > 0
                                        ? split->output_bytes[part] / (op.rule.exchanges + 1)
                                        : statistics / ring);
    rings[key].push_back(part);
  }
  split->exchange_rounds =
      op.rule.exchanges > 0 ? op.rule.exchanges * (ring - 1) : 2 * int64_t{ring - 1};
  for (auto& [key, parts] : rings) split->rings.push_back(std::move(parts));
}

ParamSplit ParamSplitOf(const models::TensorUse& use, const std::vector<int64_t>& shape,
                        const OpSplit& split) {
  ParamSplit result;
  for (size_t t = 0; t < use.size(); ++t) {
    const int64_t side = shape[t] / use[t].repeats;
    result.sections *= use[t].repeats;
    result.sides.push_back(side);
    std::vector<int64_t> begins = {0};
    if (use[t].dim >= 0) {
      const auto& bounds = split.bounds[static_cast<size_t>(use[t].dim)];
      for (size_t i = 1; i + 1 < bounds.size(); ++i) {
        const int64_t begin = models::ReachOf(use[t], {bounds[i], bounds[i + 1]}).begin;
        begins.push_back(std::clamp<int64_t>(begin, begins.back(), side));
      }
    }
    result.blocks *= static_cast<uint32_t>(begins.size());
    result.begins.push_back(std::move(begins));
  }
  for (uint32_t part = 0; part < split.parts; ++part) {
    uint32_t block = 0;
    for (size_t t = 0; t < use.size(); ++t) {
      block *= static_cast<uint32_t>(result.begins[t].size());
      if (use[t].dim >= 0) block += split.IndexAlong(static_cast<size_t>(use[t].dim), part);
    }
    result.block_of_part.push_back(block);
  }
  return result;
}

// What an index along a dimension of a tensor's producer or consumer covers there: `repeats` ranges
// of equal length, `period` apart.
struct Cover {
  Range first;
  int64_t repeats = 1, period = 0;
};

// How one side of an edge divides one dimension of the tensor.
struct Side {
  int dim = -1;  // of the rule; −1: all of the tensor's dimension
  std::vector<Cover> covers;
};

Side SideOf(const DimUse& use, int64_t extent, int64_t offset, const OpSplit& split) {
  Side side = {.dim = use.dim};
  const uint32_t parts = use.dim < 0 ? 1 : split.degrees[static_cast<size_t>(use.dim)];
  const int64_t section = extent / use.repeats;
  for (uint32_t i = 0; i < parts; ++i) {
    Range range = {0, section};
    if (use.dim >= 0) {
      const auto& bounds = split.bounds[static_cast<size_t>(use.dim)];
      const Range reach = models::ReachOf(use, {bounds[i], bounds[i + 1]});
      range.begin = std::clamp<int64_t>(reach.begin, 0, section);
      range.end = std::clamp(reach.end, range.begin, section);
    }
    side.covers.push_back({{range.begin + offset, range.end + offset}, use.repeats, section});
  }
  return side;
}

// Two indexes along one dimension that meet, and where.
struct Meeting {
  uint32_t a = 0, b = 0;
  int64_t begin = 0, end = 0, elements = 0;
  uint32_t place = 0;  // equal for equal ranges and elements
};

// Covers are in ascending order where each is one range, so that those which meet `a` are
// neighbours: of n and m indexes n + m pairs are looked at, not n·m.
std::vector<Meeting> MeetingsOf(const Side& a, const Side& b) {
  std::vector<Meeting> meetings;
  size_t from = 0;
  for (uint32_t i = 0; i < a.covers.size(); ++i) {
    const Cover& x = a.covers[i];
    const bool single = x.repeats == 1 && b.covers[0].repeats == 1;
    while (single && from < b.covers.size() && b.covers[from].first.end <= x.first.begin) ++from;
    for (size_t j = single ? from : 0; j < b.covers.size(); ++j) {
      const Cover& y = b.covers[j];
      if (single && y.first.begin >= x.first.end) break;
      Meeting met = {i, static_cast<uint32_t>(j), INT64_MAX, 0, 0};
      for (int64_t r = 0; r < x.repeats; ++r) {
        for (int64_t q = 0; q < y.repeats; ++q) {
          const int64_t begin =
              std::max(x.first.begin + r * x.period, y.first.begin + q * y.period);
          const int64_t end = std::min(x.first.end + r * x.period, y.first.end + q * y.period);
          if (begin >= end) continue;
          met.begin = std::min(met.begin, begin);
          met.end = std::max(met.end, end);
          met.elements += end - begin;
        }
      }
      if (met.elements > 0) meetings.push_back(met);
    }
  }
  return meetings;
}

// Numbers the places of a dimension's meetings. Returns how many there are.
uint32_t NumberPlaces(std::vector<Meeting>* meetings) {
  const auto place = [](const Meeting& met) {
    return std::tuple(met.begin, met.end, met.elements);
  };
  const auto is_before = [&](const Meeting& x, const Meeting& y) { return place(x) < place(y); };
  uint32_t places = 0;
  if (std::is_sorted(meetings->begin(), meetings->end(), is_before)) {  // as they nearly always are
    for (size_t i = 0; i < meetings->size(); ++i) {
      Meeting& met = (*meetings)[i];
      if (i == 0 || is_before((*meetings)[i - 1], met)) ++places;
      met.place = places - 1;
    }
    return places;
  }
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> numbers;
  for (Meeting& met : *meetings) {
    const auto [it, is_new] = numbers.try_emplace(place(met), places);
    if (is_new) ++places;
    met.place = it->second;
  }
  return places;
}

// Goes through the tensor's dimensions, choosing a meeting in each, and at the end through the
// rules' dimensions that do not divide the tensor.
class OverlapFinder {
 public:
  OverlapFinder(const OpSplit& a, const OpSplit& b) : a_(a), b_(b) {
    index_a_.assign(a.degrees.size(), kFree);
    index_b_.assign(b.degrees.size(), kFree);
  }
  void AddDimension(const Side& a, const Side& b) {
    meetings_.push_back(MeetingsOf(a, b));
    places_.push_back(NumberPlaces(&meetings_.back()));
    sides_.emplace_back(a.dim, b.dim);
  }
  std::vector<Overlap> Find() {
    Descend(0, 1, 0);
    // By (producer, consumer): by counting, stably, first by the latter.
    OrderBy(b_.parts, [](const Overlap& overlap) { return overlap.consumer; });
    OrderBy(a_.parts, [](const Overlap& overlap) { return overlap.producer; });
    // Of each producer regions count from 0, in the order of their first consumers.
    std::vector<uint32_t> number(regions_.size(), 0), counted_for(regions_.size(), kFree);
    uint32_t next = 0;
    for (size_t i = 0; i < found_.size(); ++i) {
      Overlap& overlap = found_[i];
      if (i == 0 || found_[i - 1].producer != overlap.producer) next = 0;
      if (counted_for[overlap.region] != overlap.producer) {
        counted_for[overlap.region] = overlap.producer;
        number[overlap.region] = next++;
      }
      overlap.region = number[overlap.region];
    }
    return std::move(found_);
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  static bool Take(int dim, uint32_t index, std::vector<uint32_t>* indexes) {
    if (dim < 0) return false;
    uint32_t& at = (*indexes)[static_cast<size_t>(dim)];
    if (at != kFree) return false;
    at = index;
    return true;
  }
  static bool Agrees(int dim, uint32_t index, const std::vector<uint32_t>& indexes) {
    if (dim < 0) return true;
    const uint32_t at = indexes[static_cast<size_t>(dim)];
    return at == kFree || at == index;
  }

  template <typename Key>
  void OrderBy(uint32_t keys, const Key& key) {
    begins_.assign(keys + 1, 0);
    for (const Overlap& overlap : found_) ++begins_[key(overlap) + 1];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    ordered_.resize(found_.size());
    for (const Overlap& overlap : found_) ordered_[begins_[key(overlap)]++] = overlap;
    found_.swap(ordered_);
  }

  // region: of the places in the dimensions before, all combinations numbered.
  void Descend(size_t dim, int64_t elements, uint64_t region) {
    if (dim == meetings_.size()) return Expand(elements, region);
    for (const Meeting& met : meetings_[dim]) {
      const auto [da, db] = sides_[dim];
      if (!Agrees(da, met.a, index_a_) || !Agrees(db, met.b, index_b_)) continue;
      const bool took_a = Take(da, met.a, &index_a_);
      const bool took_b = Take(db, met.b, &index_b_);
      Descend(dim + 1, elements * met.elements, region * places_[dim] + met.place);
      if (took_a) index_a_[static_cast<size_t>(da)] = kFree;
      if (took_b) index_b_[static_cast<size_t>(db)] = kFree;
    }
  }

  static void PartsAt(const OpSplit& split, const std::vector<uint32_t>& indexes, size_t dim,
                      uint32_t part, std::vector<uint32_t>* parts) {
    if (dim == indexes.size()) return parts->push_back(part);
    const uint32_t degree = split.degrees[dim];
    if (indexes[dim] != kFree) {
      return PartsAt(split, indexes, dim + 1, part * degree + indexes[dim], parts);
    }
    for (uint32_t i = 0; i < degree; ++i) {
      PartsAt(split, indexes, dim + 1, part * degree + i, parts);
    }
  }

  void Expand(int64_t elements, uint64_t combination) {
    producers_.clear();
    consumers_.clear();
    PartsAt(a_, index_a_, 0, 0, &producers_);
    PartsAt(b_, index_b_, 0, 0, &consumers_);
    const auto next = static_cast<uint32_t>(regions_.size());
    const uint32_t region = regions_.try_emplace(combination, next).first->second;
    for (uint32_t p : producers_) {
      for (uint32_t k : consumers_) {
        found_.push_back(
            {.producer = p, .consumer = k, .region = region, .bytes = elements * kElementBytes});
      }
    }
  }

  const OpSplit& a_;
  const OpSplit& b_;
  std::vector<std::vector<Meeting>> meetings_;
  std::vector<std::pair<int, int>> sides_;
  std::vector<uint32_t> index_a_, index_b_;
  std::vector<uint32_t> producers_, consumers_;
  std::vector<uint64_t> places_;                     // by dimension: how many
  absl::flat_hash_map<uint64_t, uint32_t> regions_;  // of all combinations that were met
  std::vector<Overlap> found_, ordered_;
  std::vector<uint32_t> begins_;
};

// Of a message over a path that carries its bytes through all links at once.
Nanos MessageTime(const Machine& machine, uint32_t from, uint32_t to, int64_t bytes) {
  Nanos latency = 0, slowest = 0;
  for (uint32_t link : machine.Path(from, to)) {
    const Link& l = machine.links()[link];
    latency += l.latency_ns;
    const double busy = static_cast<double>(bytes) / l.bytes_per_second * kSecond;
    slowest = std::max(slowest, l.message_ns + static_cast<Nanos>(busy));
  }
  return latency + slowest;
}

}  // namespace

uint32_t OpSplit::IndexAlong(size_t dim, uint32_t part) const {
  for (size_t d = degrees.size() - 1; d > dim; --d) part /= degrees[d];
  return part % degrees[dim];
}

Block OpSplit::BlockOf(uint32_t part) const {
  Block block(degrees.size());
  for (size_t d = degrees.size(); d-- > 0;) {
    const uint32_t at = part % degrees[d];
    block[d] = {bounds[d][at], bounds[d][at + 1]};
    part /= degrees[d];
  }
  return block;
}

SplitTable::SplitTable(const OpGraph* graph, const Machine* machine, const CostModel* costs,
                       const EquivalenceClasses* classes)
    : graph_(graph), machine_(machine), costs_(costs), classes_(classes) {
  splits_.resize(classes == nullptr ? graph->ops.size() : classes->ops);
  overlaps_.resize(classes == nullptr ? graph->edges.size() : classes->edges);
}

std::unique_ptr<OpSplit> SplitTable::Make(uint32_t op_id, const OpConfig& config) const {
  const PlanOp& op = graph_->ops[op_id];
  auto split = std::make_unique<OpSplit>();
  split->degrees = config.degrees;
  for (size_t d = 0; d < config.degrees.size(); ++d) {
    split->bounds.push_back(BoundariesOf(op.rule.dims[d], config, d));
    split->parts *= config.degrees[d];
  }
  split->costs.resize(machine_->kinds().size());
  for (uint32_t part = 0; part < split->parts; ++part) {
    const Block block = split->BlockOf(part);
    for (uint32_t kind = 0; kind < split->costs.size(); ++kind) {
      const PartCost cost = costs_->CostOf(op, block, kind);
      split->costs[kind].push_back({.forward_ns = std::max<Nanos>(cost.forward_ns, 1),
                                    .backward_ns = std::max<Nanos>(cost.backward_ns, 1)});
    }
    int64_t bytes = 0;
    for (size_t i = 0; i < op.rule.outputs.size(); ++i) {
      bytes += ElementsOf(op.rule.outputs[i], op.shapes.outputs[i].shape, block) * kElementBytes;
    }
    split->output_bytes.push_back(bytes);
  }
  for (size_t i = 0; i < op.rule.params.size(); ++i) {
    split->params.push_back(
        ParamSplitOf(op.rule.params[i], graph_->params[op.params[i]].shape, *split));
  }
  SetRings(op, split.get());
  return split;
}

const OpSplit* SplitTable::Find(uint32_t op, const OpConfig& config) {
  auto& splits = splits_[classes_ == nullptr ? op : classes_->of_op[op]];
  std::unique_ptr<OpSplit>& split = splits[{config.degrees, config.cuts}];
  if (split == nullptr) {
    split = Make(op, config);
    split->id = static_cast<uint32_t>(splits.size()) - 1;
  }
  return split.get();
}

std::vector<Overlap> SplitTable::FindOverlaps(uint32_t edge_id, const OpSplit& a,
                                              const OpSplit& b) const {
  const PlanEdge& edge = graph_->edges[edge_id];
  const PlanOp& from = graph_->ops[edge.from];
  const PlanOp& to = graph_->ops[edge.to];
  const auto& output = from.rule.outputs[edge.output];
  const auto& input = to.rule.inputs[edge.input];
  const auto& output_shape = from.shapes.outputs[edge.output].shape;
  const auto& input_shape = to.shapes.inputs[edge.input].shape;
  CHECK_EQ(output.size(), input.size()) << from.name << " to " << to.name;
  OverlapFinder finder(a, b);
  for (size_t i = 0; i < output.size(); ++i) {
    const int64_t offset = edge.offset.empty() ? 0 : edge.offset[i];
    finder.AddDimension(SideOf(output[i], output_shape[i], offset, a),
                        SideOf(input[i], input_shape[i], 0, b));
  }
  return finder.Find();
}

const std::vector<Overlap>& SplitTable::Overlaps(uint32_t edge, const OpSplit& producer,
                                                 const OpSplit& consumer) {
  auto& of_edge = overlaps_[classes_ == nullptr ? edge : classes_->of_edge[edge]];
  auto& overlaps = of_edge[uint64_t{producer.id} << 32 | consumer.id];
  if (overlaps == nullptr) {
    overlaps = std::make_unique<std::vector<Overlap>>(FindOverlaps(edge, producer, consumer));
    overlap_words_ += overlaps->capacity() * sizeof(Overlap) / 4 + 16;
  }
  return *overlaps;
}

void SplitTable::ForgetOverlaps() {
  for (auto& of_edge : overlaps_) of_edge.clear();
  overlap_words_ = 0;
}

std::vector<Nanos> ExchangeTimes(const OpSplit& split, const std::vector<uint32_t>& devices,
                                 const Machine& machine) {
  std::vector<Nanos> times(split.parts, 0);
  for (const std::vector<uint32_t>& ring : split.rings) {
    Nanos slowest = 0;
    for (size_t i = 0; i < ring.size(); ++i) {
      const uint32_t from = devices[ring[i]];
      const uint32_t to = devices[ring[(i + 1) % ring.size()]];
      if (from == to) continue;
      slowest = std::max(slowest, MessageTime(machine, from, to, split.exchange_bytes[ring[i]]));
    }
    for (uint32_t part : ring) times[part] = slowest * split.exchange_rounds;
  }
  return times;
}

}  // namespace soapstone::planner
