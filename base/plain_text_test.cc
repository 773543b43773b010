#include "base/plain_text.h"

#include <string>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

TEST(PlainText, WhatIsSeenStays) {
  for (const char* text :
       {"", "worker 1 is slow: 41 ms", "Zürich 東京 🙂", "█▉ — ∞", "\u00a0\u00ad"}) {
    EXPECT_EQ(PlainText(text), text);
  }
}

TEST(PlainText, WhatMovesACursorOrNamesAWindowDoesNot) {
  EXPECT_EQ(PlainText("\x1b]0;mine\x07"), "?]0;mine?");
  EXPECT_EQ(PlainText("a\r\n\tb\x7f"), "a???b?");
  EXPECT_EQ(PlainText(std::string("\0", 1)), "?");
  EXPECT_EQ(PlainText("\u009b2J"), "?2J");  // the same as escape and a bracket
  EXPECT_EQ(PlainText("\u0080\u009f"), "??");
  EXPECT_EQ(PlainText("\u2028\u2029"), "??");
}

TEST(PlainText, OfLinesTheirEndsStay) {
  EXPECT_EQ(PlainLines("a\x1b\n\nb\r\n"), "a?\n\nb?\n");
  EXPECT_EQ(PlainLines(""), "");
}

TEST(PlainText, WhatTurnsTheDirectionDoesNot) {
  EXPECT_EQ(PlainText("exit code \u202e97"), "exit code ?97");
  EXPECT_EQ(PlainText("\u206a\u206f\ufff9\ufffb"), "????");
  EXPECT_EQ(PlainText("\u061c\u200e\u200f\u202a\u202e\u2066\u2069"), "???????");
}

TEST(PlainText, WhatIsNotUtf8Does) {
  EXPECT_EQ(PlainText("a\x9b"), "a?");  // a C1 control of an eight-bit terminal
  EXPECT_EQ(PlainText("\xc3"), "?");    // cut off
  EXPECT_EQ(PlainText("\xc3z"), "?z");
  EXPECT_EQ(PlainText("\xc0\x9b"), "??");  // a longer form than needed
  EXPECT_EQ(PlainText("\xe0\x82\x9b"), "???");
  EXPECT_EQ(PlainText("\xed\xa0\x80"), "???");  // half of a pair
  EXPECT_EQ(PlainText("\xf4\x90\x80\x80"), "????");
  EXPECT_EQ(PlainText("\xff"), "?");
}

}  // namespace
}  // namespace soapstone
