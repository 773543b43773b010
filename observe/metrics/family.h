// Metrics as plain values: what a node counts, by series of the catalogue. No lock, no I/O, no
// registry: a node makes them anew when it is asked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "observe/metrics/catalogue.h"

namespace soapstone::metrics {

// One line of a series, or the lines of a histogram.
struct Sample {
  std::vector<std::string> labels;  // values, in the order of the catalogue's names
  double value = 0;
  // Of a histogram: counts of what is at most so much, ascending; the last is of all.
  std::vector<std::pair<double, uint64_t>> at_most;
  friend bool operator==(const Sample&, const Sample&) = default;
};

class Families {
 public:
  // REQUIRES: as many label values as the series has labels; no histogram.
  void Add(Series series, double value, std::vector<std::string> labels = {});
  // Of clocks. Their sum takes a number beyond 15 for the least of its bucket.
  void AddHistogram(Series series, const Histogram& histogram,
                    std::vector<std::string> labels = {});
  // Of durations, by whole milliseconds, shown in seconds; `sum` is of them all.
  void AddDurations(Series series, const Histogram& milliseconds, Nanos sum);
  void Add(const Families& other);

  const std::map<Series, std::vector<Sample>>& samples() const { return samples_; }
  size_t count() const;  // lines, those of histograms among them

  friend bool operator==(const Families&, const Families&) = default;

 private:
  std::map<Series, std::vector<Sample>> samples_;
};

}  // namespace soapstone::metrics
