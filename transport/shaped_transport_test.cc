// Links over an in-process network. What is timed has a least duration: a busy machine is slower.
#include "transport/shaped_transport.h"

#include <utility>
#include <vector>

#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/inproc_transport.h"

namespace soapstone::transport {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

constexpr absl::Duration kShapedPatience = absl::Seconds(20);
constexpr uint64_t kBytes = 12'400;  // of a payload: with its header 1 ms at 100 Mb/s
constexpr double kMbps = 100;

Message Push(Clock clock, uint64_t bytes = kBytes) {
  Message message;
  message.type = MessageType::kPush;
  message.clock = clock;
  message.to = Address::Of(ShardId{0});
  message.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
  message.payload = {Buffer::CopyOf(absl::MakeConstSpan(std::vector<uint8_t>(bytes)))};
  return message;
}

class ShapedTransportTest : public ::testing::Test {
 protected:
  ShapedTransportTest() : server_(*network_.Join("inproc://server")) {
    auto shaped =
        std::make_unique<ShapedTransport>(*network_.Join(""), [](Address a) { return a; });
    shaped_ = shaped.get();
    worker_ = std::move(shaped);
    for (Transport* node : {server_.get(), worker_.get()}) node->SetSession(7);
    server_->SetSelf(Address::Of(ServerId{0}));
    worker_->SetSelf(Address::Of(WorkerId{0}));
    EXPECT_TRUE(worker_->Connect(Address::Of(ServerId{0}), "inproc://server").ok());
  }
  // Sends until the route is there: inproc has it at once.
  void Send(const Message& message) {
    EXPECT_TRUE(worker_->Send(Address::Of(ServerId{0}), message).ok());
  }
  // Turns the worker's loop until the server has a message.
  std::optional<Message> AtServer() {
    const SteadyTime until = SteadyNow() + kShapedPatience;
    while (SteadyNow() < until) {
      EXPECT_FALSE(worker_->Receive(SteadyNow() + absl::Milliseconds(1)).has_value());
      if (auto message = server_->Receive(SteadyNow())) return message;
    }
    return std::nullopt;
  }

  InprocNetwork network_;
  std::unique_ptr<Transport> server_, worker_;
  ShapedTransport* shaped_ = nullptr;
};

TEST_F(ShapedTransportTest, WithoutALimitAMessagePassesAtOnce) {
  Send(Push(1));
  const auto got = server_->Receive(SteadyNow() + kShapedPatience);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->clock, 1);
}

TEST_F(ShapedTransportTest, WhatIsSentTakesItsTimeAndKeepsItsOrder) {
  shaped_->SetLimit(kMbps);
  const SteadyTime began = SteadyNow();
  for (Clock c = 0; c < 20; ++c) Send(Push(c));
  EXPECT_FALSE(server_->Receive(SteadyNow()).has_value());
  shaped_->SetLimit(0);
  Send(Push(20, 4));  // without a limit: behind the others all the same
  for (Clock c = 0; c <= 20; ++c) {
    const auto got = AtServer();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->clock, c);
  }
  EXPECT_GE(SteadyNow() - began, absl::Milliseconds(20));
}

TEST_F(ShapedTransportTest, WhatIsReceivedTakesItsTimeAndKeepsItsOrder) {
  Send(Push(0));  // tells the server where the worker is
  ASSERT_TRUE(server_->Receive(SteadyNow() + kShapedPatience).has_value());
  shaped_->SetLimit(kMbps);
  const SteadyTime began = SteadyNow();
  for (Clock c = 0; c < 20; ++c) {
    Message reply = Push(c);
    reply.type = MessageType::kPullReply;
    reply.body = wire::PullReply{};
    reply.to = Address::Of(WorkerId{0});
    ASSERT_TRUE(server_->Send(Address::Of(WorkerId{0}), reply).ok());
  }
  for (Clock c = 0; c < 20; ++c) {
    std::optional<Message> got;
    const SteadyTime until = SteadyNow() + kShapedPatience;
    while (!got.has_value() && SteadyNow() < until) got = worker_->Receive(until);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->clock, c);
  }
  EXPECT_GE(SteadyNow() - began, absl::Milliseconds(20));
}

TEST_F(ShapedTransportTest, ADeadlineIsKeptWhileMessagesAreHeld) {
  shaped_->SetLimit(1e-3);
  Send(Push(0));
  const SteadyTime began = SteadyNow();
  EXPECT_FALSE(worker_->Receive(began + absl::Milliseconds(30)).has_value());
  EXPECT_GE(SteadyNow() - began, absl::Milliseconds(30));
  worker_->Wake();
  EXPECT_FALSE(worker_->Receive(SteadyNow() + kShapedPatience).has_value());
  EXPECT_LT(SteadyNow() - began, kShapedPatience);
}

TEST_F(ShapedTransportTest, NoMoreIsHeldThanTheBound) {
  shaped_->SetLimit(1e-3);
  for (size_t i = 0; i < ShapedTransport::kHeldMax; ++i) Send(Push(0, 4));
  const absl::Status status = worker_->Send(Address::Of(ServerId{0}), Push(0, 4));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(ShapedTransportTest, CloseHandsOnWhatIsHeld) {
  shaped_->SetLimit(1e-3);
  for (Clock c = 0; c < 3; ++c) Send(Push(c));
  worker_->Close(kShapedPatience);
  for (Clock c = 0; c < 3; ++c) {
    const auto got = server_->Receive(SteadyNow() + kShapedPatience);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->clock, c);
  }
}

}  // namespace
}  // namespace soapstone::transport
