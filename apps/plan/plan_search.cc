#include "apps/plan/plan_search.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/loop/node_loop.h"
#include "apps/report/report.h"
#include "base/status_macros.h"
#include "scheduler/planner/pipeline/micro_batch_search.h"
#include "scheduler/planner/pipeline/stale_search.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/searchers/searcher_list.h"

namespace soapstone::apps {
namespace {

constexpr uint32_t kChains = 2;
constexpr int64_t kMicroBatchesMax = 1024;
constexpr double kOverlapShare = 0.4;  // of the time, for iterations that overlap
// Proposals of steps for one of iterations, each of which is priced by dozens of steps.
constexpr uint64_t kStepProposals = 10;

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

// One searcher on what is planned, within the limits.
class OneSearch {
 public:
  OneSearch(const Planning& planning, const planner::Searcher& searcher, const SearchLimits& limits)
      : planning_(planning),
        searcher_(searcher),
        limits_(limits),
        began_(NodeLoop::Now()),
        meter_(planning.graph().model + " by " + std::string(searcher.name()),
               limits.proposals == 0 ? limits.budget_s : 0) {}

  absl::StatusOr<SearchRun> Run() {
    const bool overlaps = limits_.staleness > 0 && searcher_.searches_staleness();
    const double share = overlaps ? 1 - kOverlapShare : 1;
    SOAP_RETURN_IF_ERROR(limits_.micro_batches ? ChooseMicroBatches(share) : SearchSteps(share));
    if (overlaps) SOAP_RETURN_IF_ERROR(SearchOverlap());
    run_.row = {.name = std::string(searcher_.name()),
                .step_ns = run_.result.found.step_ns,
                .overflow_bytes = run_.result.found.overflow_bytes,
                .proposals = run_.result.counts.proposed,
                .simulations = run_.result.counts.simulated,
                .seconds = SecondsSince(began_),
                .micro_batches = graph().micro_batches,
                .note = run_.result.note};
    return std::move(run_);
  }

 private:
  const planner::OpGraph& graph() const { return run_.graph ? *run_.graph : planning_.graph(); }

  // Until so much of the budget is used up.
  planner::SearchOptions OptionsUntil(double end) {
    planner::SearchOptions options = {
        .seed = limits_.seed, .chains = kChains, .simulator = planning_.simulator_options()};
    options.threads = std::min(kChains, std::max(1u, std::thread::hardware_concurrency()));
    if (limits_.proposals > 0) {
      options.proposals = limits_.proposals;
      return options;
    }
    const double begin = Used();
    options.used = [this, begin, end] { return (Used() - begin) / std::max(1e-6, end - begin); };
    return options;
  }
  double Used() const { return SecondsSince(began_) / limits_.budget_s; }

  planner::SearchProblem ProblemOf(const planner::Space& space) const {
    return {.space = &space, .costs = &planning_.costs(), .only_ways = planning_.ways()};
  }

  absl::Status SearchSteps(double share) {
    const planner::Space space(&planning_.graph(), &planning_.machine());
    planner::SearchProblem problem = ProblemOf(space);
    problem.prices = planning_.prices();
    planner::SearchOptions options = OptionsUntil(share);
    options.progress = [this](const planner::SearchProgress& progress) {
      meter_.Show(planning_.graph().micro_batches, progress);
    };
    if (options.used && searcher_.is_search()) options.give_up = [this] { return Used() > 1; };
    SOAP_ASSIGN_OR_RETURN(run_.result, planner::RunSearcher(searcher_, problem, options));
    return absl::OkStatus();
  }

  absl::Status ChooseMicroBatches(double share) {
    const planner::MicroBatchProblem problem = {
        .graph_of = [this](int64_t m) { return planning_.GraphOf(m); },
        .machine = &planning_.machine(),
        .costs = &planning_.costs(),
        .only_ways = planning_.ways()};
    const planner::MicroBatchOptions how = {
        .seconds = [this] { return SecondsSince(began_); },
        .progress = [this](int64_t m, const planner::SearchProgress& p) { meter_.Show(m, p); }};
    SOAP_ASSIGN_OR_RETURN(
        planner::MicroBatchResult found,
        planner::SearchMicroBatches(searcher_, problem, OptionsUntil(share), how));
    run_.result = std::move(found.result);
    run_.graph = std::move(found.graph);
    run_.trials = std::move(found.trials);
    return absl::OkStatus();
  }

  // Of the graph that was planned; and of the whole batch where micro-batches were chosen, as steps
  // that overlap fill a pipeline too, at fewer launches.
  absl::Status SearchOverlap() {
    if (limits_.micro_batches && graph().micro_batches > 1) {
      const planner::OpGraph& whole = planning_.graph();
      const auto devices = static_cast<uint32_t>(planning_.machine().devices().size());
      SOAP_ASSIGN_OR_RETURN(
          planner::SearchResult other,
          Overlap(whole, planner::DataParallel(whole, devices), (1 + Used()) / 2));
      SOAP_ASSIGN_OR_RETURN(planner::SearchResult best, Overlap(graph(), run_.result.strategy, 1));
      TakeOverlap(std::move(best));
      if (other.found < run_.result.found) {
        run_.graph = std::make_unique<planner::OpGraph>(whole);
        TakeOverlap(std::move(other));
      }
      return absl::OkStatus();
    }
    SOAP_ASSIGN_OR_RETURN(planner::SearchResult best, Overlap(graph(), run_.result.strategy, 1));
    TakeOverlap(std::move(best));
    return absl::OkStatus();
  }

  void TakeOverlap(planner::SearchResult result) {
    result.counts += run_.result.counts;
    run_.result = std::move(result);
  }

  absl::StatusOr<planner::SearchResult> Overlap(const planner::OpGraph& graph,
                                                const planner::Strategy& plan, double end) {
    const planner::Space space(&graph, &planning_.machine());
    planner::SearchOptions options = OptionsUntil(end);
    options.proposals = std::max<uint64_t>(1, options.proposals / kStepProposals);
    options.progress = [this, &graph](const planner::SearchProgress& progress) {
      meter_.Show(graph.micro_batches, progress);
    };
    return planner::SearchStaleness(ProblemOf(space), plan, limits_.staleness, options);
  }

  const Planning& planning_;
  const planner::Searcher& searcher_;
  const SearchLimits limits_;
  const Nanos began_;
  const SearchMeter meter_;
  SearchRun run_;
};

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
  return OneSearch(planning, *searcher, limits).Run();
}

absl::StatusOr<std::vector<SearchRun>> RunAllSearches(const Planning& planning,
                                                      const SearchLimits& limits) {
  std::vector<SearchRun> runs;
  for (const planner::Searcher* searcher : planner::Searchers()) {
    SOAP_ASSIGN_OR_RETURN(runs.emplace_back(), OneSearch(planning, *searcher, limits).Run());
  }
  return runs;
}

}  // namespace soapstone::apps
