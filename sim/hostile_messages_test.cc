// No message that passes a receiver's checks ends an actor: of every type, from everybody, with its
// body at its bounds, at any time, in any order. What comes from within a process is not meant:
// the transport lets nobody speak in its own name (transport/identity.h).
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "consistency/catalogue.h"
#include "gtest/gtest.h"
#include "sim/actors.h"
#include "wire/frame.h"
#include "wire/header_fields.h"

namespace soapstone::sim {
namespace {

using wire::Address;
using wire::Body;
using wire::Message;
using wire::MessageType;

constexpr uint32_t kHostileWorkers = 2;
constexpr Clock kHostileClocks = 4;

wire::Roster HostileRoster(uint32_t workers) {
  wire::Roster roster = {.worker_count = kHostileWorkers};
  for (uint32_t w = 0; w < workers; ++w) {
    roster.workers.push_back({.worker = WorkerId{w}, .admitted = 1});
  }
  roster.servers = {{ServerId{0}, "inproc://a"}};
  return roster;
}

// A stranger's choices.
class Stranger {
 public:
  explicit Stranger(uint64_t seed) : random_(seed, RandomUse::kTest) {}

  Message Next() {
    for (;;) {
      Message message;
      message.type =
          static_cast<MessageType>(Pick(static_cast<uint64_t>(MessageType::kRecorded) + 1));
      message.from = From();
      message.session = Pick(2);
      message.epoch = Pick(4);
      message.worker = WorkerId{static_cast<uint32_t>(Pick(4) == 0 ? 1'000'000 : Pick(3))};
      message.clock = ClockOfAny();
      message.body = BodyOf(message.type);
      for (uint64_t frames = Pick(3); frames > 0; --frames) {
        message.payload.push_back(Buffer::CopyOf(std::string(8 * Pick(3), 'x')));
      }
      if (wire::Validate(message).ok()) return message;
    }
  }
  uint64_t Pick(uint64_t below) { return random_.Below(++draws_, below); }

 private:
  Clock ClockOfAny() {
    const Clock clocks[] = {kNoClock, 0, 1, 2, kHostileClocks, kHostileClocks + 1, kClockMax};
    return clocks[Pick(std::size(clocks))];
  }
  Address From() {
    const auto index = static_cast<uint32_t>(Pick(3));
    const Address all[] = {Address::Scheduler(),
                           Address::Of(ServerId{index}),
                           Address::Of(WorkerId{index}),
                           Address::Of(ShardId{index}),
                           Address::PeerOf(WorkerId{index}),
                           Address::Temporary(wire::Role::kWorker, index),
                           {}};
    return all[Pick(std::size(all))];
  }
  uint64_t Size() { return Pick(4) == 0 ? ~uint64_t{0} >> Pick(3) : Pick(5); }

  Body BodyOf(MessageType type) {
    const auto small = static_cast<uint32_t>(Pick(4));
    const uint64_t size = Size();
    const wire::HeaderFields fields = {
        .bucket = BucketId{small},
        .micro_batches = {static_cast<uint32_t>(Pick(3)), static_cast<uint32_t>(Size())},
        .micro_batch_count = static_cast<uint32_t>(Pick(2) == 0 ? kHostileWorkers : Size()),
        .samples = Size(),
        .batch_samples = Size(),
        .pushes = static_cast<uint32_t>(Size()),
        .oldest = ClockOfAny(),
        .version = Size(),
        .checksum = Size(),
        .final = Pick(3) == 0,
        .parked_ns = static_cast<Nanos>(size >> 2),
        .queued_ns = static_cast<Nanos>(size >> 2)};
    if (Body body = wire::BodyFrom(type, fields); body.index() != 0) return body;
    const Body all[] = {
        {},
        wire::Hello{.role = static_cast<wire::Role>(Pick(6)),
                    .wanted_rank = static_cast<int64_t>(Pick(4)) - 1,
                    .nonce = Pick(3),
                    .config_digest = Pick(2)},
        wire::Welcome{.rank = small, .nonce = Pick(3)},
        HostileRoster(static_cast<uint32_t>(Pick(3))),
        wire::Progress{.clock = ClockOfAny(), .samples = size, .read_lags = {1, size}},
        wire::Evaluation{.samples = size, .correct = static_cast<double>(Size()), .loss_sum = 1},
        wire::Saved{.path = "model", .sha256 = "0"},
        wire::Notice{.code = static_cast<int32_t>(Pick(200)) - 100, .text = "why"},
        wire::Parcel{.sequence = Size(),
                     .step = static_cast<uint32_t>(Size()),
                     .begin = Pick(2),
                     .end = Pick(2) == 0 ? 2048 : Size(),
                     .weight = static_cast<double>(Pick(3)),
                     .has_values = Pick(2) == 0,
                     .finished = Pick(2) == 0,
                     .samples = Size(),
                     .checksum = Size()},
        wire::WorkerSet{.workers = {WorkerId{0}, WorkerId{1 + 7 * small}}},
        wire::NotFinite{.worker = static_cast<int64_t>(Pick(4)) - 1, .tensor = "w"},
        wire::Bound{.number = small},
        wire::Record{small, Size(), Size(), Size(), -1},
        wire::Recorded{small, Size()},
        wire::Written{.bytes = size, .frontier = ClockOfAny(), .error = "full"},
        wire::LostLink{.other = Address::Of(WorkerId{small}), .why = "gone"},
        wire::SlowWork{.done_bytes = size, .total_bytes = Size()},
        wire::ServerProgress{
            {{.shard = ShardId{small},
              .frontier = ClockOfAny(),
              .reader_count = static_cast<uint32_t>(Size()),
              .readers = {{WorkerId{small}, ClockOfAny(), size, Size(), Size(), small}}}}}};
    return all[Pick(std::size(all))];
  }

  CounterRandom random_;
  uint64_t draws_ = 0;
};

Message FromTheScheduler(MessageType type, Epoch epoch, Clock clock, Body body = {}) {
  Message message;
  message.type = type;
  message.from = Address::Scheduler();
  message.epoch = epoch;
  message.clock = clock;
  message.body = std::move(body);
  return message;
}

class HostileMessagesTest : public ::testing::TestWithParam<std::string> {
 protected:
  HostileMessagesTest()
      : factory_(*ActorFactory::Make({.workers = kHostileWorkers,
                                      .shards = 2,
                                      .policy = *consistency::ParsePolicy(GetParam()),
                                      .clocks = kHostileClocks})) {}

  // Half of the strangers come before the roster, the others after.
  template <class Feed>
  void FeedMany(uint64_t actor, const Feed& feed) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Stranger stranger(1000 * actor + seed);
      const bool running = stranger.Pick(2) == 0;
      feed(&stranger, running);
    }
  }

  ActorFactory factory_;
  wire::Outbox outbox_;
};

TEST_P(HostileMessagesTest, NoneEndsAShard) {
  uint64_t answered = 0;
  FeedMany(1, [&](Stranger* stranger, bool running) {
    server::Shard shard = factory_.MakeShard(ShardId{0});
    if (running) {
      shard.OnMessage(0, FromTheScheduler(MessageType::kRoster, 1, kNoClock, HostileRoster(2)),
                      &outbox_);
    }
    for (Nanos now = 1; now < 60; ++now) shard.OnMessage(now, stranger->Next(), &outbox_);
    Fingerprint f;
    shard.AddTo(&f);
    answered += outbox_.messages.size();
    for (const Message& message : std::exchange(outbox_.messages, {})) {
      EXPECT_TRUE(wire::Validate(message).ok()) << wire::ToString(message);
    }
  });
  EXPECT_GT(answered, 100u);  // it was not deaf
}

// Half of them are a head's, half a follower's.
TEST_P(HostileMessagesTest, NoneEndsAReplica) {
  const consistency::PolicyTraits policy = *consistency::ParsePolicy(GetParam());
  const ActorFactory factory = *ActorFactory::Make({.workers = kHostileWorkers,
                                                    .shards = 2,
                                                    .replicas = 2,
                                                    .policy = policy,
                                                    .clocks = kHostileClocks});
  uint64_t answered = 0;
  FeedMany(7, [&](Stranger* stranger, bool running) {
    const ServerId self{static_cast<uint32_t>(stranger->Pick(2))};
    server::Replica replica = factory.MakeReplica(self, ShardId{0});
    wire::Roster roster = HostileRoster(2);
    roster.servers = {{ServerId{0}, "inproc://a"}, {ServerId{1}, "inproc://b"}};
    roster.chains = {{{{ServerId{0}, 1}, {ServerId{1}, 1}}},
                     {{{ServerId{1}, 1}, {ServerId{0}, 1}}}};
    if (running) {
      replica.OnMessage(0, FromTheScheduler(MessageType::kRoster, 1, kNoClock, roster), &outbox_);
    }
    for (Nanos now = 1; now < 60; ++now) replica.OnMessage(now, stranger->Next(), &outbox_);
    Fingerprint f;
    replica.AddTo(&f);
    answered += outbox_.messages.size();
    for (const Message& message : std::exchange(outbox_.messages, {})) {
      EXPECT_TRUE(wire::Validate(message).ok()) << wire::ToString(message);
    }
  });
  EXPECT_GT(answered, 100u);
}

TEST_P(HostileMessagesTest, NoneEndsAnEngine) {
  std::vector<worker::DeviceCommand> commands;
  FeedMany(2, [&](Stranger* stranger, bool running) {
    worker::Engine engine = factory_.MakeEngine(WorkerId{0});
    if (running) {
      engine.OnMessage(0, FromTheScheduler(MessageType::kRoster, 1, kNoClock, HostileRoster(2)),
                       {&outbox_, &commands});
      engine.OnMessage(0, FromTheScheduler(MessageType::kStart, 1, 0), {&outbox_, &commands});
    }
    for (Nanos now = 1; now < 60 && !engine.failure().has_value(); ++now) {
      const Message message = stranger->Next();
      const bool own_peer = message.from == Address::PeerOf(WorkerId{0});
      if (!own_peer) engine.OnMessage(now, message, {&outbox_, &commands});
    }
    Fingerprint f;
    engine.AddTo(&f);
    for (const Message& message : std::exchange(outbox_.messages, {})) {
      EXPECT_TRUE(wire::Validate(message).ok()) << wire::ToString(message);
    }
  });
}

TEST_P(HostileMessagesTest, NoneEndsACoordinator) {
  FeedMany(3, [&](Stranger* stranger, bool running) {
    scheduler::Coordinator coordinator = factory_.MakeCoordinator(/*evaluate=*/true);
    coordinator.Start(0, &outbox_);
    for (uint32_t k = 0; k < 2 && running; ++k) {
      coordinator.OnMessage(0, factory_.MakeHello(Address::Of(ServerId{k}), k, 10 + k), &outbox_);
      coordinator.OnMessage(
          0, factory_.MakeHello(Address::Temporary(wire::Role::kWorker, 20 + k), k, 20 + k),
          &outbox_);
    }
    for (Nanos now = 1; now < 60; ++now) {
      coordinator.OnMessage(now, stranger->Next(), &outbox_);
    }
    for (const Message& message : std::exchange(outbox_.messages, {})) {
      EXPECT_TRUE(wire::Validate(message).ok()) << wire::ToString(message);
    }
  });
}

TEST_P(HostileMessagesTest, NoneEndsAPeer) {
  if (!factory_.policy().decentralised()) return;
  uint64_t answered = 0;
  FeedMany(4, [&](Stranger* stranger, bool running) {
    server::Peer peer = factory_.MakePeer(WorkerId{0});
    if (running) {
      peer.OnMessage(0, FromTheScheduler(MessageType::kRoster, 1, kNoClock, HostileRoster(2)),
                     &outbox_);
    }
    for (Nanos now = 1; now < 60; ++now) {
      Message message = stranger->Next();
      const bool own_worker = message.from == Address::Of(WorkerId{0});
      if (!own_worker) peer.OnMessage(now, std::move(message), &outbox_);
    }
    answered += outbox_.messages.size();
    for (const Message& message : std::exchange(outbox_.messages, {})) {
      EXPECT_TRUE(wire::Validate(message).ok()) << wire::ToString(message);
    }
  });
  EXPECT_GT(answered, 20u);
}

std::vector<std::string> EveryPolicy() {
  std::vector<std::string> all = consistency::ExamplePolicies();
  for (std::string& peer : consistency::ExamplePeerPolicies()) all.push_back(std::move(peer));
  return all;
}
INSTANTIATE_TEST_SUITE_P(Policies, HostileMessagesTest, ::testing::ValuesIn(EveryPolicy()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace soapstone::sim
