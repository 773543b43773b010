// An operator cut into parts, apart from where they run: bounds, costs by kind of device, and what
// flows between the parts of two operators. Found once for each way to split and looked up
// afterwards, so that a search's proposals build nothing. Used by the simulator alone.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "scheduler/planner/blocks/equivalence_classes.h"
#include "scheduler/planner/cost/cost_model.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

inline constexpr int64_t kElementBytes = 4;

// How a split divides one parameter. Blocks are numbered row-major over the tensor's dimensions.
struct ParamSplit {
  std::vector<std::vector<int64_t>> begins;  // by dimension of the tensor: of each block, ascending
  std::vector<int64_t> sides;                // of the tensor; of one section, where it has several
  int64_t sections = 1;
  std::vector<uint32_t> block_of_part;
  uint32_t blocks = 1;
};

struct OpSplit {
  uint32_t id = 0;  // among those of the operator
  std::vector<uint32_t> degrees;
  std::vector<std::vector<int64_t>> bounds;  // by dimension: degree + 1 boundaries
  uint32_t parts = 1;                        // row-major
  std::vector<std::vector<PartCost>> costs;  // [kind][part], each at least 1 ns
  std::vector<int64_t> output_bytes;         // [part], kept from forward to backward
  // Parts that exchange while they compute: of an lstm the units' parts at each step, of batch norm
  // those that share statistics. Empty where there is nothing to exchange.
  std::vector<std::vector<uint32_t>> rings;  // of parts; each is in one
  int64_t exchange_rounds = 0;               // each round: one message to the next of the ring
  std::vector<int64_t> exchange_bytes;       // [part], that it passes on in a round

  std::vector<ParamSplit> params;  // in the order of the operator's

  models::Block BlockOf(uint32_t part) const;
  uint32_t IndexAlong(size_t dim, uint32_t part) const;
};

// The parts of two operators whose regions of an edge's tensor meet. Sorted by (producer,
// consumer).
struct Overlap {
  uint32_t producer = 0, consumer = 0;  // parts
  uint32_t region = 0;  // equal for a producer's overlaps with equal regions; counted from 0
  int64_t bytes = 0;
};

class SplitTable {
 public:
  // Keeps the pointers. classes: of the graph; their members share what is found. nullptr: none do.
  SplitTable(const OpGraph* graph, const Machine* machine, const CostModel* costs,
             const EquivalenceClasses* classes = nullptr);

  // REQUIRES CheckConfig. The result stays where it is.
  const OpSplit* Find(uint32_t op, const OpConfig& config);
  // The result stays until they are forgotten.
  const std::vector<Overlap>& Overlaps(uint32_t edge, const OpSplit& producer,
                                       const OpSplit& consumer);
  // Of four bytes, of all overlaps: up to parts · parts for each two ways to split, which a long
  // search meets by the thousand.
  size_t overlap_words() const { return overlap_words_; }
  void ForgetOverlaps();

 private:
  using Cuts = std::vector<std::vector<int64_t>>;
  std::unique_ptr<OpSplit> Make(uint32_t op, const OpConfig& config) const;
  std::vector<Overlap> FindOverlaps(uint32_t edge, const OpSplit& a, const OpSplit& b) const;

  const OpGraph* graph_;
  const Machine* machine_;
  const CostModel* costs_;
  const EquivalenceClasses* classes_;
  // [class of operators]
  std::vector<absl::flat_hash_map<std::pair<std::vector<uint32_t>, Cuts>, std::unique_ptr<OpSplit>>>
      splits_;
  // [class of edges], by the splits' ids
  std::vector<absl::flat_hash_map<uint64_t, std::unique_ptr<std::vector<Overlap>>>> overlaps_;
  size_t overlap_words_ = 0;
};

// [part] → nanoseconds that it spends on exchanges in a forward or a backward pass when parts are
// on these devices: rounds of a ring, each as long as its slowest message. Such messages are
// counted into the parts' time, and do not occupy links.
std::vector<Nanos> ExchangeTimes(const OpSplit& split, const std::vector<uint32_t>& devices,
                                 const Machine& machine);

}  // namespace soapstone::planner
