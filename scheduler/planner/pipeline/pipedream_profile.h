// The text in which PipeDream's profiler (Narayanan et al., SOSP 2019) writes what a model's
// operators take, so that profiles of real devices can be planned with, and ours by its optimizer:
//   node7 -- Conv2d(64, 128, ..) -- forward_compute_time=15.1, backward_compute_time=39.6,
//       activation_size=822083584.0, parameter_size=295424.0
//   <tab>node6 -- node7
// one line each; times in milliseconds, sizes in bytes. An activation size may be a list
// "[1.0; 2.0]", of several outputs. A fourth field, "stage_id=..", is read over.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/planner/cost/cost_model.h"
#include "scheduler/planner/pipeline/pipeline_stages.h"
#include "strategy/op_graph.h"

namespace soapstone::planner {

struct ProfileNode {
  std::string name;  // "node7"
  std::string what;  // "Conv2d(64, 128, ..)"; "Input.." brings the batch
  double forward_ms = 0, backward_ms = 0;
  double activation_bytes = 0, parameter_bytes = 0;
  friend bool operator==(const ProfileNode&, const ProfileNode&) = default;
};

// Nodes are in an order in which they can run: of those that can the one with the least number in
// its name comes first. Edges ascend.
struct Profile {
  std::vector<ProfileNode> nodes;
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  friend bool operator==(const Profile&, const Profile&) = default;
};

// `file` stands for the text in errors. Errors: InvalidArgument, "file:line: what", one line: not
// such a line, a number that is none or negative, a node given twice or not at all, a circle.
absl::StatusOr<Profile> ParseProfile(const std::string& text, const std::string& file);
std::string TextOf(const Profile& profile);

// The operators of a model whole, as one device of kind `kind` (of the machine that `costs` is for)
// takes them; chunks of time and micro-batches are added up.
Profile ProfileOf(const OpGraph& graph, const CostModel& costs, uint32_t kind);

// A layer for each node but inputs: where the batch comes from is no choice, nor is it sent.
std::vector<PipelineLayer> LayersOf(const Profile& profile);
// The nodes of those layers.
std::vector<uint32_t> LayerNodes(const Profile& profile);

}  // namespace soapstone::planner
