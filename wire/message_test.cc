#include "wire/message.h"

#include <set>

#include "gtest/gtest.h"

namespace soapstone::wire {
namespace {

std::pair<uint64_t, uint64_t> PrintOf(const Message& message) {
  Fingerprint f;
  message.AddTo(&f);
  return f.value();
}

Message PushOf() {
  Message message;
  message.type = MessageType::kPush;
  message.from = Address::Of(WorkerId{1});
  message.to = Address::Of(ShardId{0});
  message.clock = 3;
  message.body = Push{.micro_batches = {0, 2}, .micro_batch_count = 4};
  message.payload = {Buffer::CopyOf("abcd"), Buffer::CopyOf("efghijkl")};
  return message;
}

TEST(MessageTest, NamesAddresses) {
  EXPECT_EQ(Address::Scheduler().ToString(), "scheduler");
  EXPECT_EQ(Address::Of(WorkerId{3}).ToString(), "worker-3");
  EXPECT_EQ(Address::Of(ServerId{0}).ToString(), "server-0");
  EXPECT_EQ(Address::Of(ShardId{12}).ToString(), "shard-12");
}

TEST(MessageTest, TemporaryAddressesAreNoRanks) {
  const Address address = Address::Temporary(Role::kWorker, 0x123456789u);
  EXPECT_EQ(address, (Address{Role::kWorker, 0xA3456789u}));
  EXPECT_TRUE(address.IsTemporary());
  EXPECT_FALSE(Address::Of(WorkerId{3}).IsTemporary());
}

TEST(MessageTest, DescribesAPush) {
  EXPECT_EQ(ToString(PushOf()), "push worker-1 -> shard-0 clock 3 bucket 0 leaves [0,2)");
}

TEST(MessageTest, DescribesANotice) {
  Message message;
  message.type = MessageType::kRefuse;
  message.from = Address::Scheduler();
  message.to = Address::Of(WorkerId{9});
  message.body = Notice{.code = 2, .text = "the job is full"};
  EXPECT_EQ(ToString(message), "refuse scheduler -> worker-9 code 2 'the job is full'");
}

TEST(MessageTest, CountsPayloadBytes) {
  EXPECT_EQ(PushOf().payload_bytes(), 12u);
  EXPECT_EQ(Message().payload_bytes(), 0u);
}

TEST(MessageTest, FingerprintSeesEveryField) {
  std::set<std::pair<uint64_t, uint64_t>> prints = {PrintOf(PushOf())};
  int variants = 1;
  const auto add = [&](auto change) {
    Message message = PushOf();
    change(&message);
    prints.insert(PrintOf(message));
    ++variants;
  };
  add([](Message* m) { m->type = MessageType::kClock; });
  add([](Message* m) { m->from.index = 2; });
  add([](Message* m) { m->to.index = 2; });
  add([](Message* m) { m->session = 1; });
  add([](Message* m) { m->epoch = 1; });
  add([](Message* m) { m->worker = WorkerId{1}; });
  add([](Message* m) { m->clock = 4; });
  add([](Message* m) { As<Push>(m).bucket = BucketId{1}; });
  add([](Message* m) { As<Push>(m).micro_batches.begin = 1; });
  add([](Message* m) { As<Push>(m).micro_batches.end = 1; });
  add([](Message* m) { As<Push>(m).micro_batch_count = 5; });
  add([](Message* m) { As<Push>(m).samples = 1; });
  add([](Message* m) { As<Push>(m).batch_samples = 1; });
  add([](Message* m) { m->body = Completion{.pushes = 1}; });
  add([](Message* m) { m->body = PullReply{.oldest = 1}; });
  add([](Message* m) { m->body = PullReply{.version = 1}; });
  add([](Message* m) { m->body = PullReply{.checksum = 1}; });
  add([](Message* m) { m->body = Pull{.final = true}; });
  add([](Message* m) { m->body = PullReply{.parked_ns = 1}; });
  add([](Message* m) { m->body = PullReply{.queued_ns = 1}; });
  add([](Message* m) { m->payload[1] = Buffer::CopyOf("efghijkm"); });
  add([](Message* m) { m->payload.pop_back(); });
  add([](Message* m) { m->body = Save{.bucket = BucketId{7}}; });
  add([](Message* m) { m->body = Slices{.bucket = BucketId{7}, .checksum = 1}; });
  add([](Message* m) { m->body = Parcel{}; });
  add([](Message* m) { m->body = Parcel{.samples = 1}; });
  add([](Message* m) { m->body = Parcel{.checksum = 1}; });
  add([](Message* m) { m->body = Welcome{}; });
  add([](Message* m) { m->body = Welcome{.rank = 1}; });
  add([](Message* m) { m->body = Progress{.loss_sum = 0.5}; });
  add([](Message* m) { m->body = Progress{.read_lags = {1}}; });
  add([](Message* m) { m->body = Progress{.waiting = Waiting{}}; });
  add([](Message* m) { m->body = Evaluation{.correct = 1}; });
  add([](Message* m) { m->body = Saved{.path = "a"}; });
  add([](Message* m) { m->body = Hello{.endpoint = "a"}; });
  add([](Message* m) { m->body = Hello{.arithmetic = "a"}; });
  add([](Message* m) { m->body = Hello{.key = "a"}; });
  add([](Message* m) { m->body = Hello{.host = "a"}; });
  add([](Message* m) { m->body = Roster{.workers = {Member{}}}; });
  add([](Message* m) { m->body = Roster{.workers = {Member{.key = "a"}}}; });
  add([](Message* m) { m->body = Roster{.servers = {ServerEntry{}}}; });
  add([](Message* m) { m->body = Roster{.servers = {ServerEntry{.key = "a"}}}; });
  EXPECT_EQ(prints.size(), static_cast<size_t>(variants));
}

TEST(MessageTest, FingerprintSeesEveryNumberOfAServersReads) {
  std::set<std::pair<uint64_t, uint64_t>> prints;
  const auto add = [&](const ShardReads& reads) {
    Message message;
    message.body = ServerProgress{{reads}};
    prints.insert(PrintOf(message));
  };
  add({});
  add({.shard = ShardId{1}});
  add({.frontier = 1});
  add({.reader_count = 1});
  add({.parked_count = 1});
  add({.readers = {{}}});
  add({.readers = {{.worker = WorkerId{1}}}});
  add({.readers = {{.clock = 1}}});
  add({.readers = {{.reads = 1}}});
  add({.readers = {{.lag_sum = 1}}});
  add({.readers = {{.lag_max = 1}}});
  add({.readers = {{.parked_ms = 1}}});
  EXPECT_EQ(prints.size(), 12u);
}

TEST(MessageTest, WhatIsNotOnTheWireIsNotPartOfWhatItSays) {
  Message urgent, other;
  other.priority = 7;
  other.queued_ns = 8;
  EXPECT_EQ(urgent, other);
  Fingerprint of_urgent, of_other;
  urgent.AddTo(&of_urgent);
  other.AddTo(&of_other);
  EXPECT_EQ(of_urgent.value(), of_other.value());
  other.body = Pull{.final = true};
  EXPECT_NE(urgent, other);
}

TEST(MessageDeathTest, ABodyOfAnotherTypeIsNamed) {
  EXPECT_DEATH(As<PullReply>(PushOf()), "another type's: push worker-1 -> shard-0 clock 3");
}

// The bodies that are sent the most must not make the others' place larger.
static_assert(sizeof(Push) <= sizeof(Progress) && sizeof(PullReply) <= sizeof(Progress));

TEST(ProgressTest, WhatIsLeftOutIsCountedByTensorAndBounded) {
  Progress progress;
  progress.LeaveOut("b", 5);
  progress.LeaveOut("a", 7);
  progress.LeaveOut("b", 3);
  EXPECT_EQ(progress.left_out, (std::vector<LeftOut>{{"b", 2, 3}, {"a", 1, 7}}));
  Progress sum = progress;
  sum.Add(progress);
  EXPECT_EQ(sum.left_out, (std::vector<LeftOut>{{"b", 4, 3}, {"a", 2, 7}}));
  for (int i = 0; i < 1000; ++i) progress.LeaveOut(std::to_string(i), i);
  EXPECT_EQ(progress.left_out.size(), Progress::kLeftOutMax);
  uint64_t all = 0;
  for (const LeftOut& entry : progress.left_out) all += entry.updates;
  EXPECT_EQ(all, 1003u);
}

}  // namespace
}  // namespace soapstone::wire
