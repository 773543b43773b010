#include "cluster/divergence.h"

#include "absl/strings/str_cat.h"

namespace soapstone::apps {

std::string DivergenceAdvice(const wire::JobConfig& config, const cluster::JobSpecs& specs,
                             Clock total_clocks, std::optional<Clock> clock) {
  const double rate = clock.has_value() ? compute::LearningRate(specs.optimizer, specs.schedule,
                                                                *clock, total_clocks)
                                        : specs.optimizer.lr;
  const bool up_to = !clock.has_value() && specs.schedule.warmup > 0;
  std::string text = absl::StrCat("learning rate ", up_to ? "up to " : "", rate,
                                  "; try a smaller one in --optimizer, ",
                                  specs.schedule.warmup > 0 ? "a longer warm-up" : "a warm-up",
                                  " (--schedule=constant:warmup=100)");
  if (config.cluster().precision() != "float32") {
    absl::StrAppend(&text, ", --precision=float32 in place of ", config.cluster().precision());
  }
  if (!SkipsNotFinite(config)) {
    absl::StrAppend(&text, ", or --on_nonfinite=skip where single samples are to blame");
  }
  return text;
}

}  // namespace soapstone::apps
