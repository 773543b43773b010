#include "scheduler/planner/search/proposals.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "scheduler/planner/search/proportional_split.h"
#include "scheduler/planner/search/stage_shift.h"

namespace soapstone::planner {
namespace {

constexpr uint32_t kRangeMax = 8;
constexpr uint32_t kStagePercent = 30;
constexpr uint32_t kBalancePercent = 25;
constexpr uint32_t kServersPercent = 10, kFollowPercent = 15;
constexpr uint32_t kTogetherPercent = 90;  // of draws in a graph in micro-batches
// Weights beside the speeds: those of one kind times 2^(j/8), −8 ≤ j ≤ 8. A grid, so that splits
// come again and are found in the simulator's tables.
constexpr int kTiltSteps = 8;

bool Chance(RandomSource* random, uint32_t percent) { return random->Below(100) < percent; }

// Whether both divide their samples, or what is their first dimension, in one way.
bool AreAlike(const OpConfig& a, const OpConfig& b) {
  if (a.degrees[0] != b.degrees[0] || a.devices != b.devices) return false;
  const std::vector<int64_t> none;
  return (a.cuts.empty() ? none : a.cuts[0]) == (b.cuts.empty() ? none : b.cuts[0]);
}

}  // namespace

absl::Span<const Change> ProposalGenerator::Draw(const Simulator& now, RandomSource* random) {
  count_ = 0;
  shards_.Clear();
  // As below: walks without servers draw what they would.
  const bool places = shards_.HasChoice(now);
  if (places && Chance(random, kServersPercent)) {
    shards_.Draw(now, random);
    return {};
  }
  // Asked first, so that walks over devices of one kind, and of graphs in one micro-batch, draw
  // what they would without.
  const bool uneven = space_->uneven();
  const bool balance = uneven && Chance(random, kBalancePercent);
  const bool stage = !balance && stages_ && Chance(random, kStagePercent);
  const uint32_t kind = random->Below(100);
  bool even = true;  // what is drawn clears cuts
  if (balance) {
    Balance(now, random);
    even = false;
  } else if (stage) {
    DrawStage(now, random);
  } else if (kind < 10) {
    Scatter(random);
  } else if (kind < 40) {
    Place(Scope::kOp, random);
  } else if (kind < 60) {
    Place(Scope::kGroup, random);
  } else if (kind < 70) {
    Place(Scope::kRange, random);
  } else if (kind < 80) {
    Copy(now, random);
    even = false;
  } else if (kind < 90) {
    Shift(now, static_cast<Scope>(random->Below(3)), random);
    even = false;
  } else {
    ScaleDegree(now, static_cast<Scope>(random->Below(2)), random);
  }
  if (uneven && even && Chance(random, 50)) {
    for (size_t i = 0; i < count_; ++i) {
      CutInProportion(space_->graph().ops[changes_[i].op], space_->speeds(), &changes_[i].config);
    }
  }
  // What is as it was is no change.
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (changes_[i].config == now.config(changes_[i].op)) continue;
    if (kept != i) std::swap(changes_[kept], changes_[i]);
    ++kept;
  }
  count_ = kept;
  if (places && count_ > 0) {
    shards_.Follow(now, {changes_.data(), count_}, Chance(random, kFollowPercent));
  }
  return {changes_.data(), count_};
}

void ProposalGenerator::Select(Scope scope, RandomSource* random) {
  const OpGraph& graph = space_->graph();
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  const auto micro_batches = static_cast<uint32_t>(graph.micro_batches);
  const uint32_t op = random->Below(ops);
  const bool together =
      micro_batches > 1 && scope != Scope::kGroup && Chance(random, kTogetherPercent);
  // Operators of a micro-batch come before those of the next, in one order.
  const uint32_t of_each = together ? ops / micro_batches : ops;
  const uint32_t first = op % of_each;
  selected_.clear();
  switch (scope) {
    case Scope::kOp:
      selected_.push_back(first);
      break;
    case Scope::kGroup: {
      const std::vector<uint32_t>& group = graph.groups[graph.ops[op].group];
      selected_.assign(group.begin(), group.end());
      break;
    }
    case Scope::kRange: {
      const uint32_t end = std::min(of_each, first + 2 + random->Below(kRangeMax - 1));
      for (uint32_t i = first; i < end; ++i) selected_.push_back(i);
      break;
    }
  }
  if (!together) return;
  const size_t drawn = selected_.size();
  for (uint32_t m = 1; m < micro_batches; ++m) {
    for (size_t i = 0; i < drawn; ++i) selected_.push_back(selected_[i] + m * of_each);
  }
}

// An operator and all that divide their first dimension as it does; or those of them which are
// neighbours in the graph's order.
void ProposalGenerator::SelectAlike(const Simulator& now, RandomSource* random) {
  const auto ops = static_cast<uint32_t>(space_->graph().ops.size());
  const uint32_t op = random->Below(ops);
  const bool all = Chance(random, 50);
  const auto alike = [&](uint32_t other) { return AreAlike(now.config(op), now.config(other)); };
  uint32_t begin = op;
  uint32_t end = op + 1;
  while (begin > 0 && (all || alike(begin - 1))) --begin;
  while (end < ops && (all || alike(end))) ++end;
  selected_.clear();
  for (uint32_t i = begin; i < end; ++i) {
    if (alike(i)) selected_.push_back(i);
  }
}

OpConfig* ProposalGenerator::Add(uint32_t op) {
  if (count_ == changes_.size()) changes_.emplace_back();
  Change& change = changes_[count_++];
  change.op = op;
  return &change.config;
}

void ProposalGenerator::AddIfLegal(uint32_t op, const OpConfig& like) {
  if (!space_->Holds(op, like.degrees)) return;
  OpConfig* config = Add(op);
  *config = like;
  if (config->cuts.empty()) return;
  const PlanOp& its = space_->graph().ops[op];
  if (!CheckConfig(its, *config, space_->devices()).ok()) config->cuts.clear();
  DropEvenCuts(its, config);
}

void ProposalGenerator::Scatter(RandomSource* random) {
  Select(Scope::kOp, random);
  space_->DrawScattered(selected_[0], random, &drawn_);
  for (const uint32_t op : selected_) AddIfLegal(op, drawn_);
}

void ProposalGenerator::Place(Scope scope, RandomSource* random) {
  Select(scope, random);
  space_->DrawBlock(selected_[0], random, &drawn_);
  // Operators of a range differ in their dimensions: those which this does not suit split their
  // samples instead.
  for (uint32_t op : selected_) {
    if (space_->Holds(op, drawn_.degrees)) {
      *Add(op) = drawn_;
    } else if (scope == Scope::kRange) {
      OpConfig config = drawn_;
      config.degrees.assign(space_->graph().ops[op].rule.dims.size(), 1);
      config.degrees[0] = static_cast<uint32_t>(drawn_.devices.size());
      AddIfLegal(op, config);
    }
  }
}

void ProposalGenerator::Copy(const Simulator& now, RandomSource* random) {
  Select(Chance(random, 50) ? Scope::kOp : Scope::kGroup, random);
  const OpGraph& graph = space_->graph();
  const PlanOp& first = graph.ops[selected_[0]];
  const auto edges = static_cast<uint32_t>(first.in.size() + first.out.size());
  if (edges == 0) return;
  const uint32_t draw = random->Below(edges);
  const uint32_t neighbour = draw < first.in.size()
                                 ? graph.edges[first.in[draw]].from
                                 : graph.edges[first.out[draw - first.in.size()]].to;
  drawn_ = now.config(neighbour);
  if (!space_->uneven()) drawn_.cuts.clear();
  if (!space_->Holds(selected_[0], drawn_.degrees)) {
    drawn_.degrees.assign(first.rule.dims.size(), 1);
    drawn_.degrees[0] = static_cast<uint32_t>(drawn_.devices.size());
    drawn_.cuts.resize(std::min<size_t>(drawn_.cuts.size(), 1));
    if (!drawn_.cuts.empty()) drawn_.cuts.resize(drawn_.degrees.size());
  }
  for (uint32_t op : selected_) AddIfLegal(op, drawn_);
}

// At the first boundary that is met from a group drawn on.
void ProposalGenerator::DrawStage(const Simulator& now, RandomSource* random) {
  const OpGraph& graph = space_->graph();
  const auto groups = static_cast<uint32_t>(graph.groups.size());
  StageShift shift = {.boundary = 1 + random->Below(groups),
                      .later = Chance(random, 50),
                      .groups = 1 + random->Below(kStageShiftMax)};
  while (shift.boundary < groups && !IsStageBoundary(graph, now, shift.boundary)) ++shift.boundary;
  if (shift.boundary >= groups) return;
  ShiftStage(*space_, now, shift, &changes_);
  count_ = changes_.size();
}

void ProposalGenerator::Shift(const Simulator& now, Scope scope, RandomSource* random) {
  Select(scope, random);
  const uint32_t devices = space_->devices();
  if (devices < 2) return;
  // By any number, or two devices change places.
  const bool swap = Chance(random, 30);
  const uint32_t a = random->Below(devices);
  const uint32_t by = 1 + random->Below(devices - 1);
  const uint32_t b = (a + by) % devices;
  for (uint32_t op : selected_) {
    OpConfig* config = Add(op);
    *config = now.config(op);
    for (uint32_t& device : config->devices) {
      if (!swap) {
        device = (device + by) % devices;
      } else if (device == a || device == b) {
        device = device == a ? b : a;
      }
    }
  }
}

void ProposalGenerator::ScaleDegree(const Simulator& now, Scope scope, RandomSource* random) {
  Select(scope, random);
  const OpConfig& old = now.config(selected_[0]);
  drawn_.degrees = old.degrees;
  drawn_.cuts.clear();
  uint32_t& degree = drawn_.degrees[random->Below(static_cast<uint32_t>(old.degrees.size()))];
  if (Chance(random, 50)) {
    degree *= 2;
  } else if (degree % 2 == 0) {
    degree /= 2;
  }
  if (!space_->Holds(selected_[0], drawn_.degrees)) return;
  uint32_t parts = 1;
  for (uint32_t d : drawn_.degrees) parts *= d;
  if (parts == old.devices.size()) return;
  // Half of the devices stay, or as many again are drawn around the old ones.
  if (parts < old.devices.size()) {
    drawn_.devices.assign(old.devices.begin(), old.devices.begin() + parts);
  } else {
    space_->DrawDevices(random, &drawn_);
  }
  for (uint32_t op : selected_) AddIfLegal(op, drawn_);
}

void ProposalGenerator::Balance(const Simulator& now, RandomSource* random) {
  const uint32_t scope = random->Below(5);
  if (scope < 2) {
    Select(static_cast<Scope>(scope), random);
  } else if (scope < 4) {
    SelectAlike(now, random);
  } else {
    selected_.resize(space_->graph().ops.size());
    std::iota(selected_.begin(), selected_.end(), 0);
  }
  const uint32_t how = random->Below(3);
  if (how == 0) return ShiftBoundary(now, random);
  weights_ = space_->speeds();
  if (how == 1) {
    const std::vector<Device>& devices = space_->machine().devices();
    const uint32_t kind = devices[random->Below(space_->devices())].kind;
    const int step = static_cast<int>(random->Below(2 * kTiltSteps + 1)) - kTiltSteps;
    const double factor = std::exp2(static_cast<double>(step) / kTiltSteps);
    for (uint32_t d = 0; d < devices.size(); ++d) {
      if (devices[d].kind == kind) weights_[d] *= factor;
    }
  }
  for (uint32_t op : selected_) {
    if (now.config(op).devices.size() == 1) continue;
    OpConfig* config = Add(op);
    *config = now.config(op);
    CutInProportion(space_->graph().ops[op], weights_, config);
  }
}

// By a power of two of units, in all that are selected and have this boundary at the same place.
void ProposalGenerator::ShiftBoundary(const Simulator& now, RandomSource* random) {
  const OpConfig& first = now.config(selected_[0]);
  const uint32_t dim = random->Below(static_cast<uint32_t>(first.degrees.size()));
  const uint32_t degree = first.degrees[dim];
  const models::IterationDim& along = space_->graph().ops[selected_[0]].rule.dims[dim];
  if (degree == 1) return;
  const uint32_t boundary = 1 + random->Below(degree - 1);
  const auto units = static_cast<uint32_t>(along.extent / along.unit);
  const int64_t by = int64_t{1} << random->Below(static_cast<uint32_t>(std::bit_width(units / 2)));
  const int64_t delta = (Chance(random, 50) ? by : -by) * along.unit;
  const int64_t from = BoundariesOf(along, first, dim)[boundary];
  for (uint32_t op : selected_) {
    const OpConfig& old = now.config(op);
    const PlanOp& its = space_->graph().ops[op];
    if (dim >= old.degrees.size() || old.degrees[dim] != degree) continue;
    std::vector<int64_t> bounds = BoundariesOf(its.rule.dims[dim], old, dim);
    if (bounds[boundary] != from || delta % its.rule.dims[dim].unit != 0) continue;
    bounds[boundary] += delta;
    if (bounds[boundary] <= bounds[boundary - 1] || bounds[boundary] >= bounds[boundary + 1]) {
      continue;
    }
    OpConfig* config = Add(op);
    *config = old;
    config->cuts.resize(config->degrees.size());
    config->cuts[dim].assign(bounds.begin() + 1, bounds.end() - 1);
    DropEvenCuts(its, config);
  }
}

}  // namespace soapstone::planner
