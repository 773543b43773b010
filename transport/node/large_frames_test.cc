// What is too large for ZeroMQ in a job with keys: it goes by streams and links, or its node is
// lost.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/node/secured_job.h"

namespace soapstone::transport {
namespace {

using security::KeyRole;
using ::testing::HasSubstr;
using wire::Address;
using wire::Message;

constexpr size_t kTooLarge = kSecuredFrameBytesMax + 4;
constexpr absl::Duration kShortPatience = absl::Milliseconds(200);

Message LargePush(size_t bytes) {
  Message push;
  push.type = wire::MessageType::kPush;
  push.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
  push.payload = {Buffer::CopyOf(std::string(bytes, 'x'))};
  return push;
}

class LargeFramesTest : public SecuredJob {
 protected:
  // Sends, and tries again while there is no room, as nodes do; how it went.
  static absl::Status SendInTime(Transport* from, Address to, Transport* other) {
    const Message push = LargePush(kTooLarge);
    for (const SteadyTime end = SteadyNow() + absl::Seconds(60);;) {
      absl::Status sent = from->Send(to, push);
      if (!absl::IsResourceExhausted(sent) || SteadyNow() > end) return sent;
      EXPECT_FALSE(from->Receive(SteadyNow() + absl::Milliseconds(1)).has_value());
      EXPECT_FALSE(other->Receive(SteadyNow()).has_value());
    }
  }
  // Who, and why.
  static std::string Lost(Transport* process) {
    process->Receive(SteadyNow() + absl::Milliseconds(1));
    const std::vector<LostNode> lost = process->TakeLost();
    if (lost.size() != 1) return absl::StrCat(lost.size(), " are lost");
    return absl::StrCat(lost[0].node.ToString(), ": ", lost[0].why);
  }
  std::unique_ptr<Transport> Worker(bool streams) {
    return Connected(
        Make({.streams = streams, .stream_patience = kShortPatience, .keys = Of(KeyRole::kWorker)},
             kFirstWorker));
  }
  void ExpectPasses(Transport* from, Address whom, Transport* to) {
    ASSERT_TRUE(SendInTime(from, whom, to).ok());
    const auto taken = Next(to, from, absl::Seconds(60));
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->payload_bytes(), kTooLarge);
  }
};

// Both ways, as the first that is said.
TEST_F(LargeFramesTest, TheyWaitForAStream) {
  server_ = Listen({.streams = true});
  const auto worker = Worker(true);
  ASSERT_NO_FATAL_FAILURE(ExpectPasses(worker.get(), kFirstServer, server_.get()));
  ASSERT_NO_FATAL_FAILURE(ExpectPasses(server_.get(), kFirstWorker, worker.get()));
  EXPECT_EQ(worker->stats().streamed_messages, 1u);
  EXPECT_EQ(server_->stats().streamed_messages, 1u);
  EXPECT_EQ(Lost(worker.get()), "0 are lost");
}

TEST_F(LargeFramesTest, TheyGoThroughSharedMemory) {
  server_ = Listen({.shared_memory = true});
  const auto worker =
      Connected(Make({.shared_memory = true, .keys = Of(KeyRole::kWorker)}, kFirstWorker));
  ASSERT_NO_FATAL_FAILURE(ExpectPasses(worker.get(), kFirstServer, server_.get()));
  ASSERT_NO_FATAL_FAILURE(ExpectPasses(server_.get(), kFirstWorker, worker.get()));
}

TEST_F(LargeFramesTest, TheLargestThatZeroMqTakesGoes) {
  const auto worker = Worker(false);
  ASSERT_TRUE(worker->Send(kFirstServer, LargePush(kSecuredFrameBytesMax)).ok());
  const auto taken = Taken(worker.get(), absl::Seconds(60));
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->payload_bytes(), kSecuredFrameBytesMax);
}

// Who connects makes the stream.
TEST_F(LargeFramesTest, WithoutAStreamTheNodeIsLostWithALineThatSaysWhatToDo) {
  for (const bool here : {false, true}) {  // it is not to be had at the other end, or at this one
    server_ = Listen({.streams = !here});
    const auto worker = Worker(here);
    const absl::Status sent = SendInTime(worker.get(), kFirstServer, server_.get());
    EXPECT_TRUE(absl::IsUnavailable(sent)) << sent;
    const std::string why = Lost(worker.get());
    EXPECT_THAT(why, HasSubstr(absl::StrCat("server-0: frames of ", kTooLarge, " bytes")));
    EXPECT_THAT(why, HasSubstr("cluster.transport"));
    EXPECT_TRUE(absl::IsUnavailable(SendInTime(worker.get(), kFirstServer, server_.get())));
    EXPECT_EQ(Lost(worker.get()), "0 are lost") << "it was said";
    // What is small goes on.
    ASSERT_NO_FATAL_FAILURE(ExpectServes(worker.get(), kFirstWorker));
  }
}

TEST_F(LargeFramesTest, WithoutAPortTheFlagForOneIsSaid) {
  const auto has_it = Outsider({.listen = "tcp://127.0.0.1:0", .keys = Of(KeyRole::kServer)},
                               {wire::Role::kServer, 1});
  const std::string at = has_it->endpoint();
  const int port = std::stoi(at.substr(at.rfind(':') + 1));
  server_ = Listen({.streams = true, .stream_port = static_cast<uint16_t>(port)});
  const auto worker = Worker(true);
  const absl::Status sent = SendInTime(worker.get(), kFirstServer, server_.get());
  EXPECT_TRUE(absl::IsUnavailable(sent)) << sent;
  EXPECT_THAT(Lost(worker.get()), HasSubstr("set one by --stream_port"));
}

// Who was connected to waits for the other side's stream, for a while.
TEST_F(LargeFramesTest, WhoIsNotReachedByStreamsSaysAtWhichPort) {
  server_ = Listen({.streams = true, .stream_patience = kShortPatience});
  const auto worker = Worker(false);
  ASSERT_NO_FATAL_FAILURE(ExpectServes(worker.get(), kFirstWorker));
  const absl::Status sent = SendInTime(server_.get(), kFirstWorker, worker.get());
  EXPECT_TRUE(absl::IsUnavailable(sent)) << sent;
  const std::string why = Lost(server_.get());
  EXPECT_THAT(why, HasSubstr(absl::StrCat("worker-0: frames of ", kTooLarge, " bytes")));
  EXPECT_THAT(why, HasSubstr("the other side does not reach port "));
}

// Whoever has a key of the job and sends too much at once: its connection ends, and no other.
TEST_F(LargeFramesTest, NoneIsTakenOverZeroMq) {
  const auto keys = Of(KeyRole::kWorker);
  const auto listener = *security::PublicKeyOf(roster_.at(kFirstServer));
  server_->SetHolder(kSecondWorker, security::BytesOf(keys->own.open));
  for (const bool too_large : {false, true}) {
    RawWorker raw(keys, listener, server_->endpoint(), too_large ? "Slarge" : "Sfits");
    raw.Say(raw.Introduction(kTheSession));
    Message push = LargePush(too_large ? kSecuredFrameBytesMax + kSealedFrameExtraBytes
                                       : kSecuredFrameBytesMax);
    push.session = kTheSession;
    raw.Say(push, kSecondWorker);
    const auto taken = server_->Receive(SteadyNow() + (too_large ? kInVain : absl::Seconds(60)));
    EXPECT_EQ(taken.has_value(), !too_large);
  }
  ASSERT_NO_FATAL_FAILURE(ExpectServesMembers());
}

// Without keys all goes over ZeroMQ that the job has.
TEST(LargeFramesWithoutKeysTest, TheyGoOverZeroMq) {
  constexpr Address kServer = {wire::Role::kServer, 0}, kWorker = {wire::Role::kWorker, 0};
  const auto make = [](const char* listen, Address self) {
    auto made = *MakeNodeTransport({.listen = listen});
    made->SetSelf(self);
    made->SetSession(5);
    return made;
  };
  const auto server = make("tcp://127.0.0.1:0", kServer), worker = make("", kWorker);
  ASSERT_TRUE(worker->Connect(kServer, server->endpoint()).ok());
  ASSERT_TRUE(worker->Send(kServer, LargePush(kTooLarge)).ok());
  EXPECT_TRUE(server->Receive(SteadyNow() + absl::Seconds(60)).has_value());
}

TEST(ZmqSocketTest, AListenerHasRoomForManyThatConnectAtOnce) {
  void* const context = zmq_ctx_new();
  ZmqSocket router = *ZmqSocket::Open(context, ZMQ_ROUTER, {});
  int backlog = 0;
  size_t size = sizeof(backlog);
  ASSERT_EQ(zmq_getsockopt(router.handle(), ZMQ_BACKLOG, &backlog, &size), 0);
  EXPECT_EQ(backlog, 128);
  router.Close(absl::ZeroDuration());
  zmq_ctx_term(context);
}

}  // namespace
}  // namespace soapstone::transport
