// One choice for each of many variables, where costs are sums over single variables and over pairs:
// the least sum, by dynamic programming. Used by the searchers that minimize additive costs (Tofu,
// AccPar). Knows no operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace soapstone::planner {

// Minimizes Σ_i c_i(x_i) + Σ_{ij} c_ij(x_i, x_j) by eliminating variables (Bertele and Brioschi,
// "Nonserial dynamic programming", 1972): the one whose neighbours have the fewest joint choices
// goes first, and leaves a table of its least cost, by what they choose. On a chain this is
// Viterbi's recursion, and it follows forks and joins of series-parallel graphs exactly. Where the
// least table is over the limit, the variable with the most neighbours is fixed to the choice whose
// cost is least if all others were free; the result is then improved one variable at a time, and
// `exact` is false. Of equal choices the lowest is taken.
class JointChoice {
 public:
  // choices: by variable, each at least 1.
  explicit JointChoice(std::vector<uint32_t> choices);

  void Add(uint32_t variable, uint32_t choice, double cost);
  // costs: [choice of a][choice of b]; added to what is there. REQUIRES a != b.
  void AddPair(uint32_t a, uint32_t b, const std::vector<std::vector<double>>& costs);

  double CostOf(const std::vector<uint32_t>& choices) const;

  struct Result {
    std::vector<uint32_t> choices;
    double cost = 0;
    bool exact = true;
  };
  // table_max: entries.
  Result Solve(size_t table_max = size_t{1} << 18) const;

 private:
  friend class ChoiceElimination;  // joint_choice.cc
  struct Pair {
    uint32_t a = 0, b = 0;      // a < b
    std::vector<double> costs;  // [a's choice · choices of b + b's]
  };
  std::vector<uint32_t> choices_;
  std::vector<std::vector<double>> single_;
  std::vector<Pair> pairs_;
};

}  // namespace soapstone::planner
