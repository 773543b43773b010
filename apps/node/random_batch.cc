#include "apps/node/random_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "base/random.h"

namespace soapstone::apps {
namespace {

// Integers of this input are below it.
int64_t BoundOf(const models::Graph& graph, models::TensorId input) {
  if (input == graph.labels()) return graph.classes();
  int64_t bound = INT32_MAX;
  for (const models::Op& op : graph.ops()) {
    const auto* embedding = std::get_if<compute::Embedding>(&op.what);
    if (embedding != nullptr && op.inputs[0] == input) bound = std::min(bound, embedding->rows);
  }
  return bound;
}

}  // namespace

models::MiniBatch RandomBatch(const models::Graph& graph, int64_t samples, uint64_t seed) {
  models::MiniBatch feed = {.samples = samples};
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const models::TensorId input = graph.inputs()[i];
    const models::Tensor& tensor = graph.tensor(input);
    const CounterRandom random(seed, RandomUse::kSynthetic, i);
    const auto elements = static_cast<size_t>(tensor.spec(samples).elements());
    std::vector<std::byte> field(elements * models::kWordBytes);
    const bool whole = tensor.type == models::DataType::kInt32;
    const auto bound = static_cast<uint64_t>(whole ? BoundOf(graph, input) : 1);
    for (size_t e = 0; e < elements; ++e) {
      const auto number = static_cast<int32_t>(whole ? random.Below(e, bound) : 0);
      const auto real = static_cast<float>(whole ? 0 : 2 * random.Uniform(e) - 1);
      const void* word = whole ? static_cast<const void*>(&number) : &real;
      std::memcpy(field.data() + e * models::kWordBytes, word, models::kWordBytes);
    }
    feed.fields.push_back(std::move(field));
  }
  return feed;
}

}  // namespace soapstone::apps
