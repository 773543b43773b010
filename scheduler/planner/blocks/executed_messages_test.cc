// What is priced is what is sent: for random strategies of the networks the lowering's messages are
// the simulator's, one for one and byte by byte, and parameters have the holders that it has.
// SOAPSTONE_STRATEGIES sets how many.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/blocks/edge_messages.h"
#include "scheduler/planner/blocks/op_split.h"
#include "scheduler/planner/blocks/param_pieces.h"
#include "scheduler/planner/cost/no_costs.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/lowering.h"
#include "strategy/pieces.h"
#include "strategy/strategy_text.h"
#include "strategy/testing/random_strategies.h"

namespace soapstone::planner {
namespace {

// (edge, producer's part, consumers' device, bytes, consumers)
using Sent = std::tuple<uint32_t, uint32_t, uint32_t, int64_t, std::vector<uint32_t>>;

std::vector<Sent> Priced(const OpGraph& graph, const Machine& machine, const Strategy& strategy) {
  const NoCosts costs;
  SplitTable splits(&graph, &machine, &costs);
  EdgeMessages messages(&machine);
  std::vector<Sent> sent;
  for (uint32_t e = 0; e < graph.edges.size(); ++e) {
    const PlanEdge& edge = graph.edges[e];
    const OpConfig& from = strategy.ops[edge.from];
    const OpConfig& to = strategy.ops[edge.to];
    const std::vector<Overlap>* const overlaps[] = {
        &splits.Overlaps(e, *splits.Find(edge.from, from), *splits.Find(edge.to, to))};
    messages.Find(overlaps, from.devices, to.devices);
    for (const EdgeMessage& message : messages.all()) {
      sent.emplace_back(e, message.producer, message.device, message.bytes, message.consumers);
      std::sort(std::get<4>(sent.back()).begin(), std::get<4>(sent.back()).end());
    }
  }
  std::sort(sent.begin(), sent.end());
  return sent;
}

// Moments of batch norm's parts have edges behind the model's: they are priced as time of the
// operator, and take no link.
std::vector<Sent> Executed(const OpGraph& graph, const TeamProgram& program, bool backward) {
  std::vector<Sent> sent;
  for (const BlockMessage& m : program.messages) {
    if (m.backward != backward || m.edge >= graph.edges.size()) continue;
    sent.emplace_back(m.edge, m.producer, backward ? m.from : m.to, m.bytes, m.consumers);
    std::sort(std::get<4>(sent.back()).begin(), std::get<4>(sent.back()).end());
  }
  std::sort(sent.begin(), sent.end());
  return sent;
}

// By group and holders: bytes of parameters.
using HeldBytes = std::map<std::pair<uint32_t, std::vector<uint32_t>>, int64_t>;

// Whether parts of some operator of the group add up: each is priced with the bias, which the first
// of them alone has.
bool AddsUp(const OpGraph& graph, const Strategy& strategy, uint32_t group) {
  for (const uint32_t op : graph.groups[group]) {
    const std::vector<models::IterationDim>& dims = graph.ops[op].rule.dims;
    for (size_t d = 0; d < dims.size(); ++d) {
      const bool reduces = dims[d].kind == models::DimKind::kReduction;
      if (reduces && strategy.ops[op].degrees[d] > 1) return true;
    }
  }
  return false;
}

HeldBytes PricedPieces(const OpGraph& graph, const Machine& machine, const Strategy& strategy) {
  const NoCosts costs;
  SplitTable splits(&graph, &machine, &costs);
  std::vector<PlacedSplit> placed;
  for (uint32_t k = 0; k < graph.ops.size(); ++k) {
    placed.push_back({splits.Find(k, strategy.ops[k]), strategy.ops[k].devices});
  }
  ParamPieces pieces(&graph, static_cast<uint32_t>(machine.devices().size()));
  HeldBytes held;
  for (uint32_t g = 0; g < graph.groups.size(); ++g) {
    if (!HasParams(graph, g) || AddsUp(graph, strategy, g)) continue;
    for (const ParamPiece& piece : pieces.Find(g, placed)) held[{g, piece.holders}] += piece.bytes;
  }
  return held;
}

HeldBytes ExecutedPieces(const OpGraph& graph, const Strategy& strategy) {
  const absl::StatusOr<Pieces> pieces = PiecesOf(graph, strategy);
  CHECK(pieces.ok()) << pieces.status();
  HeldBytes held;
  for (const Piece& piece : pieces->pieces) {
    const uint32_t op = graph.params[piece.param].ops.front();
    if (AddsUp(graph, strategy, graph.ops[op].group)) continue;
    held[{graph.ops[op].group, pieces->sets[piece.set]}] += models::ElementsOf(piece.block) * 4;
  }
  return held;
}

// The same, with each operator whose parts would add up whole on one of its devices.
Strategy WithoutSums(const OpGraph& graph, Strategy strategy) {
  const Strategy drawn = strategy;
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    if (!AddsUp(graph, drawn, graph.ops[k].group)) continue;
    OpConfig& config = strategy.ops[k];
    config = {.degrees = std::vector<uint32_t>(config.degrees.size(), 1),
              .devices = {config.devices[0]}};
  }
  return strategy;
}

// By sender and receiver, [from · devices + to].
using PairBytes = std::vector<int64_t>;

// Blocks, and what holders and those that keep parameters send each other: gradients there, values
// back. Shard k is in the process of worker k / sets.
PairBytes ExecutedByPair(const models::Graph& model, const OpGraph& graph,
                         const TeamProgram& program, const Strategy& strategy, uint32_t devices) {
  PairBytes bytes(size_t{devices} * devices, 0);
  for (const BlockMessage& message : program.messages) {
    if (message.edge < graph.edges.size()) {
      bytes[message.from * devices + message.to] += message.bytes;
    }
  }
  const absl::StatusOr<Pieces> pieces = PiecesOf(graph, strategy);
  CHECK(pieces.ok()) << pieces.status();
  const auto sets = static_cast<uint32_t>(pieces->sets.size());
  const auto layout = wire::Layout::BuildOfPieces(SpecsOf(*pieces, model.params()),
                                                  HoldersOf(*pieces, graph, strategy),
                                                  {.shard_count = devices * sets});
  CHECK(layout.ok()) << layout.status();
  for (uint32_t shard = 0; shard < devices * sets; ++shard) {
    const uint32_t host = shard / sets;
    for (const uint32_t seat : pieces->sets[shard % sets]) {
      if (seat == host) continue;
      const auto share = static_cast<int64_t>(4 * layout->elements(ShardId{shard}));
      bytes[seat * devices + host] += share;
      bytes[host * devices + seat] += share;
    }
  }
  return bytes;
}

// Of a machine with a link for each pair, which carries a byte in a nanosecond.
PairBytes PricedByPair(const Machine& machine, Simulator* simulator, const Strategy& strategy) {
  CHECK(simulator->SetStrategy(strategy).ok());
  const auto devices = static_cast<uint32_t>(machine.devices().size());
  const Breakdown parts = simulator->Explain();
  PairBytes bytes(size_t{devices} * devices, 0);
  for (uint32_t from = 0; from < devices; ++from) {
    for (uint32_t to = 0; to < devices; ++to) {
      if (from == to) continue;
      bytes[from * devices + to] = parts.busy_ns[devices + machine.Path(from, to)[0]];
    }
  }
  return bytes;
}

// Networks of full size, but for what repeats itself.
const std::vector<std::string>& Networks() {
  static const auto* const names = new std::vector<std::string>{
      "alexnet", "resnet50", "inception_v3", "rnnlm", "gnmt", "transformer_lm", "dlrm_hashed"};
  return *names;
}

// Of all networks together; the i-th is of network i % count.
int Strategies() {
  const char* const text = std::getenv("SOAPSTONE_STRATEGIES");
  int strategies = 60;
  if (text != nullptr) CHECK(absl::SimpleAtoi(text, &strategies));
  return strategies;
}

TEST(ExecutedMessagesTest, TheirBytesAreThoseThatAreSimulated) {
  const std::vector<std::string>& names = Networks();
  const NoCosts costs;
  for (size_t n = 0; n < names.size(); ++n) {
    const OpGraph graph =
        *MakeOpGraph(*models::BuildModel(names[n], models::ModelInput{}), {.batch = 32});
    for (int i = static_cast<int>(n); i < Strategies(); i += static_cast<int>(names.size())) {
      Draws draws(static_cast<uint64_t>(i), 3);
      const SplitOptions options = {.seats = static_cast<uint32_t>(draws.Between(2, 16)),
                                    .parts_max = 16};
      const Machine machine = FakeMachine({.nodes = 1, .devices_per_node = options.seats});
      const Strategy strategy = RandomStrategy(graph, options, &draws);
      const auto program = Lower(graph, strategy, CanonicalOrder(graph, strategy, options.seats));
      ASSERT_TRUE(program.ok()) << names[n] << " " << i << ": " << program.status();
      const std::vector<Sent> priced = Priced(graph, machine, strategy);
      ASSERT_EQ(Executed(graph, *program, false), priced) << names[n] << " " << i;
      std::vector<Sent> gradients;
      for (const Sent& sent : priced) {
        if (graph.edges[std::get<0>(sent)].gradient) gradients.push_back(sent);
      }
      ASSERT_EQ(Executed(graph, *program, true), gradients) << names[n] << " " << i;
      ASSERT_EQ(ExecutedPieces(graph, strategy), PricedPieces(graph, machine, strategy))
          << names[n] << " " << i;
      int64_t bytes = 0;
      for (const BlockMessage& message : program->messages) {
        if (message.edge < graph.edges.size()) bytes += message.bytes;
      }
      Simulator simulator(&graph, &machine, &costs);
      ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
      ASSERT_EQ(simulator.Explain().transfer_bytes, bytes) << names[n] << " " << i;
    }
  }
}

// All that a step has on the link of each pair: blocks, gradients and values.
TEST(ExecutedMessagesTest, BytesOfEachPairAreThoseThatAreSimulated) {
  const std::vector<std::string>& names = Networks();
  const NoCosts costs;
  for (size_t n = 0; n < names.size(); ++n) {
    const models::Graph model = *models::BuildModel(names[n], models::ModelInput{});
    const OpGraph graph = *MakeOpGraph(model, {.batch = 32});
    for (int i = static_cast<int>(n); i < Strategies(); i += static_cast<int>(names.size())) {
      Draws draws(static_cast<uint64_t>(i), 4);
      const auto seats = static_cast<uint32_t>(draws.Between(2, 16));
      Strategy strategy =
          WithoutSums(graph, RandomStrategy(graph, {.seats = seats, .parts_max = 16}, &draws));
      const auto program = Lower(graph, strategy, CanonicalOrder(graph, strategy, seats));
      ASSERT_TRUE(program.ok()) << names[n] << " " << i << ": " << program.status();
      const Machine machine = FakeMachine({.nodes = 1, .devices_per_node = seats});
      Simulator simulator(&graph, &machine, &costs, {.rings_by_ranges = true});
      for (const Synchronization way : {Synchronization::kOwner, Synchronization::kRing}) {
        SetSynchronization(way, &strategy);
        ASSERT_EQ(ExecutedByPair(model, graph, *program, strategy, seats),
                  PricedByPair(machine, &simulator, strategy))
            << names[n] << " " << i << " by " << NameOf(way);
      }
    }
  }
}

}  // namespace
}  // namespace soapstone::planner
