// Layouts as of Mesh-TensorFlow (Shazeer et al., "Mesh-TensorFlow: deep learning for
// supercomputers", NeurIPS 2018): the devices are a mesh, and one rule for the whole program says
// which named dimensions of tensors are split over which axis of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/planner/cost/cost_model.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// Dimensions of operators that are one dimension of the model: all samples; what the tensors and
// parameters between operators put at one place (a layer's outputs are the next one's inputs); and
// those of layers that are alike (the hidden units of all blocks: of one set of kinds and extents),
// but for those that meet in one operator (layers of one width in a row take turns).
struct NamedDim {
  std::string name;    // "n", or of the first operator that has it: "classifier.1.o"
  int64_t weight = 0;  // elements of all parameters and outputs that lie along it
  std::vector<std::pair<uint32_t, uint32_t>> members;  // operator, dimension of its rule; ascending
  friend bool operator==(const NamedDim&, const NamedDim&) = default;
};
// Those of which any member can be split: samples first, then by weight, heaviest first.
std::vector<NamedDim> NamedDimsOf(const OpGraph& graph);

inline constexpr int kNoAxis = -1;

struct MeshLayout {
  std::vector<uint32_t> sides;  // of the mesh; their product is the number of devices
  std::vector<int> axes;        // [name]: of the mesh, or kNoAxis
  friend bool operator==(const MeshLayout&, const MeshLayout&) = default;
};

// Whether no operator has two dimensions on one axis. One name at two places of an operator (inputs
// and outputs of a residual layer) is split at the first alone, as if the other had been renamed.
bool IsLegal(const OpGraph& graph, const std::vector<NamedDim>& names, const MeshLayout& layout);

// Devices are numbered row-major over the mesh, node by node, so that the last axis lies within
// nodes. An operator is split along those of its dimensions which the layout names and its rule can
// split in so many parts. Over axes that it is not split along Mesh-TensorFlow computes it on every
// device; here the first one does, and sends what others need.
Strategy LayoutStrategy(const OpGraph& graph, const Machine& machine,
                        const std::vector<NamedDim>& names, const MeshLayout& layout);

// Ordered factorizations into 1 to axes_max sides of at least 2, fewer axes first; {{1}} for 1.
std::vector<std::vector<uint32_t>> MeshesOf(uint32_t devices, uint32_t axes_max);

enum class LayoutObjective : uint8_t {
  kTime,    // the step's, among layouts that fit into memory; where none does, the least overflow
  kMemory,  // of the fullest device, as Mesh-TensorFlow's own planner; of equals the faster one
};

struct MeshLayoutOptions {
  LayoutObjective objective = LayoutObjective::kTime;
  uint32_t axes_max = 3;
  uint64_t layouts_max = 4096;  // simulated
  SimulatorOptions simulator;
  std::function<bool()> stop;  // asked for every layout; may be empty
};

struct MeshPlan {
  std::vector<NamedDim> names;
  MeshLayout layout;
  Strategy strategy;
  Nanos step_ns = kNever;
  int64_t overflow_bytes = INT64_MAX, memory_bytes = INT64_MAX;  // all over; of the fullest device
  uint64_t tried = 0;
  bool complete = false;  // all layouts were tried
};

// Tries all legal layouts if there are at most layouts_max. Else descends on every mesh, with equal
// shares of layouts_max, from samples on the first axis: one name's axis at a time, heavy ones
// first, whereby names that then met it on this axis are taken off, until no such change is better;
// `complete` is then false. Parameters are synchronized by a
// ring while it searches, in the end as suits best. Never worse than samples over all devices.
MeshPlan PlanByMeshLayout(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                          const MeshLayoutOptions& options);

// "4 x 4: n over 0, classifier.1.o over 1"
std::string TextOf(const MeshPlan& plan);

}  // namespace soapstone::planner
