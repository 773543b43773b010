#include "apps/cli/named_model.h"

#include <utility>

#include "base/status_macros.h"
#include "cluster/job_config.h"
#include "models/formats/onnx/read_onnx.h"
#include "models/tables/sparse_model.h"
#include "models/zoo/zoo.h"

namespace soapstone::apps {

absl::StatusOr<models::Graph> GraphOf(const std::string& model) {
  const std::string path = OnnxPathOf(model);
  if (!path.empty()) {
    SOAP_ASSIGN_OR_RETURN(models::OnnxModel read, models::ReadOnnx(path));
    return std::move(read.graph);
  }
  if (models::IsSparseModel(model)) return models::GraphOfSparseModel(model);
  SOAP_RETURN_IF_ERROR(models::CheckModelName(model));
  return models::BuildModel(model, models::ModelInput{});
}

}  // namespace soapstone::apps
