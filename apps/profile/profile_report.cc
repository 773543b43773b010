#include "apps/profile/profile_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/model_listing.h"
#include "apps/report/report.h"
#include "models/graph/graph_text.h"
#include "observe/timeline/trace_writer.h"

namespace soapstone::apps {
namespace {

using Json = nlohmann::json;

// An operator, or several, in one step.
struct Row {
  std::string name, kind, output;
  Nanos forward = 0, backward = 0;
  models::OpCost cost;
  double least_ns = 0;  // by the roofline
  size_t operators = 1;

  Nanos took() const { return forward + backward; }
  double flops() const { return static_cast<double>(cost.forward_flops + cost.backward_flops); }
  double bytes() const { return static_cast<double>(cost.forward_bytes + cost.backward_bytes); }
};

void AddTo(const Row& row, Row* sum) {
  sum->forward += row.forward;
  sum->backward += row.backward;
  sum->cost.forward_flops += row.cost.forward_flops;
  sum->cost.backward_flops += row.cost.backward_flops;
  sum->cost.forward_bytes += row.cost.forward_bytes;
  sum->cost.backward_bytes += row.cost.backward_bytes;
  sum->least_ns += row.least_ns;
  sum->operators += row.operators;
}

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::vector<Row> RowsOf(const ProfileReport& report) {
  const StepProfile& steps = report.kept.steps;
  std::vector<Row> rows;
  for (size_t k = 0; k < report.graph.ops().size(); ++k) {
    const models::Op& op = report.graph.ops()[k];
    Row row = {.name = op.name,
               .kind = std::string(compute::NameOf(op.what)),
               .output = ShapeText(report.graph.tensor(op.outputs[0]).shape),
               .forward = steps.forward[k],
               .backward = steps.backward[k],
               .cost = models::CostOf(op.what, report.graph.ShapesOf(op, steps.samples))};
    row.least_ns = report.roofline.LeastNs(static_cast<double>(row.cost.forward_flops),
                                           static_cast<double>(row.cost.forward_bytes)) +
                   report.roofline.LeastNs(static_cast<double>(row.cost.backward_flops),
                                           static_cast<double>(row.cost.backward_bytes));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> ByTime(std::vector<Row> rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.took() > b.took(); });
  return rows;
}

std::vector<Row> ByKind(const std::vector<Row>& rows) {
  std::map<std::string, Row> kinds;
  for (const Row& row : rows) {
    Row& sum = kinds.try_emplace(row.kind, Row{.kind = row.kind, .operators = 0}).first->second;
    AddTo(row, &sum);
    sum.name = absl::StrCat(row.kind, " x", sum.operators);
  }
  std::vector<Row> sums;
  for (const auto& [kind, sum] : kinds) sums.push_back(sum);
  return ByTime(std::move(sums));
}

Row TotalOf(const std::vector<Row>& rows) {
  Row total = {.name = "all operators", .operators = 0};
  for (const Row& row : rows) AddTo(row, &total);
  return total;
}

// Milliseconds, shares, rates.
std::string Numbers(const Row& row, Nanos whole) {
  const auto took = static_cast<double>(row.took());
  return absl::StrFormat(
      "%10.3f %10.3f %6.1f%% %9.1f %8.1f %8.0f%%", static_cast<double>(row.forward) / 1e6,
      static_cast<double>(row.backward) / 1e6, 100 * Ratio(took, static_cast<double>(whole)),
      Ratio(row.flops(), took), Ratio(row.bytes(), took), 100 * Ratio(row.least_ns, took));
}

constexpr char kNumbersHead[] = "forward ms backwrd ms   share   GFLOP/s     GB/s  roofline";

void AddOperators(const std::vector<Row>& rows, size_t top, std::string* text) {
  const Row total = TotalOf(rows);
  size_t widest = total.name.size();
  for (const Row& row : rows) widest = std::max(widest, row.name.size());
  const int width = static_cast<int>(widest);
  absl::StrAppendFormat(text, "%-*s %-21s %-15s %s\n", width, "operator", "kind", "output",
                        kNumbersHead);
  Row rest = {.operators = 0};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i >= top) {
      AddTo(rows[i], &rest);
      continue;
    }
    absl::StrAppendFormat(text, "%-*s %-21s %-15s %s\n", width, rows[i].name, rows[i].kind,
                          rows[i].output, Numbers(rows[i], total.took()));
  }
  if (rest.operators > 0) {
    absl::StrAppendFormat(text, "%-*s %-21s %-15s %s\n", width,
                          absl::StrCat(rest.operators, " more"), "", "",
                          Numbers(rest, total.took()));
  }
  absl::StrAppendFormat(text, "%-*s %-21s %-15s %s\n", width, total.name, "", "",
                        Numbers(total, total.took()));
}

void AddMemory(const char* title, const ProfiledWay& way, std::string* text) {
  const StepMemory& plan = way.planned;
  if (way.measured.peak_bytes == 0) {  // a device's
    absl::StrAppendFormat(
        text, "%s planned %s: parameters %s, gradients %s, batch %s, activations %s\n", title,
        Bytes(plan.total()), Bytes(plan.parameter_bytes), Bytes(plan.gradient_bytes),
        Bytes(plan.batch_bytes), Bytes(plan.activation_bytes));
    return;
  }
  absl::StrAppendFormat(
      text,
      "%s predicted %s: program %s, parameters %s, gradients %s, batch %s, activations %s\n"
      "%s measured  %s resident at most: %.3f of it; beside the program %s, %.3f of the plan\n",
      title, Bytes(way.predicted_bytes()), Bytes(way.measured.program_bytes),
      Bytes(plan.parameter_bytes), Bytes(plan.gradient_bytes), Bytes(plan.batch_bytes),
      Bytes(plan.activation_bytes), std::string(std::string_view(title).size(), ' '),
      Bytes(way.measured.peak_bytes), way.peak_share(), Bytes(way.measured.grown_bytes()),
      way.growth_share());
}

std::string DeviceText(const ProfileReport& report) {
  if (report.on_device) {
    return absl::StrCat(report.device, ", convolutions ", report.convolutions);
  }
  return absl::StrCat(report.threads, report.threads == 1 ? " thread" : " threads");
}

void AddRecomputed(const ProfiledWay& kept, const ProfiledWay& again, std::string* text) {
  absl::StrAppendFormat(
      text,
      "\nrecomputing: a step takes %.3f ms, %.2f times as long; activations %s, %.2f times less\n",
      static_cast<double>(again.steps.step) / 1e6,
      Ratio(static_cast<double>(again.steps.step), static_cast<double>(kept.steps.step)),
      Bytes(again.planned.activation_bytes),
      Ratio(static_cast<double>(kept.planned.activation_bytes),
            static_cast<double>(again.planned.activation_bytes)));
  AddMemory("memory", again, text);
}

Json WayJson(const ProfiledWay& way) {
  return {{"steps", way.steps.steps},
          {"step_ns", way.steps.step},
          {"operators_ns", way.steps.sum()},
          {"memory_bytes",
           {{"program", way.measured.program_bytes},
            {"parameters", way.planned.parameter_bytes},
            {"gradients", way.planned.gradient_bytes},
            {"batch", way.planned.batch_bytes},
            {"activations", way.planned.activation_bytes},
            {"predicted", way.predicted_bytes()},
            {"measured", way.measured.peak_bytes}}},
          {"measured_to_predicted", way.peak_share()}};
}

}  // namespace

double ProfiledWay::peak_share() const {
  return Ratio(static_cast<double>(measured.peak_bytes), static_cast<double>(predicted_bytes()));
}
double ProfiledWay::growth_share() const {
  return Ratio(static_cast<double>(measured.grown_bytes()), static_cast<double>(planned.total()));
}

std::string ProfileTable(const ProfileReport& report, size_t top) {
  const StepProfile& steps = report.kept.steps;
  const std::vector<Row> rows = ByTime(RowsOf(report));
  const Row total = TotalOf(rows);
  const auto step = static_cast<double>(steps.step);
  std::string text = absl::StrFormat(
      "%s, %d samples, %s: a step takes %.3f ms (median of %d), %.1f samples/s\n"
      "machine: %.1f GFLOP/s of %s, %.1f GB/s of memory, measured\n\n",
      report.model, steps.samples, DeviceText(report), step / 1e6, steps.steps,
      1e9 * Ratio(static_cast<double>(steps.samples), step), report.roofline.gflops,
      report.precision, report.roofline.gbps);
  AddOperators(rows, top, &text);
  absl::StrAppendFormat(&text, "\n%-26s %s\n", "by kind", kNumbersHead);
  for (const Row& row : ByKind(rows)) {
    absl::StrAppendFormat(&text, "%-26s %s\n", row.name, Numbers(row, total.took()));
  }
  absl::StrAppendFormat(
      &text,
      "\nstep: operators %.1f%% of it, %.1f GFLOP/s, %.0f%% of the roofline (a share beyond 100%% "
      "is of data that caches hold, or the machine had other work while it was measured)\n",
      100 * Ratio(static_cast<double>(total.took()), step), Ratio(total.flops(), step),
      100 * Ratio(total.least_ns, step));
  AddMemory("memory", report.kept, &text);
  if (report.recomputed.has_value()) AddRecomputed(report.kept, *report.recomputed, &text);
  return text;
}

std::string ProfileJson(const ProfileReport& report) {
  Json operators = Json::array();
  for (const Row& row : RowsOf(report)) {
    operators.push_back({{"name", row.name},
                         {"kind", row.kind},
                         {"forward_ns", row.forward},
                         {"backward_ns", row.backward},
                         {"forward_flops", row.cost.forward_flops},
                         {"backward_flops", row.cost.backward_flops},
                         {"forward_bytes", row.cost.forward_bytes},
                         {"backward_bytes", row.cost.backward_bytes},
                         {"roofline_share", Ratio(row.least_ns, static_cast<double>(row.took()))}});
  }
  const StepProfile& steps = report.kept.steps;
  Json object = WayJson(report.kept);
  object.update({{"version", 1},
                 {"model", report.model},
                 {"model_sha256", models::HashOf(report.graph)},
                 {"batch", steps.samples},
                 {"threads", report.threads},
                 {"device", report.device},
                 {"precision", report.precision},
                 {"convolutions", report.convolutions},
                 {"samples_per_second",
                  1e9 * Ratio(static_cast<double>(steps.samples), static_cast<double>(steps.step))},
                 {"gflops_peak", report.roofline.gflops},
                 {"gbps_peak", report.roofline.gbps},
                 {"operators", std::move(operators)}});
  if (report.recomputed.has_value()) object["recompute"] = WayJson(*report.recomputed);
  return object.dump(1) + "\n";
}

namespace {

// An operator's half in the typical step.
void AddOperator(const ProfileReport& report, size_t k, bool forward,
                 timeline::TraceWriter* writer) {
  const StepProfile& steps = report.kept.steps;
  const models::Op& op = report.graph.ops()[k];
  const models::OpCost cost = models::CostOf(op.what, report.graph.ShapesOf(op, steps.samples));
  const char* const half = forward ? "forward" : "backward";
  const TimeSlice& slice = forward ? steps.typical.forward[k] : steps.typical.backward[k];
  writer->Add({.name = op.name, .category = half, .begin = slice.begin, .end = slice.end},
              {{"kind", std::string(compute::NameOf(op.what))},
               {"half", half},
               {"flops", forward ? cost.forward_flops : cost.backward_flops},
               {"bytes", forward ? cost.forward_bytes : cost.backward_bytes}});
}

void AddQueues(int process, const std::string& title, const std::vector<compute::QueueSpan>& spans,
               timeline::TraceWriter* writer) {
  writer->NameProcess(process, title);
  const char* const queues[] = {"kernels", "copies to the device", "copies from the device"};
  for (int queue = 0; queue < static_cast<int>(compute::kQueues); ++queue) {
    writer->NameTrack({process, queue}, queues[queue]);
  }
  for (const compute::QueueSpan& span : spans) {
    writer->Add({.on = {process, static_cast<int>(span.queue)},
                 .name = span.name,
                 .begin = span.begin_ns,
                 .end = span.end_ns});
  }
}

}  // namespace

std::string ProfileTrace(const ProfileReport& report) {
  timeline::TraceWriter writer(timeline::TraceWriter::kUnbounded);
  const std::string title = absl::StrCat(report.model, ", ", report.kept.steps.samples, " samples");
  if (report.on_device) {
    AddQueues(0, title, report.kept.steps.as_run, &writer);
    AddQueues(1, title + ", operators one by one", report.kept.steps.typical.spans, &writer);
  } else {
    writer.NameProcess(0, title);
    writer.NameTrack({}, "operators");
    const size_t ops = report.graph.ops().size();
    for (size_t k = 0; k < ops; ++k) AddOperator(report, k, true, &writer);
    for (size_t k = ops; k-- > 0;) AddOperator(report, k, false, &writer);
  }
  return writer.Finish();
}

}  // namespace soapstone::apps
