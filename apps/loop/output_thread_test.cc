#include "apps/loop/output_thread.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

struct Pipe {
  Pipe() {
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
  }
  ~Pipe() {
    CloseReader();
    close(ends[1]);
  }
  void CloseReader() {
    if (ends[0] >= 0) close(ends[0]);
    ends[0] = -1;
  }
  // All that comes until `last` has.
  std::string ReadUntil(const std::string& last) const {
    std::string text;
    char bytes[4096];
    while (text.find(last) == std::string::npos) {
      const ssize_t n = read(ends[0], bytes, sizeof(bytes));
      if (n <= 0) break;
      text.append(bytes, static_cast<size_t>(n));
    }
    return text;
  }
  int ends[2] = {-1, -1};
};

std::string LineOf(int i) { return absl::StrCat("line ", i, " ", std::string(100, '.'), "\n"); }

TEST(OutputThread, WritesAllInOrder) {
  Pipe pipe;
  std::ostream out(nullptr);
  std::string text;
  std::string expected;
  std::jthread reader([&] { text = pipe.ReadUntil("the end\n"); });
  {
    OutputThread thread(&out, pipe.ends[1]);
    for (int i = 0; i < 1000; ++i) {
      out << LineOf(i) << std::flush;
      expected += LineOf(i);
    }
    out << "the end" << '\n';  // not flushed
  }
  reader.join();
  EXPECT_EQ(text, expected + "the end\n");
  EXPECT_EQ(out.rdbuf(), nullptr);
}

TEST(OutputThread, WaitsAtADescriptorThatDoesNot) {
  Pipe pipe;
  ASSERT_EQ(fcntl(pipe.ends[1], F_SETFL, O_NONBLOCK), 0);
  std::ostream out(nullptr);
  std::string text;
  std::string expected;
  std::jthread reader;
  {
    OutputThread thread(&out, pipe.ends[1], {.linger = 20 * kSecond});
    for (int i = 0; i < 1000; ++i) {
      out << LineOf(i) << std::flush;
      expected += LineOf(i);
    }
    reader = std::jthread([&] { text = pipe.ReadUntil(LineOf(999)); });
  }
  reader.join();
  EXPECT_EQ(text, expected);
}

// A report of many classes is larger than all that may wait: it is one flush, with its newline.
TEST(OutputThread, NeverDropsTheLast) {
  Pipe pipe;
  std::ostream out(nullptr);
  std::string text;
  std::jthread reader;
  {
    OutputThread thread(&out, pipe.ends[1], {.bytes_max = 200'000});
    for (int i = 0; i < 1000; ++i) out << LineOf(i) << std::flush;
    out << std::string(150'000, 'r') << '\n' << std::flush;
    reader = std::jthread([&] { text = pipe.ReadUntil("r\n"); });
    EXPECT_TRUE(thread.Finish(20 * kSecond).ok());
  }
  reader.join();
  EXPECT_THAT(text, HasSubstr(std::string(150'000, 'r') + "\n"));
}

TEST(OutputThread, SaysWhatBecameOfTheEnd) {
  std::ostream out(nullptr);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  OutputThread lost(&out, full);
  out << "lost\n" << std::flush;
  EXPECT_THAT(lost.Finish(kSecond).ToString(),
              HasSubstr("standard output: No space left on device"));
  close(full);
  Pipe pipe;
  OutputThread unread(&out, dup(pipe.ends[1]));  // left open: its thread outlives it
  for (int i = 0; i < 100; ++i) out << LineOf(i) << std::flush;
  EXPECT_THAT(unread.Finish(kSecond / 10).ToString(), HasSubstr("nobody has read the end of it"));
  pipe.CloseReader();
}

// 11 MB into a pipe of 4 KiB: the writer is not kept waiting, and the last word stays.
TEST(OutputThread, DropsTheOldestWhereNobodyReads) {
  constexpr size_t kBytesMax = 10'000;
  constexpr int kLines = 100'000;
  Pipe pipe;
  std::ostream out(nullptr);
  std::string text;
  std::jthread reader;
  {
    OutputThread thread(&out, pipe.ends[1], {.bytes_max = kBytesMax, .linger = 20 * kSecond});
    for (int i = 0; i < kLines; ++i) out << LineOf(i) << std::flush;
    reader = std::jthread([&] { text = pipe.ReadUntil(LineOf(kLines - 1)); });
  }
  reader.join();
  EXPECT_THAT(text, HasSubstr(LineOf(kLines - 1)));
  EXPECT_LE(text.size(), kBytesMax + 4096 + 2 * LineOf(kLines).size());
  // Whole lines, in order.
  int last = -1;
  for (const auto& line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    int i = 0;
    ASSERT_THAT(words, SizeIs(3));
    ASSERT_TRUE(absl::SimpleAtoi(words[1], &i));
    ASSERT_GT(i, last);
    last = i;
  }
}

TEST(OutputThread, EndsThoughNobodyReads) {
  Pipe pipe;
  std::ostream out(nullptr);
  const SteadyTime began = SteadyNow();
  {
    OutputThread thread(&out, pipe.ends[1], {.linger = kSecond / 10});
    for (int i = 0; i < 100; ++i) out << LineOf(i) << std::flush;
  }
  EXPECT_GE(SteadyNow() - began, absl::Milliseconds(100));
}

TEST(OutputThread, EndsWhereTheReaderHasGone) {
  Pipe pipe;
  pipe.CloseReader();
  std::ostream out(nullptr);
  OutputThread thread(&out, pipe.ends[1], {.linger = 100 * kSecond});
  for (int i = 0; i < 100; ++i) out << LineOf(i) << std::flush;
}

}  // namespace
}  // namespace soapstone::apps
