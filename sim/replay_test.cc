#include "sim/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/random.h"
#include "consistency/catalogue.h"

namespace soapstone::sim {
namespace {

using ::testing::HasSubstr;
using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr uint32_t kReplayWorkers = 3;
constexpr uint32_t kShards = 2;

JobShape Shape(const std::string& policy) {
  return {.workers = kReplayWorkers,
          .shards = kShards,
          .policy = *consistency::ParsePolicy(policy),
          .clocks = 6};
}

// What it reads.
std::vector<Buffers> FramesOf(const worker::DeviceWork& what) {
  if (const auto* load = std::get_if<worker::LoadCommand>(&what)) return load->frames;
  if (const auto* elastic = std::get_if<worker::ElasticCommand>(&what)) return elastic->frames;
  return {};
}

// Answers with numbers that depend on all that it was given so far.
ReplayDevice MakeDevice(WorkerId worker) {
  return [state = uint64_t{Index(worker)} + 1](const worker::DeviceCommand& command,
                                               std::vector<worker::DeviceEvent>* events) mutable {
    state = state * 6364136223846793005u + command.instruction + command.run;
    const std::vector<Buffers> frames = FramesOf(command.what);
    for (const auto& shard : frames) {
      for (const Buffer& buffer : shard) state += buffer.size();
    }
    if (!command.wants_event) return;
    worker::DeviceEvent event = {.run = command.run, .instruction = command.instruction};
    if (const auto* collect = std::get_if<worker::CollectBucket>(&command.what)) {
      const auto value = static_cast<int64_t>(state >> 40);
      event.frames = {Buffer::CopyOf(&value, sizeof(value))};
      event.samples = collect->node.size();
    }
    events->push_back(std::move(event));
  };
}

// A job whose messages are delivered in an order drawn from a seed, and which is recorded.
class DrawnRun {
 public:
  DrawnRun(const std::string& policy, uint64_t seed)
      : factory_(*ActorFactory::Make(Shape(policy))),
        coordinator_(factory_.MakeCoordinator(/*evaluate=*/true)),
        seed_(seed) {
    recording_.actors.push_back({.address = Address::Scheduler(), .file = "scheduler.events"});
    for (uint32_t k = 0; k < factory_.shards(); ++k) {
      shards_.push_back(factory_.MakeShard(ShardId{k}));
      AddActor(Address::Of(ShardId{k}));
      Send(factory_.MakeHello(Address::Of(ServerId{k}), k, k + 1));
    }
    for (uint32_t w = 0; w < kReplayWorkers; ++w) {
      workers_.push_back({factory_.MakeEngine(WorkerId{w}), MakeDevice(WorkerId{w})});
      AddActor(Address::Of(WorkerId{w}));
      Send(factory_.MakeHello(Address::Of(WorkerId{w}), w, factory_.shards() + w + 1));
    }
  }

  Recording Run() {
    Log(0).push_back({.kind = EventKind::kStart, .now = now_});
    coordinator_.Start(now_, &outbox_);
    while (Step()) {
    }
    EXPECT_TRUE(coordinator_.ended().has_value());
    return std::move(recording_);
  }

 private:
  struct Worker {
    worker::Engine engine;
    ReplayDevice device;
    std::deque<worker::DeviceEvent> answers;
  };

  void AddActor(Address address) {
    recording_.actors.push_back({.address = address, .file = address.ToString() + ".events"});
  }
  std::vector<RecordedEvent>& Log(size_t actor) { return recording_.actors[actor].events; }
  size_t LogOf(Address to) const {
    if (to.role == Role::kScheduler) return 0;
    return 1 + to.index + (to.role == Role::kWorker ? factory_.shards() : 0);
  }
  void Send(Message message) {
    channels_[{message.from, message.to}].push_back(std::move(message));
  }

  bool Step() {
    std::erase_if(channels_, [](const auto& channel) { return channel.second.empty(); });
    std::vector<uint32_t> answering;
    for (uint32_t w = 0; w < kReplayWorkers; ++w) {
      if (!workers_[w].answers.empty()) answering.push_back(w);
    }
    const size_t choices = channels_.size() + answering.size();
    if (choices == 0) return false;
    ++now_;
    const CounterRandom random(seed_, RandomUse::kTest, 0);
    size_t choice = random.Bits(static_cast<uint64_t>(now_)) % choices;
    if (choice < channels_.size()) {
      std::deque<Message>& channel = std::next(channels_.begin(), choice)->second;
      Message message = std::move(channel.front());
      channel.pop_front();
      Deliver(std::move(message));
    } else {
      choice -= channels_.size();
      Answer(answering[choice]);
    }
    for (Message& message : outbox_.messages) Send(std::move(message));
    outbox_ = {};
    return true;
  }

  void Deliver(Message message) {
    if (message.to.role == Role::kServer) return;
    Log(LogOf(message.to)).push_back(EventOf(now_, message));
    const uint32_t index = message.to.index;
    if (message.to.role == Role::kShard) {
      return shards_[index].OnMessage(now_, std::move(message), &outbox_);
    }
    if (message.to.role == Role::kScheduler) {
      return coordinator_.OnMessage(now_, message, &outbox_);
    }
    Worker& worker = workers_[index];
    worker.engine.OnMessage(now_, message, {&outbox_, &commands_});
    Compute(&worker);
  }

  void Answer(uint32_t index) {
    Worker& worker = workers_[index];
    worker::DeviceEvent event = std::move(worker.answers.front());
    worker.answers.pop_front();
    event.compute_ns = 1000 + now_;
    Log(1 + factory_.shards() + index).push_back(EventOf(now_, event));
    worker.engine.OnDevice(now_, std::move(event), {&outbox_, &commands_});
    Compute(&worker);
  }

  void Compute(Worker* worker) {
    std::vector<worker::DeviceEvent> events;
    for (const worker::DeviceCommand& command : commands_) worker->device(command, &events);
    commands_.clear();
    for (worker::DeviceEvent& event : events) worker->answers.push_back(std::move(event));
  }

  ActorFactory factory_;
  scheduler::Coordinator coordinator_;
  uint64_t seed_;
  std::vector<server::Shard> shards_;
  std::vector<Worker> workers_;
  std::map<std::pair<Address, Address>, std::deque<Message>> channels_;
  wire::Outbox outbox_;
  std::vector<worker::DeviceCommand> commands_;
  Nanos now_ = 0;
  Recording recording_;
};

ReplayResult ReplayOf(const Recording& recording, const std::string& policy) {
  const JobShape shape = Shape(policy);
  const uint32_t servers = kShards * consistency::ServerCopies(shape.policy, kReplayWorkers);
  const ReplayOptions options = {.shape = shape,
                                 .coordinator = {.servers = servers,
                                                 .workers = kReplayWorkers,
                                                 .shards_per_server = 1,
                                                 .evaluate = true,
                                                 .save = false},
                                 .make_device = MakeDevice};
  const absl::StatusOr<ReplayResult> result = Replay(recording, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

// The first event of an actor that is of this type, in the second half of what the actor handled.
RecordedEvent* LaterEvent(Recording* recording, const std::string& file, MessageType type) {
  for (RecordedActor& actor : recording->actors) {
    if (actor.file != file) continue;
    for (size_t i = actor.events.size() / 2; i < actor.events.size(); ++i) {
      if (actor.events[i].type == type) return &actor.events[i];
    }
  }
  ADD_FAILURE() << "no such event";
  return nullptr;
}

TEST(ReplayTest, EveryPolicysOrderIsReplayed) {
  for (const std::string& policy : consistency::ExamplePolicies()) {
    const Recording recording = DrawnRun(policy, 7).Run();
    const ReplayResult result = ReplayOf(recording, policy);
    EXPECT_FALSE(result.divergence.has_value()) << policy << ": " << *result.divergence;
    EXPECT_EQ(result.events, recording.events()) << policy;
    EXPECT_TRUE(result.evaluation.has_value()) << policy;
  }
}

TEST(ReplayTest, ManyOrdersAreReplayed) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Recording recording = DrawnRun("ssp:s=1", seed).Run();
    const ReplayResult result = ReplayOf(recording, "ssp:s=1");
    EXPECT_FALSE(result.divergence.has_value()) << seed << ": " << *result.divergence;
    EXPECT_EQ(result.events, recording.events());
  }
}

TEST(ReplayTest, AnEventWhoseMessageWasNeverSentIsNamed) {
  Recording recording = DrawnRun("ssp:s=1", 3).Run();
  LaterEvent(&recording, "shard-1.events", MessageType::kPush)->clock += 40;
  const ReplayResult result = ReplayOf(recording, "ssp:s=1");
  ASSERT_TRUE(result.divergence.has_value());
  EXPECT_THAT(*result.divergence, HasSubstr("shard-1.events, event "));
  EXPECT_THAT(*result.divergence, HasSubstr("waits for push worker-"));
  EXPECT_LT(result.events, recording.events());
}

TEST(ReplayTest, OtherContentsAreNamed) {
  Recording recording = DrawnRun("ssp:s=1", 3).Run();
  ++LaterEvent(&recording, "worker-2.events", MessageType::kPullReply)->check;
  const ReplayResult result = ReplayOf(recording, "ssp:s=1");
  ASSERT_TRUE(result.divergence.has_value());
  EXPECT_THAT(*result.divergence, HasSubstr("worker-2.events, event "));
  EXPECT_THAT(*result.divergence, HasSubstr("pull-reply shard-"));
  EXPECT_THAT(*result.divergence, HasSubstr("other contents"));
}

TEST(ReplayTest, ADeviceThatComputesOtherValuesIsNamed) {
  Recording recording = DrawnRun("bsp", 3).Run();
  std::vector<RecordedEvent>& events = recording.actors.back().events;  // of worker 2
  const auto device = std::find_if(events.begin(), events.end(), [](const RecordedEvent& event) {
    return event.kind == EventKind::kDevice;
  });
  ++device->bucket;
  const ReplayResult result = ReplayOf(recording, "bsp");
  ASSERT_TRUE(result.divergence.has_value());
  EXPECT_THAT(*result.divergence, HasSubstr("worker-2.events, event "));
  EXPECT_THAT(*result.divergence, HasSubstr("its device computed other values"));
}

TEST(ReplayTest, TheOrderOfArrivalMatters) {
  // A clock and the pull of another worker change places. Where that clock was the last to come,
  // the pull is answered with another least clock.
  const Recording recording = DrawnRun("async", 3).Run();
  const std::vector<RecordedEvent>& events = recording.actors[1].events;
  uint32_t swaps = 0, diverged = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    if (events[i].type != MessageType::kClock || events[i + 1].type != MessageType::kPull ||
        events[i].index == events[i + 1].index) {
      continue;
    }
    Recording changed = recording;
    std::swap(changed.actors[1].events[i], changed.actors[1].events[i + 1]);
    ++swaps;
    diverged += ReplayOf(changed, "async").divergence.has_value() ? 1 : 0;
  }
  EXPECT_GT(diverged, 0u) << "of " << swaps;
}

TEST(ReplayTest, ARecordingThatEndsEarlyIsNamedByWhoWaitsForIt) {
  Recording recording = DrawnRun("bsp", 3).Run();
  RecordedActor& worker = recording.actors.back();
  worker.events.resize(worker.events.size() / 2);
  const ReplayResult result = ReplayOf(recording, "bsp");
  ASSERT_TRUE(result.divergence.has_value());
  EXPECT_THAT(*result.divergence, HasSubstr("worker-2.events ends early"));
}

TEST(ReplayTest, TwoThatAreTheSameActorTakeNothingTwice) {
  const Recording recording = DrawnRun("bsp", 3).Run();
  for (size_t i = 0; i < recording.actors.size(); ++i) {
    Recording doubled = recording;
    const RecordedActor again = recording.actors[i];
    doubled.actors.push_back(again);
    EXPECT_TRUE(ReplayOf(doubled, "bsp").divergence.has_value()) << again.file;
  }
}

TEST(ReplayTest, AnActorOfAnotherJobIsRefused) {
  Recording recording = DrawnRun("bsp", 3).Run();
  recording.actors.push_back({.address = Address::Of(ShardId{kShards}), .file = "shard-2.events"});
  const absl::StatusOr<ReplayResult> result =
      Replay(recording, {.shape = Shape("bsp"), .make_device = MakeDevice});
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("shard-2.events"));
}

}  // namespace
}  // namespace soapstone::sim
