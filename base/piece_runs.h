// PieceRuns: where the elements of a piece of a parameter lie in the whole, run by run. Shards make
// initial values by it, and who gathers a model puts it together by it. A value.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/parameter.h"

namespace soapstone {

class PieceRuns {
 public:
  // Of a parameter that is no piece: it is its own whole.
  explicit PieceRuns(const ParamSpec& spec);

  struct Run {
    uint64_t at = 0;     // of its first element, in the whole
    uint64_t count = 0;  // elements that lie side by side in both
  };
  // The run from `element` of the piece on. REQUIRES: it is one.
  Run RunAt(uint64_t element) const;

 private:
  uint64_t run_ = 1;  // elements of a whole run
  uint64_t first_ = 0;
  // Of each dimension before the run's, the last first: its extent in the piece, and how far apart
  // its indexes are in the whole.
  std::vector<std::pair<uint64_t, uint64_t>> outer_;
};

// Which tensor of the model it is, or is a piece of.
inline uint32_t WholeOf(const std::vector<ParamSpec>& params, uint32_t param) {
  return params[param].piece.has_value() ? params[param].piece->param : param;
}
// The model's own parameters, ascending, of which these are pieces, or that they are.
std::vector<ParamSpec> WholeParams(const std::vector<ParamSpec>& params);

}  // namespace soapstone
