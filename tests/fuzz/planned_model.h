// The model and the machine for which the targets of strategies and costs read theirs, and the
// corpus has been made.
#pragma once

#include <utility>

#include "glog/logging.h"
#include "models/zoo/zoo.h"
#include "strategy/machine_text.h"
#include "strategy/op_graph.h"

namespace soapstone::fuzz {

inline const planner::OpGraph& PlannedGraph() {
  static const auto* graph = [] {
    auto made =
        planner::MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}), {.batch = 8});
    CHECK(made.ok()) << made.status();
    return new planner::OpGraph(*std::move(made));
  }();
  return *graph;
}

inline const planner::Machine& PlannedMachine() {
  static const auto* machine = [] {
    auto made = planner::ParseMachine(R"(name: "two"
      kinds { name: "gpu" tflops: 1 memory_gbytes_per_s: 100 memory_gib: 1 }
      nodes {
        name: "n" count: 2 devices: 2 kind: "gpu" mesh { gbytes_per_s: 10 }
        host { gbytes_per_s: 10 } nics { count: 1 connection { gbytes_per_s: 1 } }
        servers: 2 server_apply_gbytes_per_s: 10
      })",
                                      "two");
    CHECK(made.ok()) << made.status();
    return new planner::Machine(*std::move(made));
  }();
  return *machine;
}

}  // namespace soapstone::fuzz
