// Parts of a result that are more than a row of numbers: the curve of the loss as a line of blocks,
// and who was taken for what. As text for people, and as files for programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "apps/report/report.h"

namespace soapstone::apps {

// Up to so many classes the closing table has the confusion; of more it is in a file.
inline constexpr size_t kClassesShownMax = 20;

// A cell of a CSV line, quoted where it must be (RFC 4180).
std::string CsvCell(const std::string& text);

// A sign for each number, the higher the greater it is between the least and the greatest: the
// eight blocks of Unicode (U+2581 to U+2588), or "_.:-=+*#". One that is not finite is "?".
std::string Sparkline(absl::Span<const double> values, bool utf8);

// Lines of a column for each class, headed by its number; a row a label, with its name where there
// are names. REQUIRES: square.
std::string ConfusionText(const std::vector<std::vector<uint32_t>>& confusion,
                          const std::vector<std::string>& names);
// The same as CSV, with all counts: "label,0,1,..", names in place of numbers where there are.
std::string ConfusionCsv(const std::vector<std::vector<uint32_t>>& confusion,
                         const std::vector<std::string>& names);

// "samples,loss", a line a stretch.
std::string LossesCsv(const std::vector<LossPoint>& losses);

// The mean loss of `samples` from the sum before them and behind them; none: it is not finite, or
// the sums are so large, after losses that were, that their rounding is more than what is shown.
std::optional<double> MeanLoss(double sum_before, double sum, uint64_t samples);

// The loss of a run in at most kPoints stretches of about as many readings each, however long it
// is. A value: it is fed with counters that grow.
class LossHistory {
 public:
  static constexpr size_t kPoints = 40;

  // Samples trained so far and the sum of their losses. What does not go on from the last reading
  // (fewer samples, as after a loss of a worker) begins anew from there; a stretch whose mean is
  // not finite, or not known (MeanLoss), is left out.
  void Take(uint64_t samples, double loss_sum);
  // The stretches so far.
  std::vector<LossPoint> Points() const;

 private:
  struct Stretch {
    uint64_t end = 0;  // samples of the run
    uint64_t samples = 0;
    double loss_sum = 0;
  };
  static void Halve(std::vector<Stretch>* stretches);

  uint64_t last_samples_ = 0;
  double last_sum_ = 0;
  uint64_t readings_ = 0;  // of the stretch in hand
  uint64_t per_stretch_ = 1;
  std::vector<Stretch> stretches_;  // the last is in hand while readings_ > 0
};

}  // namespace soapstone::apps
