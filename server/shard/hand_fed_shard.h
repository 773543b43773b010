// ShardTest: for the shard's tests, a shard that the test feeds by hand: it says what workers and
// the scheduler say, lets time pass, and looks at what comes out.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/shard/shard.h"
#include "wire/header_fields.h"

namespace soapstone::server {

using wire::Address;
using wire::Message;
using wire::MessageType;

class ShardTest : public ::testing::Test {
 protected:
  // A shard of `policy` that claims the guarantee of `claimed`, by default its own.
  void Start(const std::string& policy, uint32_t workers, uint32_t micro_batch_count,
             const std::string& claimed = "", ShardId id = {}) {
    policy_ = *consistency::ParsePolicy(policy);
    if (!claimed.empty()) policy_.guarantee = consistency::ParsePolicy(claimed)->guarantee;
    layout_ = std::make_shared<const wire::Layout>(
        *wire::Layout::Build({{.name = "w", .shape = {8}}}, {.shard_count = 1}));
    const TensorStoreOptions store = {.layout = layout_,
                                      .shard = id,
                                      .optimizer = *compute::ParseOptimizer("sgd:lr=1"),
                                      .schedule = *compute::ParseSchedule("constant"),
                                      .total_clocks = 10,
                                      .rule = policy_.store,
                                      .fixed_tree = policy_.fixed_tree};
    shard_.emplace(ShardOptions{.id = id,
                                .layout = layout_,
                                .policy = policy_,
                                .micro_batch_count = micro_batch_count,
                                .final_clock = 10,
                                .seen_pushes_max = seen_pushes_max_,
                                .team = team_,
                                .holders = holders_},
                   Store(store));
    micro_batch_count_ = micro_batch_count;
    roster_.worker_count = workers;
    for (uint32_t w = 0; w < workers; ++w) {
      roster_.workers.push_back({.worker = WorkerId{w}, .admitted = 1});
    }
    SendRoster(1);
  }

  wire::Outbox Send(Message message) {
    wire::Outbox out;
    shard_->OnMessage(now_, std::move(message), &out);
    return out;
  }

  wire::Outbox SendRoster(Epoch epoch) {
    Message message;
    message.type = MessageType::kRoster;
    message.from = Address::Scheduler();
    message.epoch = epoch;
    message.body = roster_;
    return Send(message);
  }

  Message Data(MessageType type, uint32_t worker, Clock clock) const {
    Message message;
    message.type = type;
    message.from = Address::Of(WorkerId{worker});
    message.epoch = 1;
    message.worker = WorkerId{worker};
    message.clock = clock;
    message.body = wire::BodyFrom(type, {});
    return message;
  }

  Message Push(uint32_t worker, Clock clock, MicroBatchRange micro_batches, float value) const {
    Message push = Data(MessageType::kPush, worker, clock);
    push.body = wire::Push{.micro_batches = micro_batches,
                           .micro_batch_count = micro_batch_count_,
                           .samples = 1,
                           .batch_samples = 1};
    const std::vector<float> values(8, value);
    push.payload.push_back(Buffer::CopyOf<float>(values));
    return push;
  }

  Message Clocked(uint32_t worker, Clock completed, uint32_t pushes) const {
    Message message = Data(MessageType::kClock, worker, completed);
    message.body = wire::Completion{.pushes = pushes};
    return message;
  }

  float Value() const { return shard_->store().Read()[0].floats()[0]; }

  consistency::PolicyTraits policy_;
  std::shared_ptr<const wire::Layout> layout_;
  wire::Roster roster_;
  std::optional<Shard> shard_;
  uint32_t micro_batch_count_ = 1;
  std::optional<wire::TeamShape> team_;  // before Start: members are teams
  std::vector<uint32_t> holders_;
  uint64_t seen_pushes_max_ = ShardOptions{}.seen_pushes_max;
  Nanos now_ = 0;
};

}  // namespace soapstone::server
