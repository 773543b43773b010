#include "apps/cli/console.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

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

TEST(Console, PlainLinesEveryTenSecondsElsewhere) {
  std::ostringstream out;
  Console console(&out, false);
  console.Progress(0, "a");
  console.Progress(kSecond, "b");
  console.Progress(9 * kSecond, "c");
  console.Progress(10 * kSecond, "d");
  console.EndProgress();
  EXPECT_EQ(out.str(), "a\nd\n");
}

TEST(Console, PlainLinesAsOftenAsAsked) {
  std::ostringstream out;
  Console console(&out, {.plain_every = kSecond});
  console.Progress(0, "a");
  console.Progress(kSecond / 2, "b");
  console.Progress(kSecond, "c");
  EXPECT_EQ(out.str(), "a\nc\n");
}

TEST(Console, ALineIsCutToTheTerminal) {
  std::ostringstream out;
  size_t columns = 5;
  Console console(&out, {.terminal = true, .columns = [&columns] { return columns; }});
  console.Progress(0, "progress");
  columns = 0;
  console.Progress(1, "progress");
  EXPECT_EQ(out.str(), std::string(kErase) + "prog" + kErase + "progress");
}

TEST(SpeaksUtf8, ByTheFirstThatIsSet) {
  std::map<std::string, std::string> set;
  const auto environment = [&set](const char* name) -> const char* {
    const auto it = set.find(name);
    return it == set.end() ? nullptr : it->second.c_str();
  };
  EXPECT_FALSE(SpeaksUtf8(environment));
  set["LANG"] = "de_AT.UTF-8";
  EXPECT_TRUE(SpeaksUtf8(environment));
  set["LC_ALL"] = "";
  EXPECT_TRUE(SpeaksUtf8(environment));
  set["LC_ALL"] = "C";
  EXPECT_FALSE(SpeaksUtf8(environment));
  set["LC_ALL"] = "C.utf8";
  EXPECT_TRUE(SpeaksUtf8(environment));
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
