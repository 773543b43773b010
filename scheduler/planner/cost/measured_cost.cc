#include "scheduler/planner/cost/measured_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "wire/config/text_config.h"

namespace soapstone::planner {
namespace {

// "conv2d" of "conv2d(channels=64, ..)".
std::string NameIn(const std::string& op) { return op.substr(0, op.find('(')); }

// So that products of them stay within 63 bits, and times too: work of kMost at the least rate
// takes 285 years.
constexpr uint64_t kMost = uint64_t{1} << 53;
constexpr uint64_t kLeastRate = 1'000'000;  // flops or bytes a second
constexpr int64_t kStepsMax = int64_t{1} << 20;
constexpr int64_t kHiddenMax = int64_t{1} << 14;

double LogRatio(double a, double b) {
  if (a <= 0 || b <= 0) return a == b ? 0 : 100;  // as far as can be
  return std::abs(std::log(a / b));
}

// Of a half that the roofline says nothing about, or that was not measured: as the roofline.
double RatioOf(uint64_t measured_ns, Nanos roofline_ns) {
  if (measured_ns == 0 || roofline_ns == 0) return 1;
  return static_cast<double>(measured_ns) / static_cast<double>(roofline_ns);
}

bool IsLstm(const wire::OperatorCost& cost) {  // Y [N, T, H]
  return NameIn(cost.op()) == "lstm" && cost.outputs_size() > 0 && cost.outputs(0).dims_size() == 3;
}

absl::Status CheckOperator(const wire::OperatorCost& cost, const std::string& file) {
  const auto refuse = [&](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": operators: ", cost.op().substr(0, 100), ": ", what));
  };
  for (const uint64_t number :
       {cost.forward_ns(), cost.backward_ns(), cost.forward_flops(), cost.backward_flops(),
        cost.forward_bytes(), cost.backward_bytes()}) {
    if (number > kMost) return refuse("a time, flops or bytes above 2^53");
  }
  if (!IsLstm(cost)) return absl::OkStatus();
  const int64_t steps = cost.outputs(0).dims(1), hidden = cost.outputs(0).dims(2);
  const bool fits = steps >= 1 && steps <= kStepsMax && hidden >= 1 && hidden <= kHiddenMax;
  return fits ? absl::OkStatus() : refuse("an output of impossible size");
}

absl::Status CheckTable(const wire::CostTable& table, const std::string& file,
                        const std::string& model, const std::string& model_sha256) {
  if (table.model_sha256() != model_sha256) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": costs of ", table.model(), " (", table.model_sha256().substr(0, 12),
                     "), not of ", model, " (", model_sha256.substr(0, 12),
                     "); measure it: soapstone profile --model=", model, " --costs=FILE"));
  }
  for (const uint64_t rate : {table.flops_per_second(), table.bytes_per_second()}) {
    if (rate >= kLeastRate && rate <= kMost) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": flops_per_second and bytes_per_second must be from ", kLeastRate,
                     " to ", kMost, "; measure it again"));
  }
  if (table.operators().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": it has no operators"));
  }
  for (const wire::OperatorCost& cost : table.operators()) {
    SOAP_RETURN_IF_ERROR(CheckOperator(cost, file));
  }
  return absl::OkStatus();
}

PartWork WorkIn(const wire::OperatorCost& cost) {
  PartWork work = {.name = NameIn(cost.op()), .op = cost.op()};
  for (const wire::TensorShape& shape : cost.inputs()) {
    work.inputs.emplace_back(shape.dims().begin(), shape.dims().end());
  }
  work.cost = {.forward_flops = static_cast<int64_t>(cost.forward_flops()),
               .backward_flops = static_cast<int64_t>(cost.backward_flops()),
               .forward_bytes = static_cast<int64_t>(cost.forward_bytes()),
               .backward_bytes = static_cast<int64_t>(cost.backward_bytes())};
  if (IsLstm(cost)) {  // Y [N, T, H], W_hh [4H, H]: as WorkOf counts
    const int64_t hidden = cost.outputs(0).dims(2);
    const int64_t again = BytesReadAgain(cost.outputs(0).dims(1), 4 * hidden * hidden);
    work.cost.forward_bytes += again;
    work.cost.backward_bytes += again;
  }
  return work;
}

}  // namespace

absl::StatusOr<wire::CostTable> ParseCostTable(const std::string& text, const std::string& file) {
  wire::CostTable table;
  SOAP_RETURN_IF_ERROR(wire::ParseTextConfig(text, file, &table));
  if (table.precision().empty()) table.set_precision("float32");  // written before it was said
  if (table.version() == kCostVersion) return table;
  return absl::InvalidArgumentError(absl::StrCat(file, ": cost tables of version ", table.version(),
                                                 " are not known, only of ", kCostVersion,
                                                 "; measure it again"));
}

absl::StatusOr<std::unique_ptr<MeasuredCost>> MeasuredCost::Make(const wire::CostTable& table,
                                                                 const std::string& file,
                                                                 const std::string& model,
                                                                 const std::string& model_sha256,
                                                                 std::vector<DeviceKind> kinds) {
  SOAP_RETURN_IF_ERROR(CheckTable(table, file, model, model_sha256));
  std::unique_ptr<MeasuredCost> costs(new MeasuredCost());
  // Launches are within what was measured.
  const DeviceKind measured = {.flops_per_second = static_cast<double>(table.flops_per_second()),
                               .bytes_per_second = static_cast<double>(table.bytes_per_second())};
  for (const wire::OperatorCost& cost : table.operators()) {
    const PartWork work = WorkIn(cost);
    const PartCost roofline = RooflineOf(work, measured, 1);
    costs->entries_[work.name].push_back(
        {.op = work.op,
         .inputs = work.inputs,
         .flops = static_cast<double>(work.cost.forward_flops),
         .bytes = static_cast<double>(work.cost.forward_bytes),
         .forward = RatioOf(cost.forward_ns(), roofline.forward_ns),
         .backward = RatioOf(cost.backward_ns(), roofline.backward_ns)});
  }
  std::string text = wire::TextOf(table);
  for (const DeviceKind& kind : kinds) {
    absl::StrAppendFormat(&text, "%s %a %a %d\n", kind.name, kind.flops_per_second,
                          kind.bytes_per_second, kind.launch_ns);
  }
  Sha256 sha;
  sha.Update(text.data(), text.size());
  costs->sha256_ = sha.HexDigest();
  costs->kinds_ = std::move(kinds);
  return costs;
}

const MeasuredCost::Entry* MeasuredCost::Find(const PartWork& work) const {
  const auto named = entries_.find(work.name);
  if (named == entries_.end()) return nullptr;
  const Entry* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Entry& entry : named->second) {
    if (entry.op == work.op && entry.inputs == work.inputs) return &entry;
    const double distance = LogRatio(static_cast<double>(work.cost.forward_flops), entry.flops) +
                            LogRatio(static_cast<double>(work.cost.forward_bytes), entry.bytes);
    if (distance >= least) continue;
    least = distance;
    nearest = &entry;
  }
  return nearest;
}

PartCost MeasuredCost::CostOf(const PlanOp& op, const models::Block& part, uint32_t kind) const {
  const PartWork work = WorkOf(op, part);
  const PartCost roofline = RooflineOf(work, kinds_[kind], 1);
  const Entry* entry = Find(work);
  if (entry == nullptr) return roofline;
  const auto scaled = [](Nanos ns, double ratio) {
    const double most = static_cast<double>(kMost);
    return static_cast<Nanos>(std::llround(std::min(static_cast<double>(ns) * ratio, most)));
  };
  return {.forward_ns = scaled(roofline.forward_ns, entry->forward),
          .backward_ns = scaled(roofline.backward_ns, entry->backward)};
}

}  // namespace soapstone::planner
