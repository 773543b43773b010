#include "apps/plan/plan_command.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/cli/job_source.h"
#include "apps/loop/node_loop.h"
#include "apps/plan/plan_comparison.h"
#include "apps/plan/plan_drawing.h"
#include "apps/plan/plan_inputs.h"
#include "apps/plan/plan_report.h"
#include "apps/plan/plan_search.h"
#include "apps/plan/plan_svg.h"
#include "apps/plan/planning.h"
#include "apps/plan/work_for_all.h"
#include "apps/profile/machine_probe.h"
#include "apps/report/report.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/formats/safetensors_writer.h"
#include "scheduler/planner/pipeline/stale_search.h"
#include "scheduler/planner/search/searcher.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/searchers/searcher_list.h"
#include "strategy/strategy_text.h"
#include "wire/config/text_config.h"

namespace soapstone::apps {
namespace {

constexpr char kPlanProgram[] = "soapstone plan";
constexpr size_t kAlternativesShown = 12;
// So often a search is done again that found what does not fit after all, in a part of its time.
constexpr int kMemoryTries = 2;
constexpr double kAgainShare = 0.25;
// Of the budget: until then what the plan is compared with is priced. A search has what is left of
// it, and some in any case: behind it the plan is priced once more, which is not of the budget.
constexpr double kBaselinesShare = 0.3;
constexpr double kSearchShareMin = 0.05;
constexpr double kWholeShare = 0.2;  // of the budget, for data parallelism in one micro-batch

double GiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }
double StepMs(Nanos ns) { return static_cast<double>(ns) / 1e6; }

Nanos IterationOf(const PricedStrategy& priced) {
  return priced.iteration_ns > 0 ? priced.iteration_ns : priced.parts.step_ns;
}

class PlanRun {
 public:
  explicit PlanRun(const PlanFlags& flags) : flags_(flags) {}
  // `options` outlive it.
  PlanRun(const PlanFlags& flags, const PlanningOptions* options)
      : flags_(flags), options_(options) {}

  absl::Status Run() {
    for (const std::string* path :
         {&flags_.output_path, &flags_.trace_path, &flags_.svg_path, &flags_.dot_path}) {
      if (!path->empty()) SOAP_RETURN_IF_ERROR(models::CheckWritable(*path));
    }
    SOAP_RETURN_IF_ERROR(CheckFilesApart(flags_));
    PlanningOptions options;
    if (options_ != nullptr) {
      options = *options_;
    } else {
      SOAP_ASSIGN_OR_RETURN(options, OptionsOf(flags_));
    }
    StrategyFile given;
    if (!flags_.strategy_path.empty()) {
      SOAP_ASSIGN_OR_RETURN(given, ReadStrategyFile(flags_.strategy_path));
      FillFrom(given.message, &options);
    }
    SOAP_ASSIGN_OR_RETURN(planning_, Planning::Create(options));
    SOAP_RETURN_IF_ERROR(CheckExplain());
    summary_.graph = &planning_->graph();
    summary_.machine = &planning_->machine();
    summary_.costs = flags_.costs_path.empty() ? "roofline" : flags_.costs_path;
    summary_.costs_sha256 = planning_->costs().sha256();
    ComparedStrategies baselines;
    if (given.path.empty()) {
      SOAP_ASSIGN_OR_RETURN(baselines, Choose());
      if (!baselines.left_out.empty()) {
        absl::StrAppend(&summary_.search, "; no time to compare it with ",
                        absl::StrJoin(baselines.left_out, ", "));
      }
    } else {
      SOAP_RETURN_IF_ERROR(TakeGiven(given));
    }
    if (flags_.all_devices) GiveAllWork();
    SOAP_RETURN_IF_ERROR(CheckFits());
    SOAP_RETURN_IF_ERROR(CheckAllWork());
    ChooseStaleness();
    for (PricedStrategy& baseline : baselines.priced) {
      if (baseline.name != summary_.strategies[0].name) {
        summary_.strategies.push_back(std::move(baseline));
      }
    }
    summary_.groups = GroupsOf(planning_->graph(), planning_->machine(), planning_->costs(),
                               chosen().strategy, chosen().breakdown.in_flight);
    return WriteFiles();
  }

  const PlanSummary& summary() const { return summary_; }

  // The configurations of one operator, or of all its chunks alike, all else as planned.
  std::string Explanation() const {
    const std::vector<uint32_t>& ops = explained_;
    const planner::OpGraph& graph = planning_->graph();
    planner::Simulator simulator(&graph, &planning_->machine(), &planning_->costs(),
                                 planning_->simulator_options());
    CHECK(simulator.SetStrategy(chosen().strategy).ok());
    const Nanos now = simulator.StepTime();
    struct Alternative {
      Nanos step = 0;
      std::string text;
    };
    std::vector<Alternative> alternatives;
    size_t tried = 0;
    size_t no_room = 0;
    const planner::Space space(&graph, &planning_->machine());
    for (const planner::OpConfig& config : space.Configs(ops[0])) {
      std::vector<planner::Change> changes;
      for (const uint32_t op : ops) {
        const auto devices = static_cast<uint32_t>(planning_->machine().devices().size());
        if (planner::CheckConfig(graph.ops[op], config, devices).ok()) {
          changes.push_back({op, config});
        }
      }
      const Nanos step = simulator.Propose(changes, planner::kNever - 1);
      simulator.Reject();
      ++tried;
      if (step == planner::kNever) {
        ++no_room;
        continue;
      }
      alternatives.push_back(
          {step, absl::StrFormat("%-16s on %s", SplitsText(graph.ops[ops[0]], config),
                                 DevicesText(config.devices))});
    }
    std::stable_sort(alternatives.begin(), alternatives.end(),
                     [](const Alternative& a, const Alternative& b) { return a.step < b.step; });
    const planner::OpConfig& planned = chosen().strategy.ops[ops[0]];
    std::string text = absl::StrFormat(
        "\n%s: planned %s on %s, a step of %.3f ms. Of %d ways tried, all else as planned, %d do "
        "not fit; the best:\n",
        flags_.explain, SplitsText(graph.ops[ops[0]], planned), DevicesText(planned.devices),
        StepMs(now), tried, no_room);
    for (size_t i = 0; i < std::min(kAlternativesShown, alternatives.size()); ++i) {
      absl::StrAppendFormat(&text, "  %+9.3f ms  %s\n", StepMs(alternatives[i].step - now),
                            alternatives[i].text);
    }
    return text;
  }

 private:
  const PricedStrategy& chosen() const { return summary_.strategies[0]; }

  // --explain names an operator, a chunk of it, or all its chunks.
  absl::Status CheckExplain() {
    if (flags_.explain.empty()) return absl::OkStatus();
    const planner::OpGraph& graph = planning_->graph();
    for (const std::vector<uint32_t>& group : graph.groups) {
      for (const uint32_t op : group) {
        const std::string& name = graph.ops[op].name;
        if (name == flags_.explain) explained_ = {op};
        if (group.size() > 1 &&
            planner::NameOfGroup(graph, graph.ops[op].group) == flags_.explain) {
          explained_ = group;
        }
      }
    }
    if (!explained_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("--explain: ", graph.model, " has no operator '",
                                                   flags_.explain, "'; soapstone models ",
                                                   graph.model, " lists them"));
  }

  // The one strategy of --strategy, as it is.
  absl::Status TakeGiven(const StrategyFile& file) {
    SOAP_ASSIGN_OR_RETURN(
        const planner::Strategy strategy,
        planner::StrategyFrom(file.message, file.path, planning_->graph(), planning_->machine()));
    summary_.search = absl::StrCat(
        "no search: the strategy of ", file.path,
        HasOtherCosts(file, *planning_) ? ", which was found by other costs than these" : "");
    summary_.strategies.push_back(planning_->Price("given", strategy));
    return absl::OkStatus();
  }

  // The baselines that are held against it.
  absl::StatusOr<ComparedStrategies> Choose() {
    SearchLimits limits = {.seed = flags_.seed,
                           .proposals = flags_.proposals,
                           .budget_s = flags_.budget_s,
                           .micro_batches = flags_.micro_batches == 0,
                           .staleness = flags_.staleness};
    // What they price is known to the search, unless it comes with a graph of its own.
    ComparedStrategies baselines;
    if (!limits.micro_batches) {
      baselines = Baselines(kBaselinesShare);
      if (IsTimed()) {
        limits.budget_s *= std::max(1 - Used(), kSearchShareMin);
      }
    }
    for (int tries = 0;; ++tries) {
      SOAP_RETURN_IF_ERROR(ChooseOnce(limits, &baselines));
      const PricedStrategy& plan = chosen();
      const bool lacks_memory = plan.overflow_bytes > plan.moved_over_bytes;
      if (!lacks_memory || !fits_as_counted_ || tries == kMemoryTries) return baselines;
      // What the search counted fits, and what would run does not: once more, with less to count
      // on.
      planning_->TightenMemory(plan);
      limits.budget_s = kAgainShare * flags_.budget_s;
      summary_.strategies.clear();
      summary_.searchers.clear();
    }
  }

  bool IsTimed() const { return flags_.proposals == 0; }
  double Used() const {
    return static_cast<double>(NodeLoop::Now() - began_) / kSecond / flags_.budget_s;
  }
  // Those that can be priced until so much of the budget is used up. A rule that is no search is
  // shown however slow it is.
  ComparedStrategies Baselines(double share) const {
    const auto searcher = planner::FindSearcher(flags_.search);
    const bool searches = !searcher.ok() || (*searcher)->is_search();  // not: all of them
    if (!IsTimed() || !searches) return planning_->Baselines({});
    return planning_->Baselines([this, share] { return Used() > share; });
  }

  absl::Status ChooseOnce(const SearchLimits& limits, ComparedStrategies* baselines) {
    std::vector<SearchRun> runs(1);
    if (flags_.search == kAllSearchers) {
      SOAP_ASSIGN_OR_RETURN(runs, RunAllSearches(*planning_, limits));
      for (const SearchRun& run : runs) summary_.searchers.push_back(run.row);
    } else {
      SOAP_ASSIGN_OR_RETURN(runs[0], RunSearch(*planning_, flags_.search, limits));
    }
    // A plan that lets iterations overlap is no better for it where that was not asked for.
    const auto rank = [this](const SearchRun& run) {
      return std::pair(run.result.strategy.staleness > flags_.staleness, run.result.found);
    };
    SearchRun& best = *std::min_element(
        runs.begin(), runs.end(),
        [&](const SearchRun& a, const SearchRun& b) { return rank(a) < rank(b); });
    if (best.graph != nullptr) {
      planning_->UseGraph(*std::move(best.graph));
      summary_.micro_batches = std::move(best.trials);
      SOAP_RETURN_IF_ERROR(CheckExplain());
      *baselines = Baselines(1);
    }
    fits_as_counted_ = best.result.found.overflow_bytes == 0;
    Take(best, baselines->priced);
    return absl::OkStatus();
  }

  // Where the number of workers is not the plan's to choose.
  void GiveAllWork() {
    PricedStrategy& plan = summary_.strategies[0];
    const Nanos until = NodeLoop::Now() + std::llround(kAgainShare * flags_.budget_s * kSecond);
    const planner::Strategy all =
        WithWorkForAll(*planning_, plan.strategy, [until] { return NodeLoop::Now() > until; });
    if (!(all == plan.strategy)) plan = planning_->Price("found", all);
  }

  // Workers without a part of the model have nothing to do, and are refused.
  absl::Status CheckAllWork() const {
    if (!flags_.for_workers || flags_.output_path.empty()) return absl::OkStatus();
    const auto devices = static_cast<uint32_t>(planning_->machine().devices().size());
    const size_t used = devices - IdleDevices(chosen().strategy, devices).size();
    if (used == devices) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--for_workers: the best that was found for ", planning_->graph().model,
                     " with batch ", planning_->graph().batch, " has work for ", used, " of ",
                     devices, " devices: more do not help; plan with --devices=", used,
                     ", with --all_devices, or with a larger --batch"));
  }

  // What a search found runs, or it is no plan; a fixed rule is shown as it is.
  absl::Status CheckFits() const {
    const PricedStrategy& plan = chosen();
    if (plan.overflow_bytes == 0 || plan.name != "found") return absl::OkStatus();
    const planner::Machine& machine = planning_->machine();
    if (plan.moved_over_bytes > 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("no plan was found that moves at most %g GB in a step: the least is %.3f "
                          "GB too many; it takes a larger --moved_gb, a longer --budget or a "
                          "smaller --batch",
                          flags_.moved_gb, static_cast<double>(plan.moved_over_bytes) / 1e9));
    }
    const std::vector<int64_t>& needed = plan.breakdown.memory_bytes;
    const auto fullest =
        static_cast<uint32_t>(std::max_element(needed.begin(), needed.end()) - needed.begin());
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s with batch %d fits on %s in no way that was found: %.1f GiB are missing on %d devices "
        "(the fullest needs %.1f of %.1f); it takes more devices%s or a smaller --batch",
        planning_->graph().model, planning_->graph().batch, machine.name(),
        GiB(plan.overflow_bytes), machine.devices().size(), GiB(needed[fullest]),
        GiB(static_cast<int64_t>(machine.kind_of(fullest).memory_bytes)),
        flags_.micro_batches.value_or(1) == 1 ? ", --micro_batches=auto" : ""));
  }

  // Of the plan's bounds the least that is worth it: a search has looked at them together with the
  // strategy, a fixed rule has not.
  void ChooseStaleness() {
    if (flags_.staleness == 0) return;
    PricedStrategy& plan = summary_.strategies[0];
    summary_.stalenesses = planning_->Stalenesses(plan.strategy, flags_.staleness);
    planner::Strategy under = plan.strategy;
    under.staleness = planner::LeastWorthy(summary_.stalenesses).staleness;
    plan = planning_->Price(plan.name, under);
  }

  void Take(const SearchRun& run, const std::vector<PricedStrategy>& baselines) {
    // A baseline, as it is, goes by its name.
    const auto same = [&](const PricedStrategy& of) { return of.strategy == run.result.strategy; };
    const auto it = std::find_if(baselines.begin(), baselines.end(), same);
    const bool is_search = (*planner::FindSearcher(run.row.name))->is_search();
    summary_.strategies.push_back(
        it != baselines.end() ? *it : planning_->Price("found", run.result.strategy));
    if (is_search) summary_.strategies.back().name = "found";
    if (!is_search) {
      summary_.search = absl::StrCat("no search: ", chosen().name);
      return;
    }
    summary_.search = absl::StrFormat("search: %s, seed %d, %s proposals in %.1f s", run.row.name,
                                      flags_.seed, WithCommas(run.row.proposals), run.row.seconds);
    if (run.result.locally_optimal) {
      absl::StrAppend(&summary_.search, ", no change of one operator is better");
    }
    if (!run.row.note.empty()) absl::StrAppend(&summary_.search, "; ", run.row.note);
  }

  absl::Status WriteFiles() const {
    const PricedStrategy& plan = chosen();
    const planner::OpGraph& graph = planning_->graph();
    if (!flags_.output_path.empty()) {
      wire::Strategy message =
          planner::MessageOf(graph, planning_->machine(), summary_.costs_sha256, plan.strategy);
      FillPrediction(plan, message.mutable_predicted());
      const planner::Order order = planning_->OrderOf(plan.strategy);
      if (!order.empty()) {
        planner::SetOrder(graph, plan.strategy, order, &message);
        const planner::PlannedTimes times = planning_->TimesOf(plan.strategy, order);
        if (!times.empty()) planner::SetPlannedTimes(times, &message);
      }
      SOAP_RETURN_IF_ERROR(WriteWholeFile(
          flags_.output_path,
          absl::StrCat("# By `soapstone plan` (docs/planner.md).\n", wire::TextOf(message))));
    }
    if (!flags_.dot_path.empty()) {
      SOAP_RETURN_IF_ERROR(WriteWholeFile(flags_.dot_path, PlanDot(graph, plan.strategy)));
    }
    if (flags_.trace_path.empty() && flags_.svg_path.empty()) return absl::OkStatus();
    const std::vector<planner::TimelineTask> timeline = planning_->Timeline(plan.strategy);
    const DrawnStep step = {
        .graph = &graph, .machine = &planning_->machine(), .timeline = timeline};
    if (!flags_.trace_path.empty()) {
      SOAP_RETURN_IF_ERROR(WriteWholeFile(flags_.trace_path, PlanTrace(step)));
    }
    if (!flags_.svg_path.empty()) return WriteWholeFile(flags_.svg_path, PlanSvg(step));
    return absl::OkStatus();
  }

  static void FillPrediction(const PricedStrategy& plan, wire::Prediction* to) {
    to->set_iteration_ns(IterationOf(plan));
    to->set_compute_ns(plan.parts.compute_ns);
    to->set_communication_ns(plan.parts.communication_ns);
    to->set_synchronization_ns(plan.parts.synchronization_ns);
    to->set_idle_ns(plan.parts.idle_ns);
    to->set_bytes_moved(
        static_cast<uint64_t>(plan.breakdown.transfer_bytes + plan.breakdown.sync_bytes));
    const std::vector<int64_t>& memory = plan.breakdown.memory_bytes;
    to->set_memory_bytes_max(
        static_cast<uint64_t>(*std::max_element(memory.begin(), memory.end())));
    to->set_in_flight(plan.breakdown.in_flight);
  }

  const PlanFlags& flags_;
  const PlanningOptions* const options_ = nullptr;  // in place of those that the flags say
  const Nanos began_ = NodeLoop::Now();
  std::unique_ptr<Planning> planning_;
  std::vector<uint32_t> explained_;  // operators
  bool fits_as_counted_ = true;      // what the search found, by what it counted itself
  PlanSummary summary_;
};

// The least of those that fit, in one of the ways, and of `least` where that is one.
Nanos LeastData(const std::vector<PricedStrategy>& priced,
                const std::vector<planner::Synchronization>& ways, Nanos least) {
  for (const PricedStrategy& of : priced) {
    if (of.name != "data parallel" || of.overflow_bytes > 0) continue;
    if (std::find(ways.begin(), ways.end(), of.strategy.synchronization) == ways.end()) continue;
    least = least == 0 ? IterationOf(of) : std::min(least, IterationOf(of));
  }
  return least;
}

}  // namespace

absl::StatusOr<PlannedStep> PlanStep(const PlanFlags& flags, const PlanningOptions& options,
                                     planner::Synchronization data_by) {
  PlanningOptions whole = options;
  whole.micro_batches = 1;
  SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<Planning> planning, Planning::Create(whole));
  const Nanos until = NodeLoop::Now() + std::llround(kWholeShare * flags.budget_s * kSecond);
  PlannedStep step;
  planning->UseWay(data_by);
  const std::vector<planner::Synchronization>& ways = planning->ways();
  step.data_ns =
      LeastData(planning->Baselines([until] { return NodeLoop::Now() > until; }).priced, ways, 0);
  PlanRun run(flags, &options);
  SOAP_RETURN_IF_ERROR(run.Run());
  const std::vector<PricedStrategy>& priced = run.summary().strategies;
  step.data_ns = LeastData(priced, ways, step.data_ns);
  step.found_ns = IterationOf(priced[0]);
  step.synchronization = planner::NameOf(priced[0].strategy.synchronization);
  return step;
}

int Plan(const PlanFlags& flags) {
  if (!flags.measure_machine.empty()) {
    const absl::Status done = MeasureMachine({.path = flags.measure_machine,
                                              .devices = flags.devices,
                                              .model = flags.model,
                                              .batch = std::max<int64_t>(flags.batch, 1),
                                              .step_ns = std::llround(flags.step_ms * kMillisecond),
                                              .costs_path = flags.costs_path});
    if (!done.ok()) return SayConfigError(kPlanProgram, done);
    std::cout << "machine written to " << flags.measure_machine << "\n";
    return kExitOk;
  }
  if (!flags.compare.empty()) {
    const absl::StatusOr<std::string> text = CompareStrategies(flags);
    if (!text.ok()) return SayConfigError(kPlanProgram, text.status());
    std::cout << *text;
    return kExitOk;
  }
  PlanRun run(flags);
  const absl::Status done = run.Run();
  if (!done.ok()) return SayConfigError(kPlanProgram, done);
  if (flags.json) {
    std::cout << PlanJson(run.summary());
    return kExitOk;
  }
  std::cout << PlanTable(run.summary());
  if (!flags.explain.empty()) std::cout << run.Explanation();
  if (!flags.output_path.empty()) std::cout << "strategy written to " << flags.output_path << "\n";
  return kExitOk;
}

}  // namespace soapstone::apps
