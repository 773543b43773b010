// What the planner predicts of a step, and what the shipped engines, shards and policies take for
// it in virtual time with the planner's costs on the machine's links. SOAPSTONE_STRATEGIES sets how
// many strategies of each network are tried; then worst and mean difference are printed, too.
#include "experiment/cosim/planned_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/memory/buffer.h"
#include "cluster/actor_options.h"
#include "cluster/team/team_options.h"
#include "compute/optimizer.h"
#include "consistency/catalogue.h"
#include "experiment/cosim/cosim.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/dataset.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/simulator/simulator.h"
#include "scheduler/planner/timeline/seat_order.h"
#include "sim/virtual_cluster.h"
#include "strategy/machine_text.h"
#include "strategy/strategy_text.h"
#include "strategy/team_plan.h"
#include "strategy/testing/random_strategies.h"

namespace soapstone::experiment {
namespace {

using planner::OpGraph;
using planner::Strategy;
using planner::Synchronization;

constexpr int64_t kBatch = 64;

// What varies of machines whose nodes have one device each.
constexpr char kCore[] = "tflops: 0.02 memory_gbytes_per_s: 100 launch_us: 5 memory_gib: 64";
constexpr char kFastNic[] = "gbytes_per_s: 64 latency_us: 5 message_us: 1";
constexpr char kUsualNic[] = "gbytes_per_s: 1.25 latency_us: 20 message_us: 3";

planner::Machine MachineOf(uint32_t devices, const std::string& link) {
  const std::string nic = absl::StrCat("nics { count: 1 connection { ", link, " } direct: true }");
  const std::string text = absl::StrCat(
      "name: 'lab' kinds { name: 'core' ", kCore, " }\nnodes { name: 'w' count: ", devices,
      " devices: 1 kind: 'core' ", nic,
      " }\nnodes { name: 's' count: 1 servers: 1 server_apply_gbytes_per_s: 20 ", nic, " }");
  const auto machine = planner::ParseMachine(text, "test");
  CHECK(machine.ok()) << machine.status();
  return *machine;
}

// The job that a strategy makes, of whole batches and without values.
cluster::TrainingJob JobOf(std::shared_ptr<const models::Graph> graph,
                           const wire::Strategy& strategy, const std::string& policy,
                           uint32_t servers, Clock clocks, uint32_t teams = 1) {
  auto team = std::make_shared<cluster::TeamJob>();
  auto plan = planner::PlanTeam(*graph, strategy, "test", {strategy.batch()});
  CHECK(plan.ok()) << plan.status();
  team->plan = *std::move(plan);
  team->shape = {.teams = teams, .seats = team->plan.seats};
  team->evaluation_batch = static_cast<uint64_t>(strategy.batch());
  team->evaluation_batches = 1;
  if (team->plan.owned) servers = team->plan.seats;
  cluster::TrainingJob job = {.specs = {.policy = *consistency::ParsePolicy(policy)},
                              .graph = std::move(graph),
                              .batch = teams * static_cast<uint64_t>(strategy.batch()),
                              .micro_batches = teams * team->plan.micro_batches,
                              .total_clocks = clocks,
                              .workers = teams * team->plan.seats,
                              .train_samples = teams * static_cast<uint64_t>(strategy.batch())};
  job.layout = std::make_shared<const wire::Layout>(*wire::Layout::BuildOfPieces(
      team->plan.params, team->plan.holders, {.shard_count = servers * team->sets()}));
  job.worker_layout = job.layout;
  job.ops = std::make_shared<const std::vector<worker::OpOutline>>();
  job.team = std::move(team);
  return job;
}

// Devices that compute nothing: blocks are of their sizes, gradients of none.
class Nothing {
 public:
  explicit Nothing(const cluster::TrainingJob& job) {
    for (uint32_t w = 0; w < job.workers; ++w) {
      options_.push_back(cluster::EngineOptionsOf(job, WorkerId{w}));
      for (const auto& [samples, outline] : options_.back().seat->steps) {
        for (const auto& block : outline.outgoing) bytes_max_ = std::max(bytes_max_, block.bytes);
      }
    }
    zeros_ = pool_.Take(bytes_max_);
    training_.job = job;
    training_.make_store = [layout = job.layout](ShardId shard) {
      return server::Store(server::CountStore(layout->bucket_count(shard)));
    };
    training_.device = [this](WorkerId worker, const worker::DeviceCommand& command,
                              std::vector<worker::DeviceEvent>* events) {
      if (command.wants_event) events->push_back(Answer(worker, command));
    };
    training_.settled = [](const sim::TrainingMoment&) {};
  }
  const sim::Training* training() const { return &training_; }

 private:
  worker::DeviceEvent Answer(WorkerId worker, const worker::DeviceCommand& command) const {
    worker::DeviceEvent event = {.run = command.run, .instruction = command.instruction};
    if (const auto* give = std::get_if<worker::GiveBlock>(&command.what)) {
      const auto& outgoing =
          options_[Index(worker)].SeatOutlineAt(command.clock)->outgoing[give->index];
      event.frames = {zeros_.View(0, outgoing.bytes)};
    } else if (std::holds_alternative<worker::CollectBucket>(command.what)) {
      const int64_t none = 0;
      event.frames = {Buffer::CopyOf(&none, sizeof(none))};
      event.samples = 1;
    }
    return event;
  }

  std::vector<worker::EngineOptions> options_;
  uint64_t bytes_max_ = 8;
  BufferPool pool_;
  BufferPool::Block zeros_;
  sim::Training training_;
};

struct Both {
  Nanos planned = 0, virtual_ns = 0;
  double difference() const {
    return static_cast<double>(virtual_ns) / static_cast<double>(planned) - 1;
  }
};

struct Plan {
  std::shared_ptr<const models::Graph> model;
  const OpGraph* graph = nullptr;
  const planner::Machine* machine = nullptr;
  Strategy strategy;
  std::string policy = "bsp";
};

// The strategy as `soapstone plan --for_workers` writes it: with the order of its timeline.
wire::Strategy MessageOf(const Plan& plan, const planner::CostModel& costs) {
  planner::Simulator simulator(plan.graph, plan.machine, &costs);
  CHECK(simulator.SetStrategy(plan.strategy).ok());
  wire::Strategy message =
      planner::MessageOf(*plan.graph, *plan.machine, costs.sha256(), plan.strategy);
  const auto devices = static_cast<uint32_t>(plan.machine->devices().size());
  planner::SetOrder(*plan.graph, plan.strategy,
                    planner::SeatOrder(*plan.graph, devices, simulator.Timeline()), &message);
  return message;
}

Both Compare(const Plan& plan) {
  const planner::RooflineCost costs(plan.machine->kinds(), planner::UsualEfficiencies());
  const wire::Strategy message = MessageOf(plan, costs);
  const cluster::TrainingJob job =
      JobOf(plan.model, message, plan.policy, static_cast<uint32_t>(plan.machine->servers().size()),
            6 + 4 * message.staleness());
  const auto times = PlanTimes(job, message, "test", *plan.machine, costs);
  CHECK(times.ok()) << times.status();
  const Nothing nothing(job);
  const auto run = sim::RunVirtual(
      {.training = nothing.training(), .seat_costs = &times->costs, .machine = plan.machine});
  CHECK(run.ok()) << run.status();
  EXPECT_EQ(run->violations, 0u) << run->violation.value_or("");
  return {times->step_ns, message.staleness() > 0 ? run->step_ns : run->first_step_ns};
}

int Strategies() {
  int count = 0;
  const char* const text = std::getenv("SOAPSTONE_STRATEGIES");
  if (text != nullptr) CHECK(absl::SimpleAtoi(text, &count));
  return count;
}

std::shared_ptr<const models::Graph> ModelOf(const std::string& name) {
  return std::make_shared<const models::Graph>(
      *models::BuildModel(name, models::ImageShape{1, 28, 28}, 10));
}

OpGraph GraphOf(const models::Graph& model, int64_t micro_batches) {
  OpGraph graph = *planner::MakeOpGraph(model, {.batch = kBatch, .micro_batches = micro_batches});
  planner::KeepWhatRunsAlone(&graph);
  return graph;
}

// Parts of an operator on seats of their own: what a device sends of it is one message then, to a
// plan and to workers. Micro-batches alike.
void SpreadParts(const OpGraph& graph, uint32_t seats, planner::Draws* draws, Strategy* strategy) {
  for (const std::vector<uint32_t>& group : graph.groups) {
    const auto first = static_cast<uint32_t>(draws->Between(0, seats - 1));
    for (const uint32_t op : group) {
      std::vector<uint32_t>& devices = strategy->ops[op].devices;
      for (uint32_t part = 0; part < devices.size(); ++part) {
        devices[part] = (first + part) % seats;
      }
    }
  }
}

struct Differences {
  double mean = 0, worst = 0;
};

// Of as many strategies as are asked for, half of them pipelines.
Differences DifferencesOf(const char* name, const std::string& link, int count) {
  const auto model = ModelOf(name);
  planner::Draws draws(7, 3);
  Differences all;
  for (int i = 0; i < count; ++i) {
    const auto seats = static_cast<uint32_t>(draws.Between(2, 4));
    const int64_t micro_batches = draws.Coin() ? 1 : draws.Between(2, 4);
    const OpGraph graph = GraphOf(*model, micro_batches);
    const planner::Machine machine = MachineOf(seats, link);
    const bool staged = draws.Coin();
    Strategy strategy =
        staged ? planner::RandomPipeline(graph, seats, &draws)
               : planner::RandomStrategy(graph, {.seats = seats, .parts_max = seats}, &draws);
    if (!staged) SpreadParts(graph, seats, &draws, &strategy);
    static constexpr std::array kWays = {Synchronization::kOwner, Synchronization::kRing,
                                         Synchronization::kServers};
    planner::SetSynchronization(kWays[draws.Between(0, 2)], &strategy);
    const Both both =
        Compare({.model = model, .graph = &graph, .machine = &machine, .strategy = strategy});
    std::printf("%s %d: %s of %u seats, %d micro-batches, %s: planned %.3f ms, virtual %+.2f %%\n",
                name, i, staged ? "stages" : "parts", seats, static_cast<int>(micro_batches),
                planner::NameOf(strategy.synchronization).c_str(),
                static_cast<double>(both.planned) / 1e6, 100 * both.difference());
    all.mean += std::abs(both.difference()) / count;
    all.worst = std::max(all.worst, std::abs(both.difference()));
  }
  std::printf("%s: mean %.2f %%, worst %.2f %%\n", name, 100 * all.mean, 100 * all.worst);
  return all;
}

// Where parameters take little time of a step: blocks, tasks and their order are those of the plan.
TEST(PlannedTimesTest, StrategiesTakeWhatIsPlannedWhereLinksAreFast) {
  const int count = std::max(8, Strategies());
  EXPECT_LT(DifferencesOf("lenet5", kFastNic, count).worst, 0.01);
  EXPECT_LT(DifferencesOf("mlp", kFastNic, count).mean, 0.01);
}

// Else they differ: a shard answers once all that it has is applied, and a push leaves, and is
// applied, by buckets, which plans do not know of.
TEST(PlannedTimesTest, StrategiesTakeAboutWhatIsPlannedBehindUsualLinks) {
  for (const char* name : {"lenet5", "mlp"}) {
    EXPECT_LT(DifferencesOf(name, kUsualNic, std::max(8, Strategies())).mean, 0.05) << name;
  }
}

std::shared_ptr<const models::TrainTest> Digits() {
  static const auto* const data = new std::shared_ptr<const models::TrainTest>(
      std::make_shared<models::TrainTest>(*models::LoadData(
          {.format = "digits",
           .path = std::string(SOAPSTONE_SOURCE_DIR) + "/data/digits/digits.csv.gz"})));
  return *data;
}

// The same with the digits, whose batches are whole for 20 clocks.
cluster::TrainingJob TrainedBy(cluster::TrainingJob job) {
  job.specs.optimizer = *compute::ParseOptimizer("momentum:lr=0.03,mu=0.9");
  job.specs.schedule = *compute::ParseSchedule("constant");
  job.data = Digits();
  job.seed = 3;
  cluster::Complete(&job);
  return job;
}

constexpr char kStalls[] = "jitter:sigma=0.3+stall:p=0.1,factor=6";

CosimResult Trained(const cluster::TrainingJob& job, const CosimTiming& timing) {
  auto result = Cosimulate(job, timing, {.samples_per_point = 4 * job.batch});
  CHECK(result.ok()) << result.status();
  EXPECT_EQ(result->timing.violations, 0u) << result->timing.violation.value_or("");
  return *std::move(result);
}

const CosimTiming kDelays[] = {{},
                               {.stragglers = kStalls, .latency_us = 100, .bandwidth_mbps = 200},
                               {.stragglers = kStalls, .seed = 9, .latency_us = 3000}};

class TeamCosimTest : public ::testing::Test {
 protected:
  // Of lenet5 on the digits.
  wire::Strategy MessageFor(const OpGraph& graph, Strategy strategy, uint32_t seats,
                            Synchronization way) const {
    planner::SetSynchronization(way, &strategy);
    return planner::MessageOf(graph, MachineOf(seats, kUsualNic), "none", strategy);
  }
  std::shared_ptr<const models::Graph> model_ = std::make_shared<const models::Graph>(
      *models::BuildModel("lenet5", Digits()->train.shape, 10));
};

// The whole model on one worker, of as many micro-batches.
std::string WholeHash(const std::shared_ptr<const models::Graph>& model, uint64_t batch,
                      uint32_t micro_batches, Clock clocks) {
  cluster::TrainingJob job = {.specs = {.policy = *consistency::ParsePolicy("bsp")},
                              .graph = model,
                              .layout = std::make_shared<const wire::Layout>(
                                  *wire::Layout::Build(model->params(), {.shard_count = 1})),
                              .batch = batch,
                              .micro_batches = micro_batches,
                              .total_clocks = clocks};
  return Trained(TrainedBy(std::move(job)), {}).sha256;
}

TEST_F(TeamCosimTest, PlacementsHaveTheBitsOfOneWorkerWhateverTheDelays) {
  planner::Draws draws(3, 3);
  for (const uint32_t teams : {1u, 2u}) {
    const OpGraph graph = GraphOf(*model_, 2);
    const std::string whole = WholeHash(model_, teams * kBatch, 2 * teams, 5);
    for (const Synchronization way :
         {Synchronization::kServers, Synchronization::kOwner, Synchronization::kRing}) {
      const wire::Strategy strategy =
          MessageFor(graph, planner::RandomPipeline(graph, 3, &draws), 3, way);
      const cluster::TrainingJob job = TrainedBy(JobOf(model_, strategy, "bsp", 2, 5, teams));
      for (const CosimTiming& timing : kDelays) EXPECT_EQ(Trained(job, timing).sha256, whole);
    }
  }
}

TEST_F(TeamCosimTest, ASplitHasOneHashWhateverTheDelaysAndTheBound) {
  planner::Draws draws(4, 3);
  const OpGraph graph = GraphOf(*model_, 1);
  const Strategy split = planner::RandomStrategy(graph, {.seats = 3, .parts_max = 4}, &draws);
  std::set<std::string> hashes;
  for (const Synchronization way :
       {Synchronization::kServers, Synchronization::kOwner, Synchronization::kRing}) {
    const wire::Strategy strategy = MessageFor(graph, split, 3, way);
    for (const char* policy : {"bsp", "ssp:s=2"}) {
      const cluster::TrainingJob job = TrainedBy(JobOf(model_, strategy, policy, 1, 5));
      for (const CosimTiming& timing : kDelays) hashes.insert(Trained(job, timing).sha256);
    }
  }
  EXPECT_EQ(hashes.size(), 1u);
}

TEST_F(TeamCosimTest, StagesThatRunAheadHaveOneHashAndLagAsPlanned) {
  const OpGraph graph = GraphOf(*model_, 1);
  Strategy stages;
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    stages.ops.push_back(
        planner::SingleDevice(graph, static_cast<uint32_t>(4 * k / graph.ops.size())).ops[k]);
  }
  stages.staleness = 3;
  const wire::Strategy strategy = MessageFor(graph, stages, 4, Synchronization::kServers);
  std::set<std::string> hashes;
  for (const char* policy : {"ssp:s=3", "ssp:s=6", "async"}) {
    const cluster::TrainingJob job = TrainedBy(JobOf(model_, strategy, policy, 1, 12));
    for (const CosimTiming& timing : kDelays) {
      const CosimResult result = Trained(job, timing);
      hashes.insert(result.sha256);
      EXPECT_EQ(result.timing.read_lags.size(), 4u) << "of 0 to 3 clocks";
      EXPECT_EQ(result.curve.size(), 3u);
    }
  }
  EXPECT_EQ(hashes.size(), 1u);
}

TEST_F(TeamCosimTest, DelaysOfASeatAndOfItsMessagesTakeTime) {
  planner::Draws draws(5, 3);
  const OpGraph graph = GraphOf(*model_, 1);
  const wire::Strategy strategy =
      MessageFor(graph, planner::RandomPipeline(graph, 3, &draws), 3, Synchronization::kServers);
  const cluster::TrainingJob job = TrainedBy(JobOf(model_, strategy, "bsp", 1, 5));
  // Three stages of 1 ms each, one after another.
  EXPECT_NEAR(Trained(job, {}).duration_s, 5 * 3e-3, 1e-6);
  const double base = Trained(job, {}).duration_s;
  EXPECT_NEAR(Trained(job, {.stragglers = "slow:workers=1,factor=3"}).duration_s, base + 5 * 2e-3,
              1e-6);
  // Two blocks there and back, a push, and an answer.
  EXPECT_GE(Trained(job, {.latency_us = 100}).duration_s, base + 5 * 5e-4);
  EXPECT_GE(Trained(job, {.bandwidth_mbps = 100}).duration_s, base * 1.1);
}

// A seat's local steps, and what it exchanges, are those of a worker that has the whole model, of
// its pieces.
TEST_F(TeamCosimTest, AveragingRoundsHaveTheBitsOfWorkersThatHaveAll) {
  planner::Draws draws(6, 3);
  const OpGraph graph = GraphOf(*model_, 1);
  std::set<std::string> all;
  for (const char* policy :
       {"localsgd:h=2", "bmuf:h=2", "easgd:tau=2,mode=sync", "eamsgd:tau=3,mode=sync,delta=0.9"}) {
    cluster::TrainingJob job = {.specs = {.policy = *consistency::ParsePolicy(policy)},
                                .graph = model_,
                                .layout = std::make_shared<const wire::Layout>(
                                    *wire::Layout::Build(model_->params(), {.shard_count = 1})),
                                .batch = 2 * kBatch,
                                .micro_batches = 2,
                                .total_clocks = 5,
                                .workers = 2};
    const std::string whole = Trained(TrainedBy(std::move(job)), {}).sha256;
    EXPECT_TRUE(all.insert(whole).second) << policy;
    for (const Synchronization way :
         {Synchronization::kServers, Synchronization::kOwner, Synchronization::kRing}) {
      const wire::Strategy strategy =
          MessageFor(graph, planner::RandomPipeline(graph, 3, &draws), 3, way);
      const cluster::TrainingJob teams = TrainedBy(JobOf(model_, strategy, policy, 2, 5, 2));
      for (const CosimTiming& timing : kDelays) {
        EXPECT_EQ(Trained(teams, timing).sha256, whole) << policy;
      }
    }
  }
}

TEST_F(TeamCosimTest, WhatIsNotSimulatedIsRefused) {
  planner::Draws draws(5, 3);
  const OpGraph graph = GraphOf(*model_, 1);
  const wire::Strategy strategy =
      MessageFor(graph, planner::RandomPipeline(graph, 2, &draws), 2, Synchronization::kServers);
  const cluster::TrainingJob job = TrainedBy(JobOf(model_, strategy, "bsp", 1, 5));
  EXPECT_THAT(Cosimulate(job, {.stragglers = "failstop:p=0.1,down_ms=1"}, {}).status().message(),
              ::testing::HasSubstr("failstop is not simulated"));
  const cluster::TrainingJob peers = TrainedBy(JobOf(model_, strategy, "allreduce", 1, 5));
  EXPECT_THAT(Cosimulate(peers, {}, {}).status().message(),
              ::testing::HasSubstr("allreduce is not simulated where a strategy splits the model"));
}

}  // namespace
}  // namespace soapstone::experiment
