#include "worker/program_run.h"

#include <algorithm>

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

using ::testing::ElementsAre;

// Steps of a model of two layers, a parameter each, that is spread over three shards in small
// buckets.
class ProgramRunTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kShards = 3;

  ProgramRunTest()
      : layout_(*wire::Layout::Build(
            {{.name = "first", .shape = {1000}}, {.name = "last", .shape = {8000}}},
            {.shard_count = kShards, .bucket_bytes = 4000})),
        ops_({{{ParamId{0}}}, {{ParamId{1}}}}),
        inputs_{&layout_, &ops_} {}

  ProgramRun RunOf(Program program) const {
    return ProgramRun(std::make_shared<const Program>(std::move(program)), 7,
                      {.step = 5, .shard = 5}, kShards);
  }
  ProgramRun Step() const { return RunOf(BuildStep(inputs_, PlanSingleNode({0, 2}, {}))); }

  // Takes all that may go.
  static std::vector<uint32_t> TakeAll(ProgramRun* run) {
    std::vector<uint32_t> taken;
    while (const std::optional<uint32_t> next = run->Next()) taken.push_back(*next);
    return taken;
  }

  wire::Layout layout_;
  std::vector<OpOutline> ops_;
  ProgramInputs inputs_;
};

// What is satisfied when is drawn. The device marks what it hands over with the instruction.
TEST_F(ProgramRunTest, EachPushHasWhatWasHandedOverForItAndEachClockTheirNumber) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    ProgramRun run = Step();
    std::vector<uint32_t> outstanding;
    std::vector<uint32_t> pushed(kShards);
    for (uint64_t draw = 0; !run.complete(); ++draw) {
      for (const uint32_t index : TakeAll(&run)) {
        const Instruction& instruction = run.instruction(index);
        if (IsOfDevice(instruction)) {
          if (!run.CommandFor(index).wants_event) run.Satisfy(index);
        } else if (const auto* push = As<SendPush>(instruction)) {
          const Message message = run.MessageFor(index);
          EXPECT_EQ(message.type, MessageType::kPush);
          EXPECT_EQ(wire::As<wire::Push>(message).samples, instruction.deps.front());
          EXPECT_EQ(wire::As<wire::Push>(message).bucket, push->bucket);
          ++pushed[Index(push->shard)];
          run.Satisfy(index);
        } else if (const auto* clock = As<SendClock>(instruction)) {
          const Message message = run.MessageFor(index);
          EXPECT_EQ(message.clock, 6);
          EXPECT_EQ(wire::As<wire::Completion>(message).pushes, pushed[Index(clock->shard)]);
          EXPECT_EQ(wire::As<wire::Completion>(message).pushes,
                    layout_.buckets(clock->shard).size());
          run.Satisfy(index);
        }
        if (!run.satisfied(index)) outstanding.push_back(index);
      }
      if (outstanding.empty()) continue;
      const uint64_t at = CounterRandom(seed, RandomUse::kTest, 0).Below(draw, outstanding.size());
      const uint32_t index = outstanding[at];
      outstanding.erase(outstanding.begin() + static_cast<ptrdiff_t>(at));
      if (const auto* pull = As<SendPull>(run.instruction(index))) {
        run.Answer(pull->shard);
      } else {
        run.OnEvent({.run = run.id(), .instruction = index, .samples = index});
      }
    }
  }
}

TEST_F(ProgramRunTest, APushIsMadeOnce) {
  ProgramRun run = RunOf(BuildDeltaPush(inputs_, {0, 1}));
  for (const uint32_t index : TakeAll(&run)) {
    if (run.CommandFor(index).wants_event) run.OnEvent({.run = run.id(), .instruction = index});
  }
  const uint32_t push = run.Next().value();
  EXPECT_EQ(run.MessageFor(push).type, MessageType::kPush);
  EXPECT_DEATH(run.MessageFor(push), "has not handed over");
}

TEST_F(ProgramRunTest, APullIsOutstandingFromItsSendingToItsAnswer) {
  ProgramRun run = Step();
  EXPECT_FALSE(run.IsOutstanding(ShardId{1}));
  EXPECT_EQ(TakeAll(&run).size(), kShards);
  EXPECT_TRUE(run.IsOutstanding(ShardId{1}));
  EXPECT_FALSE(run.IsAnswered(ShardId{1}));
  run.Answer(ShardId{1});
  EXPECT_FALSE(run.IsOutstanding(ShardId{1}));
  EXPECT_TRUE(run.IsAnswered(ShardId{1}));
}

TEST_F(ProgramRunTest, ARunWithoutPullsAwaitsNoAnswer) {
  ProgramRun run = RunOf(BuildLocalStep(inputs_, PlanSingleNode({0, 2}, {})));
  TakeAll(&run);
  EXPECT_FALSE(run.IsOutstanding(ShardId{0}));
  EXPECT_FALSE(run.IsAnswered(ShardId{0}));
}

TEST_F(ProgramRunTest, AfterFastForwardFormerAnswersDoNotCount) {
  ProgramRun run = Step();
  const std::vector<uint32_t> pulls = TakeAll(&run);
  run.Answer(ShardId{0});
  run.Answer(ShardId{2});
  EXPECT_THAT(run.FastForward(9), ElementsAre(ShardId{0}, ShardId{2}));
  EXPECT_TRUE(run.fast_forwarded());
  EXPECT_EQ(run.clock(), 9);
  EXPECT_EQ(run.MessageFor(pulls[0]).clock, 9);
  for (uint32_t k = 0; k < kShards; ++k) {
    EXPECT_TRUE(run.IsOutstanding(ShardId{k}));
    EXPECT_TRUE(TakeAll(&run).empty());  // nothing is loaded before all have answered
    run.Answer(ShardId{k});
  }
  EXPECT_FALSE(TakeAll(&run).empty());
}

TEST_F(ProgramRunTest, AfterRewindTheDeviceBeginsAnewUnderAnotherId) {
  ProgramRun run = Step();
  TakeAll(&run);
  for (uint32_t k = 0; k < kShards; ++k) run.Answer(ShardId{k});
  const std::vector<uint32_t> before = TakeAll(&run);
  EXPECT_EQ(run.CommandFor(before[0]).run, 7u);
  run.Rewind(8);
  EXPECT_EQ(TakeAll(&run), before);
  EXPECT_EQ(run.CommandFor(before[0]).run, 8u);
}

TEST_F(ProgramRunTest, EachShardIsAskedForItsKeys) {
  const wire::Layout layout =
      *wire::Layout::Build({}, {.shard_count = kShards, .tables = {{.name = "a"}, {.name = "b"}}});
  const std::vector<OpOutline> ops(1);
  inputs_ = {.layout = &layout, .ops = &ops};
  ProgramRun run = RunOf(BuildStep(
      inputs_, {{.node = {0, 2}, .parts = {{0, 1}, {1, 2}}}, {.node = {2, 3}, .parts = {{2, 3}}}}));
  const std::vector<uint32_t> keys = TakeAll(&run);
  EXPECT_THAT(keys, ElementsAre(0, 1, 2));
  const auto of = [&](uint32_t index) { return std::get<FindKeys>(run.CommandFor(index).what); };
  EXPECT_EQ(of(0), (FindKeys{.part = {0, 1}, .first = true}));
  EXPECT_EQ(of(1), (FindKeys{.part = {1, 2}}));
  EXPECT_EQ(of(2), (FindKeys{.part = {2, 3}, .last = true}));
  Buffers frames;
  for (const char* text : {"0a", "0b", "1a", "1b", "2a", "2b"}) {
    frames.push_back(Buffer::CopyOf(text));
  }
  for (const uint32_t index : keys) {
    run.OnEvent({.run = 7, .instruction = index, .frames = index == 2 ? frames : Buffers()});
  }
  for (const uint32_t index : TakeAll(&run)) {
    const uint32_t shard = Index(As<SendPull>(run.instruction(index))->shard);
    EXPECT_EQ(run.MessageFor(index).payload, (Buffers{frames[2 * shard], frames[2 * shard + 1]}));
  }
}

TEST_F(ProgramRunTest, OnlyAForwardPassBeforeALoadIsHeardOf) {
  const wire::Layout layout = *wire::Layout::Build(
      {{.name = "first", .shape = {32, 1}}, {.name = "last", .shape = {32, 1}}},
      {.shard_count = 2, .transfer_stages = 2});
  inputs_.layout = &layout;
  inputs_.by_transfer_stages = inputs_.asks_early = true;
  const ProgramRun run = RunOf(BuildStep(inputs_, PlanSingleNode({0, 1}, {})));
  std::vector<bool> heard;
  for (uint32_t i = 0; i < run.program().instructions.size(); ++i) {
    if (As<RunForward>(run.instruction(i))) heard.push_back(run.CommandFor(i).wants_event);
  }
  EXPECT_THAT(heard, ElementsAre(true, false));
}

TEST_F(ProgramRunTest, ACopyGoesOnByItself) {
  ProgramRun run = Step();
  TakeAll(&run);
  ProgramRun copy = run;
  EXPECT_EQ(FingerprintOf(copy), FingerprintOf(run));
  copy.Answer(ShardId{0});
  EXPECT_TRUE(run.IsOutstanding(ShardId{0}));
  EXPECT_NE(FingerprintOf(copy), FingerprintOf(run));
}

}  // namespace
}  // namespace soapstone::worker
