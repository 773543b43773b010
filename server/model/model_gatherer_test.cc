#include "server/model/model_gatherer.h"

#include <deque>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

using ::testing::HasSubstr;
using wire::Message;

// Shards whose element e of the model's parameter p is 1000 p + e.
class Shards {
 public:
  explicit Shards(std::shared_ptr<const wire::Layout> layout) : layout_(std::move(layout)) {}

  Message Answer(const Message& asked) const {
    Message answer;
    answer.type = wire::MessageType::kSlices;
    answer.from = asked.to;
    const BucketId bucket = wire::As<wire::Save>(asked).bucket;
    answer.body = wire::Slices{.bucket = bucket};
    for (const wire::Slice& slice :
         layout_->buckets(ShardId{asked.to.index})[Index(bucket)].slices) {
      const PieceRuns runs(layout_->params()[Index(slice.param)]);
      const uint32_t whole = WholeOf(layout_->params(), Index(slice.param));
      std::vector<float> values;
      for (uint64_t e = slice.begin; e < slice.end; ++e) {
        values.push_back(static_cast<float>(1000 * whole + runs.RunAt(e).at));
      }
      answer.payload.push_back(Buffer::CopyOf<float>(values));
    }
    return answer;
  }

 private:
  std::shared_ptr<const wire::Layout> layout_;
};

std::shared_ptr<const wire::Layout> LayoutOf(uint32_t shards, uint64_t bucket_bytes) {
  return std::make_shared<const wire::Layout>(
      *wire::Layout::Build({{.name = "a", .shape = {200, 40}},
                            {.name = "b", .shape = {7}},
                            {.name = "c", .shape = {50, 100}},
                            {.name = "d", .shape = {3000}}},
                           {.shard_count = shards, .bucket_bytes = bucket_bytes}));
}

// The same tensors in pieces that two sets of workers hold.
std::shared_ptr<const wire::Layout> LayoutOfPieces(uint32_t servers, uint64_t bucket_bytes) {
  const auto piece = [](uint32_t param, const char* name, std::vector<int64_t> shape,
                        std::vector<int64_t> begin, std::vector<int64_t> of) {
    ParamSpec spec = {.name = name, .shape = std::move(of)};
    spec.piece = {
        .param = param, .name = name, .shape = std::move(shape), .begin = std::move(begin)};
    return spec;
  };
  std::vector<ParamSpec> pieces = {piece(0, "a", {200, 40}, {0, 0}, {80, 25}),
                                   piece(0, "a", {200, 40}, {0, 25}, {80, 15}),
                                   piece(0, "a", {200, 40}, {80, 0}, {120, 25}),
                                   piece(0, "a", {200, 40}, {80, 25}, {120, 15}),
                                   piece(1, "b", {7}, {0}, {7}),
                                   piece(2, "c", {50, 100}, {0, 0}, {50, 1}),
                                   piece(2, "c", {50, 100}, {0, 1}, {50, 99}),
                                   piece(3, "d", {3000}, {0}, {1000}),
                                   piece(3, "d", {3000}, {1000}, {2000})};
  const wire::PieceHolders holders = {.sets = 2, .set_of = {0, 1, 1, 0, 0, 1, 0, 0, 1}};
  return std::make_shared<const wire::Layout>(*wire::Layout::BuildOfPieces(
      std::move(pieces), holders, {.shard_count = 2 * servers, .bucket_bytes = bucket_bytes}));
}

uint64_t BytesOf(const Message& message) { return message.payload_bytes(); }

// Answers come first to last, or last to first of those that are out; each part is let go of a
// while after it was taken. Returns the model, and in `most` the greatest number of bytes that were
// asked for and not let go of.
std::vector<float> Gather(const std::shared_ptr<const wire::Layout>& layout, uint64_t window,
                          bool last_first, uint64_t* most) {
  const Shards shards(layout);
  ModelGatherer gatherer(layout, window);
  wire::Outbox out;
  gatherer.Start(&out);
  std::deque<Message> asked;
  std::deque<uint64_t> held;
  std::vector<float> model;
  uint64_t bytes_out = 0;
  const auto note = [&] {
    for (const Message& request : out.messages) {
      asked.push_back(request);
      bytes_out += BytesOf(shards.Answer(request));
    }
    out.messages.clear();
    *most = std::max(*most, bytes_out);
  };
  note();
  while (!gatherer.all_taken() || !held.empty()) {
    if (!asked.empty()) {
      const Message request = last_first ? asked.back() : asked.front();
      last_first ? asked.pop_back() : asked.pop_front();
      const absl::Status taken = gatherer.OnSlices(shards.Answer(request), &out);
      EXPECT_TRUE(taken.ok()) << taken;
    }
    while (const std::optional<Buffer> values = gatherer.TakeNext()) {
      model.insert(model.end(), values->floats().begin(), values->floats().end());
      held.push_back(values->size());
    }
    EXPECT_TRUE(!asked.empty() || !held.empty()) << "nothing is asked for";
    if (asked.empty() && held.empty()) return model;
    if (!held.empty()) {
      gatherer.Release(held.front(), &out);
      bytes_out -= held.front();
      held.pop_front();
    }
    note();
  }
  return model;
}

TEST(ModelGathererTest, HandsOnTheModelInItsOrderWithinTheWindow) {
  std::vector<float> expected;
  const auto any = LayoutOf(1, 4096);
  for (uint32_t p = 0; p < any->params().size(); ++p) {
    for (uint64_t e = 0; e < any->params()[p].elements(); ++e) {
      expected.push_back(static_cast<float>(1000 * p + e));
    }
  }
  for (const uint32_t shards : {1u, 2u, 5u}) {
    for (const uint64_t bucket_bytes : {1u << 12, 1u << 14, 1u << 20}) {
      for (const uint64_t window : {1u, 1u << 14, 1u << 30}) {
        for (const bool last_first : {false, true}) {
          uint64_t most = 0;
          const auto layout = LayoutOf(shards, bucket_bytes);
          EXPECT_EQ(Gather(layout, window, last_first, &most), expected)
              << shards << " shards, buckets of " << bucket_bytes << ", window " << window;
          // Beside the window: what is next, and two buckets a shard that are used in part.
          EXPECT_LE(most, window + (2 * shards + 1) * (bucket_bytes + 4096));
        }
      }
    }
  }
}

TEST(ModelGathererTest, PutsPiecesTogether) {
  uint64_t most = 0;
  const std::vector<float> whole = Gather(LayoutOf(1, 4096), 1 << 20, false, &most);
  for (const uint32_t servers : {1u, 3u}) {
    for (const uint64_t bucket_bytes : {1u << 9, 1u << 14}) {
      for (const uint64_t window : {1u, 1u << 14, 1u << 30}) {
        for (const bool last_first : {false, true}) {
          const auto layout = LayoutOfPieces(servers, bucket_bytes);
          EXPECT_EQ(layout->elements(), whole.size());
          most = 0;
          EXPECT_EQ(Gather(layout, window, last_first, &most), whole)
              << servers << " servers, buckets of " << bucket_bytes << ", window " << window;
          EXPECT_LE(most, window + 8 * servers * (bucket_bytes + 4096));
        }
      }
    }
  }
}

TEST(ModelGathererTest, WhatWasNotAskedForOrDoesNotFitIsAnError) {
  const auto layout = LayoutOf(2, 4096);
  const Shards shards(layout);
  ModelGatherer gatherer(layout, 1);
  wire::Outbox out;
  gatherer.Start(&out);
  ASSERT_EQ(out.messages.size(), 1u);  // the window is one byte: what is next, and no more
  const Message right = shards.Answer(out.messages[0]);
  Message wrong = right;
  wrong.from.index = 9;
  EXPECT_THAT(std::string(gatherer.OnSlices(wrong, &out).message()), HasSubstr("not asked for"));
  wrong = right;
  wrong.body = wire::Slices{.bucket = BucketId{1000}};
  EXPECT_FALSE(gatherer.OnSlices(wrong, &out).ok());
  wrong = right;
  wrong.payload.pop_back();
  EXPECT_THAT(std::string(gatherer.OnSlices(wrong, &out).message()), HasSubstr("frames of"));
  wrong = right;
  wrong.payload[0] = wrong.payload[0].Slice(0, 4);
  EXPECT_THAT(std::string(gatherer.OnSlices(wrong, &out).message()), HasSubstr("has 4 bytes"));
  EXPECT_FALSE(gatherer.TakeNext().has_value());
  EXPECT_TRUE(gatherer.OnSlices(right, &out).ok());
  EXPECT_FALSE(gatherer.OnSlices(right, &out).ok());  // twice
  EXPECT_TRUE(gatherer.TakeNext().has_value());
}

}  // namespace
}  // namespace soapstone::server
