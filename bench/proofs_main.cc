// The optimum of LeNet and of a two-step RNNLM on four devices of a P100 node: proved by branch and
// bound, and hit by the random walk within a second from how many of so many seeds (FlexFlow,
// section 8.4, proved them in 0.8 and 18 hours).
//   soapstone-proofs --machine=examples/machines/p100_4x4.machine.textproto
#include <CLI/CLI.hpp>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "glog/logging.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/search/searcher.h"
#include "scheduler/planner/searchers/searcher_list.h"
#include "strategy/machine_text.h"

namespace soapstone {
namespace {

using planner::SearchOptions;
using planner::SearchResult;

// Seconds of processor time: searches have one thread here, and others may use the machine.
double Now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct ProofFlags {
  std::string machine_path;
  std::vector<std::string> models = {"lenet5", "rnnlm"};
  uint32_t devices = 4;
  int64_t batch = 256;
  int64_t steps = 2;
  double budget_s = 600;
  double walk_s = 1;
  uint32_t seeds = 100;
  std::string search = "bnb";
  bool plain_seeds = false;
  bool show = false;
};

// Only what people do without a search.
std::vector<planner::Strategy> PlainSeeds(const planner::SearchProblem& problem) {
  std::vector<planner::Strategy> seeds;
  for (const char* name : {"data", "model", "expert"}) {
    seeds.push_back((*planner::FindSearcher(name))->Search(problem, {})->strategy);
  }
  return seeds;
}

planner::OpGraph GraphOf(const std::string& model, const ProofFlags& flags) {
  const bool recurrent = model.rfind("rnn", 0) == 0;
  models::ModelInput input;
  if (recurrent) input.steps = flags.steps;
  const auto graph = models::BuildModel(model, input);
  CHECK(graph.ok()) << graph.status();
  auto ops = planner::MakeOpGraph(*graph, {.batch = flags.batch, .time_chunk = recurrent ? 1 : 0});
  CHECK(ops.ok()) << ops.status();
  return *std::move(ops);
}

SearchResult Timed(const std::string& name, const planner::SearchProblem& problem, double seconds,
                   uint64_t seed, double* took) {
  const double began = Now();
  SearchOptions options = {.seed = seed};
  options.used = [&] { return (Now() - began) / seconds; };
  const auto searcher = planner::FindSearcher(name);
  CHECK(searcher.ok()) << searcher.status();
  auto result = planner::RunSearcher(**searcher, problem, options);
  CHECK(result.ok()) << result.status();
  *took = Now() - began;
  return *std::move(result);
}

void Show(const planner::OpGraph& graph, const SearchResult& result) {
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const planner::OpConfig& config = result.strategy.ops[i];
    std::cout << absl::StrFormat("  %-14s", graph.ops[i].name);
    for (size_t d = 0; d < config.degrees.size(); ++d) {
      std::cout << " " << graph.ops[i].rule.dims[d].name << "/" << config.degrees[d];
    }
    std::cout << "  on " << absl::StrJoin(config.devices, ",") << "\n";
  }
}

void Prove(const std::string& model, const planner::Machine& machine, const ProofFlags& flags) {
  const planner::OpGraph graph = GraphOf(model, flags);
  const planner::RooflineCost costs(machine.kinds(), planner::UsualEfficiencies());
  const planner::Space space(&graph, &machine);
  const planner::SearchProblem problem = {.space = &space, .costs = &costs};
  double strategies = 1;
  for (uint32_t op = 0; op < graph.ops.size(); ++op) {
    strategies *= static_cast<double>(space.Configs(op).size());
  }
  double seconds = 0;
  const SearchResult best = Timed(flags.search, problem, flags.budget_s, 1, &seconds);
  std::cout << absl::StrFormat(
                   "%s: %d operators, %.2g strategies a way to synchronize; %s: %d ns, proved: %s, "
                   "%d visited, %d pruned, %.1f s of processor time; %s",
                   model, graph.ops.size(), strategies, flags.search, best.found.step_ns,
                   best.proved ? "true" : "false", best.visited, best.pruned, seconds, best.note)
            << std::endl;
  if (flags.show) Show(graph, best);
  std::vector<planner::Strategy> seeds;
  if (flags.plain_seeds) seeds = PlainSeeds(problem);
  planner::SearchProblem walked = problem;
  walked.seeds = seeds;
  uint32_t hits = 0;
  double slowest = 0;
  Nanos worst = 0;
  for (uint64_t seed = 1; seed <= flags.seeds; ++seed) {
    const SearchResult walk = Timed("mcmc", walked, flags.walk_s, seed, &seconds);
    if (walk.found.step_ns <= best.found.step_ns) ++hits;
    slowest = std::max(slowest, seconds);
    worst = std::max(worst, walk.found.step_ns);
  }
  std::cout << absl::StrFormat("%s: mcmc hits it from %d of %d seeds, each %.2f s; worst %d ns",
                               model, hits, flags.seeds, slowest, worst)
            << std::endl;
}

int Run(int argc, char** argv) {
  ProofFlags flags;
  CLI::App app("Optima of small models, proved, and how often the random walk hits them.");
  app.add_option("--machine", flags.machine_path, "Machine file")->required();
  app.add_option("--models", flags.models, "Of the zoo [lenet5 rnnlm]");
  app.add_option("--devices", flags.devices, "The first of the machine [4]");
  app.add_option("--batch", flags.batch, "Samples of a step [256]");
  app.add_option("--steps", flags.steps, "Of a sequence; each a chunk of its own [2]");
  app.add_option("--budget", flags.budget_s, "Seconds for a proof [600]");
  app.add_option("--walk", flags.walk_s, "Seconds for a random walk [1]");
  app.add_option("--seeds", flags.seeds, "Random walks [100]");
  app.add_option("--search", flags.search, "Who proves [bnb]");
  app.add_flag("--plain_seeds", flags.plain_seeds,
               "Walks begin at data, model and expert parallelism alone");
  app.add_flag("--show", flags.show, "Print the strategies");
  CLI11_PARSE(app, argc, argv);
  std::ifstream file(flags.machine_path);
  std::stringstream text;
  text << file.rdbuf();
  auto machine = planner::ParseMachine(text.str(), flags.machine_path);
  if (machine.ok()) machine = planner::FirstDevices(*machine, flags.devices);
  if (!machine.ok()) {
    std::cerr << machine.status().message() << "\n";
    return kExitConfig;
  }
  for (const std::string& model : flags.models) Prove(model, *machine, flags);
  return kExitOk;
}

}  // namespace
}  // namespace soapstone

// NOLINTNEXTLINE(bugprone-exception-escape): it ends the program.
int main(int argc, char** argv) { return soapstone::Run(argc, argv); }
