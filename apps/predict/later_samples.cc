#include "apps/predict/later_samples.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "models/data/image_data.h"
#include "models/data/text_data.h"

namespace soapstone::apps {
namespace {

constexpr double kWhite = 255;  // of 8 bits

// Numbers of tables have a scale of their own; white is 1 then.
bool WasOfBytes(const std::string& format) {
  return format == "images" || format == "idx" || format == "cifar10" || format == "cifar100";
}

absl::StatusOr<LaterSamples> LoadLater(const models::DataOptions& options,
                                       const models::ModelReading& reading, double divisor) {
  const std::vector<int64_t>& image = reading.input.image;
  SOAP_ASSIGN_OR_RETURN(
      models::LaterImages images,
      models::LoadLaterImages(options, {.shape = {image[0], image[1], image[2]},
                                        .divisor = static_cast<float>(divisor),
                                        .classes = static_cast<int>(reading.input.classes),
                                        .class_names = reading.class_names,
                                        .header = reading.header}));
  LaterSamples samples = {
      .data = std::move(images.data), .labels = images.labels, .names = std::move(images.names)};
  if (!images.note.empty()) samples.notes.push_back(images.note);
  if (images.left_out > 0) {
    samples.notes.push_back(absl::StrCat(options.path, ": ", Counted(images.left_out, "file"),
                                         " left out: neither .png nor .raw"));
  }
  return samples;
}

}  // namespace

absl::StatusOr<LaterSamples> LoadLaterSamples(const TrainedModel& model,
                                              const models::ModelReading& reading,
                                              const LaterSource& source) {
  models::DataOptions options = model.OptionsFor(source.path, source.labels_path);
  const bool of_images = reading.input.image.size() == 3;
  if (source.images) {
    const std::string trained_on = std::exchange(options.format, "images");
    if (!of_images || reading.input.image[1] == 1) {
      return absl::InvalidArgumentError(absl::StrCat(source.path, ": ", model.config().model(),
                                                     " of ", model.name(), " was trained on ",
                                                     trained_on, ", which are no images"));
    }
    double divisor = WasOfBytes(trained_on) ? reading.divisor : kWhite;
    if (source.scale > 0) divisor = source.scale;
    return LoadLater(options, reading, divisor);
  }
  if (of_images) return LoadLater(options, reading, reading.divisor);
  if (options.format == "bytes" || options.format == "words" || options.format == "parallel") {
    SOAP_ASSIGN_OR_RETURN(models::Dataset text,
                          models::LoadLaterText(options, reading.vocabularies));
    return LaterSamples{.data = std::move(text), .labels = true};
  }
  return absl::InvalidArgumentError(absl::StrCat("samples of format ", options.format,
                                                 " are not read apart from the training data"));
}

}  // namespace soapstone::apps
