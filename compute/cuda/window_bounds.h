// The ends of windows at the edges of what they slide over. Included by .cu files alone.
#pragma once

#include <cstdint>

#include "compute/cuda/launch.h"

namespace soapstone::compute {

SOAP_DEVICE int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }
SOAP_DEVICE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

}  // namespace soapstone::compute
