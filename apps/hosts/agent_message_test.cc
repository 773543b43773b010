#include "apps/hosts/agent_message.h"

#include <gtest/gtest.h>

namespace soapstone::apps {
namespace {

TEST(AgentMessageTest, EachComesBackFromItsLine) {
  const AgentMessage all[] = {
      CheckJob{"b", "model: \"x\"\n"},
      StartProcess{3, 4, "worker-3", "tcp://h:1", "tcp://1.2.3.4:*", "0-3", "k: \"z\"\n"},
      SignalProcess{3, 15},
      Checked{"b", "no data"},
      OutputLine{3, true, "a \"line\""},
      ProcessEnded{3, true, 9},
      StillHere{}};
  for (const AgentMessage& message : all) {
    const std::string line = ToJsonLine(message);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(FromJsonLine(line), message) << line;
  }
}

TEST(AgentMessageTest, BytesThatAreNoTextAreReplaced) {
  const auto read = FromJsonLine(ToJsonLine(OutputLine{.text = "\xff!"}));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(std::get<OutputLine>(*read).text, "\xef\xbf\xbd!");
}

TEST(AgentMessageTest, RubbishIsNone) {
  for (const char* line :
       {"", "Welcome to n1", "{", "{}", "[1]", "3", "{\"soapstone\":3}", "{\"soapstone\":\"bomb\"}",
        "{\"soapstone\":\"line\"}", "{\"soapstone\":\"here\",\"more\":[]}",
        "{\"soapstone\":\"here\",\"more\":{}}",
        "{\"soapstone\":\"signal\",\"id\":\"x\",\"number\":1}"}) {
    EXPECT_EQ(FromJsonLine(line), std::nullopt) << line;
  }
}

// The cast that would be made of them has no meaning.
TEST(AgentMessageTest, NumbersThatAreNoneOfTheirFieldsAreRubbish) {
  const std::string end = R"(,"number":9,"soapstone":"signal"})";
  EXPECT_TRUE(FromJsonLine(R"({"id":1)" + end).has_value());
  for (const char* id : {"6.7e81", "1e300", "-1e300", "1.5", "99999999999", "-99999999999", "true",
                         "18446744073709551615", "null"}) {
    EXPECT_FALSE(FromJsonLine(std::string(R"({"id":)") + id + end).has_value()) << id;
  }
}

TEST(AgentMessageTest, BracketsInATextAreItsOwn) {
  const OutputLine line{.id = 1, .text = R"(a "[{" and \ :::::::::::::::::::: ])"};
  EXPECT_EQ(FromJsonLine(ToJsonLine(line)), AgentMessage(line));
}

TEST(AgentMessageTest, FieldsAreFew) {
  std::string line = R"({"soapstone":"here")";
  for (int i = 0; i < 20; ++i) line += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(FromJsonLine(line + "}"), std::nullopt);
}

TEST(AgentMessageTest, ABuildIsTheSameTwice) {
  ASSERT_TRUE(BuildId().ok());
  EXPECT_EQ(BuildId()->size(), 64u);
  EXPECT_EQ(*BuildId(), *BuildId());
}

}  // namespace
}  // namespace soapstone::apps
