// The bytes of a TensorBoard event file: TFRecords of events. A file is whole after each record; a
// reader stops at one that is torn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soapstone::apps {

// A point of some curves: `step` is a clock.
struct ScalarEvent {
  double wall_time_s = 0;  // since 1970
  int64_t step = 0;
  std::vector<std::pair<std::string, double>> values;  // by tag, such as "train/loss"
};

// u64 length, u32 masked CRC-32C of it, the bytes, u32 masked CRC-32C of them; little-endian.
std::string TfRecord(std::string_view data);

// The first record, which says the format's version; then one for each event.
std::string EventFileHeader(double wall_time_s);
std::string EventRecord(const ScalarEvent& event);

// "events.out.tfevents.<seconds>.<host>.<pid>.0", as TensorBoard looks for them.
std::string EventFileName(int64_t unix_seconds, const std::string& host, int pid);

}  // namespace soapstone::apps
