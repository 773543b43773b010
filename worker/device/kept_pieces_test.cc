#include "worker/device/kept_pieces.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::worker {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Two pieces of two elements, on two shards.
class KeptPiecesTest : public ::testing::Test {
 protected:
  KeptPieces Make(const char* optimizer = "sgd:lr=1", double momentum = 0,
                  bool keeps_start = false) {
    return {layout_,
            {.optimizer = *compute::ParseOptimizer(optimizer),
             .momentum = momentum,
             .schedule = *compute::ParseSchedule("constant"),
             .keeps_start = keeps_start},
            100};
  }
  // The same value everywhere, as shards send it.
  std::vector<Buffers> All(float value) const {
    std::vector<Buffers> frames(2);
    for (uint32_t k = 0; k < 2; ++k) {
      for (const wire::Slice& slice : layout_->slices(ShardId{k})) {
        frames[k].push_back(Buffer::CopyOf<float>(std::vector<float>(slice.elements(), value)));
      }
    }
    return frames;
  }
  std::optional<uint32_t> Step(KeptPieces* kept, float gradient, uint64_t samples = 1) {
    const std::vector<float> g(2, gradient);
    return kept->Step(0, samples, {g, g});
  }
  float Handed(const KeptPieces& kept) const {
    const Buffers frames = kept.HandOver(ShardId{1}, BucketId{0});
    EXPECT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].floats()[0], frames[0].floats()[1]);
    return frames[0].floats()[0];
  }

  const std::shared_ptr<const wire::Layout> layout_ =
      std::make_shared<const wire::Layout>(*wire::Layout::BuildOfPieces(
          {{.name = "a", .shape = {2}}, {.name = "b", .shape = {2}}},
          {.sets = 2, .set_of = {0, 1}, .servers = {{}, {}}}, {.shard_count = 2}));
};

TEST_F(KeptPiecesTest, StepsWithTheMeanGradient) {
  KeptPieces kept = Make();
  kept.Load({.frames = All(10)});
  EXPECT_EQ(Step(&kept, 6, /*samples=*/3), std::nullopt);
  EXPECT_THAT(kept.values(0), Each(8));
  EXPECT_THAT(kept.values(1), Each(8));
}

// What the centre gains is what the worker loses.
TEST_F(KeptPiecesTest, MovesByWhatItHandsOver) {
  KeptPieces kept = Make();
  kept.Load({.frames = All(10)});
  Step(&kept, 2);
  Step(&kept, 2);
  kept.Move({.frames = All(2), .alpha = 0.25});
  EXPECT_EQ(Handed(kept), 1);
  EXPECT_THAT(kept.values(1), Each(5));
  EXPECT_EQ(kept.samples(), 2u);
  // What is on its way is not written again.
  const Buffers sent = kept.HandOver(ShardId{0}, BucketId{0});
  Step(&kept, 1);
  kept.Move({.frames = All(0), .alpha = 0.5});
  EXPECT_EQ(Handed(kept), 2);
  EXPECT_THAT(sent[0].floats(), Each(1));
  EXPECT_EQ(kept.samples(), 1u);
}

TEST_F(KeptPiecesTest, HandsOverHowFarARoundLed) {
  KeptPieces kept = Make("sgd:lr=1", 0, /*keeps_start=*/true);
  kept.Load({.frames = All(10), .starts_round = true});
  Step(&kept, 2, 1);
  Step(&kept, 6, 2);
  kept.TakeDelta();
  EXPECT_EQ(Handed(kept), -5);
  EXPECT_EQ(kept.samples(), 3u);
  kept.Load({.frames = All(20), .starts_round = true});
  Step(&kept, 1);
  kept.TakeDelta();
  EXPECT_EQ(Handed(kept), -1);
  EXPECT_EQ(kept.samples(), 1u);
}

// v <- mu v + g, forgotten where an exchange says so.
TEST_F(KeptPiecesTest, KeepsItsMomentumUntilItIsToForgetIt) {
  KeptPieces kept = Make("momentum:lr=1,mu=0.5");
  for (const bool fresh : {false, true}) {
    kept.Load({.frames = All(0)});
    Step(&kept, 1);
    kept.Load({.frames = All(0), .fresh_momentum = fresh});
    Step(&kept, 1);
    EXPECT_THAT(kept.values(0), Each(fresh ? -1.0F : -1.5F));
    kept.Load({.frames = All(0), .fresh_momentum = true});
  }
}

// v <- mu v + g, x <- x - lr (g + mu v), whatever the job's optimizer.
TEST_F(KeptPiecesTest, LocalMomentumIsNesterovs) {
  KeptPieces kept = Make("sgd:lr=1", 0.5);
  kept.Load({.frames = All(0)});
  Step(&kept, 1);
  EXPECT_THAT(kept.values(0), Each(-1.5F));
}

TEST_F(KeptPiecesTest, SaysWhichPieceIsNotFinite) {
  KeptPieces kept = Make();
  kept.Load({.frames = All(0)});
  const std::vector<float> good(2, 1), bad(2, std::numeric_limits<float>::infinity());
  EXPECT_EQ(kept.Step(0, 1, {good, bad}), 1u);
  EXPECT_EQ(kept.Step(0, 1, {good, good}), 1u);  // it stays so
}

TEST_F(KeptPiecesTest, CountsWhatItKeeps) {
  constexpr uint64_t kBytes = 4 * sizeof(float);
  EXPECT_EQ(Make().memory_bytes(), 3 * kBytes);
  EXPECT_EQ(Make("adam:lr=1").memory_bytes(), 5 * kBytes);
  EXPECT_EQ(Make("sgd:lr=1", 0.5).memory_bytes(), 4 * kBytes);
  EXPECT_EQ(Make("sgd:lr=1", 0, true).memory_bytes(), 4 * kBytes);
}

}  // namespace
}  // namespace soapstone::worker
