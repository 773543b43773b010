#include "scheduler/planner/additive/elimination.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "glog/logging.h"

namespace soapstone::planner {
namespace {

constexpr Nanos kInfinite = std::numeric_limits<Nanos>::max();
constexpr uint64_t kStepsUnasked = 1024;

// The graph while it shrinks. links_[i][k] is the table of (i, k), rows by the lesser of the two.
class Eliminator {
 public:
  Eliminator(const PairwiseProblem& problem, const EliminationOptions& options)
      : options_(options), nodes_(problem.nodes), neighbours_(problem.nodes.size()) {
    for (const PairwiseProblem::Edge& edge : problem.edges) {
      CHECK(edge.a != edge.b);
      const bool forward = edge.a < edge.b;
      Table table = forward ? edge.costs : Table(edge.costs.size());
      const size_t rows = nodes_[edge.a].size();
      const size_t columns = nodes_[edge.b].size();
      CHECK_EQ(edge.costs.size(), rows * columns);
      for (size_t r = 0; r < rows && !forward; ++r) {
        for (size_t c = 0; c < columns; ++c) table[c * rows + r] = edge.costs[r * columns + c];
      }
      Merge(std::min(edge.a, edge.b), std::max(edge.a, edge.b), std::move(table));
    }
  }

  PairwiseMinimum Run() {
    std::vector<bool> gone(nodes_.size(), false);
    for (bool more = true; more;) {
      more = false;
      for (uint32_t j = 0; j < nodes_.size(); ++j) {
        if (gone[j] || neighbours_[j].size() > 2) continue;
        if (Stopped()) return Unfinished();
        Eliminate(j);
        gone[j] = more = true;
      }
    }
    PairwiseMinimum result;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (!gone[i]) residual_.push_back(i);
    }
    result.residual = static_cast<uint32_t>(residual_.size());
    result.choice.assign(nodes_.size(), 0);
    result.exact = Enumerate(&result.choice);
    if (stopped_ && best_cost_ == kInfinite) return Unfinished();
    for (auto it = eliminated_.rbegin(); it != eliminated_.rend(); ++it) {
      const size_t row = it->around.empty() ? 0 : result.choice[it->around[0]];
      const size_t at = it->around.size() < 2
                            ? row
                            : row * nodes_[it->around[1]].size() + result.choice[it->around[1]];
      result.choice[it->node] = it->best[at];
    }
    return result;
  }

 private:
  using Table = std::vector<Nanos>;
  bool Stopped() {
    stopped_ = stopped_ || (options_.stop && options_.stop());
    return stopped_;
  }
  PairwiseMinimum Unfinished() const {
    return {.choice = std::vector<uint32_t>(nodes_.size(), 0), .complete = false};
  }

  struct Eliminated {
    uint32_t node;
    std::vector<uint32_t> around;  // ascending
    std::vector<uint32_t> best;    // by the choices around
  };

  void Merge(uint32_t a, uint32_t b, Table table) {
    const auto [it, is_new] = tables_.try_emplace({a, b}, std::move(table));
    if (is_new) {
      neighbours_[a].push_back(b);
      neighbours_[b].push_back(a);
      return;
    }
    for (size_t i = 0; i < table.size(); ++i) it->second[i] += table[i];
  }

  // The table of two nodes with a's choice as the row, whichever is less.
  Table TableOf(uint32_t a, uint32_t b) const {
    const Table& table = tables_.at({std::min(a, b), std::max(a, b)});
    if (a < b) return table;
    const size_t rows = nodes_[a].size();
    const size_t columns = nodes_[b].size();
    Table turned(table.size());
    for (size_t c = 0; c < columns; ++c) {
      for (size_t r = 0; r < rows; ++r) turned[r * columns + c] = table[c * rows + r];
    }
    return turned;
  }

  void Detach(uint32_t j, uint32_t from) {
    std::vector<uint32_t>& of = neighbours_[from];
    of.erase(std::find(of.begin(), of.end(), j));
    tables_.erase({std::min(j, from), std::max(j, from)});
  }

  void Eliminate(uint32_t j) {
    Eliminated done = {.node = j, .around = neighbours_[j]};
    std::sort(done.around.begin(), done.around.end());
    const std::vector<Nanos>& own = nodes_[j];
    const size_t choices = own.size();
    if (done.around.empty()) {
      done.best = {static_cast<uint32_t>(std::min_element(own.begin(), own.end()) - own.begin())};
      eliminated_.push_back(std::move(done));
      return;
    }
    const uint32_t i = done.around[0];
    const bool pair = done.around.size() == 2;
    const uint32_t k = pair ? done.around[1] : i;
    const Table from_i = TableOf(i, j);
    const Table from_k = pair ? TableOf(k, j) : Table(choices, 0);
    const size_t rows = nodes_[i].size();
    const size_t columns = pair ? nodes_[k].size() : 1;
    Table joined(rows * columns);
    done.best.resize(rows * columns);
    std::vector<Nanos> sum(choices);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t x = 0; x < choices; ++x) sum[x] = own[x] + from_i[r * choices + x];
      for (size_t c = 0; c < columns; ++c) {
        const Nanos* other = from_k.data() + c * choices;
        Nanos least = kInfinite;
        for (size_t x = 0; x < choices; ++x) {
          if (sum[x] + other[x] >= least) continue;
          least = sum[x] + other[x];
          done.best[r * columns + c] = static_cast<uint32_t>(x);
        }
        joined[r * columns + c] = least;
      }
    }
    Detach(j, i);
    if (pair) {
      Detach(j, k);
      Merge(i, k, std::move(joined));
    } else {
      for (size_t r = 0; r < rows; ++r) nodes_[i][r] += joined[r];
    }
    eliminated_.push_back(std::move(done));
  }

  // What choice x of residual node `at` adds to the choices of those before it.
  Nanos Added(size_t at, uint32_t x, const std::vector<uint32_t>& choice) const {
    const uint32_t node = residual_[at];
    Nanos sum = nodes_[node][x];
    for (const auto& [before, table] : before_[at]) {
      sum += (*table)[choice[before] * nodes_[node].size() + x];
    }
    return sum;
  }

  // The residual nodes' best choices: a beam, then all. False: steps ran out.
  bool Enumerate(std::vector<uint32_t>* best) {
    const size_t n = residual_.size();
    if (n == 0) return true;
    before_.assign(n, {});
    for (size_t at = 0; at < n; ++at) {
      for (size_t other = 0; other < at; ++other) {
        const auto it = tables_.find({residual_[other], residual_[at]});
        if (it != tables_.end()) before_[at].emplace_back(residual_[other], &it->second);
      }
    }
    // The least that the nodes from `at` on add, whatever was chosen before.
    rest_.assign(n + 1, 0);
    for (size_t at = n; at-- > 0;) {
      const std::vector<Nanos>& own = nodes_[residual_[at]];
      Nanos least = kInfinite;
      for (size_t x = 0; x < own.size(); ++x) {
        Nanos sum = own[x];
        for (const auto& [before, table] : before_[at]) {
          Nanos edge = kInfinite;
          for (size_t y = x; y < table->size(); y += own.size()) edge = std::min(edge, (*table)[y]);
          sum += edge;
        }
        least = std::min(least, sum);
      }
      rest_[at] = rest_[at + 1] + least;
    }
    best_cost_ = Beam(best);
    if (stopped_) return false;
    choice_ = *best;
    best_choice_ = best;
    steps_ = 0;
    Descend(0, 0);
    return !stopped_ && steps_ <= options_.steps_max;
  }

  Nanos Beam(std::vector<uint32_t>* best) {
    std::vector<std::pair<Nanos, std::vector<uint32_t>>> beam = {{0, *best}};
    for (size_t at = 0; at < residual_.size(); ++at) {
      if (Stopped()) return kInfinite;
      std::vector<std::pair<Nanos, std::vector<uint32_t>>> next;
      for (auto& [cost, choice] : beam) {
        for (uint32_t x = 0; x < nodes_[residual_[at]].size(); ++x) {
          choice[residual_[at]] = x;
          next.emplace_back(cost + Added(at, x, choice), choice);
        }
      }
      std::sort(next.begin(), next.end());
      if (next.size() > options_.beam) next.resize(options_.beam);
      beam = std::move(next);
    }
    *best = beam[0].second;
    return beam[0].first;
  }

  void Descend(size_t at, Nanos sum) {
    if (at == residual_.size()) {
      best_cost_ = sum;
      *best_choice_ = choice_;
      return;
    }
    const uint32_t node = residual_[at];
    std::vector<std::pair<Nanos, uint32_t>> order;
    for (uint32_t x = 0; x < nodes_[node].size(); ++x) order.emplace_back(Added(at, x, choice_), x);
    std::sort(order.begin(), order.end());
    for (const auto& [added, x] : order) {
      if (sum + added + rest_[at + 1] >= best_cost_ || ++steps_ > options_.steps_max) return;
      if (steps_ % kStepsUnasked == 0 && Stopped()) return;
      choice_[node] = x;
      Descend(at + 1, sum + added);
      if (stopped_) return;
    }
  }

  const EliminationOptions& options_;
  std::vector<std::vector<Nanos>> nodes_;
  std::vector<std::vector<uint32_t>> neighbours_;
  std::map<std::pair<uint32_t, uint32_t>, Table> tables_;
  std::vector<Eliminated> eliminated_;
  std::vector<uint32_t> residual_;
  // [place in residual_] → neighbours at earlier places, and the table, their choice as the row
  std::vector<std::vector<std::pair<uint32_t, const Table*>>> before_;
  std::vector<Nanos> rest_;
  std::vector<uint32_t> choice_;
  std::vector<uint32_t>* best_choice_ = nullptr;
  Nanos best_cost_ = kInfinite;
  uint64_t steps_ = 0;
  bool stopped_ = false;
};

}  // namespace

Nanos CostOf(const PairwiseProblem& problem, const std::vector<uint32_t>& choice) {
  Nanos cost = 0;
  for (size_t i = 0; i < problem.nodes.size(); ++i) cost += problem.nodes[i][choice[i]];
  for (const PairwiseProblem::Edge& edge : problem.edges) {
    cost += edge.costs[choice[edge.a] * problem.nodes[edge.b].size() + choice[edge.b]];
  }
  return cost;
}

PairwiseMinimum Minimize(const PairwiseProblem& problem, const EliminationOptions& options) {
  PairwiseMinimum result = Eliminator(problem, options).Run();
  if (!result.complete) return result;
  result.cost = CostOf(problem, result.choice);
  return result;
}

}  // namespace soapstone::planner
