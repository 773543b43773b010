#include "scheduler/planner/additive/joint_choice.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "glog/logging.h"

namespace soapstone::planner {

class ChoiceElimination {
  // A table of costs over the joint choices of some variables, row-major, the last running fastest.
  struct Factor {
    std::vector<uint32_t> variables;  // ascending
    std::vector<double> costs;
  };

  // What an eliminated variable is to choose, by the choices of those that were its neighbours.
  struct Decision {
    uint32_t variable = 0;
    std::vector<uint32_t> neighbours;  // ascending
    std::vector<uint32_t> best;
  };

 public:
  ChoiceElimination(const JointChoice& problem, size_t table_max)
      : problem_(problem), choices_(problem.choices_), table_max_(table_max) {
    const auto n = static_cast<uint32_t>(choices_.size());
    for (uint32_t i = 0; i < n; ++i) factors_.push_back({{i}, problem.single_[i]});
    for (const JointChoice::Pair& pair : problem.pairs_) {
      factors_.push_back({{pair.a, pair.b}, pair.costs});
    }
    factors_of_.resize(n);
    for (uint32_t f = 0; f < factors_.size(); ++f) {
      for (uint32_t variable : factors_[f].variables) factors_of_[variable].insert(f);
    }
    for (uint32_t i = 0; i < n; ++i) left_.insert(i);
  }

  JointChoice::Result Run() {
    while (!left_.empty()) {
      uint32_t next = 0;
      if (TableOf(&next) > table_max_) {
        Fix(next);
      } else {
        Eliminate(next);
      }
    }
    JointChoice::Result result = {.exact = exact_};
    result.choices.assign(choices_.size(), 0);
    for (size_t i = decisions_.size(); i-- > 0;) {
      const Decision& decision = decisions_[i];
      size_t at = 0;
      for (uint32_t other : decision.neighbours) at = at * choices_[other] + result.choices[other];
      result.choices[decision.variable] = decision.best[at];
    }
    if (!exact_) Improve(&result.choices);
    result.cost = problem_.CostOf(result.choices);
    return result;
  }

 private:
  std::vector<uint32_t> NeighboursOf(uint32_t variable) const {
    std::set<uint32_t> others;
    for (uint32_t f : factors_of_[variable]) {
      others.insert(factors_[f].variables.begin(), factors_[f].variables.end());
    }
    others.erase(variable);
    return {others.begin(), others.end()};
  }

  // The least table, and of which variable; where that is over the limit, the variable with the
  // most neighbours.
  size_t TableOf(uint32_t* variable) const {
    size_t least = std::numeric_limits<size_t>::max();
    size_t most = 0;
    uint32_t crowded = 0;
    for (uint32_t v : left_) {
      const std::vector<uint32_t> neighbours = NeighboursOf(v);
      size_t table = 1;
      for (uint32_t other : neighbours) {
        table *= choices_[other];
        if (table > table_max_) break;
      }
      if (table < least) {
        least = table;
        *variable = v;
      }
      if (neighbours.size() > most) {
        most = neighbours.size();
        crowded = v;
      }
    }
    if (least > table_max_) *variable = crowded;
    return least;
  }

  // Where `variables` choose `digits`.
  static size_t IndexIn(const Factor& factor, const std::vector<uint32_t>& choice,
                        const std::vector<uint32_t>& choices) {
    size_t at = 0;
    for (uint32_t variable : factor.variables) at = at * choices[variable] + choice[variable];
    return at;
  }

  void Eliminate(uint32_t variable) {
    Decision decision = {.variable = variable, .neighbours = NeighboursOf(variable)};
    size_t entries = 1;
    for (uint32_t other : decision.neighbours) entries *= choices_[other];
    Factor left = {decision.neighbours, std::vector<double>(entries)};
    decision.best.resize(entries);
    std::vector<uint32_t> choice(choices_.size(), 0);
    for (size_t entry = 0; entry < entries; ++entry) {
      size_t rest = entry;
      for (size_t i = decision.neighbours.size(); i-- > 0;) {
        const uint32_t other = decision.neighbours[i];
        choice[other] = static_cast<uint32_t>(rest % choices_[other]);
        rest /= choices_[other];
      }
      double best = std::numeric_limits<double>::infinity();
      for (uint32_t x = 0; x < choices_[variable]; ++x) {
        choice[variable] = x;
        double cost = 0;
        for (uint32_t f : factors_of_[variable]) {
          cost += factors_[f].costs[IndexIn(factors_[f], choice, choices_)];
        }
        if (cost < best) {
          best = cost;
          decision.best[entry] = x;
        }
      }
      left.costs[entry] = best;
    }
    Drop(variable);
    Put(std::move(left));
    decisions_.push_back(std::move(decision));
  }

  // To what would be best if all others were free.
  void Fix(uint32_t variable) {
    exact_ = false;
    std::vector<double> bound(choices_[variable], 0);
    for (uint32_t f : factors_of_[variable]) {
      std::vector<double> least(choices_[variable], std::numeric_limits<double>::infinity());
      ForEach(factors_[f], variable, [&](uint32_t x, size_t /*rest*/, double cost) {
        least[x] = std::min(least[x], cost);
      });
      for (uint32_t x = 0; x < bound.size(); ++x) bound[x] += least[x];
    }
    const auto chosen =
        static_cast<uint32_t>(std::min_element(bound.begin(), bound.end()) - bound.begin());
    const std::set<uint32_t> its = factors_of_[variable];
    std::vector<Factor> restricted;
    for (uint32_t f : its) {
      Factor factor = {factors_[f].variables, {}};
      factor.variables.erase(std::find(factor.variables.begin(), factor.variables.end(), variable));
      factor.costs.resize(factors_[f].costs.size() / choices_[variable]);
      ForEach(factors_[f], variable, [&](uint32_t x, size_t rest, double cost) {
        if (x == chosen) factor.costs[rest] = cost;
      });
      restricted.push_back(std::move(factor));
    }
    Drop(variable);
    for (Factor& factor : restricted) Put(std::move(factor));
    decisions_.push_back({variable, {}, {chosen}});
  }

  // visit(choice of the variable, index into the table without it, cost)
  template <typename Visit>
  void ForEach(const Factor& factor, uint32_t variable, const Visit& visit) const {
    size_t below = 1;
    size_t i = factor.variables.size();
    while (factor.variables[i - 1] != variable) below *= choices_[factor.variables[--i]];
    for (size_t at = 0; at < factor.costs.size(); ++at) {
      const size_t x = at / below % choices_[variable];
      visit(static_cast<uint32_t>(x), at / below / choices_[variable] * below + at % below,
            factor.costs[at]);
    }
  }

  void Drop(uint32_t variable) {
    const std::set<uint32_t> its = factors_of_[variable];
    for (uint32_t f : its) {
      for (uint32_t other : factors_[f].variables) factors_of_[other].erase(f);
      factors_[f].costs.clear();
    }
    left_.erase(variable);
  }
  void Put(Factor factor) {
    if (factor.variables.empty()) return;  // a constant
    const auto f = static_cast<uint32_t>(factors_.size());
    for (uint32_t variable : factor.variables) factors_of_[variable].insert(f);
    factors_.push_back(std::move(factor));
  }

  void Improve(std::vector<uint32_t>* choices) const {
    double cost = problem_.CostOf(*choices);
    for (bool improved = true; improved;) {
      improved = false;
      for (size_t v = 0; v < choices->size(); ++v) {
        for (uint32_t x = 0; x < choices_[v]; ++x) {
          const uint32_t old = std::exchange((*choices)[v], x);
          const double now = problem_.CostOf(*choices);
          if (now < cost) {
            cost = now;
            improved = true;
          } else {
            (*choices)[v] = old;
          }
        }
      }
    }
  }

  const JointChoice& problem_;
  const std::vector<uint32_t>& choices_;
  const size_t table_max_;
  std::vector<Factor> factors_;
  std::vector<std::set<uint32_t>> factors_of_;  // by variable
  std::set<uint32_t> left_;
  std::vector<Decision> decisions_;
  bool exact_ = true;
};

JointChoice::JointChoice(std::vector<uint32_t> choices) : choices_(std::move(choices)) {
  for (uint32_t count : choices_) {
    CHECK_GE(count, 1u);
    single_.emplace_back(count, 0.0);
  }
}

void JointChoice::Add(uint32_t variable, uint32_t choice, double cost) {
  single_[variable][choice] += cost;
}

void JointChoice::AddPair(uint32_t a, uint32_t b, const std::vector<std::vector<double>>& costs) {
  CHECK_NE(a, b);
  Pair pair = {std::min(a, b), std::max(a, b), {}};
  for (uint32_t x = 0; x < choices_[pair.a]; ++x) {
    for (uint32_t y = 0; y < choices_[pair.b]; ++y) {
      pair.costs.push_back(a < b ? costs[x][y] : costs[y][x]);
    }
  }
  pairs_.push_back(std::move(pair));
}

double JointChoice::CostOf(const std::vector<uint32_t>& choices) const {
  double cost = 0;
  for (size_t i = 0; i < choices.size(); ++i) cost += single_[i][choices[i]];
  for (const Pair& pair : pairs_) {
    cost += pair.costs[size_t{choices[pair.a]} * choices_[pair.b] + choices[pair.b]];
  }
  return cost;
}

JointChoice::Result JointChoice::Solve(size_t table_max) const {
  return ChoiceElimination(*this, table_max).Run();
}

}  // namespace soapstone::planner
