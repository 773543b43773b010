#include "apps/cli/models_command.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/cli/job_source.h"
#include "apps/cli/model_listing.h"
#include "apps/cli/named_model.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "compute/optimizer.h"
#include "models/graph/graph_text.h"

namespace soapstone::apps {
namespace {

constexpr char kModelsProgram[] = "soapstone models";
constexpr char kClearLine[] = "\r\x1b[K";

absl::StatusOr<ListedStep> StepOf(const ModelsFlags& flags) {
  ListedStep step = {.batch = flags.batch};
  if (flags.optimizer.empty()) return step;
  SOAP_ASSIGN_OR_RETURN(const compute::OptimizerSpec optimizer,
                        compute::ParseOptimizer(flags.optimizer));
  step.optimizer_floats = compute::FloatsOf(optimizer.kind);
  return step;
}

int ListAll(const ModelsFlags& flags, const ListedStep& step) {
  std::function<void(const std::string&, double)> progress;
  if (isatty(STDERR_FILENO) != 0) {
    progress = [](const std::string& model, double done) {
      std::fprintf(stderr, "%splanning %s  %.0f%%", kClearLine, model.c_str(), 100 * done);
    };
  }
  const absl::StatusOr<std::vector<ZooLine>> lines = ListZoo(step, progress);
  if (progress) std::fputs(kClearLine, stderr);
  if (!lines.ok()) return SayConfigError(kModelsProgram, lines.status());
  std::cout << (flags.json ? ZooJson(*lines, flags.batch) : ZooTable(*lines, flags.batch));
  return kExitOk;
}

int Draw(const ModelsFlags& flags) {
  const absl::StatusOr<models::Graph> graph = GraphOf(flags.model);
  if (!graph.ok()) return SayConfigError(kModelsProgram, graph.status());
  std::cout << models::DotOf(*graph);
  return kExitOk;
}

}  // namespace

int ListModels(const ModelsFlags& flags) {
  const absl::StatusOr<ListedStep> step = StepOf(flags);
  if (!step.ok()) return SayConfigError(kModelsProgram, step.status());
  if (flags.model.empty()) return ListAll(flags, *step);
  if (flags.dot) return Draw(flags);
  const absl::StatusOr<ModelDetail> detail = DetailOf(flags.model, *step);
  if (!detail.ok()) return SayConfigError(kModelsProgram, detail.status());
  std::cout << (flags.json ? DetailJson(*detail) : DetailTable(*detail));
  return kExitOk;
}

}  // namespace soapstone::apps
