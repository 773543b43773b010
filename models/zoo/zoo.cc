#include "models/zoo/zoo.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "models/zoo/zoo_models.h"

namespace soapstone::models {
namespace {

constexpr double kLayersMax = 4096;  // a graph of more takes minutes to plan
constexpr double kSizeMax = 1 << 20;

struct Known {
  const char* name;
  const char* description;
  absl::StatusOr<Graph> (*build)(const ModelSpec& spec);
  std::vector<std::string> options = {};  // besides tiny
  bool reads_text = false;                // its options, and tiny, it reads itself
};

const std::vector<Known>& KnownModels() {
  static const auto* const kKnown = new std::vector<Known>{
      {"softmax", "one linear layer", BuildSoftmax},
      {"mlp", "two hidden layers, ReLU", BuildMlp, {"hidden"}},
      {"lenet5", "LeCun et al. 1998; images of 28x28 or 8x8", BuildLenet5},
      {"alexnet", "Krizhevsky 2014, one tower; 3x224x224", BuildAlexnet, {"dropout", "hidden"}},
      {"resnet50", "He et al. 2016, 3+4+6+3 bottlenecks; 3x224x224", BuildResnet50, {"hidden"}},
      {"resnet101", "He et al. 2016, 3+4+23+3 bottlenecks; 3x224x224", BuildResnet101, {"hidden"}},
      {"inception_v3",
       "Szegedy et al. 2016, no auxiliary head; 3x299x299",
       BuildInceptionV3,
       {"dropout"}},
      {"nasnet_a",
       "Zoph et al. 2018, 3 x (5 normal cells + reduction); 3x224x224",
       BuildNasnetA,
       {"hidden", "layers"}},
      {"rnntc",
       "text classifier, 4 LSTM layers of 1024; 40 steps",
       BuildRnntc,
       {"hidden", "layers"}},
      {"rnnlm",
       "language model, 2 LSTM layers of 2048; 40 steps",
       BuildRnnlm,
       {"hidden", "layers"}},
      {"gnmt",
       "translation, 2 + 2 LSTM layers of 1024, attention; 40 steps",
       BuildGnmt,
       {"hidden", "layers"}},
      {"transformer_lm",
       "pre-norm decoder, 12 layers of 768; 512 steps",
       BuildTransformerLm,
       {"dropout", "heads", "hidden", "layers"}},
      {"bert_base",
       "Devlin et al. 2019, encoder with classifier; 512 steps",
       BuildBertBase,
       {"dropout", "heads", "hidden", "layers"}},
      {"dlrm_hashed",
       "Naumov et al. 2019, 26 embeddings of up to 100,000 rows; 13 numbers",
       BuildHashedDlrm,
       {},
       /*reads_text=*/true},
  };
  return *kKnown;
}

// "name", "name:tiny", "name:key=value,key=value"
absl::StatusOr<ModelSpec> ParseModel(std::string_view model, const Known& known) {
  const std::vector<std::string> halves =
      absl::StrSplit(absl::string_view(model.data(), model.size()), absl::MaxSplits(':', 1));
  ModelSpec spec = {.name = halves[0], .text = std::string(model)};
  if (halves.size() == 1 || known.reads_text) return spec;
  const std::vector<std::string> options = absl::StrSplit(halves[1], ',');
  std::set<std::string> given;
  std::vector<std::string> takes = {"tiny"};
  for (const std::string& key : known.options) takes.push_back(key + "=");
  for (const std::string& option : options) {
    const std::vector<std::string> pair = absl::StrSplit(option, absl::MaxSplits('=', 1));
    if (!given.insert(pair[0]).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.name, ": option '", pair[0], "' is given twice"));
    }
    if (option == "tiny") {
      spec.tiny = true;
      continue;
    }
    double value = 0;
    const bool taken = std::ranges::find(known.options, pair[0]) != known.options.end();
    if (!taken || pair.size() != 2 || !absl::SimpleAtod(pair[1], &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.name, ": option '", option, "': it takes ", absl::StrJoin(takes, ", "),
                       taken ? " with a number" : DidYouMean(pair[0] + "=", takes)));
    }
    const bool is_rate = pair[0] == "dropout";
    const double most = pair[0] == "layers" ? kLayersMax : kSizeMax;
    const bool whole = value == std::floor(value);
    if (is_rate ? !(value >= 0 && value < 1) : !(value >= 1 && value <= most && whole)) {
      return absl::InvalidArgumentError(absl::StrCat(
          spec.name, ": ", option, ": it must be ",
          is_rate ? "at least 0 and below 1" : absl::StrCat("a whole number from 1 to ", most)));
    }
    spec.options[pair[0]] = value;
  }
  return spec;
}

// Of tables (models/tables/sparse_model.h).
constexpr const char* kOfTables[] = {"logistic", "matrix_factorisation", "skip_gram", "dlrm"};

absl::Status UnknownModel(const std::string& name) {
  const auto all = [](const char* link) {
    return absl::StrCat(absl::StrJoin(ModelNames(), ", "), ", ", link,
                        " of a file onnx:FILE; of tables: ", absl::StrJoin(kOfTables, ", "));
  };
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no model is named: --model, one of ", all("or")));
  }
  std::vector<std::string> known = ModelNames();
  known.insert(known.end(), std::begin(kOfTables), std::end(kOfTables));
  return absl::InvalidArgumentError(
      absl::StrCat("unknown model '", name, "'", DidYouMean(name, known), "; known: ", all("and")));
}

}  // namespace

std::vector<ZooEntry> Zoo() {
  std::vector<ZooEntry> entries;
  for (const Known& known : KnownModels()) entries.push_back({known.name, known.description});
  return entries;
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const Known& known : KnownModels()) names.emplace_back(known.name);
  return names;
}

absl::StatusOr<Graph> BuildModel(std::string_view model, const ModelInput& input) {
  const std::string name(model.substr(0, model.find(':')));
  for (const Known& known : KnownModels()) {
    if (name != known.name) continue;
    SOAP_ASSIGN_OR_RETURN(ModelSpec spec, ParseModel(model, known));
    spec.input = input;
    return known.build(spec);
  }
  return UnknownModel(name);
}

absl::Status CheckModelName(std::string_view model) {
  const std::string name(model.substr(0, model.find(':')));
  const std::vector<std::string> names = ModelNames();
  if (std::find(names.begin(), names.end(), name) != names.end()) return absl::OkStatus();
  return UnknownModel(name);
}

absl::StatusOr<Graph> BuildModel(std::string_view model, const ImageShape& shape, int64_t classes) {
  if (classes < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a classifier needs at least two classes, not ", classes));
  }
  return BuildModel(model,
                    {.image = {shape.channels, shape.height, shape.width}, .classes = classes});
}

}  // namespace soapstone::models
