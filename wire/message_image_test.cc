#include "wire/message_image.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "wire/example_frames.h"

namespace soapstone::wire {
namespace {

Message PushOfExamples() {
  for (Message& message : Examples()) {
    if (message.type == MessageType::kPush && !message.payload.empty()) return std::move(message);
  }
  return {};
}

TEST(MessageImageTest, EveryMessageComesBackWithItsPayload) {
  for (const Message& message : Examples()) {
    StateWriter writer;
    writer.Write(message);
    const std::string bytes = writer.TakeBytes();
    const Buffers buffers = writer.TakeBuffers();
    StateReader reader(bytes, buffers);
    Message read;
    reader.Read(&read);
    EXPECT_TRUE(reader.done()) << ToString(message);
    EXPECT_EQ(read, message);
    if (buffers.empty()) continue;
    EXPECT_EQ(buffers[0].data(), message.payload[0].data());  // not copied
  }
}

TEST(MessageImageTest, ARosterComesBack) {
  const Roster roster = ExampleRoster("");
  StateWriter writer;
  writer.Write(roster);
  const std::string bytes = writer.TakeBytes();
  StateReader reader(bytes, {});
  Roster read;
  reader.Read(&read);
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(read, roster);
}

// As from the network: what is no message is an error, whichever byte it is.
TEST(MessageImageTest, WhatIsNoMessageIsAnError) {
  StateWriter writer;
  writer.Write(PushOfExamples());
  const std::string whole = writer.TakeBytes();
  const Buffers buffers = writer.TakeBuffers();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string bytes = whole.substr(0, size);
    StateReader reader(bytes, buffers);
    Message read;
    reader.Read(&read);
    EXPECT_FALSE(reader.done()) << size;
  }
  StateWriter other;  // a message that is no roster
  other.Write(PushOfExamples());
  const std::string bytes = other.TakeBytes();
  StateReader reader(bytes, other.TakeBuffers());
  Roster roster;
  reader.Read(&roster);
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace soapstone::wire
