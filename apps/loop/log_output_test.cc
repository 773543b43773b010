#include "apps/loop/log_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A pipe of 4 KiB in the place of standard error.
class PipeForErrors {
 public:
  PipeForErrors() : before_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    fcntl(ends_[1], F_SETPIPE_SZ, 4096);
    dup2(ends_[1], STDERR_FILENO);
    close(ends_[1]);
  }
  ~PipeForErrors() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    close(ends_[0]);
  }
  PipeForErrors(const PipeForErrors&) = delete;
  PipeForErrors& operator=(const PipeForErrors&) = delete;

  // What is in it.
  std::string Read() const {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string text(8192, ' ');
    const ssize_t n = read(ends_[0], text.data(), text.size());
    text.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return text;
  }

 private:
  const int before_;
  int ends_[2] = {-1, -1};
};

// As in the programs.
void StartLog() {
  static const bool started = [] {
    for (const auto level : {google::INFO, google::WARNING, google::ERROR, google::FATAL}) {
      google::SetLogDestination(level, "");
    }
    FLAGS_alsologtostderr = true;
    google::InitGoogleLogging("log_output_test");
    return true;
  }();
  EXPECT_TRUE(started);
}

void FillWithLog() {
  for (int i = 0; i < 1000; ++i) LOG(WARNING) << "line " << i << std::string(100, '.');
}

TEST(LogOutput, WritesLinesAsTheLogDoes) {
  StartLog();
  const PipeForErrors pipe;
  {
    const LogOutput log(20 * kSecond);
    LOG(INFO) << "a word";
    LOG(ERROR) << "another";
  }
  LOG(ERROR) << "without a thread";
  const std::string text = pipe.Read();
  EXPECT_THAT(text, ContainsRegex("^I[0-9]+ [0-9:.]+ +[0-9]+ log_output_test.cc:[0-9]+\\] a word\n"
                                  "E.*another\nE.*without a thread\n$"));
}

TEST(LogOutput, NobodyWaitsForAReader) {
  StartLog();
  const PipeForErrors pipe;
  const SteadyTime begin = SteadyNow();
  {
    const LogOutput log(kSecond / 10);
    FillWithLog();
  }
  FillWithLog();  // also afterwards, when there is no thread any more
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(30));
  EXPECT_THAT(pipe.Read(), HasSubstr("line 0."));
}

TEST(LogOutputDeathTest, TheLastWordIsSaid) {
  StartLog();
  EXPECT_DEATH(
      {
        const LogOutput log(20 * kSecond);
        LOG(INFO) << "before";
        LOG(FATAL) << "the last word";
      },
      "before\n.*the last word");
}

TEST(LogOutputDeathTest, DeathWaitsForNoReader) {
  StartLog();
  EXPECT_EXIT(
      {
        const PipeForErrors pipe;
        const LogOutput log(kSecond / 10);
        FillWithLog();
        LOG(FATAL) << "unheard";
      },
      ::testing::KilledBySignal(SIGABRT), "");
}

TEST(JsonLogLine, IsOneObjectThatKeepsWhatWasSaid) {
  const LogOrigin origin = {"server", 3, "n1"};
  EXPECT_EQ(
      JsonLogLine(origin, "WARNING", "peer.cc", 12, 1.5, "a \"b\"\nc"),
      R"({"time":"1970-01-01T00:00:01.500000Z","severity":"WARNING","role":"server","rank":3,)"
      R"("host":"n1","place":"peer.cc:12","message":"a \"b\"\nc"})");
  const std::string odd = JsonLogLine({"scheduler", -1, "n\xff"}, "INFO", "x.cc", 1, 0, "\xc3(");
  EXPECT_EQ(odd.find("rank"), std::string::npos);
  EXPECT_EQ(odd.find('\xff'), std::string::npos);
}

}  // namespace
}  // namespace soapstone::apps
