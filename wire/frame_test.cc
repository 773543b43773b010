#include "wire/frame.h"

#include <cmath>
#include <limits>
#include <set>

#include "gtest/gtest.h"
#include "wire/example_frames.h"

namespace soapstone::wire {
namespace {

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
  for (int number = 0; number < 256; ++number) {
    const auto type = static_cast<MessageType>(number);
    EXPECT_EQ(types.contains(type), IsKnown(type)) << NameOf(type);
  }
}

TEST(CompactHeaderTest, EveryTypeComesBackWithEveryField) {
  size_t compact = 0;
  for (const Message& message : Examples()) {
    SCOPED_TRACE(ToString(message));
    const Buffers frames = LocalFrames(message);
    const absl::StatusOr<Received> decoded = DecodeLocal(frames);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->message, message);
    EXPECT_EQ(decoded->sender, kSender);
    compact += frames[0].size() == 128 ? 1 : 0;
  }
  EXPECT_EQ(compact, 18u);  // those with no body beside the header
}

TEST(FrameTest, DefaultsComeBack) {
  Message message;
  message.type = MessageType::kPull;
  message.from = kSender;
  message.body = Pull{};
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
    ExpectRefused(Example(MessageType::kPullReply, PullReply{.oldest = clock}));
    ExpectRefused(Example(MessageType::kDone, Progress{.clock = clock}));
    ExpectRefused(
        Example(MessageType::kRoster,
                Roster{.workers = {{.worker = WorkerId{0}, .start = clock}}, .worker_count = 1}));
  }
}

TEST(FrameTest, RefusesLeavesOutOfRange) {
  for (MicroBatchRange micro_batches :
       {MicroBatchRange{3, 3}, MicroBatchRange{4, 3}, MicroBatchRange{0, 10}}) {
    ExpectRefused(
        Example(MessageType::kPush, Push{.micro_batches = micro_batches, .micro_batch_count = 9}));
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

// `count` readers, one after the other; the reports of all of whom have been taken.
ShardReads ReadsOf(uint32_t count, const ReaderState& like = {.reads = 1}) {
  ShardReads reads;
  for (uint32_t w = 0; w < count; ++w) {
    reads.readers.push_back(like);
    reads.readers.back().worker = WorkerId{w};
  }
  reads.reader_count = count;
  reads.parked_count = like.parked_ms > 0 ? count : 0;
  return reads;
}

void ExpectReads(bool taken, const ShardReads& reads) {
  const Message message = Example(MessageType::kHeartbeat, ServerProgress{{reads}});
  EXPECT_EQ(Validate(message).ok(), taken) << taken;
  EXPECT_EQ(Decode(Frames(message, kSender)).ok(), taken) << taken;
}

TEST(FrameTest, RefusesReadsThatCannotBe) {
  ExpectReads(true, ReadsOf(0));
  ExpectReads(true, ReadsOf(3, {.reads = 4, .lag_sum = 8, .lag_max = 2, .parked_ms = 1}));
  ExpectReads(false, ReadsOf(3, {.reads = 4, .lag_sum = 9, .lag_max = 2}));
  ExpectReads(false, ReadsOf(3, {.reads = 4, .lag_sum = 1, .lag_max = 2}));
  ExpectReads(false, ReadsOf(3, {.reads = 4, .lag_sum = 1}));
  ExpectReads(false, ReadsOf(3, {.lag_sum = 2, .lag_max = 2}));
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  ExpectReads(true, ReadsOf(1, {.reads = kMost, .lag_sum = kMost, .lag_max = kMost}));
  ExpectReads(false, ReadsOf(1, {.reads = 1, .lag_sum = kMost, .lag_max = kMost - 1}));
  ShardReads reads = ReadsOf(3);
  reads.readers[1].worker = WorkerId{0};
  ExpectReads(false, reads);
  reads = ReadsOf(3);
  reads.readers[2].worker = WorkerId{100'000};
  ExpectReads(false, reads);
  reads = ReadsOf(3);
  reads.parked_count = 1;  // nobody says that it waits
  ExpectReads(false, reads);
  reads = ReadsOf(3);
  reads.frontier = kClockMax + 1;
  ExpectReads(false, reads);
  ExpectReads(false, ReadsOf(3, {.clock = -2}));
}

TEST(FrameTest, RefusesOtherNumbersOfReadersThanItSays) {
  ExpectReads(true, ReadsOf(256));
  ExpectReads(false, ReadsOf(257));
  for (const uint32_t listed : {6u, 7u, 8u}) {
    ShardReads reads = ReadsOf(listed);
    reads.reader_count = 1000;
    reads.parked_count = 999;
    ExpectReads(listed == ShardReads::kQuantiles.size(), reads);
    reads.reader_count = listed - 1;
    reads.parked_count = 0;
    ExpectReads(false, reads);
  }
  ShardReads reads = ReadsOf(7);
  reads.reader_count = 100'001;
  ExpectReads(false, reads);
  reads.reader_count = 8;
  reads.parked_count = 9;
  ExpectReads(false, reads);
}

TEST(FrameTest, ShardsOfAServersProgressAscend) {
  const auto with = [](const std::vector<uint32_t>& ids) {
    ServerProgress progress;
    for (const uint32_t id : ids) progress.shards.push_back({.shard = ShardId{id}});
    return Example(MessageType::kHeartbeat, progress);
  };
  EXPECT_TRUE(Decode(Frames(with({3, 4, 9}), kSender)).ok());
  ExpectRefused(with({3, 3}));
  ExpectRefused(with({4, 3}));
  ExpectRefused(with({100'000}));
  std::vector<uint32_t> many(ServerProgress::kShardsMax + 1);
  for (uint32_t i = 0; i < many.size(); ++i) many[i] = i;
  EXPECT_FALSE(Validate(with(many)).ok());
  many.pop_back();
  EXPECT_TRUE(Decode(Frames(with(many), kSender)).ok());
}

// A job of a week: ten reads a second, far behind, by workers that have waited for five minutes.
TEST(FrameTest, AReaderTakesAtMost24Bytes) {
  const ReaderState busy = {.clock = 6'000'000,
                            .reads = 6'000'000,
                            .lag_sum = 600'000'000,
                            .lag_max = 2000,
                            .parked_ms = 300'000};
  for (const uint32_t readers : {1u, 32u, 256u}) {
    const auto bytes = [](const ShardReads& reads) {
      return EncodeHeader(Example(MessageType::kHeartbeat, ServerProgress{{reads}}), kSender)
          .size();
    };
    // Tags and lengths of the lists are the shard's.
    EXPECT_LE(bytes(ReadsOf(readers, busy)), bytes(ReadsOf(0)) + 20 + 24 * readers) << readers;
  }
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
  ExpectRefused(Example(MessageType::kHello, Hello{.host = std::string(256, 'x')}));
  ExpectRefused(Example(MessageType::kHello, Hello{.arithmetic = "avx2\nscheduler lost"}));
  ExpectRefused(Example(MessageType::kHello, Hello{.host = "rack\nworker 1 lost"}));
  ExpectRefused(Example(MessageType::kHello, Hello{.host = "rack\x1b[2J"}));
  ExpectRefused(Example(MessageType::kHello, Hello{.host = "rack  worker 1 lost"}));
  ExpectRefused(Example(MessageType::kWritten, Written{.error = text}));
  ExpectRefused(Example(MessageType::kWritten, Written{.frontier = -2}));
  ExpectRefused(Example(MessageType::kSaved, Saved{.path = text}));
  ExpectRefused(Example(MessageType::kSaved, Saved{.sha256 = text}));
  ExpectRefused(Example(MessageType::kRoster, Roster{.servers = {{.endpoint = text}}}));
}

TEST(FrameTest, AKeyOfAProcessIsAsLongAsItIs) {
  const auto decodes = [](const std::string& key) {
    return std::vector<bool>{
        Decode(Frames(Example(MessageType::kHello, Hello{.key = key}), kSender)).ok(),
        Decode(Frames(Example(MessageType::kRoster, Roster{.servers = {{.key = key}}}), kSender))
            .ok(),
        Decode(Frames(Example(MessageType::kRoster,
                              Roster{.workers = {{.key = key}}, .worker_count = 1}),
                      kSender))
            .ok()};
  };
  for (const size_t size : {0, 32}) {
    EXPECT_EQ(decodes(std::string(size, 'k')), std::vector<bool>(3, true)) << size;
  }
  for (const size_t size : {1, 31, 33}) {
    EXPECT_EQ(decodes(std::string(size, 'k')), std::vector<bool>(3, false)) << size;
  }
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
    roster.workers.push_back({.worker = WorkerId{i},
                              .start = kClockMax,
                              .admitted = 1u << 30,
                              .key = std::string(kProcessKeyBytes, 'k')});
  }
  for (uint32_t i = 0; i < 10'000; ++i) {
    roster.servers.push_back(
        {ServerId{i}, "tcp://node-000000.cluster.local:65535", std::string(kProcessKeyBytes, 'k')});
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

}  // namespace
}  // namespace soapstone::wire
