// A tensor as the kernels of normalisation see it.
#pragma once

#include <cstddef>

#include "compute/cuda/kernels.h"
#include "compute/op.h"

namespace soapstone::compute {

// The dimension behind the batch is the channel; those behind it are one.
inline ChannelShape ChannelsOf(const TensorSpec& spec) {
  ChannelShape shape{.samples = spec.shape[0], .channels = spec.shape[1], .inner = 1};
  for (size_t d = 2; d < spec.shape.size(); ++d) shape.inner *= spec.shape[d];
  return shape;
}

}  // namespace soapstone::compute
