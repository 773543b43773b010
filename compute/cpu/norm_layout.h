// Where the channels of a tensor are: for the loops of batch normalization.
#pragma once

#include <optional>

#include "compute/cpu/batch_norm_loops.h"
#include "compute/kernel.h"

namespace soapstone::compute {

// Of a layout that the loops understand; the tensor has the shape [N, C, ..].
std::optional<NormLayout> NormLayoutOf(const Format& x);

}  // namespace soapstone::compute
