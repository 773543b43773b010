#include "scheduler/planner/searchers/branch_and_bound.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "scheduler/planner/search/coordinate_descent.h"
#include "scheduler/planner/search/mcmc.h"
#include "scheduler/planner/searchers/annealing_searcher.h"
#include "scheduler/planner/searchers/domain_bounds.h"

namespace soapstone::planner {
namespace {

constexpr size_t kTableBytesMax = size_t{64} << 20;
constexpr uint64_t kNodesUnasked = 1024;     // between two looks at the clock
constexpr double kWalkShare = 0.05;          // of the time, for the walk
constexpr uint64_t kNodesOfProposal = 1000;  // where nodes count: for each a proposal of the walk

double Milliseconds(Nanos ns) { return static_cast<double>(ns) / 1e6; }

absl::StatusOr<SearchResult> Walk(const SearchProblem& problem, const SearchOptions& options) {
  SearchOptions walk = options;
  walk.proposals = std::max<uint64_t>(1, options.proposals / kNodesOfProposal);
  if (options.used) walk.used = [&options] { return options.used() / kWalkShare; };
  return AnnealingSearcher().Search(problem, walk);
}

// The place of the configuration of the space that is most like this one: of equal degrees, with
// most parts on the same devices.
size_t Nearest(const std::vector<OpConfig>& configs, const OpConfig& like) {
  size_t best = 0;
  int64_t most = -1;
  for (size_t i = 0; i < configs.size(); ++i) {
    if (configs[i].degrees != like.degrees) continue;
    int64_t same = 0;
    for (size_t part = 0; part < like.devices.size(); ++part) {
      same += configs[i].devices[part] == like.devices[part] ? 1 : 0;
    }
    if (same <= most) continue;
    most = same;
    best = i;
  }
  return best;
}

// The tree under one way to synchronize.
class Tree {
 public:
  // best: of the space so far; its strategy fits into memory.
  Tree(const SearchProblem& problem, const SearchOptions& options, Synchronization way,
       SearchResult* result)
      : options_(options),
        bounds_(problem.space, *problem.costs, way, options),
        simulator_(&problem.graph(), &problem.machine(), problem.costs, options.simulator),
        result_(*result) {
    Strategy base = result->strategy;
    SetSynchronization(way, &base);
    CHECK(simulator_.SetStrategy(base).ok());
    const size_t n = bounds_.configs().size();
    levels_.resize(n + 1);
    for (const std::vector<OpConfig>& configs : bounds_.configs()) {
      std::vector<uint32_t>& all = levels_[0].domains.emplace_back(configs.size());
      std::iota(all.begin(), all.end(), 0);
    }
  }

  // Whether it came to the end.
  bool Run() {
    if (!bounds_.complete()) return false;
    if (Enter(0)) Descend(0);
    result_.counts += simulator_.counts();
    return !stopped_;
  }

 private:
  struct Level {
    Domains domains;
    std::vector<std::vector<Nanos>> bounds;
    std::vector<std::pair<Nanos, uint32_t>> order;
  };

  static size_t Size(const Domains& domains) {
    size_t size = 0;
    for (const std::vector<uint32_t>& domain : domains) size += domain.size();
    return size;
  }

  bool Enter(size_t depth) {
    if (result_.visited++ % kNodesUnasked == 0) {
      stopped_ = options_.ShouldStop();
      if (options_.progress) {
        options_.progress({result_.visited, options_.proposals, result_.found});
      }
    }
    if (!options_.used && result_.visited > options_.proposals) stopped_ = true;
    if (stopped_) return false;
    Level& level = levels_[depth];
    const size_t before = Size(level.domains);
    const bool open = bounds_.Tighten(result_.found.step_ns, &level.domains, &level.bounds);
    result_.pruned += open ? before - Size(level.domains) : 1;
    return open;
  }

  // The operator whose configurations differ most: by it most is cut off.
  int64_t Choose(const Level& level) const {
    int64_t chosen = -1;
    Nanos widest = -1;
    for (size_t op = 0; op < level.domains.size(); ++op) {
      if (level.domains[op].size() < 2) continue;
      const auto [least, most] =
          std::minmax_element(level.bounds[op].begin(), level.bounds[op].end());
      if (*most - *least <= widest) continue;
      widest = *most - *least;
      chosen = static_cast<int64_t>(op);
    }
    return chosen;
  }

  void Descend(size_t depth) {
    Level& level = levels_[depth];
    const int64_t chosen = Choose(level);
    if (chosen < 0) return Evaluate(level.domains);
    const auto op = static_cast<size_t>(chosen);
    level.order.clear();
    for (size_t i = 0; i < level.domains[op].size(); ++i) {
      level.order.emplace_back(level.bounds[op][i], level.domains[op][i]);
    }
    std::sort(level.order.begin(), level.order.end());
    for (const auto& [bound, config] : level.order) {
      if (bound >= result_.found.step_ns) {
        ++result_.pruned;
        continue;
      }
      levels_[depth + 1].domains = level.domains;
      levels_[depth + 1].domains[op].assign(1, config);
      if (Enter(depth + 1)) Descend(depth + 1);
      if (stopped_) return;
    }
  }

  void Evaluate(const Domains& domains) {
    changes_.clear();
    for (uint32_t op = 0; op < domains.size(); ++op) {
      const OpConfig& config = bounds_.configs()[op][domains[op][0]];
      if (!(config == simulator_.config(op))) changes_.push_back({op, config});
    }
    const Nanos time = simulator_.Propose(changes_, result_.found.step_ns - 1);
    if (time == kNever) return simulator_.Reject();
    simulator_.Accept();
    result_.found = {time, simulator_.Overflow()};
    result_.strategy = simulator_.strategy();
  }

  const SearchOptions& options_;
  PartialBounds bounds_;
  Simulator simulator_;
  SearchResult& result_;
  std::vector<Level> levels_;
  std::vector<Change> changes_;
  bool stopped_ = false;
};

// Of the space, near to what the walk found, and descended from there.
absl::StatusOr<SearchResult> Begin(const SearchProblem& problem, const SearchOptions& options,
                                   const SearchResult& walk) {
  Strategy strategy = walk.strategy;
  strategy.servers.clear();
  for (uint32_t op = 0; op < strategy.ops.size(); ++op) {
    const std::vector<OpConfig> configs = problem.space->Configs(op);
    strategy.ops[op] = configs[Nearest(configs, strategy.ops[op])];
  }
  SearchResult best;
  Simulator simulator(&problem.graph(), &problem.machine(), problem.costs, options.simulator);
  for (const Synchronization way : problem.ways()) {
    SetSynchronization(way, &strategy);
    SOAP_RETURN_IF_ERROR(simulator.SetStrategy(strategy));
    simulator.StepTime();
    DescendByOperator(*problem.space,
                      {.trials = {.stop = [&options] { return options.ShouldStop(); },
                                  .threads = options.threads},
                       .servers = false},
                      &simulator);
    const Score found = {simulator.StepTime(), simulator.Overflow()};
    if (!(found < best.found)) continue;
    best.found = found;
    best.strategy = simulator.strategy();
  }
  return best;
}

// Who keeps what is no part of the tree.
std::string EqualSharesNote(const SearchProblem& problem) {
  const std::vector<Synchronization> ways = problem.ways();
  const bool places = problem.machine().servers().size() > 1 &&
                      std::find(ways.begin(), ways.end(), Synchronization::kServers) != ways.end();
  return places ? "of servers with equal shares of every parameter" : "";
}

}  // namespace

absl::StatusOr<SearchResult> BranchAndBoundSearcher::Search(const SearchProblem& problem,
                                                            const SearchOptions& options) const {
  SOAP_ASSIGN_OR_RETURN(SearchResult walk, Walk(problem, options));
  walk.note = "nothing proved: ";
  if (PartialBounds::TableBytes(*problem.space) > kTableBytesMax) {
    absl::StrAppend(&walk.note, "too many configurations; this is the random walk's plan");
    return walk;
  }
  SOAP_ASSIGN_OR_RETURN(SearchResult best, Begin(problem, options, walk));
  if (best.found.overflow_bytes > 0) {
    absl::StrAppend(&walk.note, "no plan that fits into memory is known");
    return walk;
  }
  bool complete = true;
  for (const Synchronization way : problem.ways()) {
    complete = complete && Tree(problem, options, way, &best).Run();
  }
  best.counts += walk.counts;
  best.best_seed = walk.best_seed;
  best.proved = complete;
  best.note = complete ? EqualSharesNote(problem) : "not proved: stopped by the budget";
  if (!(walk.found < best.found)) return best;
  if (complete) {
    absl::StrAppendFormat(&best.note, "%sthe best of the space takes %.6f ms",
                          best.note.empty() ? "" : "; ", Milliseconds(best.found.step_ns));
  }
  best.found = walk.found;
  best.strategy = walk.strategy;
  best.locally_optimal = walk.locally_optimal;
  return best;
}

}  // namespace soapstone::planner
