// The softmax of one query's scores, which both kinds of attention take.
#pragma once

#include "compute/reference/formula.h"

namespace soapstone::compute {

// p_s = exp(a_s) / Σ exp(a)
Reals AttentionSoftmax(const Reals& a);
// da_s = p_s·(dp_s − Σ p·dp)
Reals AttentionSoftmaxGrad(const Reals& p, const Reals& dp);

}  // namespace soapstone::compute
