#include "apps/report/event_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "apps/report/event_file.pb.h"

namespace soapstone::apps {
namespace {

// One bit at a time, as the polynomial is written: 0x1edc6f41, most significant bit first.
uint32_t CrcByTheBook(const std::string& data) {
  uint32_t crc = 0xffffffff;
  for (const char c : data) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool in = ((static_cast<uint8_t>(c) >> bit) & 1) != 0;
      const bool out = (crc >> 31) != 0;
      crc = (crc << 1) ^ (in != out ? 0x1edc6f41u : 0);
    }
  }
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= ((crc >> bit) & 1) << (31 - bit);
  return ~reflected;
}

uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8; }

template <class T>
T At(const std::string& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

TEST(EventFile, TheSumIsCastagnolis) { EXPECT_EQ(CrcByTheBook("123456789"), 0xe3069283u); }

TEST(EventFile, ARecordIsFramedAsTensorFlowsAre) {
  for (const std::string& data : {std::string(), std::string("abc"), std::string(1000, '\xff')}) {
    const std::string record = TfRecord(data);
    ASSERT_EQ(record.size(), 16 + data.size());
    EXPECT_EQ(At<uint64_t>(record, 0), data.size());
    EXPECT_EQ(At<uint32_t>(record, 8), Masked(CrcByTheBook(record.substr(0, 8))));
    EXPECT_EQ(record.substr(12, data.size()), data);
    EXPECT_EQ(At<uint32_t>(record, 12 + data.size()), Masked(CrcByTheBook(data)));
  }
}

TEST(EventFile, EventsHaveTheirNumbers) {
  const std::string record = EventRecord(
      {12.5, 7, {{"train/loss", 0.25}, {"nan", std::numeric_limits<double>::quiet_NaN()}}});
  event_file::Event event;
  ASSERT_TRUE(event.ParseFromString(record.substr(12, record.size() - 16)));
  EXPECT_EQ(event.wall_time(), 12.5);
  EXPECT_EQ(event.step(), 7);
  ASSERT_EQ(event.summary().value_size(), 2);
  EXPECT_EQ(event.summary().value(0).tag(), "train/loss");
  EXPECT_EQ(event.summary().value(0).simple_value(), 0.25f);
  const std::string header = EventFileHeader(1);
  ASSERT_TRUE(event.ParseFromString(header.substr(12, header.size() - 16)));
  EXPECT_EQ(event.file_version(), "brain.Event:2");
  EXPECT_EQ(EventFileName(5, "n1", 17), "events.out.tfevents.5.n1.17.0");
}

}  // namespace
}  // namespace soapstone::apps
