// Peers beside workers that have seats in teams: those of one seat exchange among themselves, for
// the pieces of parameters that the seat holds, and to the shards a team is a rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "consistency/policy.h"
#include "server/peer/peer.h"

namespace soapstone::server {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using wire::Address;
using wire::Message;
using wire::MessageType;

// Two teams of two; seat 1 holds shard 5 of the job, and here it is workers 1 and 3.
class PeerTeamTest : public ::testing::Test {
 protected:
  PeerTeamTest() {
    for (const uint32_t w : {1u, 3u}) {
      peers_.emplace(w, Peer(PeerOptions{.id = WorkerId{w},
                                         .worker_layout = layout_,
                                         .shard_layout = layout_,
                                         .policy = *consistency::ParsePolicy("allreduce"),
                                         .total_clocks = 1,
                                         .team = wire::TeamShape{.teams = 2, .seats = 2},
                                         .shards = {ShardId{5}}},
                             MakeDoubleVectors(std::vector<double>(4), AddSum)));
    }
    wire::Roster roster = {.worker_count = 4};
    for (uint32_t w = 0; w < 4; ++w) {
      roster.workers.push_back({.worker = WorkerId{w}, .admitted = 1, .original = true});
    }
    for (auto& [w, peer] : peers_) {
      Message message = {.type = MessageType::kRoster, .epoch = 1, .body = roster};
      message.from = Address::Scheduler();
      Give(w, std::move(message));
    }
  }
  static void AddSum(Clock, uint64_t, absl::Span<const double> sum, absl::Span<double> values) {
    for (size_t e = 0; e < sum.size(); ++e) values[e] += sum[e];
  }
  static Message From(Address from, MessageType type, Clock clock, wire::Body body) {
    Message message = {.type = type, .epoch = 1, .clock = clock, .body = std::move(body)};
    message.from = from;
    message.worker = WorkerId{from.index};
    return message;
  }
  // And what follows from it.
  void Give(uint32_t to, Message message) {
    std::deque<std::pair<uint32_t, Message>> under_way;
    under_way.emplace_back(to, std::move(message));
    while (!under_way.empty()) {
      auto [w, next] = std::move(under_way.front());
      under_way.pop_front();
      wire::Outbox out;
      peers_.at(w).OnMessage(0, std::move(next), &out);
      for (Message& sent : out.messages) {
        const uint32_t index = sent.to.index;
        if (sent.to.role == wire::Role::kPeer) {
          ASSERT_TRUE(peers_.contains(index)) << "a peer of another seat";
          under_way.emplace_back(index, std::move(sent));
        } else if (sent.to.role == wire::Role::kShard) {
          to_shards_.push_back(std::move(sent));
        } else {
          to_workers_.push_back(std::move(sent));
        }
      }
    }
  }
  void Run() {
    for (const uint32_t w : {1u, 3u}) {
      const Address self = Address::Of(WorkerId{w});
      Give(w, From(self, MessageType::kPull, 0, wire::Pull{}));
      Message push = From(self, MessageType::kPush, 0, wire::Push{.samples = 1});
      push.payload = {Buffer::CopyOf<double>(std::vector<double>(4, w))};
      Give(w, std::move(push));
      Give(w, From(self, MessageType::kClock, 1, wire::Completion{}));
      Give(w, From(self, MessageType::kPull, 1, wire::Pull{}));
    }
  }
  std::vector<double> ValuesOf(uint32_t w) const {
    const Buffer flat = peers_.at(w).vectors()->Values();
    const auto* from = reinterpret_cast<const double*>(flat.data());
    return {from, from + 4};
  }

  const std::shared_ptr<const wire::Layout> layout_ =
      std::make_shared<const wire::Layout>(wire::Layout::Whole({{.name = "x", .shape = {4}}}));
  std::map<uint32_t, Peer> peers_;
  std::vector<Message> to_shards_, to_workers_;
};

TEST_F(PeerTeamTest, ASeatsPeersAreARing) {
  Run();
  EXPECT_THAT(ValuesOf(1), Each(4));
  EXPECT_THAT(ValuesOf(3), Each(4));
}

TEST_F(PeerTeamTest, ATeamIsARankToTheShardsOfTheSeat) {
  Run();
  std::vector<uint32_t> ranks;
  for (const Message& message : to_shards_) {
    EXPECT_EQ(message.to, Address::Of(ShardId{5}));
    const auto* push = std::get_if<wire::Push>(&message.body);
    if (push == nullptr) continue;
    EXPECT_EQ(push->micro_batch_count, 2u);
    EXPECT_EQ(push->micro_batches.size(), 1u);
    EXPECT_EQ(push->micro_batches.begin, Index(message.worker) / 2);
    ranks.push_back(push->micro_batches.begin);
  }
  EXPECT_THAT(ranks, ::testing::UnorderedElementsAre(0, 1));
}

TEST_F(PeerTeamTest, TheRunsResultIsTheSeatsShards) {
  Run();
  to_shards_.clear();
  to_workers_.clear();
  Give(1, From(Address::Of(WorkerId{1}), MessageType::kPull, 1, wire::Pull{.final = true}));
  ASSERT_EQ(to_shards_.size(), 1u);
  EXPECT_EQ(to_shards_[0].to, Address::Of(ShardId{5}));
  const auto answer = [&](uint32_t shard, double value) {
    Message reply = From(Address::Of(ShardId{shard}), MessageType::kPullReply, 1,
                         wire::PullReply{.oldest = 1, .final = true});
    reply.payload = {Buffer::CopyOf<double>(std::vector<double>(4, value))};
    Give(1, std::move(reply));
  };
  answer(0, 3);  // another seat's
  EXPECT_TRUE(to_workers_.empty());
  answer(5, 9);
  ASSERT_EQ(to_workers_.size(), 1u);
  ASSERT_EQ(to_workers_[0].payload.size(), 1u);
  const auto* values = reinterpret_cast<const double*>(to_workers_[0].payload[0].data());
  EXPECT_THAT(std::vector<double>(values, values + 4), ElementsAre(9, 9, 9, 9));
}

TEST_F(PeerTeamTest, AParcelOfAnotherSeatIsNotTaken) {
  Message parcel = From(Address::PeerOf(WorkerId{0}), MessageType::kParcel, 0,
                        wire::Parcel{.sequence = 1, .end = 4});
  parcel.payload = {Buffer::CopyOf<double>(std::vector<double>(4, 1))};
  Give(1, std::move(parcel));
  EXPECT_EQ(peers_.at(1).stats().rejects, 1u);
}

}  // namespace
}  // namespace soapstone::server
