#include "apps/plan_search.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/node_loop.h"
#include "apps/report.h"
#include "base/status_macros.h"
#include "scheduler/planner/micro_batch_search.h"
#include "scheduler/planner/space.h"

namespace soapstone::apps {
namespace {

constexpr uint32_t kChains = 2;
constexpr int64_t kMicroBatchesMax = 1024;

double SecondsSince(Nanos began) {
  return static_cast<double>(NodeLoop::Now() - began) / static_cast<double>(kSecond);
}

// One line on a terminal: how far, the best so far, how long to go.
class SearchMeter {
 public:
  SearchMeter(std::string what, double budget_s)
      : what_(std::move(what)),
        budget_s_(budget_s),
        terminal_(isatty(STDERR_FILENO) != 0),
        began_(NodeLoop::Now()) {}
  ~SearchMeter() {
    if (terminal_) std::fputs("\r\x1b[K", stderr);
  }
  // Of a graph in so many micro-batches.
  void Show(int64_t micro_batches, const planner::SearchProgress& progress) const {
    if (!terminal_) return;
    const double past = SecondsSince(began_);
    double done = static_cast<double>(progress.proposals) /
                  static_cast<double>(std::max<uint64_t>(progress.proposals_max, 1));
    if (budget_s_ > 0) done = past / budget_s_;
    done = std::clamp(done, 1e-3, 1.0);
    std::fprintf(stderr, "\r\x1b[Kplanning %s%s  %.0f%%  best %.3f ms  ETA %s", what_.c_str(),
                 micro_batches > 1 ? absl::StrCat(", micro-batches ", micro_batches).c_str() : "",
                 100 * done, static_cast<double>(progress.best.step_ns) / 1e6,
                 DurationText(past * (1 - done) / done).c_str());
  }

 private:
  const std::string what_;
  const double budget_s_;  // 0: proposals are counted
  const bool terminal_;
  const Nanos began_;
};

absl::StatusOr<SearchRun> RunOne(const Planning& planning, const planner::Searcher& searcher,
                                 const SearchLimits& limits) {
  const bool timed = limits.proposals == 0;
  planner::SearchOptions options = {
      .seed = limits.seed, .chains = kChains, .simulator = planning.simulator_options()};
  options.threads = std::min(kChains, std::max(1u, std::thread::hardware_concurrency()));
  if (!timed) options.proposals = limits.proposals;
  const Nanos began = NodeLoop::Now();
  if (timed) options.used = [&] { return SecondsSince(began) / limits.budget_s; };
  const SearchMeter meter(planning.graph().model + " by " + std::string(searcher.name()),
                          timed ? limits.budget_s : 0);
  SearchRun run;
  if (limits.micro_batches) {
    const planner::MicroBatchProblem problem = {
        .graph_of = [&planning](int64_t m) { return planning.GraphOf(m); },
        .machine = &planning.machine(),
        .costs = &planning.costs(),
        .only_ways = planning.ways()};
    const planner::MicroBatchOptions how = {
        .seconds = [began] { return SecondsSince(began); },
        .progress = [&meter](int64_t m,
                             const planner::SearchProgress& progress) { meter.Show(m, progress); }};
    SOAP_ASSIGN_OR_RETURN(planner::MicroBatchResult found,
                          planner::SearchMicroBatches(searcher, problem, options, how));
    run.result = std::move(found.result);
    run.graph = std::move(found.graph);
    run.trials = std::move(found.trials);
  } else {
    const planner::OpGraph& graph = planning.graph();
    const planner::Space space(&graph, &planning.machine());
    const planner::SearchProblem problem = {.space = &space,
                                            .costs = &planning.costs(),
                                            .only_ways = planning.ways(),
                                            .prices = planning.prices()};
    options.progress = [&](const planner::SearchProgress& progress) {
      meter.Show(graph.micro_batches, progress);
    };
    SOAP_ASSIGN_OR_RETURN(run.result, planner::RunSearcher(searcher, problem, options));
  }
  run.row = {.name = std::string(searcher.name()),
             .step_ns = run.result.found.step_ns,
             .overflow_bytes = run.result.found.overflow_bytes,
             .proposals = run.result.counts.proposed,
             .simulations = run.result.counts.simulated,
             .seconds = SecondsSince(began),
             .micro_batches = (run.graph ? *run.graph : planning.graph()).micro_batches,
             .note = run.result.note};
  return run;
}

}  // namespace

std::vector<std::string> SearchNames() {
  std::vector<std::string> names;
  for (const planner::Searcher* searcher : planner::Searchers()) {
    names.emplace_back(searcher->name());
  }
  names.emplace_back(kAllSearchers);
  return names;
}

std::string SearchersText() {
  std::string text = "Searchers:\n";
  for (const planner::Searcher* searcher : planner::Searchers()) {
    absl::StrAppendFormat(&text, "  %-8s %s\n", std::string(searcher->name()),
                          std::string(searcher->about()));
  }
  return text;
}

std::string ReadMicroBatches(std::string& text) {
  int64_t number = 0;
  if (text == "auto") {
    text = "0";
  } else if (!absl::SimpleAtoi(text, &number) || number < 1 || number > kMicroBatchesMax) {
    return absl::StrCat("'", text, "' is neither auto nor a number from 1 to ", kMicroBatchesMax);
  }
  return "";
}

absl::StatusOr<SearchRun> RunSearch(const Planning& planning, const std::string& name,
                                    const SearchLimits& limits) {
  SOAP_ASSIGN_OR_RETURN(const planner::Searcher* searcher, planner::FindSearcher(name));
  return RunOne(planning, *searcher, limits);
}

absl::StatusOr<std::vector<SearchRun>> RunAllSearches(const Planning& planning,
                                                      const SearchLimits& limits) {
  std::vector<SearchRun> runs;
  for (const planner::Searcher* searcher : planner::Searchers()) {
    SOAP_ASSIGN_OR_RETURN(runs.emplace_back(), RunOne(planning, *searcher, limits));
  }
  return runs;
}

}  // namespace soapstone::apps
