#include "compute/schedule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/spec.h"
#include "base/status_macros.h"

namespace soapstone::compute {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr Clock kClocksMax = 1'000'000'000'000;

}  // namespace

absl::StatusOr<ScheduleSpec> ParseSchedule(std::string_view text) {
  if (text.empty()) text = "constant";
  SOAP_ASSIGN_OR_RETURN(const Spec spec, Spec::Parse(text));
  ScheduleSpec out;
  SOAP_ASSIGN_OR_RETURN(out.warmup, spec.Int("warmup", 0, 0, kClocksMax));
  if (spec.name == "constant") {
    SOAP_RETURN_IF_ERROR(spec.AllowOnly({"warmup"}));
    return out;
  }
  if (spec.name == "step") {
    out.kind = ScheduleKind::kStep;
    SOAP_RETURN_IF_ERROR(spec.AllowOnly({"every", "factor", "warmup"}));
    if (!spec.arguments.contains("every")) {
      return absl::InvalidArgumentError("step: every=CLOCKS is required");
    }
    SOAP_ASSIGN_OR_RETURN(out.every, spec.Int("every", 1, 1, kClocksMax));
    SOAP_ASSIGN_OR_RETURN(out.factor, spec.Real("factor", 0.1, 0, 1));
    return out;
  }
  if (spec.name == "cosine") {
    out.kind = ScheduleKind::kCosine;
    SOAP_RETURN_IF_ERROR(spec.AllowOnly({"min", "warmup"}));
    SOAP_ASSIGN_OR_RETURN(out.min, spec.Real("min", 0, 0, 1));
    return out;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown schedule '", spec.name, "'", DidYouMean(spec.name, {"constant", "step", "cosine"}),
      "; known: constant, step, cosine"));
}

// warm-up:  lr·(c + 1)/warmup                        for c < warmup, and from there on
// constant: lr
// step:     lr·factor^⌊c/every⌋
// cosine:   lr·(min + (1 − min)·(1 + cos(π·t/T))/2),  t = c − warmup, T = total − warmup
double LearningRate(const OptimizerSpec& optimizer, const ScheduleSpec& schedule, Clock clock,
                    Clock total_clocks) {
  const double lr = optimizer.lr;
  if (clock < schedule.warmup) {
    return lr * static_cast<double>(clock + 1) / static_cast<double>(schedule.warmup);
  }
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return lr;
    case ScheduleKind::kStep: {
      const Clock drops = clock / schedule.every;
      return lr * std::pow(schedule.factor, static_cast<double>(drops));
    }
    case ScheduleKind::kCosine:
      break;
  }
  const double length = static_cast<double>(std::max<Clock>(1, total_clocks - schedule.warmup));
  const double at = std::min(static_cast<double>(clock - schedule.warmup), length);
  return lr * (schedule.min + (1 - schedule.min) * (1 + std::cos(kPi * at / length)) / 2);
}

}  // namespace soapstone::compute
