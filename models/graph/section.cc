#include "models/graph/section.h"

#include <utility>
#include <variant>

namespace soapstone::models {

int64_t Move::elements() const {
  int64_t elements = 1;
  for (const int64_t side : size) elements *= side;
  return elements;
}

bool SectionPart::is_loss() const {
  return std::holds_alternative<compute::SoftmaxCrossEntropy>(op);
}

Section ForwardHalf(Section section) {
  std::vector<SectionStep> steps;
  for (const SectionStep& step : section.steps) {
    switch (step.kind) {
      case SectionStep::Kind::kTake:
        if (!section.incoming[step.index].backward) steps.push_back(step);
        break;
      case SectionStep::Kind::kForward:
        steps.push_back(step);
        break;
      case SectionStep::Kind::kBackward:
        break;
      case SectionStep::Kind::kGive:
        if (!section.outgoing[step.index].backward) steps.push_back(step);
        break;
    }
  }
  section.steps = std::move(steps);
  return section;
}

}  // namespace soapstone::models
