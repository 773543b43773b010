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

Message Push() {
  Message message;
  message.type = MessageType::kPush;
  message.from = Address::Of(WorkerId{1});
  message.to = Address::Of(ShardId{0});
  message.clock = 3;
  message.micro_batches = {0, 2};
  message.micro_batch_count = 4;
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
  EXPECT_EQ(ToString(Push()), "push worker-1 -> shard-0 clock 3 bucket 0 leaves [0,2)");
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
  EXPECT_EQ(Push().payload_bytes(), 12u);
  EXPECT_EQ(Message().payload_bytes(), 0u);
}

TEST(MessageTest, FingerprintSeesEveryField) {
  std::set<std::pair<uint64_t, uint64_t>> prints = {PrintOf(Push())};
  int variants = 1;
  const auto add = [&](auto change) {
    Message message = Push();
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
  add([](Message* m) { m->bucket = BucketId{1}; });
  add([](Message* m) { m->micro_batches.begin = 1; });
  add([](Message* m) { m->micro_batches.end = 1; });
  add([](Message* m) { m->micro_batch_count = 5; });
  add([](Message* m) { m->samples = 1; });
  add([](Message* m) { m->batch_samples = 1; });
  add([](Message* m) { m->pushes = 1; });
  add([](Message* m) { m->oldest = 1; });
  add([](Message* m) { m->version = 1; });
  add([](Message* m) { m->checksum = 1; });
  add([](Message* m) { m->final = true; });
  add([](Message* m) { m->parked_ns = 1; });
  add([](Message* m) { m->queued_ns = 1; });
  add([](Message* m) { m->payload[1] = Buffer::CopyOf("efghijkm"); });
  add([](Message* m) { m->payload.pop_back(); });
  add([](Message* m) { m->body = Welcome{}; });
  add([](Message* m) { m->body = Welcome{.rank = 1}; });
  add([](Message* m) { m->body = Progress{.loss_sum = 0.5}; });
  add([](Message* m) { m->body = Progress{.read_lags = {1}}; });
  add([](Message* m) { m->body = Progress{.waiting = Waiting{}}; });
  add([](Message* m) { m->body = Evaluation{.correct = 1}; });
  add([](Message* m) { m->body = Saved{.path = "a"}; });
  add([](Message* m) { m->body = Hello{.endpoint = "a"}; });
  add([](Message* m) { m->body = Hello{.arithmetic = "a"}; });
  add([](Message* m) { m->body = Roster{.workers = {Member{}}}; });
  add([](Message* m) { m->body = Roster{.servers = {ServerEntry{}}}; });
  EXPECT_EQ(prints.size(), static_cast<size_t>(variants));
}

TEST(MessageTest, PriorityIsNotPartOfWhatItSays) {
  Message urgent, other;
  other.priority = 7;
  EXPECT_EQ(urgent, other);
  Fingerprint of_urgent, of_other;
  urgent.AddTo(&of_urgent);
  other.AddTo(&of_other);
  EXPECT_EQ(of_urgent.value(), of_other.value());
  other.final = true;
  EXPECT_NE(urgent, other);
}

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
