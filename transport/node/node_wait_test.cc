#include "transport/node/node_wait.h"

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/shm/shm_links.h"
#include "transport/tcp/tcp_links.h"
#include "transport/zmq/zmq_sockets.h"

namespace soapstone::transport {
namespace {

class NodeWaitTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sockets_.Open().ok());
    ASSERT_TRUE(wait_.Open().ok());
  }
  // How long a sleep lasts.
  absl::Duration Sleep(absl::Duration sleep_max) {
    SteadyTime now = SteadyNow();
    EXPECT_FALSE(wait_.Spin(now, &now));
    wait_.Sleep(sleep_max);
    return SteadyNow() - now;
  }

  ShmLinks links_;
  TcpLinks streams_ =
      TcpLinks({}, [](const std::string&, bool, const Handshake&) { return absl::OkStatus(); });
  ZmqSockets sockets_ = ZmqSockets({}, {});
  NodeWait wait_ = NodeWait(&links_, &streams_, &sockets_);
};

// A thread that loses its processor between a look at the clock and the sleep finds its deadline
// behind it.
TEST_F(NodeWaitTest, WhatIsBelowZeroIsNotForEver) {
  for (const absl::Duration past : {absl::Microseconds(-1), absl::Milliseconds(-1),
                                    absl::Seconds(-2), -absl::InfiniteDuration()}) {
    EXPECT_LT(Sleep(past), absl::Seconds(5)) << past;
  }
}

TEST_F(NodeWaitTest, ASleepLastsAsLongAsItMay) {
  const absl::Duration slept = Sleep(absl::Milliseconds(20));
  EXPECT_GE(slept, absl::Milliseconds(19));
  EXPECT_LT(slept, absl::Seconds(5));
}

TEST_F(NodeWaitTest, AWakeEndsTheNextSleep) {
  wait_.Wake();
  EXPECT_LT(Sleep(absl::Hours(1)), absl::Seconds(5));
  EXPECT_TRUE(wait_.TakeWake());
}

}  // namespace
}  // namespace soapstone::transport
