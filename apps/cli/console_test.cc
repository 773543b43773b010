#include "apps/cli/console.h"

#include <gtest/gtest.h>

#include <sstream>

namespace soapstone::apps {
namespace {

constexpr char kErase[] = "\r\x1b[K";

TEST(Console, RefreshesOneLineOnATerminal) {
  std::ostringstream out;
  Console console(&out, true);
  console.Progress(0, "one");
  console.Progress(1, "two");
  console.Line("news");
  console.EndProgress();
  console.Line("end");
  EXPECT_EQ(out.str(),
            std::string(kErase) + "one" + kErase + "two" + kErase + "news\ntwo" + kErase + "end\n");
}

TEST(Console, PlainLinesEveryFewSecondsElsewhere) {
  std::ostringstream out;
  Console console(&out, false);
  console.Progress(0, "a");
  console.Progress(kSecond, "b");
  console.Progress(2 * kSecond, "c");
  console.EndProgress();
  EXPECT_EQ(out.str(), "a\nc\n");
}

TEST(ForwardedLine, DropsGlogsPrefix) {
  EXPECT_EQ(ForwardedLine("worker-1", "W20260101 12:00:00.123456 4711 file.cc:12] slow", false),
            "worker-1: warning: slow");
  EXPECT_EQ(ForwardedLine("server-0", "E20260101 12:00:00.123456 4711 file.cc:12] bad", false),
            "server-0: error: bad");
}

TEST(ForwardedLine, InformationOnlyWhereAskedFor) {
  const std::string line = "I20260101 12:00:00.123456 4711 file.cc:12] hello";
  EXPECT_EQ(ForwardedLine("worker-1", line, false), std::nullopt);
  EXPECT_EQ(ForwardedLine("worker-0", line, true), "worker-0: hello");
}

TEST(ForwardedLine, OtherLinesAreShownWhole) {
  EXPECT_EQ(ForwardedLine("worker-1", "==4711==ERROR: AddressSanitizer", false),
            "worker-1: ==4711==ERROR: AddressSanitizer");
  EXPECT_EQ(ForwardedLine("worker-1", "", false), "worker-1: ");
}

}  // namespace
}  // namespace soapstone::apps
