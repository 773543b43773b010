// How a training step is spread over a machine: for each operator the degrees by which its
// dimensions are split and the device of every part (a configuration, FlexFlow section 4: SOAP),
// and how the copies of a parameter are kept equal. Values; searchers make them, the simulator
// prices them, files keep them. Knows no costs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "models/ops/partition.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"

namespace soapstone::planner {

inline constexpr uint32_t kPartsMax = 4096;  // of an operator
inline constexpr uint32_t kStalenessMax = 64;

// Parts are numbered row-major over the dimensions of the operator's rule: the last dimension's
// index runs fastest.
struct OpConfig {
  std::vector<uint32_t> degrees;  // by dimension of the rule; 1: not split
  std::vector<uint32_t> devices;  // by part
  // Uneven splits: empty, or by dimension: empty (even), or the degree − 1 boundaries between
  // parts, ascending multiples of the dimension's unit. Even parts differ by one unit at most:
  // boundary j of U units in d parts is ⌊j·U/d⌋.
  std::vector<std::vector<int64_t>> cuts;

  friend bool operator==(const OpConfig&, const OpConfig&) = default;
};

// What brings the gradients of a parameter that several devices hold together:
//  kOwner    the first device that holds a piece of it takes in the others' gradients, applies them
//            and sends the piece back ("parameter server at the first replica")
//  kRing     all-reduce among the devices that hold a piece. Workers run it by ranges: each holder
//            keeps an equal range of the piece, takes in the others' gradients of it, applies them
//            and sends it back (docs/decisions/046-a-ring-is-ranges.md)
//  kServers  the machine's servers, or those among them that keep the parameter group (Strategy),
//  each
//            with an equal share of every piece; pieces that one device alone holds go there as
//            well
enum class Synchronization : uint8_t { kOwner, kRing, kServers };
// Whether workers that hold a parameter keep it, and no server does.
constexpr bool KeptByHolders(Synchronization way) { return way != Synchronization::kServers; }

struct Strategy {
  std::vector<OpConfig> ops;  // as in the graph
  Synchronization synchronization = Synchronization::kOwner;
  // An iteration i may start when iteration i − 1 − staleness has ended, its parameters pulled.
  // 0: bulk-synchronous; at most kStalenessMax.
  uint32_t staleness = 0;
  // By parameter group, the servers that keep its parameters, ascending; none: all of them. Empty:
  // all keep all groups. Of kServers alone.
  std::vector<std::vector<uint32_t>> servers;

  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// Parts that a dimension can be cut into; 1 where its rule forbids it.
uint32_t DegreeMax(const models::IterationDim& dim);

// degrees[d] + 1 ascending boundaries of the parts along dimension d, from 0 to its extent.
std::vector<int64_t> BoundariesOf(const models::IterationDim& dim, const OpConfig& config,
                                  size_t d);

// The block of the operator's iteration space that is part `part`.
models::Block PartBlock(const PlanOp& op, const OpConfig& config, uint32_t part);

// Errors: InvalidArgument, naming the operator: degrees of another number or over DegreeMax, as
// many devices as parts, devices that are not there, cuts that do not fit.
absl::Status CheckConfig(const PlanOp& op, const OpConfig& config, uint32_t devices);
//  Besides: servers that are not there, in another order or twice; of a group without parameters;
//  where servers do not synchronize.
absl::Status CheckStrategy(const OpGraph& graph, const Machine& machine, const Strategy& strategy);
// Of that the servers: `count` of them are there. Error: InvalidArgument, naming the group.
absl::Status CheckServers(const OpGraph& graph, size_t count, const Strategy& strategy);

// The strategy with another way to synchronize: where parameters are kept is forgotten if it is not
// by servers.
void SetSynchronization(Synchronization way, Strategy* strategy);
// Where all servers keep all groups, Strategy::servers is empty.
void DropEqualShares(Strategy* strategy);

// Seeds of every search. Data parallelism splits the first dimension of samples over all devices
// (over its extent, if that is less).
OpConfig DataParallelConfig(const PlanOp& op, uint32_t devices);
Strategy DataParallel(const OpGraph& graph, uint32_t devices);
Strategy SingleDevice(const OpGraph& graph, uint32_t device);

// One of the strategies that differ from this one only by exchanging devices of a symmetry class:
// within each class devices are in the order in which operators' parts first name them. Equal for
// all of them; their timelines are equal too but for ties.
Strategy Canonical(const Machine& machine, const Strategy& strategy);

}  // namespace soapstone::planner
