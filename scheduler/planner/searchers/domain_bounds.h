// What a step takes at least while some operators' configurations are not decided yet: each
// operator has a domain of those that are still possible. Tables are made once a search; a bound is
// found from them for any domains. Used by the branch and bound.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/planner/blocks/op_split.h"
#include "scheduler/planner/search/searcher.h"
#include "scheduler/planner/searchers/sync_lower_bound.h"

namespace soapstone::planner {

// [operator] → places in PartialBounds::configs of it, ascending
using Domains = std::vector<std::vector<uint32_t>>;

class PartialBounds {
 public:
  // Keeps the space and the options. Tables for all of Space::Configs and one way to synchronize;
  // asks `costs` as a simulator does.
  PartialBounds(const Space* space, const CostModel& costs, Synchronization way,
                const SearchOptions& options);
  // Whether all tables were made before options.ShouldStop(). Else there are no bounds.
  bool complete() const { return !stopped_; }
  // Bytes of the tables over edges.
  static size_t TableBytes(const Space& space);

  const std::vector<std::vector<OpConfig>>& configs() const { return configs_; }

  // Takes out of the domains what makes every step at least `cutoff` long, and writes for each that
  // is left the bound that was found: (*bounds)[operator][place in its domain]. False: a domain is
  // empty, so that no strategy of these domains is shorter than the cutoff.
  //
  // By paths. With first(o), last(o) the ends of o's last forward and backward part, and over an
  // edge (a, b) with configurations x and y
  //   wf(x, y) ≤ first(b) − first(a),  wb(x, y) ≤ last(a) − last(b)
  // (the last part of a sets free at least what waits longest for it, whichever part it is):
  //   F(b, y) = max over edges (a, b) of min over x of F(a, x) + wf(x, y)         ≤ first(b)
  //   T(b, y) = max of its synchronization and min over x of T(a, x) + wb(x, y)   ≤ step − last(b)
  //   G(b, y) = max of F + T and min over x of G(a, x) + wf(x, y) + wb(x, y)
  //                                                               ≤ first(b) + step − last(b)
  //   R(a, x) = max over edges (a, b) of min over y of R(b, y) + wf(x, y) + wb(x, y)
  //                                                                       ≤ last(a) − first(a)
  //   step ≥ G(o, x) + R(o, x); of a chain this is the exact least of the sum of all wf and wb.
  // By loads. A device computes and applies for what was decided to be on it, and all devices
  // together for what the cheapest configurations of the rest take.
  // REQUIRES complete()
  bool Tighten(Nanos cutoff, Domains* domains, std::vector<std::vector<Nanos>>* bounds);

 private:
  // Nanos by pairs of configurations, the producer's as the row.
  struct EdgeTable {
    std::vector<Nanos> forward, backward, both;
    bool gradient = true;
  };
  // Of a parameter group with parameters; empty where there are too many combinations.
  struct GroupTable {
    std::vector<size_t> strides;     // [operator of the group] in `bounds`
    std::vector<SyncBounds> bounds;  // [combination of configurations]
    std::vector<Nanos> apply_sum;    // [combination]
  };

  void FillOp(uint32_t op, SplitTable* splits);
  void FillEdge(uint32_t edge);
  void FillGroup(uint32_t group, Synchronization way);
  // first(b) − first(a) and last(a) − last(b) at least, by what parts say of the other's parts.
  Nanos LeastStep(const std::vector<Overlap>& overlaps, const OpConfig& from, const OpConfig& to,
                  const Nanos* times, bool forward);
  Nanos MessageTime(uint32_t from, uint32_t to, int64_t bytes) const;

  void FindPaths(const Domains& domains);
  void FindLoads(const Domains& domains);
  bool LoadsAllow(uint32_t op, uint32_t config, Nanos cutoff) const;
  bool Stopped() {
    stopped_ = stopped_ || options_.ShouldStop();
    return stopped_;
  }

  const Space& space_;
  const OpGraph& graph_;
  const SearchOptions& options_;
  const uint32_t devices_;
  bool stopped_ = false;
  std::vector<std::vector<OpConfig>> configs_;
  // [operator][config · devices + device]: a part's time there; 0: no part
  std::vector<std::vector<Nanos>> forward_at_, backward_at_;
  // [operator][config]: of the slowest part forward, of the quickest backward, of all parts both
  std::vector<std::vector<Nanos>> forward_max_, backward_min_, area_;
  std::vector<EdgeTable> edges_;
  std::vector<GroupTable> groups_;
  std::vector<std::vector<Nanos>> tail_, apply_;  // [operator][config], whatever its group does

  // Of the domains in hand.
  std::vector<std::vector<Nanos>> f_, t_, g_, r_;  // [operator][config]
  std::vector<Nanos> load_;                        // [device]
  std::vector<Nanos> area_least_;                  // [operator]
  std::vector<Nanos> apply_least_;                 // [group]
  Nanos area_sum_ = 0;
  std::vector<Nanos> scratch_;
};

}  // namespace soapstone::planner
