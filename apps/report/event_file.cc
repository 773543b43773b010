#include "apps/report/event_file.h"

#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "apps/report/event_file.pb.h"

namespace soapstone::apps {
namespace {

static_assert(std::endian::native == std::endian::little);

// CRC-32C (Castagnoli), reflected: polynomial 0x82f63b78.
constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    table[byte] = crc;
  }
  return table;
}();

// As TFRecords have it: a sum of bytes that may hold sums itself is turned and moved.
uint32_t MaskedCrc(std::string_view data) {
  uint32_t crc = ~0u;
  for (const char c : data) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  crc = ~crc;
  return std::rotr(crc, 15) + 0xa282ead8u;
}

template <class T>
void Append(T value, std::string* out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

}  // namespace

std::string TfRecord(std::string_view data) {
  std::string record;
  Append(static_cast<uint64_t>(data.size()), &record);
  Append(MaskedCrc(record), &record);
  record.append(data);
  Append(MaskedCrc(data), &record);
  return record;
}

std::string EventFileHeader(double wall_time_s) {
  event_file::Event event;
  event.set_wall_time(wall_time_s);
  event.set_file_version("brain.Event:2");
  return TfRecord(event.SerializeAsString());
}

std::string EventRecord(const ScalarEvent& scalars) {
  event_file::Event event;
  event.set_wall_time(scalars.wall_time_s);
  event.set_step(scalars.step);
  for (const auto& [tag, value] : scalars.values) {
    event_file::Summary::Value* out = event.mutable_summary()->add_value();
    out->set_tag(tag);
    out->set_simple_value(static_cast<float>(value));
  }
  return TfRecord(event.SerializeAsString());
}

std::string EventFileName(int64_t unix_seconds, const std::string& host, int pid) {
  return absl::StrCat("events.out.tfevents.", unix_seconds, ".", host, ".", pid, ".0");
}

}  // namespace soapstone::apps
