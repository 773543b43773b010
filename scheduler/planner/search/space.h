// The configurations among which a search chooses: degrees whose product divides the number of
// devices, on all kinds of blocks of devices, in even parts or, on unlike devices, in parts in
// proportion to their speeds. Searchers enumerate them or draw from them. Knows no
// costs; an operator's configuration is legal outside of this space too (strategy.h CheckConfig).
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/planner/search/random_source.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

struct SpaceOptions {
  bool uneven = true;  // uneven splits too, where devices are of several kinds
};

class Space {
 public:
  // Keeps both pointers; they must outlive it.
  Space(const OpGraph* graph, const Machine* machine, SpaceOptions options = {});

  const OpGraph& graph() const { return *graph_; }
  const Machine& machine() const { return *machine_; }
  uint32_t devices() const { return devices_; }
  // Whether splits may be uneven: they are asked for, and devices are of several kinds.
  bool uneven() const { return uneven_; }
  const std::vector<double>& speeds() const { return speeds_; }  // by device, proportional_split.h

  // Legal degrees of an operator, ascending by product and then in order of the vectors; the first
  // splits nothing. Operators with equal dimensions share one list.
  const std::vector<std::vector<uint32_t>>& Degrees(uint32_t op) const {
    return degrees_[list_of_op_[op]];
  }

  // All degrees on all canonical blocks of devices: aligned ones (p neighbours from a multiple of p
  // on) and strided ones (every D/p-th device). Where uneven() also, behind each whose devices are
  // unlike, the same in parts in proportion to their speeds.
  std::vector<OpConfig> Configs(uint32_t op) const;

  // Draws, into `config` (its memory is used again); even splits.
  //  Uniform over degrees, each part on any device: FlexFlow's proposal.
  void DrawScattered(uint32_t op, RandomSource* random, OpConfig* config) const;
  //  Uniform over products of degrees, over degrees of that product, and over canonical blocks.
  void DrawBlock(uint32_t op, RandomSource* random, OpConfig* config) const;
  //  These degrees on a canonical block.
  void DrawDevices(RandomSource* random, OpConfig* config) const;

  // Whether degrees are legal for the operator and their product divides the devices.
  bool Holds(uint32_t op, const std::vector<uint32_t>& degrees) const;

 private:
  const OpGraph* graph_;
  const Machine* machine_;
  uint32_t devices_;
  bool uneven_;
  std::vector<double> speeds_;
  std::vector<uint32_t> list_of_op_;
  std::vector<std::vector<std::vector<uint32_t>>> degrees_;
  // [list] → where each product begins in it, and the end
  std::vector<std::vector<uint32_t>> product_begins_;
};

}  // namespace soapstone::planner
