#include "scheduler/planner/search/hill_climbing.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "absl/types/span.h"
#include "scheduler/planner/search/proportional_split.h"

namespace soapstone::planner {
namespace {

constexpr uint32_t kReachMax = 2;
constexpr size_t kFew = 8;         // of a kind are asked first
constexpr size_t kKnownMax = 64;   // configurations that a kind goes on from
constexpr size_t kLatestMax = 16;  // of which all of a kind are asked in the end

bool Contains(absl::Span<const OpConfig> configs, const OpConfig& config) {
  return std::find(configs.begin(), configs.end(), config) != configs.end();
}

// Each prefix is spread over all: ends before the middle before the quarters.
std::vector<uint32_t> Spread(const std::vector<uint32_t>& of) {
  std::vector<uint32_t> spread;
  const auto bits = static_cast<uint32_t>(std::bit_width(of.size()));
  for (uint32_t i = 0; i < uint32_t{1} << bits; ++i) {
    uint32_t reversed = 0;
    for (uint32_t b = 0; b < bits; ++b) reversed |= (i >> b & 1) << (bits - 1 - b);
    if (reversed < of.size()) spread.push_back(of[reversed]);
  }
  return spread;
}

// Units are operators that change together. Configurations that are known have no cuts: on unlike
// devices each operator's parts are in proportion to speeds.
class Climber {
 public:
  Climber(const Space& space, const TrialLimits& limits,
          absl::Span<const std::vector<uint32_t>> units, Simulator* simulator)
      : space_(space), units_(units), simulator_(*simulator), trials_(simulator, limits) {
    std::map<std::pair<size_t, size_t>, std::vector<uint32_t>> kinds;
    for (uint32_t unit = 0; unit < units.size(); ++unit) {
      const PlanOp& op = space.graph().ops[units[unit][0]];
      kinds[{op.what.index(), op.rule.dims.size()}].push_back(unit);
    }
    for (const auto& [kind, its] : kinds) kinds_.push_back(Spread(its));
    std::stable_sort(kinds_.begin(), kinds_.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
  }

  bool Run() {
    for (uint32_t reach = 1; reach <= kReachMax && !trials_.stopped(); ++reach) {
      for (bool improved = true; improved && !trials_.stopped();) {
        improved = false;
        for (const std::vector<uint32_t>& kind : kinds_) improved |= Climb(kind, reach);
      }
    }
    return !trials_.stopped();
  }

 private:
  bool Climb(const std::vector<uint32_t>& kind, uint32_t reach) {
    bool improved = false;
    std::vector<OpConfig> known;
    for (const uint32_t unit : kind) {
      OpConfig config = simulator_.config(units_[unit][0]);
      config.cuts.clear();
      if (known.size() < kLatestMax && !Contains(known, config)) known.push_back(std::move(config));
    }
    std::vector<OpConfig> seen = known;
    const size_t few = std::min(kind.size(), kFew);
    for (size_t at = 0; at < known.size() && known.size() < kKnownMax; ++at) {
      for (OpConfig& next : ConfigsNear(known[at], reach)) {
        if (Contains(seen, next)) continue;
        seen.push_back(next);
        if (!TryOn({kind.data(), few}, next)) continue;
        improved = true;
        TryOn({kind.data() + few, kind.size() - few}, next);
        known.push_back(std::move(next));
      }
    }
    if (known.size() > kLatestMax) known.erase(known.begin(), known.end() - kLatestMax);
    for (bool again = known.size() > 1; again && !trials_.stopped();) {
      again = false;
      for (const OpConfig& config : known) again |= TryOn(kind, config);
      improved |= again;
    }
    return improved;
  }

  // Whether any of them is better with it; those keep it.
  bool TryOn(absl::Span<const uint32_t> units, const OpConfig& like) {
    return trials_.Run(units.size(),
                       [&](const Simulator& now, size_t at, Trials::Proposal* proposal) {
                         const std::vector<uint32_t>& ops = units_[units[at]];
                         if (!space_.Holds(ops[0], like.degrees)) return;
                         for (const uint32_t op : ops) {
                           if (!space_.Holds(op, like.degrees)) continue;
                           OpConfig config = like;
                           if (space_.uneven())
                             CutInProportion(space_.graph().ops[op], space_.speeds(), &config);
                           if (!(config == now.config(op)))
                             proposal->changes.push_back({op, std::move(config)});
                         }
                       });
  }

  const Space& space_;
  const absl::Span<const std::vector<uint32_t>> units_;
  const Simulator& simulator_;
  std::vector<std::vector<uint32_t>> kinds_;  // units of each, spread
  Trials trials_;
};

}  // namespace

std::vector<OpConfig> ConfigsNear(OpConfig config, uint32_t reach) {
  const size_t dims = config.degrees.size();
  std::vector<OpConfig> near = {std::move(config)};
  size_t at = 0;
  for (uint32_t move = 0; move < reach; ++move) {
    for (const size_t end = near.size(); at < end; ++at) {
      for (size_t from = 0; from < dims; ++from) {
        const uint32_t degree = near[at].degrees[from];
        if (degree == 1) continue;
        uint32_t factor = 2;
        while (degree % factor != 0) ++factor;
        for (size_t to = 0; to < dims; ++to) {
          OpConfig next = near[at];
          next.degrees[from] /= factor;
          next.degrees[to] *= factor;
          if (!Contains(near, next)) near.push_back(std::move(next));
        }
      }
    }
  }
  return near;
}

bool ClimbByOperator(const Space& space, const TrialLimits& limits, Simulator* simulator) {
  std::vector<std::vector<uint32_t>> units;
  for (uint32_t op = 0; op < space.graph().ops.size(); ++op) units.push_back({op});
  return Climber(space, limits, units, simulator).Run();
}

bool ClimbByGroup(const Space& space, const TrialLimits& limits, Simulator* simulator) {
  std::vector<std::vector<uint32_t>> units;
  for (const std::vector<uint32_t>& group : space.graph().groups) {
    if (!group.empty()) units.push_back(group);
  }
  return Climber(space, limits, units, simulator).Run();
}

}  // namespace soapstone::planner
