#include "observe/metrics/exposition.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <vector>

namespace soapstone::metrics {
namespace {

prometheus::MetricType TypeOf(Kind kind) {
  if (kind == Kind::kCounter) return prometheus::MetricType::Counter;
  return kind == Kind::kGauge ? prometheus::MetricType::Gauge : prometheus::MetricType::Histogram;
}

prometheus::ClientMetric MetricOf(const Entry& entry, const Sample& sample) {
  prometheus::ClientMetric metric;
  for (size_t i = 0; i < entry.label_count(); ++i) {
    metric.label.push_back({std::string(entry.labels[i]), sample.labels[i]});
  }
  metric.counter.value = metric.gauge.value = sample.value;
  metric.histogram.sample_sum = sample.value;
  for (const auto& [edge, count] : sample.at_most) {
    metric.histogram.bucket.push_back({count, edge});
    metric.histogram.sample_count = count;
  }
  return metric;
}

}  // namespace

std::string Exposition(const Families& families) {
  std::vector<prometheus::MetricFamily> out;
  for (const auto& [series, samples] : families.samples()) {
    const Entry& entry = EntryOf(series);
    prometheus::MetricFamily family;
    family.name = entry.name;
    family.help = entry.help;
    family.type = TypeOf(entry.kind);
    for (const Sample& sample : samples) family.metric.push_back(MetricOf(entry, sample));
    out.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(out);
}

}  // namespace soapstone::metrics
