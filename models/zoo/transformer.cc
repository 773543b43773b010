// transformer_lm (a pre-norm decoder) and bert_base (Devlin et al. 2019, a post-norm encoder).
#include "absl/strings/str_cat.h"
#include "models/zoo/zoo_models.h"

namespace soapstone::models {
namespace {

using compute::Activation;
using compute::ActivationKind;
using compute::Add;
using compute::AddParameter;
using compute::Embedding;
using compute::LayerNorm;
using compute::Linear;

struct Width {
  int64_t dim = 768;
  int64_t heads = 12;
  double dropout = 0;
  double epsilon = 1e-5;
};

class Transformer {
 public:
  Transformer(GraphBuilder* b, const Width& width) : b_(*b), width_(width) {}

  TensorId Drop(const std::string& name, TensorId x) {
    if (width_.dropout <= 0) return x;
    return b_.Apply(name, compute::Dropout{.rate = width_.dropout}, {x});
  }
  TensorId Norm(const std::string& name, TensorId x) {
    return b_.Apply(name, LayerNorm{.epsilon = width_.epsilon}, {x});
  }
  TensorId Project(const std::string& name, TensorId x, int64_t outputs) {
    return b_.Apply(name, Linear{.outputs = outputs}, {x});
  }

  TensorId Attention(const std::string& name, TensorId x, bool causal) {
    const TensorId q = Project(name + ".query", x, width_.dim);
    const TensorId k = Project(name + ".key", x, width_.dim);
    const TensorId v = Project(name + ".value", x, width_.dim);
    x = b_.Apply(name, compute::MultiHeadAttention{.heads = width_.heads, .causal = causal},
                 {q, k, v});
    return Drop(name + ".dropout", Project(name + ".output", x, width_.dim));
  }

  TensorId FeedForward(const std::string& name, TensorId x) {
    x = Project(name + ".intermediate", x, 4 * width_.dim);
    x = b_.Apply(name + ".gelu", Activation{.kind = ActivationKind::kGelu}, {x});
    return Drop(name + ".dropout", Project(name + ".output", x, width_.dim));
  }

  // x + f(norm(x)), twice.
  TensorId PreNorm(const std::string& name, TensorId x) {
    TensorId y = Attention(name + ".attention", Norm(name + ".norm1", x), true);
    x = b_.Apply(name + ".add1", Add{}, {x, y});
    y = FeedForward(name + ".mlp", Norm(name + ".norm2", x));
    return b_.Apply(name + ".add2", Add{}, {x, y});
  }

  // norm(x + f(x)), twice.
  TensorId PostNorm(const std::string& name, TensorId x) {
    TensorId y = Attention(name + ".attention", x, false);
    x = Norm(name + ".norm1", b_.Apply(name + ".add1", Add{}, {x, y}));
    y = FeedForward(name + ".mlp", x);
    return Norm(name + ".norm2", b_.Apply(name + ".add2", Add{}, {x, y}));
  }

 private:
  GraphBuilder& b_;
  const Width width_;
};

Width WidthOf(const ModelSpec& spec, double epsilon) {
  return {.dim = spec.count("hidden", spec.tiny ? 64 : 768),
          .heads = spec.count("heads", spec.tiny ? 4 : 12),
          .dropout = spec.option("dropout", 0),
          .epsilon = epsilon};
}

}  // namespace

absl::StatusOr<Graph> BuildTransformerLm(const ModelSpec& spec) {
  const bool tiny = spec.tiny;
  const Width width = WidthOf(spec, 1e-5);
  const int64_t vocabulary = spec.classes(tiny ? 64 : 32000);
  GraphBuilder b("transformer_lm");
  Transformer t(&b, width);
  TensorId x = b.Input("tokens", DataType::kInt32, {spec.steps(tiny ? 32 : 512)});
  x = b.Apply("embedding", Embedding{.rows = vocabulary, .dim = width.dim}, {x});
  x = t.Drop("dropout", b.Apply("positions", AddParameter{}, {x}));
  for (int64_t i = 0; i < spec.count("layers", tiny ? 2 : 12); ++i) {
    x = t.PreNorm(absl::StrCat("layers.", i), x);
  }
  x = t.Norm("norm", x);
  b.Loss("loss", b.Apply("fc", Linear{.outputs = vocabulary}, {x}));
  return b.Build();
}

// With pooler and a classifier of sequences: 110 million parameters.
absl::StatusOr<Graph> BuildBertBase(const ModelSpec& spec) {
  const bool tiny = spec.tiny;
  const Width width = WidthOf(spec, 1e-12);
  const int64_t vocabulary = spec.input.vocabulary > 0 ? spec.input.vocabulary : tiny ? 64 : 30522;
  const int64_t steps = spec.steps(tiny ? 16 : 512);
  GraphBuilder b("bert_base");
  Transformer t(&b, width);
  const TensorId tokens = b.Input("tokens", DataType::kInt32, {steps});
  const TensorId segments = b.Input("segments", DataType::kInt32, {steps});
  const TensorId words =
      b.Apply("embeddings.word", Embedding{.rows = vocabulary, .dim = width.dim}, {tokens});
  const TensorId types =
      b.Apply("embeddings.segment", Embedding{.rows = 2, .dim = width.dim}, {segments});
  TensorId x = b.Apply("embeddings.add", Add{}, {words, types});
  x = b.Apply("embeddings.position", AddParameter{}, {x});
  x = t.Drop("embeddings.dropout", t.Norm("embeddings.norm", x));
  for (int64_t i = 0; i < spec.count("layers", tiny ? 2 : 12); ++i) {
    x = t.PostNorm(absl::StrCat("layers.", i), x);
  }
  if (steps > 1) {
    x = b.ApplyAll("first", compute::Split{.axis = 1, .sizes = {1, steps - 1}}, {x}, 2)[0];
  }
  x = t.Project("pooler", b.Flatten("flatten", x), width.dim);
  x = b.Apply("pooler.tanh", Activation{.kind = ActivationKind::kTanh}, {x});
  b.Loss("loss", t.Project("classifier", x, spec.classes(2)));
  return b.Build();
}

}  // namespace soapstone::models
