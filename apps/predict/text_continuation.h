// ContinueText: a language model goes on from a text, token by token. Called by `predict`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "apps/predict/graph_predictor.h"

namespace soapstone::apps {

struct Sampling {
  int64_t length = 100;    // tokens that are added
  double temperature = 0;  // 0: the likeliest
  int64_t top_k = 0;       // 0: all
  uint64_t seed = 1;
};

struct DrawnToken {
  int32_t token = 0;
  double probability = 0;  // softmax of the logits: by the model, whatever the temperature
};

// The token that comes next by these logits, of which there are `classes`: the likeliest, or drawn
// with p_k = softmax(logits / temperature)_k among the top_k likeliest, by a random number that is
// a function of (seed, step). logits: [classes]
DrawnToken DrawToken(absl::Span<const float> logits, const Sampling& sampling, uint64_t step);

// Each token is drawn by the logits at the place of the last one before it. The model sees the last
// `steps` tokens, at its first places; what stands behind them it does not look at: it is causal.
// REQUIRES: at least one token of the prompt; steps: of the graph's one input, which is [steps].
absl::StatusOr<std::vector<DrawnToken>> ContinueText(const std::vector<int32_t>& prompt,
                                                     int64_t steps, const Sampling& sampling,
                                                     GraphPredictor* predictor);

}  // namespace soapstone::apps
