// An operator in one line, with every number that fixes it: "conv2d(channels=64, window=3x3,
// stride=1x1, pad=1x1, groups=1, bias, relu)". Two operators have the same text if and only if they
// are equal, so that it is the operator's key in tables of costs.
#pragma once

#include <string>

#include "compute/op.h"

namespace soapstone::compute {

std::string TextOf(const Operator& op);

}  // namespace soapstone::compute
