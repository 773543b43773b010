#include "models/formats/weights.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/formats/safetensors_reader.h"

namespace soapstone::models {
namespace {

// "3 parameters have no tensor in the file: a, b, c"
std::string FirstFew(const std::vector<std::string>& names, const char* one, const char* many) {
  constexpr size_t kShown = 4;
  const size_t shown = std::min(kShown, names.size());
  return absl::StrCat(
      names.size(), names.size() == 1 ? one : many,
      absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < names.size() ? ", .." : "");
}

bool IsCount(const StoredTensor& tensor) {
  return absl::EndsWith(tensor.name, ".num_batches_tracked");
}

}  // namespace

absl::StatusOr<std::vector<std::vector<float>>> LoadWeights(const std::string& path,
                                                            const Graph& graph) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<StoredTensor> tensors, ReadSafetensorsHeader(path));
  std::map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : tensors) {
    if (!IsCount(tensor)) by_name.emplace(tensor.name, &tensor);
  }
  std::vector<const StoredTensor*> found;
  std::vector<std::string> missing, unknown;
  for (const ParamSpec& param : graph.params()) {
    const auto it = by_name.find(param.name);
    if (it == by_name.end()) {
      missing.push_back(param.name);
      continue;
    }
    found.push_back(it->second);
    by_name.erase(it);
  }
  for (const auto& [name, tensor] : by_name)
    unknown.push_back(absl::Utf8SafeCHexEscape(name.substr(0, 100)));
  std::vector<std::string> faults;
  if (!missing.empty()) {
    faults.push_back(FirstFew(
        missing, " parameter has no tensor in it: ", " parameters have no tensor in it: "));
  }
  if (!unknown.empty()) {
    faults.push_back(FirstFew(unknown, " tensor is no parameter of the model: ",
                              " tensors are no parameters of the model: "));
  }
  if (!faults.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " does not fit ", graph.name(), ": ", absl::StrJoin(faults, "; ")));
  }
  std::vector<std::vector<float>> values;
  for (size_t i = 0; i < found.size(); ++i) {
    const ParamSpec& param = graph.params()[i];
    if (found[i]->shape != param.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", param.name, " has shape [", absl::StrJoin(found[i]->shape, ", "),
                       "] in the file, [", absl::StrJoin(param.shape, ", "), "] in the model"));
    }
    SOAP_ASSIGN_OR_RETURN(std::vector<float> of_param, ReadFloats(path, *found[i]));
    values.push_back(std::move(of_param));
  }
  return values;
}

}  // namespace soapstone::models
