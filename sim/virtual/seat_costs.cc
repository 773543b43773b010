#include "sim/virtual/seat_costs.h"

#include "models/graph/section.h"
#include "wire/membership/teams.h"

namespace soapstone::sim {
namespace {

using models::SectionStep;

int64_t ShareOf(const SectionStep& step) {
  if (step.kind == SectionStep::Kind::kForward) return 1;
  return step.kind == SectionStep::Kind::kBackward ? 2 : 0;
}

std::vector<Nanos> EvenSteps(const models::Section& section, Nanos iteration_ns) {
  int64_t all = 0;
  for (const SectionStep& step : section.steps) all += ShareOf(step);
  std::vector<Nanos> steps;
  int64_t before = 0;  // so that they add up to the whole
  for (const SectionStep& step : section.steps) {
    const int64_t share = ShareOf(step);
    steps.push_back(
        share == 0 ? 0 : iteration_ns * (before + share) / all - iteration_ns * before / all);
    before += share;
  }
  return steps;
}

}  // namespace

SeatCosts EvenSeatCosts(const cluster::TrainingJob& job, Nanos iteration_ns) {
  SeatCosts costs;
  for (uint32_t w = 0; w < job.workers; ++w) {
    const uint32_t seat = wire::SeatOf(WorkerId{w}, job.team->shape);
    auto& of_sizes = costs.steps.emplace_back();
    for (const auto& [samples, program] : job.team->plan.steps) {
      of_sizes[static_cast<uint64_t>(samples)] =
          EvenSteps(program.seats[seat].section, iteration_ns);
    }
  }
  return costs;
}

}  // namespace soapstone::sim
