// A member that was welcomed before us says something to us before we know the session: our own
// welcome comes by another connection, and may be read later.
#include <memory>
#include <optional>
#include <string>

#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/node/node_transport.h"
#include "wire/frame.h"

namespace soapstone::transport {
namespace {

using wire::Address;
using wire::Message;
using wire::Role;

constexpr uint64_t kGuestsSession = 79;
constexpr Address kEarly = {Role::kWorker, 0};
constexpr Address kLate = {Role::kWorker, 1};

std::unique_ptr<Transport> NodeOf(const ZmqOptions& options, Address self, uint64_t session) {
  absl::StatusOr<std::unique_ptr<Transport>> made = MakeNodeTransport(options);
  EXPECT_TRUE(made.ok()) << made.status();
  (*made)->SetSelf(self);
  if (session != 0) (*made)->SetSession(session);
  return *std::move(made);
}

Message BlockAt(Clock clock, size_t bytes) {
  Message message;
  message.type = wire::MessageType::kPush;
  message.clock = clock;
  message.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
  message.payload = {Buffer::CopyOf(std::string(bytes, 'x'))};
  return message;
}

struct WayIn {
  const char* name;
  bool shared_memory, streams;
};

class EarlyGuestsTest : public testing::TestWithParam<WayIn> {
 protected:
  static SteadyTime Soon() { return SteadyNow() + absl::Seconds(60); }
  // Nothing comes in this time, whose loops turn.
  static void ExpectNothing(Transport* early, Transport* late) {
    for (const SteadyTime end = SteadyNow() + absl::Milliseconds(300); SteadyNow() < end;) {
      ASSERT_FALSE(late->Receive(SteadyNow() + absl::Milliseconds(5)).has_value());
      ASSERT_FALSE(early->Receive(SteadyNow() + absl::Milliseconds(1)).has_value());
    }
  }
  static Clock Next(Transport* early, Transport* late) {
    for (const SteadyTime end = Soon(); SteadyNow() < end;) {
      if (const auto message = late->Receive(SteadyNow() + absl::Milliseconds(5))) {
        return message->clock;
      }
      EXPECT_FALSE(early->Receive(SteadyNow() + absl::Milliseconds(1)).has_value());
    }
    return -1;
  }
  void SetUp() override {
    ZmqOptions options = {.shared_memory = GetParam().shared_memory, .streams = GetParam().streams};
    early_ = NodeOf(options, kEarly, kGuestsSession);
    options.listen = "tcp://127.0.0.1:0";
    late_ = NodeOf(options, kLate, 0);
    ASSERT_TRUE(early_->Connect(kLate, late_->endpoint()).ok());
  }

  std::unique_ptr<Transport> early_, late_;
};

TEST_P(EarlyGuestsTest, WhatIsSaidBeforeWeKnowTheSessionWaitsAndIsNotLost) {
  constexpr Clock kMessages = 20;
  for (Clock clock = 0; clock < kMessages; ++clock) {
    ASSERT_TRUE(early_->Send(kLate, BlockAt(clock, clock % 2 == 0 ? 50 : 70'000)).ok());
  }
  ASSERT_NO_FATAL_FAILURE(ExpectNothing(early_.get(), late_.get()));
  EXPECT_EQ(late_->stats().rejected_messages, 0u);
  late_->SetSession(kGuestsSession);
  for (Clock clock = 0; clock < kMessages; ++clock)
    ASSERT_EQ(Next(early_.get(), late_.get()), clock);
  EXPECT_EQ(late_->stats().rejected_messages, 0u);
  // And so on, by whatever way they have by now.
  for (Clock clock = kMessages; clock < 2 * kMessages; ++clock) {
    ASSERT_TRUE(early_->Send(kLate, BlockAt(clock, 50)).ok());
    ASSERT_EQ(Next(early_.get(), late_.get()), clock);
  }
}

// Who waits for its welcome does not turn round and round meanwhile.
TEST_P(EarlyGuestsTest, WhoseMessagesWaitWakesNobody) {
  ASSERT_TRUE(early_->Send(kLate, BlockAt(0, 50)).ok());
  ASSERT_NO_FATAL_FAILURE(ExpectNothing(early_.get(), late_.get()));
  timespec before = {}, after = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  EXPECT_FALSE(late_->Receive(SteadyNow() + absl::Seconds(1)).has_value());
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  EXPECT_LT(absl::TimeFromTimespec(after) - absl::TimeFromTimespec(before),
            absl::Milliseconds(300));
}

INSTANTIATE_TEST_SUITE_P(Ways, EarlyGuestsTest,
                         testing::Values(WayIn{"sockets", false, false},
                                         WayIn{"streams", false, true},
                                         WayIn{"memory", true, false}),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace soapstone::transport
