#include "cluster/model/model_metadata.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "cluster/job_config.h"
#include "models/runtime/model_reading.h"

namespace soapstone::apps {
namespace {

// A header has at most 100 MB (models/formats/safetensors_reader.h).
constexpr size_t kReadingBytesMax = size_t{32} << 20;

}  // namespace

wire::JobConfig JobOfModel(const wire::JobConfig& config) {
  wire::JobConfig job;
  job.set_model(config.model());
  *job.mutable_data() = config.data();
  *job.mutable_training() = config.training();
  job.mutable_training()->clear_micro_batches();
  job.mutable_training()->clear_initial_weights();
  job.mutable_training()->clear_stragglers();
  job.mutable_training()->clear_base_ms();
  job.mutable_training()->clear_on_nonfinite();
  job.mutable_training()->clear_evaluation();
  job.mutable_cluster()->set_precision(config.cluster().precision());
  job.mutable_cluster()->set_table_rows_max(config.cluster().table_rows_max());
  return job;
}

models::DataOptions DataOptionsOf(const wire::JobConfig& config) {
  const wire::Data& data = config.data();
  return {.format = data.format(),
          .path = data.path(),
          .labels_path = data.labels_path(),
          .test_path = data.test_path(),
          .test_labels_path = data.test_labels_path(),
          .test_fraction = data.test_fraction(),
          .scale = data.scale(),
          .height = data.height(),
          .width = data.width(),
          .channels = data.channels(),
          .length = data.length(),
          .vocabulary = data.vocabulary(),
          .samples = data.samples(),
          .augment = data.augment(),
          .seed = config.training().seed(),
          .separator = data.separator(),
          .label_column = data.label_column(),
          .drop_missing = data.missing() == "drop"};
}

models::Metadata ModelMetadataOf(const Job& job) {
  models::Metadata metadata = {{"model", job.config.model()}, {"policy", job.specs.policy.spec}};
  if (job.tables != nullptr && !job.tables->data().vocabulary.empty()) {
    metadata.emplace_back("vocabulary", absl::StrJoin(job.tables->data().vocabulary, "\n"));
  }
  metadata.emplace_back("job", JobText(JobOfModel(job.config)));
  if (job.data != nullptr) {
    std::string reading = models::ReadingText(models::ReadingOf(*job.data));
    if (reading.size() <= kReadingBytesMax) metadata.emplace_back("reading", std::move(reading));
  }
  return metadata;
}

}  // namespace soapstone::apps
