#include "bench/planner.h"

#include <time.h>

#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "glog/logging.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/search/proposals.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/machine_text.h"
#include "strategy/op_graph.h"

namespace soapstone::bench {
namespace {

using planner::Change;
using planner::kNever;
using planner::Machine;
using planner::OpGraph;
using planner::ProposalGenerator;
using planner::RandomSource;
using planner::Simulator;
using planner::Space;
using planner::Strategy;

constexpr size_t kSamples = 20;     // strategies along the walk
constexpr uint32_t kRunsEach = 20;  // measurements on each
constexpr double kBetaFirst = 50, kBetaLast = 50'000;

// Nodes of four P100 (examples/machines/p100_4x4.machine.textproto).
Machine MachineOf(uint32_t devices) {
  const std::string text = absl::StrCat(R"(
    name: "p100"
    kinds { name: "p100" tflops: 6.4 memory_gbytes_per_s: 550 memory_gib: 16 launch_us: 5 }
    nodes {
      name: "node" devices: 4 kind: "p100" count: )",
                                        devices / 4, R"(
      mesh { gbytes_per_s: 20 latency_us: 2 }
      host { gbytes_per_s: 12 latency_us: 5 }
      nics { count: 1 connection { gbytes_per_s: 12.5 latency_us: 3 } direct: true }
    })");
  absl::StatusOr<Machine> machine = planner::ParseMachine(text, "bench");
  CHECK(machine.ok()) << machine.status();
  return *std::move(machine);
}

OpGraph GraphOf(const PlannerLoad& load) {
  const bool recurrent = load.model == "gnmt";
  models::ModelInput input;
  if (!recurrent) input = {.image = {3, 299, 299}, .classes = 1000};
  const auto model = models::BuildModel(load.model, input);
  CHECK(model.ok()) << model.status();
  auto graph = planner::MakeOpGraph(
      *model, {.batch = int64_t{64} * load.devices, .time_chunk = recurrent ? 8 : 0});
  CHECK(graph.ok()) << graph.status();
  return *std::move(graph);
}

// Of this thread, so that what else runs on the machine counts little.
double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Walk {
 public:
  Walk(const Space* space, const planner::CostModel* costs, bool early)
      : moves_(space), random_(1, 0), simulator_(&space->graph(), &space->machine(), costs) {
    simulator_.set_early_rejection(early);
    CHECK(simulator_.SetStrategy(planner::DataParallel(space->graph(), space->devices())).ok());
    now_ = scale_ = simulator_.StepTime();
  }

  void Step(double done) {
    const auto changes = moves_.Draw(simulator_, &random_);
    const double beta = kBetaFirst * std::pow(kBetaLast / kBetaFirst, done);
    const double over = -static_cast<double>(scale_) / beta * std::log(random_.Uniform());
    if (changes.empty()) return;
    const auto cutoff = static_cast<Nanos>(static_cast<double>(now_) + over);
    const Nanos time = simulator_.Propose(changes, cutoff);
    if (time == kNever) return simulator_.Reject();
    simulator_.Accept();
    now_ = time;
  }

  // Proposals that are simulated to the end and taken back; seconds they take.
  double WholeProposals(uint32_t count) {
    simulator_.set_early_rejection(false);
    double seconds = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const auto changes = moves_.Draw(simulator_, &random_);
      const double start = ThreadSeconds();
      if (!changes.empty()) {
        simulator_.Propose(changes, kNever);
        simulator_.Reject();
      }
      seconds += ThreadSeconds() - start;
    }
    return seconds;
  }

  Simulator& simulator() { return simulator_; }
  Nanos now() const { return now_; }

 private:
  ProposalGenerator moves_;
  RandomSource random_;
  Simulator simulator_;
  Nanos now_ = 0, scale_ = 0;
};

double WalkRate(Walk* walk, uint64_t proposals, std::vector<Strategy>* samples) {
  double seconds = 0;
  uint64_t done = 0;
  for (size_t sample = 0; sample < kSamples; ++sample) {
    const double start = ThreadSeconds();
    for (const uint64_t end = proposals * (sample + 1) / kSamples; done < end; ++done) {
      walk->Step(static_cast<double>(done) / static_cast<double>(proposals));
    }
    seconds += ThreadSeconds() - start;
    if (samples != nullptr) samples->push_back(walk->simulator().strategy());
  }
  return static_cast<double>(walk->simulator().counts().proposed) / seconds;
}

}  // namespace

PlannerRow MeasurePlanner(const PlannerLoad& load) {
  const OpGraph graph = GraphOf(load);
  const Machine machine = MachineOf(load.devices);
  const Space space(&graph, &machine);
  const planner::RooflineCost costs(machine.kinds(), {});
  PlannerRow row = {.model = load.model, .devices = load.devices, .operators = graph.ops.size()};
  std::vector<Strategy> samples;
  Walk walk(&space, &costs, true);
  const double data_began = ThreadSeconds();
  for (uint32_t i = 0; i < kSamples * kRunsEach; ++i) walk.simulator().Simulate();
  row.data = kSamples * kRunsEach / (ThreadSeconds() - data_began);
  row.step_first_ms = static_cast<double>(walk.now()) / 1e6;
  row.proposals = WalkRate(&walk, load.proposals, &samples);
  row.step_ms = static_cast<double>(walk.now()) / 1e6;
  const planner::ProposalCounts& c = walk.simulator().counts();
  row.decided = absl::StrFormat(
      "%s@%d: %d proposals: %d remembered; rejected by compute %d, path %d, memory %d, load %d; "
      "aborted %d, simulated %d",
      load.model, load.devices, c.proposed, c.remembered, c.by_compute, c.by_path, c.by_memory,
      c.by_load, c.aborted, c.simulated);
  Walk late(&space, &costs, false);
  row.late_proposals = WalkRate(&late, load.proposals / 10, nullptr);

  double full = 0, built = 0, whole = 0, anew = 0;
  for (const Strategy& strategy : samples) {
    Simulator first(&graph, &machine, &costs);
    double start = ThreadSeconds();
    CHECK(first.SetStrategy(strategy).ok());
    first.Simulate();
    anew += ThreadSeconds() - start;
    start = ThreadSeconds();
    for (uint32_t i = 0; i < kRunsEach; ++i) CHECK(walk.simulator().SetStrategy(strategy).ok());
    built += ThreadSeconds() - start;
    row.tasks += walk.simulator().tasks() / kSamples;
    start = ThreadSeconds();
    for (uint32_t i = 0; i < kRunsEach; ++i) walk.simulator().Simulate();
    full += ThreadSeconds() - start;
    walk.simulator().StepTime();
    whole += walk.WholeProposals(kRunsEach);
  }
  constexpr double kRuns = kSamples * kRunsEach;
  row.full = kRuns / full;
  row.built = kRuns / (built + full);
  row.whole = kRuns / whole;
  row.anew = kSamples / anew;
  return row;
}

std::string PlannerTable(const std::vector<PlannerRow>& rows) {
  std::string text =
      absl::StrFormat("%-13s %7s %9s %7s %10s %10s %10s %10s %10s %12s %12s %9s %9s\n", "model",
                      "devices", "operators", "tasks", "data/s", "full/s", "anew/s", "built/s",
                      "whole/s", "proposals/s", "without/s", "first ms", "found ms");
  for (const PlannerRow& row : rows) {
    absl::StrAppendFormat(
        &text, "%-13s %7d %9d %7d %10.0f %10.0f %10.0f %10.0f %10.0f %12.0f %12.0f %9.2f %9.2f\n",
        row.model, row.devices, row.operators, row.tasks, row.data, row.full, row.anew, row.built,
        row.whole, row.proposals, row.late_proposals, row.step_first_ms, row.step_ms);
  }
  return text;
}

}  // namespace soapstone::bench
