#include "models/ops/partition.h"

#include <algorithm>

#include "glog/logging.h"

namespace soapstone::models {

int64_t ElementsOf(const Block& block) {
  int64_t elements = 1;
  for (const Range& range : block) elements *= range.size();
  return elements;
}

Range ReachOf(const DimUse& use, const Range& part) {
  const int64_t first = part.begin / use.per;
  const int64_t last = (part.end + use.per - 1) / use.per - 1;
  return {first * use.scale + use.offset, last * use.scale + use.offset + use.window};
}

Block BlockOf(const TensorUse& use, const std::vector<int64_t>& shape, const Block& part) {
  CHECK_EQ(use.size(), shape.size());
  Block block;
  for (size_t i = 0; i < use.size(); ++i) {
    const int64_t side = shape[i] / use[i].repeats;
    Range range = {0, side};
    if (use[i].dim >= 0) {
      const Range& of_part = part[static_cast<size_t>(use[i].dim)];
      const Range reach = of_part.size() > 0 ? ReachOf(use[i], of_part) : Range{};
      range.begin = std::clamp<int64_t>(reach.begin, 0, side);
      range.end = std::clamp(reach.end, range.begin, side);
    }
    block.push_back(range);
  }
  return block;
}

bool LeavesPartialSums(const PartitionRule& rule, size_t output, size_t dim) {
  for (const DimUse& use : rule.outputs[output]) {
    if (use.dim == static_cast<int>(dim)) return false;
  }
  return true;
}

}  // namespace soapstone::models
