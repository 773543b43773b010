#include "transport/byte_counts.h"

#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using wire::MessageType;

TEST(ByteCounts, EveryByteHasOneCause) {
  BytesByCause bytes;
  bytes.AddMessage(MessageType::kPush, 50, 1000);
  bytes.AddMessage(MessageType::kClock, 40, 0);
  bytes.AddMessage(MessageType::kPull, 41, 0);
  bytes.AddMessage(MessageType::kPullReply, 42, 3000);
  bytes.AddMessage(MessageType::kSlices, 60, 500);
  bytes.AddMessage(MessageType::kParcel, 70, 800);
  bytes.AddMessage(MessageType::kHeartbeat, 30, 0);
  bytes.AddMessage(MessageType::kEvaluated, 20, 400);
  EXPECT_EQ(bytes, (BytesByCause{.push = 1000,
                                 .pull = 3000,
                                 .parcels = 800,
                                 .model = 500,
                                 .header = 50 + 40 + 41 + 42 + 70,
                                 .control = 60 + 30 + 20 + 400}));
  EXPECT_EQ(bytes.total(), 6053u);
}

TEST(ByteCounts, LongFramesHaveLongLengths) {
  const Buffers payload = {Buffer::CopyOf(std::string(255, 'a')),
                           Buffer::CopyOf(std::string(256, 'a')), Buffer::CopyOf("")};
  EXPECT_EQ(ZmtpFramingOf(60, payload), 2u + 2 + 9 + 2);
}

}  // namespace
}  // namespace soapstone::transport
