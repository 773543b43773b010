// rnntc, rnnlm, gnmt: the recurrent models of FlexFlow's six (Jia et al. 2019, table 3).
#include "absl/strings/str_cat.h"
#include "models/zoo/zoo_models.h"

namespace soapstone::models {
namespace {

using compute::Activation;
using compute::ActivationKind;
using compute::Concat;
using compute::Embedding;
using compute::Linear;
using compute::Lstm;

TensorId Layers(GraphBuilder* b, std::string_view name, TensorId x, int64_t layers,
                int64_t hidden) {
  for (int64_t i = 0; i < layers; ++i) {
    x = b->Apply(absl::StrCat(std::string(name), ".", i), Lstm{.hidden = hidden}, {x});
  }
  return x;
}

}  // namespace

// Text classification: the last step of the last layer decides.
absl::StatusOr<Graph> BuildRnntc(const ModelSpec& spec) {
  const bool tiny = spec.tiny;
  const int64_t hidden = spec.count("hidden", tiny ? 32 : 1024);
  const int64_t vocabulary = spec.input.vocabulary > 0 ? spec.input.vocabulary : tiny ? 64 : 10000;
  const int64_t steps = spec.steps(tiny ? 12 : 40);
  GraphBuilder b("rnntc");
  TensorId x = b.Input("tokens", DataType::kInt32, {steps});
  x = b.Apply("embedding", Embedding{.rows = vocabulary, .dim = hidden}, {x});
  x = Layers(&b, "lstm", x, spec.count("layers", 4), hidden);
  if (steps > 1) {
    x = b.ApplyAll("last", compute::Split{.axis = 1, .sizes = {steps - 1, 1}}, {x}, 2)[1];
  }
  x = b.Flatten("flatten", x);
  b.Loss("loss", b.Apply("fc", Linear{.outputs = spec.classes(2)}, {x}));
  return b.Build();
}

// Language model: the next token at every step.
absl::StatusOr<Graph> BuildRnnlm(const ModelSpec& spec) {
  const bool tiny = spec.tiny;
  const int64_t hidden = spec.count("hidden", tiny ? 64 : 2048);
  const int64_t vocabulary = spec.classes(tiny ? 64 : 10000);
  GraphBuilder b("rnnlm");
  TensorId x = b.Input("tokens", DataType::kInt32, {spec.steps(tiny ? 16 : 40)});
  x = b.Apply("embedding", Embedding{.rows = vocabulary, .dim = hidden}, {x});
  x = Layers(&b, "lstm", x, spec.count("layers", 2), hidden);
  b.Loss("loss", b.Apply("fc", Linear{.outputs = vocabulary}, {x}));
  return b.Build();
}

// Translation: encoder and decoder of two layers; the last decoder layer's output h attends to the
// encoder's (Bahdanau et al. 2015), which gives a context c; the next token is read from
//   h~ = tanh(W_c [h; c])   (Luong et al. 2015, equation 5)
// so that the vocabulary's layer, the largest, has `hidden` inputs and not twice as many.
absl::StatusOr<Graph> BuildGnmt(const ModelSpec& spec) {
  const bool tiny = spec.tiny;
  const int64_t hidden = spec.count("hidden", tiny ? 48 : 1024);
  const int64_t layers = spec.count("layers", 2);
  const int64_t target_words = spec.classes(tiny ? 16 : 32000);
  const int64_t source_words = spec.input.vocabulary > 0 ? spec.input.vocabulary : target_words;
  const int64_t source_steps =
      spec.input.source_steps > 0 ? spec.input.source_steps : spec.steps(tiny ? 8 : 40);
  GraphBuilder b("gnmt");
  const TensorId source = b.Input("source", DataType::kInt32, {source_steps});
  const TensorId target = b.Input("target", DataType::kInt32, {spec.steps(tiny ? 8 : 40)});
  TensorId x =
      b.Apply("encoder.embedding", Embedding{.rows = source_words, .dim = hidden}, {source});
  const TensorId memory = Layers(&b, "encoder.lstm", x, layers, hidden);
  x = b.Apply("decoder.embedding", Embedding{.rows = target_words, .dim = hidden}, {target});
  x = Layers(&b, "decoder.lstm", x, layers, hidden);
  const TensorId query = b.Apply("attention.query", Linear{.outputs = hidden, .bias = false}, {x});
  const TensorId keys =
      b.Apply("attention.key", Linear{.outputs = hidden, .bias = false}, {memory});
  const TensorId context =
      b.Apply("attention", compute::AdditiveAttention{}, {query, keys, memory});
  x = b.Apply("decoder.join", Concat{.axis = 2}, {x, context});
  x = b.Apply("decoder.mix", Linear{.outputs = hidden, .bias = false}, {x});
  x = b.Apply("decoder.mix.tanh", Activation{.kind = ActivationKind::kTanh}, {x});
  b.Loss("loss", b.Apply("fc", Linear{.outputs = target_words}, {x}));
  return b.Build();
}

}  // namespace soapstone::models
