#include "models/graph/section.h"

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

}  // namespace soapstone::models
