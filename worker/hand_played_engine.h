// HandPlayedEngine: for the engine's tests, an engine whose shards and device the test plays by
// hand: it says what they say, when it wants to, and looks at what the engine sent and ordered.
// SmallJob: for the tests of the engine's parts, the options of a worker of a small job.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/device/command_watch.h"
#include "worker/engine.h"

namespace soapstone::worker {

using wire::Address;
using wire::Message;
using wire::MessageType;

// Worker 0 of a job of one tensor on two shards, with a micro-batch for each of `micro_batches`.
inline EngineOptions SmallJob(const std::string& policy, uint32_t micro_batches,
                              Clock total_clocks) {
  return {
      .id = WorkerId{0},
      .layout = std::make_shared<const wire::Layout>(
          *wire::Layout::Build({{.name = "w", .shape = {64}}}, {.shard_count = 2})),
      .ops = std::make_shared<const std::vector<OpOutline>>(std::vector<OpOutline>{{{ParamId{0}}}}),
      .policy = *consistency::ParsePolicy(policy),
      .micro_batch_count = micro_batches,
      .total_clocks = total_clocks,
      .train_samples = 100,
      .batch = 10};
}

inline std::shared_ptr<const EngineOptions> Shared(EngineOptions options) {
  return std::make_shared<const EngineOptions>(std::move(options));
}

// A roster of the ranks from 0 on, all of them members since the job's start.
inline wire::Roster RosterOf(uint32_t workers) {
  wire::Roster roster = {.worker_count = workers};
  for (uint32_t w = 0; w < workers; ++w) {
    roster.workers.push_back({.worker = WorkerId{w}, .admitted = 1});
  }
  return roster;
}

// The answer of a shard, with `bytes` of payload.
inline Message AnswerOf(uint32_t shard, Clock clock, Clock oldest, const std::string& bytes = "") {
  Message reply;
  reply.type = MessageType::kPullReply;
  reply.from = Address::Of(ShardId{shard});
  reply.clock = clock;
  reply.body = wire::PullReply{.oldest = oldest};
  if (!bytes.empty()) reply.payload = {Buffer::CopyOf(bytes)};
  return reply;
}

template <typename Part>
std::pair<uint64_t, uint64_t> FingerprintOf(const Part& part) {
  Fingerprint f;
  part.AddTo(&f);
  return f.value();
}

class HandPlayedEngine : public ::testing::Test {
 protected:
  void Start(const std::string& policy, uint32_t workers, Clock total_clocks) {
    EngineOptions options = SmallJob(policy, workers, total_clocks);
    options.layout = layout_;
    options.ops = std::make_shared<const std::vector<OpOutline>>(ops_);
    options.skip_not_finite = skip_;
    engine_.emplace(std::move(options));
    roster_ = RosterOf(workers);
    SendRoster(1);
    Message start;
    start.type = MessageType::kStart;
    start.clock = 0;
    Deliver(start);
  }

  void SendRoster(Epoch epoch) {
    Message message;
    message.type = MessageType::kRoster;
    message.epoch = epoch;
    message.body = roster_;
    Deliver(message);
  }

  void Deliver(const Message& message) { engine_->OnMessage(now_, message, {&out_, &commands_}); }

  void Reply(uint32_t shard, Clock clock, Clock oldest, Nanos parked_ns = 0, Nanos queued_ns = 0) {
    Message reply = AnswerOf(shard, clock, oldest);
    wire::As<wire::PullReply>(&reply).parked_ns = parked_ns;
    wire::As<wire::PullReply>(&reply).queued_ns = queued_ns;
    Deliver(reply);
  }

  // The device carries out everything it has been given.
  void RunDevice() {
    while (!commands_.empty()) {
      std::vector<DeviceCommand> commands = std::move(commands_);
      commands_.clear();
      for (const DeviceCommand& command : commands) {
        seen_.push_back(KindOf(command.what).name);
        if (!command.wants_event) continue;
        engine_->OnDevice(now_,
                          {.run = command.run,
                           .instruction = command.instruction,
                           .samples = 1,
                           .not_finite = std::exchange(not_finite_, {})},
                          {&out_, &commands_});
      }
    }
  }

  size_t Sent(MessageType type) const {
    size_t count = 0;
    for (const Message& message : out_.messages) count += message.type == type ? 1 : 0;
    return count;
  }

  bool skip_ = false;
  DeviceEvent::NotFinite not_finite_;  // of the device's next event
  Nanos now_ = 0;
  std::shared_ptr<const wire::Layout> layout_ = std::make_shared<const wire::Layout>(
      *wire::Layout::Build({{.name = "w", .shape = {64}}}, {.shard_count = 2}));
  std::vector<OpOutline> ops_ = {{{ParamId{0}}}};
  wire::Roster roster_;
  std::optional<Engine> engine_;
  wire::Outbox out_;
  std::vector<DeviceCommand> commands_;
  std::vector<std::string_view> seen_;  // what the device did
};

}  // namespace soapstone::worker
