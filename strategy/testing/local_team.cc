#include "strategy/testing/local_team.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "glog/logging.h"

namespace soapstone::planner {

using models::SectionStep;

Tensors StepResult::Gradients() const {
  Tensors sum = leaves[0];
  for (size_t leaf = 1; leaf < leaves.size(); ++leaf) {
    for (size_t p = 0; p < sum.size(); ++p) {
      for (size_t i = 0; i < sum[p].size(); ++i) sum[p][i] += leaves[leaf][p][i];
    }
  }
  return sum;
}

absl::StatusOr<std::unique_ptr<LocalTeam>> LocalTeam::Create(OpGraph graph,
                                                             const Strategy& strategy,
                                                             const Order& order,
                                                             LocalTeamOptions options) {
  std::unique_ptr<LocalTeam> team(new LocalTeam(std::move(graph), std::move(options)));
  SOAP_ASSIGN_OR_RETURN(team->program_, Lower(team->graph_, strategy, order));
  if (team->options_.backend == nullptr) team->options_.backend = compute::MakeCpuBackend({});
  const auto kernels = std::make_shared<models::KernelCache>();
  for (SeatProgram& seat : team->program_.seats) {
    if (team->options_.spoil) team->options_.spoil(&seat.section);
    SOAP_ASSIGN_OR_RETURN(
        std::unique_ptr<models::SectionRunner> runner,
        models::SectionRunner::Create(seat.section, {.backend = team->options_.backend,
                                                     .kernels = kernels,
                                                     .seed = team->options_.seed,
                                                     .training = team->options_.training}));
    team->seats_.push_back(std::move(runner));
  }
  return team;
}

void LocalTeam::SetParams(const Tensors& values) {
  for (const auto& seat : seats_) {
    const std::vector<models::ParamBlock>& blocks = seat->section().param_blocks;
    for (uint32_t b = 0; b < blocks.size(); ++b) {
      models::ExtractPart(blocks[b].tensor, graph_.params[blocks[b].param].shape,
                          values[blocks[b].param], seat->param(b));
    }
  }
}

void LocalTeam::RunBackward(size_t s, uint32_t part, StepResult* result) {
  models::SectionRunner& seat = *seats_[s];
  const models::SectionPart& what = seat.section().parts[part];
  Tensors gradients;
  for (const uint32_t block : what.params) gradients.emplace_back(seat.param(block).size());
  std::vector<absl::Span<float>> spans;
  for (std::vector<float>& gradient : gradients) spans.push_back(absl::MakeSpan(gradient));
  seat.Backward(part, spans);
  const uint32_t leaf = what.micro_batch;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const models::ParamBlock& block = seat.section().param_blocks[what.params[i]];
    std::vector<float>& whole = result->leaves[leaf][block.param];
    const PlanParam& param = graph_.params[block.param];
    const int64_t elements =
        std::accumulate(param.shape.begin(), param.shape.end(), int64_t{1}, std::multiplies<>());
    if (whole.empty() && models::ElementsOf(block.tensor.block) == elements) {
      whole = std::move(gradients[i]);
      continue;
    }
    whole.resize(static_cast<size_t>(elements));
    models::AddPart(block.tensor, param.shape, gradients[i], absl::MakeSpan(whole));
  }
}

bool LocalTeam::RunNext(size_t s, StepResult* result) {
  models::SectionRunner& seat = *seats_[s];
  const models::Section& section = seat.section();
  if (at_[s] == section.steps.size()) return false;
  const SectionStep step = section.steps[at_[s]];
  switch (step.kind) {
    case SectionStep::Kind::kTake: {
      const auto found = under_way_.find(section.incoming[step.index].number);
      if (found == under_way_.end()) return false;
      seat.Take(step.index, std::move(found->second));
      under_way_.erase(found);
      break;
    }
    case SectionStep::Kind::kForward:
      seat.Forward(step.index);
      break;
    case SectionStep::Kind::kBackward:
      RunBackward(s, step.index, result);
      break;
    case SectionStep::Kind::kGive: {
      const uint32_t number = section.outgoing[step.index].number;
      CHECK(under_way_.emplace(number, seat.Give(step.index)).second) << "sent twice";
      break;
    }
  }
  ++at_[s];
  return true;
}

absl::StatusOr<StepResult> LocalTeam::Step(const Batch& batch, uint64_t step) {
  std::vector<const void*> fields;
  for (const std::vector<std::byte>& field : batch.fields) fields.push_back(field.data());
  for (const auto& seat : seats_) {
    SOAP_RETURN_IF_ERROR(seat->Begin({.fields = fields, .shapes = batch.shapes, .step = step}));
  }
  StepResult result;
  result.leaves.assign(static_cast<size_t>(graph_.micro_batches), Tensors(graph_.params.size()));
  at_.assign(seats_.size(), 0);
  under_way_.clear();
  std::vector<size_t> turns(seats_.size());
  std::iota(turns.begin(), turns.end(), 0);
  if (options_.turns == SeatTurns::kDescending) std::reverse(turns.begin(), turns.end());
  const CounterRandom random(step, RandomUse::kTest, 77);
  uint64_t draws = 0;
  for (bool moved = true; moved;) {
    moved = false;
    if (options_.turns == SeatTurns::kShuffled) {
      for (size_t i = turns.size(); i > 1; --i) {
        std::swap(turns[i - 1], turns[random.Below(draws++, static_cast<int64_t>(i))]);
      }
    }
    for (const size_t s : turns) {
      // Shuffled: one step at a time, so that messages meet in every order.
      while (RunNext(s, &result)) {
        moved = true;
        if (options_.turns == SeatTurns::kShuffled) break;
      }
    }
  }
  for (size_t s = 0; s < seats_.size(); ++s) {
    if (at_[s] < seats_[s]->section().steps.size()) {
      return absl::InternalError("seats wait for each other");
    }
    result.loss += seats_[s]->loss_sum();
    result.correct += seats_[s]->correct();
  }
  if (!under_way_.empty()) return absl::InternalError("a message that nobody takes");
  return result;
}

}  // namespace soapstone::planner
