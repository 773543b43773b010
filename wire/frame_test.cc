#include "wire/frame.h"

#include <zlib.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "base/random.h"
#include "gtest/gtest.h"
#include "wire/compact_header.h"

namespace soapstone::wire {
namespace {

constexpr Address kSender = {Role::kServer, 7};

Buffers Frames(const Message& message, Address sender) {
  Buffers frames = {Buffer::CopyOf(EncodeHeader(message, sender))};
  frames.insert(frames.end(), message.payload.begin(), message.payload.end());
  return frames;
}

// A message with every field set to something that is not its default.
Message Example(MessageType type, Body body, Buffers payload = {}) {
  Message message;
  message.type = type;
  message.from = {Role::kShard, 15};
  message.to = {Role::kWorker, 4'000'000'000u};
  message.session = 0xFEDCBA9876543210u;
  message.epoch = 11;
  message.worker = WorkerId{5};
  message.clock = kClockMax;
  message.bucket = BucketId{6};
  message.micro_batches = {3, 9};
  message.micro_batch_count = 9;
  message.samples = 64;
  message.batch_samples = 128;
  message.pushes = 17;
  message.oldest = 0;
  message.final = true;
  message.body = std::move(body);
  message.payload = std::move(payload);
  return message;
}

std::vector<Message> Examples() {
  const Buffers payload = {Buffer::CopyOf("a slice of"), Buffer(), Buffer::CopyOf("floats")};
  const Hello hello = {Role::kWorker, 3, "tcp://a:1", 99, 1u << 31, "avx2, oneDNN 2.6.3"};
  const Roster roster = {{{WorkerId{0}, 1, 2, true, false}, {WorkerId{4}, 3, 4, false, true}},
                         {{ServerId{0}, "tcp://a:1"}, {ServerId{1}, "ipc:///tmp/\xff"}},
                         5,
                         2,
                         {{3, {4, 0, 2, 1, 1}}, {9, {1, 1, 2, 0, 4}}},
                         8};
  Progress progress = {7, 8, -0.125, 9, 10, 11, 12, 13, {1, 2, 0}, 14};
  progress.left_out = {{"w", 3, 2}, {"\xff", 1, 0}};
  progress.waiting = Waiting{.of = Address::Of(ShardId{3}), .clock = 4, .for_ns = 5, .asked = 6};
  progress.violations = 4;
  const Notice notice = {-3, "why"};
  return {
      Example(MessageType::kHello, hello),
      Example(MessageType::kWelcome, Welcome{2, 99}),
      Example(MessageType::kRefuse, notice),
      Example(MessageType::kRoster, roster),
      Example(MessageType::kRosterAck, {}),
      Example(MessageType::kStart, {}),
      Example(MessageType::kHeartbeat, {}),
      Example(MessageType::kHeartbeat, progress),
      Example(MessageType::kHeartbeat, SlowWork{7, 9}),
      Example(MessageType::kHeartbeatAck, {}),
      Example(MessageType::kDone, progress),
      Example(MessageType::kLeave, progress),
      Example(MessageType::kEvaluate, {}),
      Example(MessageType::kEvaluated, Evaluation{10, 9, 1.5}),
      Example(MessageType::kEvaluated, Evaluation{10, 9, 1.5}, payload),
      Example(MessageType::kSave, {}),
      Example(MessageType::kSlices, {}, payload),
      Example(MessageType::kSaved, Saved{"/m.safetensors", "ab12"}),
      Example(MessageType::kShutdown, notice),
      Example(MessageType::kBroken, notice),
      Example(MessageType::kNotFinite, NotFinite{3, true, "fc1.weight"}),
      Example(MessageType::kPush, {}, payload),
      Example(MessageType::kClock, {}),
      Example(MessageType::kPull, {}),
      Example(MessageType::kPullReply, {}, payload),
      Example(MessageType::kReject, notice),
      Example(
          MessageType::kParcel,
          Parcel{
              .sequence = uint64_t{3} << 40 | 7, .step = 2, .begin = 5, .end = 9, .weight = 0.25},
          {Buffer::CopyOf("abcd")}),
      Example(MessageType::kState, Parcel{.end = 4, .weight = 0.5}, {Buffer::CopyOf("ab")}),
      Example(MessageType::kFinished, Parcel{}),
      Example(MessageType::kHeld, {}),
      Example(MessageType::kChosen, WorkerSet{{WorkerId{0}, WorkerId{3}}}),
      Example(MessageType::kStanding, Parcel{.has_values = true, .finished = true}),
  };
}

void ExpectRefused(const Message& message) {
  const absl::StatusOr<Received> decoded = Decode(Frames(message, kSender));
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument) << ToString(message);
}

TEST(FrameTest, EveryTypeComesBackWithEveryField) {
  std::set<MessageType> types;
  for (const Message& message : Examples()) {
    SCOPED_TRACE(ToString(message));
    const absl::StatusOr<Received> decoded = Decode(Frames(message, kSender));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->message, message);
    EXPECT_EQ(decoded->sender, kSender);
    types.insert(message.type);
  }
  EXPECT_EQ(types.size(), 29u);
}

Buffers LocalFrames(const Message& message) {
  std::string header = "left over";
  EncodeLocalHeader(message, kSender, &header);
  Buffers frames = {Buffer::CopyOf(header)};
  frames.insert(frames.end(), message.payload.begin(), message.payload.end());
  return frames;
}

TEST(CompactHeaderTest, EveryTypeComesBackWithEveryField) {
  size_t compact = 0;
  for (const Message& message : Examples()) {
    SCOPED_TRACE(ToString(message));
    Message timed = message;
    if (message.type == MessageType::kPullReply) timed.parked_ns = timed.queued_ns = 12345;
    const Buffers frames = LocalFrames(timed);
    const absl::StatusOr<Received> decoded = DecodeLocal(frames);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->message, timed);
    EXPECT_EQ(decoded->sender, kSender);
    compact += frames[0].size() == 128 ? 1 : 0;
  }
  EXPECT_EQ(compact, 12u);  // those without a body
}

// Whatever the bytes, what comes out is what Validate lets pass.
TEST(CompactHeaderTest, MutationsAreRefusedOrValid) {
  const CounterRandom random(7, RandomUse::kTest);
  const Message push = Example(MessageType::kPush, {}, {Buffer::CopyOf("abcd")});
  const Buffers frames = LocalFrames(push);
  size_t refused = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    std::string bytes(reinterpret_cast<const char*>(frames[0].data()), frames[0].size());
    for (uint64_t k = 0; k <= random.Bits(10 * i) % 3; ++k) {
      bytes[random.Bits(10 * i + k + 1) % bytes.size()] =
          static_cast<char>(random.Bits(10 * i + k + 5));
    }
    if (i % 10 == 0) bytes.resize(random.Bits(10 * i + 9) % bytes.size());
    const auto decoded = DecodeLocal({Buffer::CopyOf(bytes), frames[1]});
    refused += decoded.ok() ? 0 : 1;
    EXPECT_TRUE(!decoded.ok() || Validate(decoded->message).ok());
  }
  EXPECT_GT(refused, 4000u);
}

TEST(FrameTest, DefaultsComeBack) {
  Message message;
  message.type = MessageType::kPull;
  message.from = kSender;
  const absl::StatusOr<Received> decoded = Decode(Frames(message, kSender));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->message, message);
}

TEST(FrameTest, PayloadSharesTheReceivedBytes) {
  const Buffers frames =
      Frames(Example(MessageType::kPush, {}, {Buffer::CopyOf("bytes")}), kSender);
  const absl::StatusOr<Received> decoded = Decode(frames);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->message.payload[0].data(), frames[1].data());
}

TEST(FrameTest, RefusesTypesAndRolesOutOfRange) {
  ExpectRefused(Example(MessageType::kNone, {}));
  ExpectRefused(Example(static_cast<MessageType>(19), {}));
  ExpectRefused(Example(static_cast<MessageType>(200), {}));
  Message message = Example(MessageType::kPull, {});
  message.to.role = static_cast<Role>(6);
  ExpectRefused(message);
  ExpectRefused(Example(MessageType::kHello, Hello{.role = static_cast<Role>(9)}));
}

TEST(FrameTest, RefusesWorkerSetsThatAreNone) {
  ExpectRefused(Example(MessageType::kChosen, {}));
  ExpectRefused(Example(MessageType::kHeld, WorkerSet{}));
  ExpectRefused(Example(MessageType::kDone, SlowWork{}));
  ExpectRefused(Example(MessageType::kChosen, WorkerSet{{WorkerId{3}, WorkerId{3}}}));
  ExpectRefused(Example(MessageType::kChosen, WorkerSet{{WorkerId{1u << 31}}}));
}

TEST(FrameTest, RefusesParcelsThatAreNone) {
  ExpectRefused(Example(MessageType::kParcel, Parcel{.begin = 3, .end = 2}));
  ExpectRefused(Example(MessageType::kParcel, Parcel{.weight = -0.5}));
  ExpectRefused(Example(MessageType::kState, Parcel{.weight = std::nan("")}));
  ExpectRefused(Example(MessageType::kParcel, {}));
  ExpectRefused(Example(MessageType::kStanding, Parcel{}, {Buffer::CopyOf("x")}));
}

TEST(FrameTest, APeerIsItsOwnWorkers) {
  const Address worker = Address::Of(WorkerId{3});
  EXPECT_TRUE(ValidateSender(Address::PeerOf(WorkerId{3}), worker).ok());
  EXPECT_FALSE(ValidateSender(Address::PeerOf(WorkerId{4}), worker).ok());
  EXPECT_FALSE(ValidateSender(Address::PeerOf(WorkerId{3}), Address::Of(ServerId{3})).ok());
}

TEST(FrameTest, RefusesABodyOfAnotherType) {
  ExpectRefused(Example(MessageType::kHello, {}));
  ExpectRefused(Example(MessageType::kHello, Welcome{}));
  ExpectRefused(Example(MessageType::kPush, Notice{}));
}

TEST(FrameTest, RefusesPayloadWhereNoneBelongs) {
  ExpectRefused(Example(MessageType::kClock, {}, {Buffer::CopyOf("x")}));
}

TEST(FrameTest, RefusesClocksOutOfRange) {
  for (Clock clock : {Clock{-2}, kClockMax + 1, std::numeric_limits<Clock>::min()}) {
    Message message = Example(MessageType::kPull, {});
    message.clock = clock;
    ExpectRefused(message);
    message = Example(MessageType::kPull, {});
    message.oldest = clock;
    message.version = 1 + static_cast<uint64_t>(clock);
    message.checksum = ~message.version;
    ExpectRefused(message);
    ExpectRefused(Example(MessageType::kDone, Progress{.clock = clock}));
    ExpectRefused(
        Example(MessageType::kRoster,
                Roster{.workers = {{.worker = WorkerId{0}, .start = clock}}, .worker_count = 1}));
  }
}

TEST(FrameTest, RefusesLeavesOutOfRange) {
  for (MicroBatchRange micro_batches :
       {MicroBatchRange{3, 3}, MicroBatchRange{4, 3}, MicroBatchRange{0, 10}}) {
    Message message = Example(MessageType::kPush, {});
    message.micro_batches = micro_batches;
    ExpectRefused(message);
  }
}

// A heartbeat that was dropped for its loss would make its sender silent, and so lost.
TEST(FrameTest, ALossMayBeAnyNumber) {
  for (double loss : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    for (const Message& message :
         {Example(MessageType::kHeartbeat, Progress{.loss_sum = loss}),
          Example(MessageType::kEvaluated, Evaluation{.loss_sum = loss})}) {
      ASSERT_TRUE(Validate(message).ok());
      const absl::StatusOr<Received> decoded = Decode(Frames(message, kSender));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      const auto* progress = std::get_if<Progress>(&decoded->message.body);
      const double taken = progress != nullptr
                               ? progress->loss_sum
                               : std::get<Evaluation>(decoded->message.body).loss_sum;
      EXPECT_EQ(std::isnan(taken), std::isnan(loss));
      EXPECT_EQ(std::isinf(taken), std::isinf(loss));
    }
  }
}

TEST(FrameTest, RefusesWhatSaysOfADivergenceMoreThanItMay) {
  const std::string long_name(5000, 'x');
  ExpectRefused(Example(MessageType::kNotFinite, NotFinite{.worker = -2}));
  ExpectRefused(Example(MessageType::kNotFinite, NotFinite{.worker = int64_t{1} << 40}));
  ExpectRefused(Example(MessageType::kNotFinite, NotFinite{.tensor = long_name}));
  ExpectRefused(Example(MessageType::kHeartbeat, Progress{.left_out = {{long_name, 1, 1}}}));
  ExpectRefused(Example(MessageType::kHeartbeat, Progress{.left_out = {{"w", 1, -5}}}));
  ExpectRefused(Example(MessageType::kHeartbeat,
                        Progress{.left_out = std::vector<LeftOut>(Progress::kLeftOutMax + 1)}));
}

TEST(FrameTest, RefusesSharesThatActorsCouldNotUse) {
  const auto with = [](SharedList<Shares> shares, Clock lead = 0) {
    return Example(MessageType::kRoster,
                   Roster{.worker_count = 2, .shares = std::move(shares), .share_lead = lead});
  };
  EXPECT_TRUE(Decode(Frames(with({{1, {1, 1}}}, 4), kSender)).ok());
  ExpectRefused(with({{1, {1, 1, 1}}}));
  ExpectRefused(with({{1, {1}}}));
  ExpectRefused(with({{2, {1, 1}}, {2, {1, 1}}}));
  ExpectRefused(with({{-1, {1, 1}}}));
  ExpectRefused(with({{1, {4'000'000'000u, 4'000'000'000u}}}));
  ExpectRefused(with({}, -2));
  SharedList<Shares> many;
  for (Clock from = 0; from <= 16; ++from) many.push_back({from, {1, 1}});
  ExpectRefused(with(many));
}

TEST(FrameTest, RefusesTimesBelowZero) {
  for (const Progress& progress :
       {Progress{.compute_ns = -1}, Progress{.blocked_ns = -1}, Progress{.injected_ns = -1},
        Progress{.waiting = Waiting{.of = Address::Of(ShardId{0}), .for_ns = -1}},
        Progress{.waiting = Waiting{.of = Address::Of(ShardId{0}), .clock = -5}},
        Progress{.waiting = Waiting{.of = Address::Scheduler()}}}) {
    ExpectRefused(Example(MessageType::kHeartbeat, progress));
  }
}

TEST(FrameTest, RefusesLongText) {
  const std::string text(FrameLimits{}.string_bytes_max + 1, 'x');
  ExpectRefused(Example(MessageType::kRefuse, Notice{.text = text}));
  ExpectRefused(Example(MessageType::kHello, Hello{.endpoint = text}));
  ExpectRefused(Example(MessageType::kHello, Hello{.arithmetic = std::string(81, 'x')}));
  ExpectRefused(Example(MessageType::kHello, Hello{.arithmetic = "avx2\nscheduler lost"}));
  ExpectRefused(Example(MessageType::kSaved, Saved{.path = text}));
  ExpectRefused(Example(MessageType::kSaved, Saved{.sha256 = text}));
  ExpectRefused(Example(MessageType::kRoster, Roster{.servers = {{.endpoint = text}}}));
}

TEST(FrameTest, RefusesRanksOutOfRange) {
  for (int64_t rank : {int64_t{-2}, int64_t{100'000}, std::numeric_limits<int64_t>::max()}) {
    ExpectRefused(Example(MessageType::kHello, Hello{.wanted_rank = rank}));
  }
  ExpectRefused(Example(MessageType::kWelcome, Welcome{.rank = 100'000}));
}

TEST(FrameTest, RefusesRostersThatCannotBe) {
  const Member zero = {.worker = WorkerId{0}};
  const Member one = {.worker = WorkerId{1}};
  ExpectRefused(Example(MessageType::kRoster, Roster{.workers = {one, zero}, .worker_count = 2}));
  ExpectRefused(Example(MessageType::kRoster, Roster{.workers = {zero, zero}, .worker_count = 2}));
  ExpectRefused(Example(MessageType::kRoster, Roster{.workers = {one}, .worker_count = 1}));
  ExpectRefused(Example(MessageType::kRoster, Roster{.worker_count = 100'001}));
  ExpectRefused(Example(MessageType::kRoster, Roster{.shards_per_server = 0}));
  ExpectRefused(
      Example(MessageType::kRoster, Roster{.servers = {{ServerId{1}, ""}, {ServerId{1}, ""}}}));
}

TEST(FrameTest, RosterOfTheLargestClusterFits) {
  Roster roster;
  roster.worker_count = 100'000;
  for (uint32_t i = 0; i < 100'000; ++i) {
    roster.workers.push_back({.worker = WorkerId{i}, .start = kClockMax, .admitted = 1u << 30});
  }
  for (uint32_t i = 0; i < 10'000; ++i) {
    roster.servers.push_back({ServerId{i}, "tcp://node-000000.cluster.local:65535"});
  }
  EXPECT_TRUE(Decode(Frames(Example(MessageType::kRoster, roster), kSender)).ok());
}

TEST(FrameTest, RefusesTooManyOrTooLargeFrames) {
  const Message message = Example(MessageType::kPush, {}, Buffers(4));
  EXPECT_TRUE(Decode(Frames(message, kSender), {.payload_frames_max = 4}).ok());
  EXPECT_FALSE(Decode(Frames(message, kSender), {.payload_frames_max = 3}).ok());
  const Message large =
      Example(MessageType::kPush, {}, {Buffer::CopyOf("1234"), Buffer::CopyOf("5")});
  EXPECT_TRUE(Decode(Frames(large, kSender), {.message_bytes_max = 5}).ok());
  EXPECT_FALSE(Decode(Frames(large, kSender), {.message_bytes_max = 4}).ok());
  EXPECT_FALSE(Decode(Frames(large, kSender), {.frame_bytes_max = 3}).ok());
  EXPECT_FALSE(Decode(Frames(large, kSender), {.header_bytes_max = 8}).ok());
}

TEST(FrameTest, RefusesFramesThatDifferFromTheHeader) {
  Buffers frames = Frames(Example(MessageType::kPush, {}, {Buffer::CopyOf("12345678")}), kSender);
  frames.push_back(Buffer::CopyOf("more"));
  EXPECT_FALSE(Decode(frames).ok());
  frames.pop_back();
  frames[1] = frames[1].Slice(0, 4);
  EXPECT_FALSE(Decode(frames).ok());
  frames.pop_back();
  EXPECT_FALSE(Decode(frames).ok());
  EXPECT_FALSE(Decode({}).ok());
}

TEST(FrameTest, EveryFlippedBitOfTheHeaderIsNoticed) {
  const std::string header = EncodeHeader(Examples()[0], kSender);
  for (size_t bit = 0; bit < header.size() * 8; ++bit) {
    std::string flipped = header;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(Decode({Buffer::CopyOf(flipped)}).ok()) << "bit " << bit;
  }
}

TEST(FrameTest, AnotherVersionSaysSo) {
  std::string header = EncodeHeader(Examples()[0], kSender);
  header[4] = 1;
  const absl::Status status = Decode({Buffer::CopyOf(header)}).status();
  EXPECT_NE(status.message().find("frame version 1"), std::string::npos) << status;
}

TEST(FrameTest, RefusesAnotherNodesAddress) {
  Message message = Example(MessageType::kPull, {});
  message.from = Address::Of(WorkerId{1});
  EXPECT_TRUE(Decode(Frames(message, Address::Of(WorkerId{1}))).ok());
  EXPECT_FALSE(Decode(Frames(message, Address::Of(WorkerId{2}))).ok());
  EXPECT_FALSE(Decode(Frames(message, kSender)).ok());
  message.from = Address::Of(ShardId{1});
  EXPECT_FALSE(Decode(Frames(message, Address::Of(ShardId{1}))).ok());
  EXPECT_FALSE(Decode(Frames(message, Address::Of(WorkerId{1}))).ok());
}

// Gives the prefix the length and checksum of what follows it, so that mutations reach the parser.
void Seal(std::string* header) {
  if (header->size() < kFramePrefixBytes) return;
  const uint32_t bytes = static_cast<uint32_t>(header->size() - kFramePrefixBytes);
  const uint32_t crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(header->data() + kFramePrefixBytes), bytes));
  std::memcpy(header->data() + 8, &bytes, 4);
  std::memcpy(header->data() + 12, &crc, 4);
}

std::string RandomBytes(const CounterRandom& random, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(random.Bits(1000 + i));
  return bytes;
}

Buffers Mutate(const Message& message, const CounterRandom& random) {
  std::string header = EncodeHeader(message, kSender);
  const uint64_t changes = 1 + random.Below(0, 4);
  for (uint64_t c = 0; c < changes; ++c) {
    const uint64_t at = random.Below(10 + 4 * c, header.size() + 1);
    switch (random.Below(11 + 4 * c, 5)) {
      case 0:
        header.resize(at);
        break;
      case 1:
        header.insert(at, RandomBytes(random, random.Below(12 + 4 * c, 9)));
        break;
      case 2:
        header.erase(at, random.Below(12 + 4 * c, 5));
        break;
      default:
        if (at < header.size()) header[at] = static_cast<char>(random.Bits(13 + 4 * c));
    }
    if (header.empty()) break;
  }
  if (random.Below(1, 4) != 0) Seal(&header);
  Buffers frames = {Buffer::CopyOf(header)};
  frames.insert(frames.end(), message.payload.begin(), message.payload.end());
  if (random.Below(2, 8) == 0) frames.resize(random.Below(3, frames.size() + 3));
  return frames;
}

TEST(FrameTest, MutationsAreRefusedOrValid) {
  const std::vector<Message> examples = Examples();
  int accepted = 0;
  for (uint64_t i = 0; i < 80'000; ++i) {
    const CounterRandom random(1, RandomUse::kTest, i);
    const Buffers frames = Mutate(examples[i % examples.size()], random);
    const absl::StatusOr<Received> decoded = Decode(frames);
    if (!decoded.ok()) continue;
    ++accepted;
    ASSERT_TRUE(Validate(decoded->message).ok());
    // What was accepted is a message like any other: it survives another trip.
    const absl::StatusOr<Received> again = Decode(Frames(decoded->message, decoded->sender));
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(again->message, decoded->message);
  }
  EXPECT_GT(accepted, 1000);  // the mutations reach past the prefix
}

TEST(FrameTest, RandomBytesAreRefused) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    const CounterRandom random(2, RandomUse::kTest, i);
    std::string header = RandomBytes(random, random.Below(0, 200));
    if (i % 2 == 0 && header.size() >= kFramePrefixBytes) {
      const std::string good = EncodeHeader(Message(), kSender);
      header.replace(0, 8, good, 0, 8);
      Seal(&header);
    }
    const absl::StatusOr<Received> decoded = Decode({Buffer::CopyOf(header)});
    if (decoded.ok()) {
      ASSERT_TRUE(Validate(decoded->message).ok());
    }
  }
}

}  // namespace
}  // namespace soapstone::wire
