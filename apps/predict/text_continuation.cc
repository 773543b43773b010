#include "apps/predict/text_continuation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "base/random.h"
#include "base/status_macros.h"
#include "models/data/mini_batch.h"

namespace soapstone::apps {
namespace {

void PutTokens(absl::Span<const int32_t> tokens, std::vector<std::byte>* field) {
  std::memcpy(field->data(), tokens.data(), tokens.size() * sizeof(int32_t));
}

}  // namespace

DrawnToken DrawToken(absl::Span<const float> logits, const Sampling& sampling, uint64_t step) {
  std::vector<float> by_model(logits.begin(), logits.end());
  Softmax(absl::MakeSpan(by_model));
  const auto drawn = [&](int64_t k) {
    return DrawnToken{.token = static_cast<int32_t>(k),
                      .probability = static_cast<double>(by_model[static_cast<size_t>(k)])};
  };
  if (sampling.temperature <= 0) return drawn(Largest(logits, 1)[0]);
  const int64_t among = sampling.top_k > 0 ? sampling.top_k : std::ssize(logits);
  const std::vector<int64_t> candidates = Largest(logits, among);
  const auto most = static_cast<double>(logits[static_cast<size_t>(candidates[0])]);
  std::vector<double> up_to;
  double sum = 0;
  for (const int64_t k : candidates) {
    const auto z = static_cast<double>(logits[static_cast<size_t>(k)]);
    up_to.push_back(sum += std::exp((z - most) / sampling.temperature));
  }
  const double at = CounterRandom(sampling.seed, RandomUse::kSampledToken).Uniform(step) * sum;
  const auto found = std::upper_bound(up_to.begin(), up_to.end() - 1, at);
  return drawn(candidates[static_cast<size_t>(found - up_to.begin())]);
}

absl::StatusOr<std::vector<DrawnToken>> ContinueText(const std::vector<int32_t>& prompt,
                                                     int64_t steps, const Sampling& sampling,
                                                     GraphPredictor* predictor) {
  std::vector<int32_t> tokens = prompt;
  std::vector<DrawnToken> drawn;
  const auto width = static_cast<size_t>(steps);
  models::MiniBatch feed = {.samples = 1, .fields = {{}, {}}};
  for (std::vector<std::byte>& field : feed.fields) field.resize(width * models::kWordBytes);
  for (int64_t step = 0; step < sampling.length; ++step) {
    const size_t seen = std::min(tokens.size(), width);
    PutTokens(absl::MakeConstSpan(tokens).last(seen), &feed.fields[0]);
    SOAP_ASSIGN_OR_RETURN(const std::vector<float> logits, predictor->Logits(feed));
    const auto classes = static_cast<size_t>(predictor->classes());
    drawn.push_back(DrawToken(absl::MakeConstSpan(logits).subspan((seen - 1) * classes, classes),
                              sampling, static_cast<uint64_t>(step)));
    tokens.push_back(drawn.back().token);
  }
  return drawn;
}

}  // namespace soapstone::apps
