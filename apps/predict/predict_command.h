// `soapstone predict`: what a trained model says of samples, or how it continues a text.
#pragma once

#include "apps/predict/predict_flags.h"

namespace soapstone::apps {

// Returns the exit code. All input is read and found right before anything is computed, and what is
// written is written when all of it is there.
int Predict(const PredictFlags& flags);

}  // namespace soapstone::apps
