#include "scheduler/planner/searchers/domain_bounds.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"
#include "scheduler/planner/cost/no_costs.h"

namespace soapstone::planner {
namespace {

constexpr Nanos kUnbound = -(int64_t{1} << 50);  // of sums: says nothing
constexpr Nanos kLargest = int64_t{1} << 60;
constexpr size_t kCombinationsMax = 4096;  // of a group's configurations

}  // namespace

size_t PartialBounds::TableBytes(const Space& space) {
  std::vector<size_t> sizes;
  for (uint32_t op = 0; op < space.graph().ops.size(); ++op) {
    sizes.push_back(space.Configs(op).size());
  }
  size_t bytes = 0;
  for (const PlanEdge& edge : space.graph().edges) {
    bytes += 3 * sizeof(Nanos) * sizes[edge.from] * sizes[edge.to];
  }
  return bytes;
}

PartialBounds::PartialBounds(const Space* space, const CostModel& costs, Synchronization way,
                             const SearchOptions& options)
    : space_(*space), graph_(space->graph()), options_(options), devices_(space->devices()) {
  const size_t n = graph_.ops.size();
  for (uint32_t op = 0; op < n; ++op) configs_.push_back(space->Configs(op));
  SplitTable splits(&graph_, &space->machine(), &costs);
  for (uint32_t op = 0; op < n; ++op) FillOp(op, &splits);
  for (uint32_t edge = 0; edge < graph_.edges.size(); ++edge) FillEdge(edge);
  for (uint32_t op = 0; op < n; ++op) {
    tail_.emplace_back(configs_[op].size(), 0);
    apply_.emplace_back(configs_[op].size(), 0);
  }
  groups_.resize(graph_.groups.size());
  for (uint32_t group = 0; group < groups_.size(); ++group) FillGroup(group, way);
  f_ = t_ = g_ = r_ = forward_max_;
  area_least_.resize(n);
  apply_least_.resize(groups_.size());
}

void PartialBounds::FillOp(uint32_t op, SplitTable* splits) {
  const Machine& machine = space_.machine();
  const size_t count = configs_[op].size();
  std::vector<Nanos> forward(count * devices_, 0), backward(count * devices_, 0);
  std::vector<Nanos> slowest(count, 0), quickest(count, kLargest), area(count, 0);
  for (size_t c = 0; c < count; ++c) {
    const OpConfig& config = configs_[op][c];
    const OpSplit& split = *splits->Find(op, config);
    const std::vector<Nanos> exchanges = ExchangeTimes(split, config.devices, machine);
    for (uint32_t part = 0; part < split.parts; ++part) {
      const uint32_t device = config.devices[part];
      const PartCost& cost = split.costs[machine.devices()[device].kind][part];
      const Nanos exchange = exchanges[part];
      forward[c * devices_ + device] += cost.forward_ns + exchange;
      backward[c * devices_ + device] += cost.backward_ns + exchange;
      slowest[c] = std::max(slowest[c], cost.forward_ns + exchange);
      quickest[c] = std::min(quickest[c], cost.backward_ns + exchange);
      area[c] += cost.forward_ns + cost.backward_ns + 2 * exchange;
    }
  }
  forward_at_.push_back(std::move(forward));
  backward_at_.push_back(std::move(backward));
  forward_max_.push_back(std::move(slowest));
  backward_min_.push_back(std::move(quickest));
  area_.push_back(std::move(area));
}

// A message takes its slowest link's time and all latencies, if nothing else is on its way.
Nanos PartialBounds::MessageTime(uint32_t from, uint32_t to, int64_t bytes) const {
  Nanos latency = 0, slowest = 0;
  for (uint32_t link : space_.machine().Path(from, to)) {
    const Link& l = space_.machine().links()[link];
    latency += l.latency_ns;
    const double streamed = static_cast<double>(bytes) / l.bytes_per_second * kSecond;
    // One less: the simulator may have rounded down where this rounds up.
    slowest = std::max(slowest, l.message_ns + static_cast<Nanos>(streamed) - 1);
  }
  return latency + slowest;
}

// Of the part that is last, whichever it is, the slowest of those it sets free:
//   min over parts p of max over q that p overlaps of message(p, q) + time(q)
// from producers to consumers, or back. Parts of a configuration of Space::Configs are on distinct
// devices, so that times are by device.
Nanos PartialBounds::LeastStep(const std::vector<Overlap>& overlaps, const OpConfig& from,
                               const OpConfig& to, const Nanos* times, bool forward) {
  scratch_.assign(forward ? from.devices.size() : to.devices.size(), kUnbound);
  for (const Overlap& o : overlaps) {
    const uint32_t producer = from.devices[o.producer];
    const uint32_t consumer = to.devices[o.consumer];
    const uint32_t at = forward ? consumer : producer;
    Nanos time = times[at];
    if (producer != consumer) {
      time += forward ? MessageTime(producer, consumer, o.bytes)
                      : MessageTime(consumer, producer, o.bytes);
    }
    Nanos& most = scratch_[forward ? o.producer : o.consumer];
    most = std::max(most, time);
  }
  return *std::min_element(scratch_.begin(), scratch_.end());
}

void PartialBounds::FillEdge(uint32_t edge) {
  const PlanEdge& e = graph_.edges[edge];
  EdgeTable table = {.gradient = e.gradient};
  for (size_t x = 0; x < configs_[e.from].size(); ++x) {
    if (Stopped()) return;
    const OpConfig& from = configs_[e.from][x];
    // Its own table of splits, so that overlaps of all pairs are not kept.
    const NoCosts none;
    SplitTable splits(&graph_, &space_.machine(), &none);
    for (size_t y = 0; y < configs_[e.to].size(); ++y) {
      const OpConfig& to = configs_[e.to][y];
      const std::vector<Overlap>& overlaps =
          splits.Overlaps(edge, *splits.Find(e.from, from), *splits.Find(e.to, to));
      const Nanos forward =
          LeastStep(overlaps, from, to, forward_at_[e.to].data() + y * devices_, true);
      const Nanos backward =
          e.gradient
              ? LeastStep(overlaps, from, to, backward_at_[e.from].data() + x * devices_, false)
              : kUnbound;
      table.forward.push_back(forward);
      table.backward.push_back(backward);
      table.both.push_back(forward + backward);
    }
  }
  edges_.push_back(std::move(table));
}

void PartialBounds::FillGroup(uint32_t group, Synchronization way) {
  const std::vector<uint32_t>& ops = graph_.groups[group];
  GroupTable& table = groups_[group];
  size_t combinations = 1;
  for (uint32_t op : ops) {
    if (graph_.ops[op].params.empty()) return;
    table.strides.push_back(combinations);
    combinations *= configs_[op].size();
    if (combinations > kCombinationsMax) return;
  }
  SyncTails tails(&graph_, group, space_.machine(), options_.simulator);
  for (uint32_t op : ops) {
    std::fill(tail_[op].begin(), tail_[op].end(), kLargest);
    std::fill(apply_[op].begin(), apply_[op].end(), kLargest);
  }
  for (size_t i = 0; i < combinations; ++i) {
    if (Stopped()) return;
    std::vector<const OpConfig*> chosen;
    for (size_t m = 0; m < ops.size(); ++m) {
      chosen.push_back(&configs_[ops[m]][i / table.strides[m] % configs_[ops[m]].size()]);
    }
    table.bounds.push_back(tails.Find(chosen, way));
    const SyncBounds& bounds = table.bounds.back();
    Nanos sum = 0;
    for (Nanos apply : bounds.apply) sum += apply;
    table.apply_sum.push_back(sum);
    for (size_t m = 0; m < ops.size(); ++m) {
      const size_t c = i / table.strides[m] % configs_[ops[m]].size();
      tail_[ops[m]][c] = std::min(tail_[ops[m]][c], bounds.tail[m]);
      apply_[ops[m]][c] = std::min(apply_[ops[m]][c], sum);
    }
  }
}

void PartialBounds::FindLoads(const Domains& domains) {
  load_.assign(devices_, 0);
  area_sum_ = 0;
  for (uint32_t op = 0; op < domains.size(); ++op) {
    Nanos least = kLargest;
    for (uint32_t c : domains[op]) least = std::min(least, area_[op][c]);
    area_least_[op] = least;
    area_sum_ += least;
    if (domains[op].size() > 1) continue;
    const size_t at = domains[op][0] * devices_;
    for (uint32_t d = 0; d < devices_; ++d) {
      load_[d] += forward_at_[op][at + d] + backward_at_[op][at + d];
    }
  }
  for (uint32_t group = 0; group < groups_.size(); ++group) {
    const GroupTable& table = groups_[group];
    apply_least_[group] = 0;
    if (table.bounds.empty()) continue;
    const std::vector<uint32_t>& ops = graph_.groups[group];
    size_t combination = 0;
    bool decided = true;
    for (size_t m = 0; m < ops.size(); ++m) {
      Nanos least = kLargest;
      for (uint32_t c : domains[ops[m]]) least = std::min(least, apply_[ops[m]][c]);
      apply_least_[group] = std::max(apply_least_[group], least);
      decided = decided && domains[ops[m]].size() == 1;
      combination += domains[ops[m]][0] * table.strides[m];
    }
    if (decided) {
      apply_least_[group] = table.apply_sum[combination];
      for (uint32_t d = 0; d < devices_; ++d) load_[d] += table.bounds[combination].apply[d];
    }
    area_sum_ += apply_least_[group];
  }
}

// load_ has an operator that is decided; one that is not is added.
bool PartialBounds::LoadsAllow(uint32_t op, uint32_t config, Nanos cutoff) const {
  const uint32_t group = graph_.ops[op].group;
  const GroupTable& table = groups_[group];
  const bool alone = graph_.groups[group].size() == 1 && !table.bounds.empty();
  const Nanos apply = std::max(apply_least_[group], apply_[op][config]);
  const Nanos area = area_sum_ - area_least_[op] - apply_least_[group] + area_[op][config] + apply;
  if (area > static_cast<Nanos>(devices_) * (cutoff - 1)) return false;
  const size_t at = config * devices_;
  for (uint32_t d = 0; d < devices_; ++d) {
    Nanos load = load_[d] + forward_at_[op][at + d] + backward_at_[op][at + d];
    if (alone) load += table.bounds[config].apply[d];
    if (load >= cutoff) return false;
  }
  return true;
}

void PartialBounds::FindPaths(const Domains& domains) {
  const auto n = static_cast<uint32_t>(domains.size());
  for (uint32_t b = 0; b < n; ++b) {
    const size_t columns = configs_[b].size();
    const GroupTable& table = groups_[graph_.ops[b].group];
    for (uint32_t y : domains[b]) {
      f_[b][y] = forward_max_[b][y];
      t_[b][y] = tail_[b][y];
      g_[b][y] = 0;
    }
    // Exact where the whole group is decided.
    if (!table.bounds.empty() && domains[b].size() == 1) {
      const std::vector<uint32_t>& ops = graph_.groups[graph_.ops[b].group];
      size_t combination = 0, self = 0;
      bool decided = true;
      for (size_t m = 0; m < ops.size(); ++m) {
        decided = decided && domains[ops[m]].size() == 1;
        combination += domains[ops[m]][0] * table.strides[m];
        if (ops[m] == b) self = m;
      }
      if (decided) t_[b][domains[b][0]] = table.bounds[combination].tail[self];
    }
    for (uint32_t edge : graph_.ops[b].in) {
      const EdgeTable& e = edges_[edge];
      const uint32_t a = graph_.edges[edge].from;
      for (uint32_t y : domains[b]) {
        Nanos f = kLargest, t = kLargest, g = kLargest;
        for (uint32_t x : domains[a]) {
          const size_t at = x * columns + y;
          f = std::min(f, f_[a][x] + e.forward[at]);
          t = std::min(t, t_[a][x] + e.backward[at]);
          g = std::min(g, g_[a][x] + e.both[at]);
        }
        f_[b][y] = std::max(f_[b][y], f);
        t_[b][y] = std::max(t_[b][y], t);
        g_[b][y] = std::max(g_[b][y], g);
      }
    }
    for (uint32_t y : domains[b]) g_[b][y] = std::max(g_[b][y], f_[b][y] + t_[b][y]);
  }
  for (uint32_t a = n; a-- > 0;) {
    for (uint32_t x : domains[a]) r_[a][x] = backward_min_[a][x];
    for (uint32_t edge : graph_.ops[a].out) {
      if (!graph_.edges[edge].gradient) continue;
      const uint32_t b = graph_.edges[edge].to;
      const size_t columns = configs_[b].size();
      for (uint32_t x : domains[a]) {
        const Nanos* row = edges_[edge].both.data() + x * columns;
        Nanos least = kLargest;
        for (uint32_t y : domains[b]) least = std::min(least, r_[b][y] + row[y]);
        r_[a][x] = std::max(r_[a][x], least);
      }
    }
  }
}

bool PartialBounds::Tighten(Nanos cutoff, Domains* domains,
                            std::vector<std::vector<Nanos>>* bounds) {
  FindLoads(*domains);
  if (area_sum_ > static_cast<Nanos>(devices_) * (cutoff - 1)) return false;
  for (Nanos load : load_) {
    if (load >= cutoff) return false;
  }
  FindPaths(*domains);
  bounds->resize(domains->size());
  for (uint32_t op = 0; op < domains->size(); ++op) {
    std::vector<uint32_t>& domain = (*domains)[op];
    std::vector<Nanos>& left = (*bounds)[op];
    left.clear();
    const bool decided = domain.size() == 1;
    size_t kept = 0;
    for (uint32_t c : domain) {
      const Nanos bound = g_[op][c] + r_[op][c];
      if (bound >= cutoff || (!decided && !LoadsAllow(op, c, cutoff))) continue;
      domain[kept++] = c;
      left.push_back(bound);
    }
    domain.resize(kept);
    if (domain.empty()) return false;
  }
  return true;
}

}  // namespace soapstone::planner
