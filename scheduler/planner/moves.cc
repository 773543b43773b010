#include "scheduler/planner/moves.h"

#include <algorithm>

namespace soapstone::planner {
namespace {

constexpr uint32_t kRangeMax = 8;

bool Chance(Dice* dice, uint32_t percent) { return dice->Below(100) < percent; }

}  // namespace

absl::Span<const Change> MoveMaker::Draw(const Simulator& now, Dice* dice) {
  count_ = 0;
  const uint32_t kind = dice->Below(100);
  if (kind < 10) {
    Scatter(dice);
  } else if (kind < 40) {
    Place(Scope::kOp, dice);
  } else if (kind < 60) {
    Place(Scope::kGroup, dice);
  } else if (kind < 70) {
    Place(Scope::kRange, dice);
  } else if (kind < 80) {
    Copy(now, dice);
  } else if (kind < 90) {
    Shift(now, static_cast<Scope>(dice->Below(3)), dice);
  } else {
    ScaleDegree(now, static_cast<Scope>(dice->Below(2)), dice);
  }
  // What is as it was is no change.
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (changes_[i].config == now.config(changes_[i].op)) continue;
    if (kept != i) std::swap(changes_[kept], changes_[i]);
    ++kept;
  }
  count_ = kept;
  return {changes_.data(), count_};
}

void MoveMaker::Select(Scope scope, Dice* dice) {
  const OpGraph& graph = space_->graph();
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  const uint32_t op = dice->Below(ops);
  selected_.clear();
  switch (scope) {
    case Scope::kOp:
      selected_.push_back(op);
      break;
    case Scope::kGroup: {
      const std::vector<uint32_t>& group = graph.groups[graph.ops[op].group];
      selected_.assign(group.begin(), group.end());
      break;
    }
    case Scope::kRange: {
      const uint32_t end = std::min(ops, op + 2 + dice->Below(kRangeMax - 1));
      for (uint32_t i = op; i < end; ++i) selected_.push_back(i);
      break;
    }
  }
}

OpConfig* MoveMaker::Add(uint32_t op) {
  if (count_ == changes_.size()) changes_.emplace_back();
  Change& change = changes_[count_++];
  change.op = op;
  return &change.config;
}

void MoveMaker::AddIfLegal(uint32_t op, const OpConfig& like) {
  if (space_->Holds(op, like.degrees)) *Add(op) = like;
}

void MoveMaker::Scatter(Dice* dice) {
  Select(Scope::kOp, dice);
  OpConfig* config = Add(selected_[0]);
  space_->DrawScattered(selected_[0], dice, config);
}

void MoveMaker::Place(Scope scope, Dice* dice) {
  Select(scope, dice);
  space_->DrawBlock(selected_[0], dice, &drawn_);
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

void MoveMaker::Copy(const Simulator& now, Dice* dice) {
  Select(Chance(dice, 50) ? Scope::kOp : Scope::kGroup, dice);
  const OpGraph& graph = space_->graph();
  const PlanOp& first = graph.ops[selected_[0]];
  const auto edges = static_cast<uint32_t>(first.in.size() + first.out.size());
  if (edges == 0) return;
  const uint32_t draw = dice->Below(edges);
  const uint32_t neighbour = draw < first.in.size()
                                 ? graph.edges[first.in[draw]].from
                                 : graph.edges[first.out[draw - first.in.size()]].to;
  drawn_ = now.config(neighbour);
  drawn_.cuts.clear();
  if (!space_->Holds(selected_[0], drawn_.degrees)) {
    drawn_.degrees.assign(first.rule.dims.size(), 1);
    drawn_.degrees[0] = static_cast<uint32_t>(drawn_.devices.size());
  }
  for (uint32_t op : selected_) AddIfLegal(op, drawn_);
}

void MoveMaker::Shift(const Simulator& now, Scope scope, Dice* dice) {
  Select(scope, dice);
  const uint32_t devices = space_->devices();
  if (devices < 2) return;
  // By any number, or two devices change places.
  const bool swap = Chance(dice, 30);
  const uint32_t a = dice->Below(devices);
  const uint32_t by = 1 + dice->Below(devices - 1);
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

void MoveMaker::ScaleDegree(const Simulator& now, Scope scope, Dice* dice) {
  Select(scope, dice);
  const OpConfig& old = now.config(selected_[0]);
  drawn_.degrees = old.degrees;
  drawn_.cuts.clear();
  uint32_t& degree = drawn_.degrees[dice->Below(static_cast<uint32_t>(old.degrees.size()))];
  if (Chance(dice, 50)) {
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
    space_->DrawDevices(dice, &drawn_);
  }
  for (uint32_t op : selected_) AddIfLegal(op, drawn_);
}

}  // namespace soapstone::planner
