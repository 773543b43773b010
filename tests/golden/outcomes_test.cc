// What runs come to, in files that a change of no behaviour leaves as they are: the fuzzer's runs
// of every policy (their steps, every choice and message of them, what was read), and planned
// timelines (step times, every task of them). SOAPSTONE_WRITE_OUTCOMES=FOLDER writes the files
// anew: only where behaviour is meant to change.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/fingerprint.h"
#include "consistency/catalogue.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/search/proposals.h"
#include "scheduler/planner/simulator/simulator.h"
#include "sim/fault_world.h"
#include "strategy/machine_text.h"

namespace soapstone {
namespace {

constexpr uint64_t kSeeds = 30;  // of a policy: more than 1,000 runs of all
constexpr int kProposals = 40;   // from one timeline to the next
constexpr int kTimelines = 2;    // of a model, a number of devices and a way to synchronize

std::string Hex(const Fingerprint& f) { return absl::StrFormat("%016x", f.value().first); }

// A file that is compared line by line.
class Outcomes {
 public:
  explicit Outcomes(const std::string& name) : name_(name) {}
  void Add(const std::string& line) { lines_.push_back(line); }
  void Compare() const {
    if (const char* folder = std::getenv("SOAPSTONE_WRITE_OUTCOMES"); folder != nullptr) {
      std::ofstream(std::filesystem::path(folder) / name_) << absl::StrJoin(lines_, "\n") << '\n';
      GTEST_SKIP() << "written: " << folder << '/' << name_;
    }
    std::ifstream file(std::string(SOAPSTONE_SOURCE_DIR "/tests/golden/") + name_);
    std::vector<std::string> known;
    for (std::string line; std::getline(file, line);) known.push_back(line);
    ASSERT_EQ(lines_.size(), known.size());
    int differ = 0;
    for (size_t i = 0; i < known.size(); ++i) {
      if (lines_[i] != known[i] && ++differ <= 5)
        ADD_FAILURE() << known[i] << "\nis now\n" << lines_[i];
    }
    EXPECT_EQ(differ, 0) << "lines of " << known.size();
  }

 private:
  const std::string name_;
  std::vector<std::string> lines_;
};

TEST(OutcomesTest, RunsWithFaultsAreWhatTheyWere) {
  std::vector<std::string> policies = consistency::ExamplePolicies();
  for (const std::string& peers : consistency::ExamplePeerPolicies()) policies.push_back(peers);
  ASSERT_GE(policies.size() * kSeeds, 1000u);
  Outcomes outcomes("outcomes_of_runs.txt");
  for (const std::string& policy : policies) {
    sim::SeedOptions options;
    options.trace_lines = std::numeric_limits<size_t>::max();
    options.world.shape = {.workers = 3,
                           .shards = 2,
                           .policy = *consistency::ParsePolicy(policy),
                           .clocks = 6,
                           .micro_batch_count = 4};
    options.world.faults = {.crashes = 2,
                            .leaves = 1,
                            .joins = 2,
                            .duplicates = 3,
                            .breaks = 3,
                            .losses = 1,
                            .late_words = 1};
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const auto report = sim::RunSeed(options, seed);
      ASSERT_TRUE(report.ok()) << report.status();
      Fingerprint trace;
      for (const std::string& line : report->trace) trace.Add(line);
      outcomes.Add(absl::StrFormat(
          "%s seed %d: %d steps, %d faults, reads by lag %s, gap %d, %s, trace %s", policy, seed,
          report->steps, report->faults, absl::StrJoin(report->read_lags, " "),
          report->clock_gap_max, report->violation.value_or("ok"), Hex(trace)));
    }
  }
  outcomes.Compare();
}

planner::Machine NodesOfFour(uint32_t devices) {
  absl::StatusOr<planner::Machine> machine =
      planner::ParseMachine(absl::StrCat(R"(
    name: "nodes"
    kinds { name: "gpu" tflops: 6.4 memory_gbytes_per_s: 550 memory_gib: 16 launch_us: 5 }
    nodes {
      name: "node" kind: "gpu" devices: )",
                                         std::min(devices, 4u), " count: ", (devices + 3) / 4, R"(
      mesh { gbytes_per_s: 20 latency_us: 2 }
      host { gbytes_per_s: 12 latency_us: 5 }
      nics { count: 1 connection { gbytes_per_s: 12.5 latency_us: 3 } direct: true }
      servers: 1 server_apply_gbytes_per_s: 10
    })"),
                            "test");
  CHECK(machine.ok()) << machine.status();
  return *std::move(machine);
}

planner::OpGraph GraphOf(const std::string& model, uint32_t devices) {
  models::ModelInput input;
  if (model == "alexnet" || model == "inception_v3") {
    const int64_t side = model == "inception_v3" ? 299 : 224;
    input = {.image = {3, side, side}, .classes = 1000};
  }
  const auto graph = models::BuildModel(model, input);
  CHECK(graph.ok()) << graph.status();
  auto plan = planner::MakeOpGraph(*graph, {.batch = int64_t{64} * devices,
                                            .time_chunk = input.image.empty() ? 8 : 0,
                                            .micro_batches = 1});
  CHECK(plan.ok()) << plan.status();
  return *std::move(plan);
}

void AddTimelines(const std::string& model, uint32_t devices, Outcomes* outcomes) {
  using planner::Synchronization;
  const planner::OpGraph graph = GraphOf(model, devices);
  const planner::Machine machine = NodesOfFour(devices);
  const planner::RooflineCost costs(machine.kinds(), {});
  const planner::Space space(&graph, &machine);
  planner::ProposalGenerator moves(&space);
  planner::RandomSource random(11, devices);
  planner::Simulator simulator(&graph, &machine, &costs);
  planner::Strategy seed = planner::DataParallel(graph, devices);
  for (const Synchronization way :
       {Synchronization::kOwner, Synchronization::kRing, Synchronization::kServers}) {
    seed.synchronization = way;
    CHECK(simulator.SetStrategy(seed).ok());
    for (int timeline = 0; timeline < kTimelines; ++timeline) {
      for (int i = 0; i < kProposals; ++i) {
        const auto changes = moves.Draw(simulator, &random);
        if (changes.empty() && moves.servers().empty()) continue;
        const Nanos now = simulator.StepTime();
        if (simulator.Propose(changes, now + now / 20, moves.servers()) == planner::kNever) {
          simulator.Reject();
        } else {
          simulator.Accept();
        }
      }
      Fingerprint tasks;
      for (const planner::TimelineTask& task : simulator.Timeline()) {
        for (const uint64_t x : {uint64_t{static_cast<uint8_t>(task.kind)}, uint64_t{task.of},
                                 uint64_t{task.index}, uint64_t{task.resource}}) {
          tasks.AddWord(x);
        }
        for (const Nanos at : {task.ready, task.start, task.end}) tasks.Add(at);
      }
      outcomes->Add(absl::StrFormat("%s on %d, way %d, timeline %d: %d ns, %d over, tasks %s",
                                    model, devices, static_cast<int>(way), timeline,
                                    simulator.StepTime(), simulator.Overflow(), Hex(tasks)));
    }
  }
}

TEST(OutcomesTest, PlannedTimelinesAreWhatTheyWere) {
  Outcomes outcomes("outcomes_of_plans.txt");
  for (const char* model : {"alexnet", "inception_v3", "rnntc", "rnnlm", "gnmt"}) {
    for (const uint32_t devices : {2u, 4u, 8u, 16u}) AddTimelines(model, devices, &outcomes);
  }
  outcomes.Compare();
}

}  // namespace
}  // namespace soapstone
