#include "cluster/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace soapstone::sim {
namespace {

using ::testing::HasSubstr;

wire::Message Push() {
  wire::Message push;
  push.type = wire::MessageType::kPush;
  push.from = wire::Address::Of(WorkerId{3});
  push.to = wire::Address::Of(ShardId{1});
  push.epoch = 7;
  push.worker = WorkerId{3};
  push.clock = 41;
  push.body = wire::Push{
      .bucket = BucketId{2}, .micro_batches = {4, 6}, .micro_batch_count = 12, .samples = 8};
  const std::vector<float> values(100, 0.5f);
  push.payload = {Buffer::CopyOf(absl::MakeConstSpan(values))};
  return push;
}

// A folder whose files the test writes byte by byte.
class RecordingFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/recording-" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    Put(kRecordedJobFile, "model: \"mlp\"\n");
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void Put(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ + "/" + name, std::ios::binary) << bytes;
  }
  static std::string Header(uint64_t session = 9) {
    const RecordingHeader header = {.state = RecordingState::kClosed,
                                    .job_digest = 5,
                                    .session = session,
                                    .role = static_cast<uint32_t>(wire::Role::kShard),
                                    .index = 1};
    return Bytes(header);
  }
  template <typename T>
  static std::string Bytes(const T& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  std::string dir_;
};

TEST(RecordedEventTest, AMessageIsNamedByItsEvent) {
  const wire::Message push = Push();
  const RecordedEvent event = EventOf(123, push);
  EXPECT_EQ(event.now, 123);
  EXPECT_TRUE(IsNamed(event, push));
  EXPECT_EQ(wire::ToString(MessageOf(event, push.to)), wire::ToString(push));
  for (const auto& change : std::vector<void (*)(wire::Message*)>{
           [](wire::Message* m) { m->type = wire::MessageType::kPull; },
           [](wire::Message* m) { m->from.index = 2; }, [](wire::Message* m) { ++m->epoch; },
           [](wire::Message* m) { ++m->clock; },
           [](wire::Message* m) { wire::As<wire::Push>(m).bucket = BucketId{0}; },
           [](wire::Message* m) { ++wire::As<wire::Push>(m).micro_batches.end; },
           [](wire::Message* m) { m->body = wire::Pull{.final = true}; }}) {
    wire::Message other = push;
    change(&other);
    EXPECT_FALSE(IsNamed(event, other)) << wire::ToString(other);
  }
}

TEST(RecordedEventTest, ARejectIsNamedWhateverItRefused) {
  wire::Message reject;
  reject.type = wire::MessageType::kReject;
  reject.body = wire::Notice{0, "not a member"};
  RecordedEvent event = EventOf(1, reject);
  event.bucket = 5;  // as events had it before bodies
  EXPECT_TRUE(IsNamed(event, reject));
}

TEST(RecordedEventTest, OtherContentsHaveAnotherCheck) {
  const wire::Message push = Push();
  wire::Message other = Push();
  EXPECT_EQ(ContentOf(push), ContentOf(other));
  other.session = 77;  // of the run, not of what is said
  EXPECT_EQ(ContentOf(push), ContentOf(other));
  std::vector<float> values(100, 0.5f);
  values[99] = 0.25f;
  other.payload = {Buffer::CopyOf(absl::MakeConstSpan(values))};
  EXPECT_NE(ContentOf(push), ContentOf(other));
  EXPECT_NE(CheckOf(push.payload), CheckOf(other.payload));
}

TEST(RecordedEventTest, AHelloIsKeptWhole) {
  wire::Message hello;
  hello.type = wire::MessageType::kHello;
  hello.from = wire::Address::Temporary(wire::Role::kWorker, 0x123456789ABCDEFu);
  hello.to = wire::Address::Scheduler();
  const wire::Hello body = {.role = wire::Role::kWorker,
                            .wanted_rank = -1,
                            .nonce = 0x123456789ABCDEFu,
                            .config_digest = 0xFEDCBA9876543210u};
  hello.body = body;
  const wire::Message back = MessageOf(EventOf(1, hello), hello.to);
  EXPECT_EQ(back, hello);
}

// What the scheduler compares: the same for the same, another for another, none for none.
// Nothing is decided by what a server says of its reads, so a replay does without.
TEST(RecordedEventTest, AServersReadsAreAHeartbeatWithoutBody) {
  wire::Message beat;
  beat.type = wire::MessageType::kHeartbeat;
  beat.from = wire::Address::Of(ServerId{1});
  beat.epoch = 3;
  beat.body = wire::ServerProgress{{{.shard = ShardId{1}, .frontier = 4}}};
  const wire::Message back = MessageOf(EventOf(5, beat), wire::Address::Scheduler());
  EXPECT_EQ(back.from, beat.from);
  EXPECT_EQ(back.epoch, beat.epoch);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(back.body));
}

TEST(RecordedEventTest, HellosOfUnlikeProcessorsStayUnlike) {
  const auto back = [](const std::string& arithmetic) {
    wire::Message hello;
    hello.type = wire::MessageType::kHello;
    hello.body = wire::Hello{.arithmetic = arithmetic};
    const wire::Message once = MessageOf(EventOf(1, hello), hello.to);
    EXPECT_EQ(MessageOf(EventOf(1, once), hello.to), once);
    return std::get<wire::Hello>(once.body).arithmetic;
  };
  EXPECT_EQ(back("avx2, oneDNN 2.6.3"), back("avx2, oneDNN 2.6.3"));
  EXPECT_NE(back("avx2, oneDNN 2.6.3"), back("sse41, oneDNN 2.6.3"));
  EXPECT_NE(back("avx2, oneDNN 2.6.3"), "");
  EXPECT_EQ(back(""), "");
}

TEST(RecordedEventTest, ADeviceEventKeepsItsTimes) {
  const RecordedEvent event =
      EventOf(5, worker::DeviceEvent{
                     .run = 0x100000002u, .instruction = 17, .compute_ns = 900, .injected_ns = 30});
  EXPECT_EQ(event.kind, EventKind::kDevice);
  EXPECT_EQ(RunOf(event), 0x100000002u);
  EXPECT_EQ(event.epoch, 17u);
  EXPECT_EQ(event.clock, 900);
  EXPECT_EQ(event.check, 30u);
}

TEST_F(RecordingFolder, IsReadBack) {
  const RecordedEvent event = EventOf(123, Push());
  Put("shard-1.events", Header() + Bytes(event) + Bytes(event));
  const std::string hash(64, 'a');
  Put(kRecordedHashFile, hash + "\n");
  const absl::StatusOr<Recording> recording = ReadRecording(dir_);
  ASSERT_TRUE(recording.ok()) << recording.status();
  ASSERT_EQ(recording->actors.size(), 1u);
  EXPECT_EQ(recording->actors[0].address, wire::Address::Of(ShardId{1}));
  EXPECT_EQ(recording->actors[0].events, (std::vector<RecordedEvent>{event, event}));
  EXPECT_EQ(recording->actors[0].state, RecordingState::kClosed);
  EXPECT_EQ(recording->job_digest, 5u);
  EXPECT_EQ(recording->sha256, hash);
  EXPECT_EQ(recording->bytes, 3 * kEventBytes);
}

TEST_F(RecordingFolder, AFileIsNamedForItsActor) {
  const std::string bytes = Header() + Bytes(EventOf(123, Push()));
  Put("shard-1.events", bytes);
  Put("shard-1.2.events", bytes);
  EXPECT_EQ(ReadRecording(dir_)->actors.size(), 2u);
  for (const char* name : {"shard-2.events", "shard-1 (copy).events", "scheduler.events"}) {
    Put(name, bytes);
    EXPECT_THAT(std::string(ReadRecording(dir_).status().message()),
                HasSubstr(absl::StrCat(name, " is of shard-1, by its name of another")));
    std::filesystem::remove(absl::StrCat(dir_, "/", name));
  }
}

TEST_F(RecordingFolder, AHashThatIsNoneIsNoOtherRuns) {
  Put("shard-1.events", Header() + Bytes(EventOf(123, Push())));
  const std::string hash(64, 'a');
  for (const std::string& damaged :
       {std::string(), hash.substr(1), hash + hash, "x" + hash.substr(1)}) {
    Put(kRecordedHashFile, damaged + "\n");
    EXPECT_THAT(std::string(ReadRecording(dir_).status().message()), HasSubstr("is no SHA-256"));
  }
}

TEST_F(RecordingFolder, ATornEventAndReservedSpaceAreNotRead) {
  const RecordedEvent event = EventOf(123, Push());
  RecordedEvent torn = event;
  torn.kind = EventKind::kNone;  // killed before its first byte was stored
  Put("shard-1.events", Header() + Bytes(event) + Bytes(torn) + std::string(kEventBytes, '\0'));
  EXPECT_EQ(ReadRecording(dir_)->events(), 1u);
  Put("shard-1.events", Header() + Bytes(event) + Bytes(event).substr(0, 20));  // a partial copy
  EXPECT_EQ(ReadRecording(dir_)->events(), 1u);
}

TEST_F(RecordingFolder, WhatIsNoRecordingIsRefusedInOneLine) {
  const auto error = [this] { return std::string(ReadRecording(dir_).status().message()); };
  EXPECT_THAT(error(), HasSubstr("holds no recording"));
  Put("shard-1.events", "short");
  EXPECT_THAT(error(), HasSubstr("shorter than the header"));
  Put("shard-1.events", std::string(kEventBytes, 'x'));
  EXPECT_THAT(error(), HasSubstr("is no recording"));
  Put("shard-1.events", Header() + std::string(kEventBytes, 'x'));
  EXPECT_THAT(error(), HasSubstr("unknown kind"));
  const auto changed = [](void (*change)(RecordedEvent*)) {
    RecordedEvent event = EventOf(123, Push());
    change(&event);
    return Bytes(event);
  };
  for (const auto& change : std::vector<void (*)(RecordedEvent*)>{
           [](RecordedEvent* e) { e->type = static_cast<wire::MessageType>(99); },
           [](RecordedEvent* e) { e->type = wire::MessageType::kNone; },
           [](RecordedEvent* e) { e->role = static_cast<wire::Role>(6); },
           [](RecordedEvent* e) { e->final = 2; }, [](RecordedEvent* e) { e->now = INT64_MIN; },
           [](RecordedEvent* e) {
             e->type = wire::MessageType::kHello;
             e->bucket = 257;  // a role
           }}) {
    Put("shard-1.events", Header() + changed(change));
    EXPECT_THAT(error(), HasSubstr("a message, a node or a time that is none"));
  }
  std::string other_role = Header();
  other_role[offsetof(RecordingHeader, role) + 1] =
      '\1';  // 260 is no shard, though its low byte is 4
  Put("shard-1.events", other_role);
  EXPECT_THAT(error(), HasSubstr("an actor of an unknown role"));
  Put("shard-1.events", Header(9));
  Put("worker-0.events", Header(10));
  EXPECT_THAT(error(), HasSubstr("of another run than shard-1.events"));
  std::filesystem::remove(dir_ + "/worker-0.events");
  std::filesystem::remove(dir_ + "/" + kRecordedJobFile);
  EXPECT_THAT(error(), HasSubstr(kRecordedJobFile));
}

}  // namespace
}  // namespace soapstone::sim
