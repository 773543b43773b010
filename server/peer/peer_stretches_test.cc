// Peers of an all-reduce whose model has several stretches: buckets and parcels come in any order
// that channels allow, and every element is summed once.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "consistency/policy.h"
#include "server/peer/peer.h"

namespace soapstone::server {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

struct GroupOptions {
  std::string policy = "allreduce";
  uint32_t peers = 2;
  uint64_t stretch_elements = 1;
  uint64_t seed = 1;
};

class PeerGroup {
 public:
  static constexpr Clock kClocks = 2;
  static constexpr uint64_t kFirst = 1500, kSecond = 700;  // elements: two slices, and one

  explicit PeerGroup(const GroupOptions& options)
      : random_(options.seed, RandomUse::kPartner),
        layout_(std::make_shared<const wire::Layout>(
            *wire::Layout::Build({{.name = "x", .shape = {static_cast<int64_t>(kFirst)}},
                                  {.name = "y", .shape = {static_cast<int64_t>(kSecond)}}},
                                 {.bucket_bytes = 1}))) {
    for (uint32_t w = 0; w < options.peers; ++w) {
      peers_.emplace_back(PeerOptions{.id = WorkerId{w},
                                      .worker_layout = layout_,
                                      .shard_layout = layout_,
                                      .policy = *consistency::ParsePolicy(options.policy),
                                      .total_clocks = kClocks,
                                      .stretch_elements = options.stretch_elements},
                          MakeDoubleVectors(std::vector<double>(kFirst + kSecond), AddSum));
    }
    for (uint32_t w = 0; w < options.peers; ++w) Give(w, Roster());
  }

  // To the end of the run, in an order that the seed draws.
  void Run() {
    std::vector<uint32_t> pushed(peers_.size());  // messages of its worker
    const auto buckets = static_cast<uint32_t>(layout_->buckets(ShardId{0}).size());
    const uint32_t a_clock = buckets + 2;  // with the pull before, and the clock
    while (true) {
      std::vector<std::pair<uint32_t, uint32_t>> may;  // from, to; from itself: its worker
      for (const auto& [ends, messages] : channels_) {
        if (!messages.empty()) may.push_back(ends);
      }
      for (uint32_t w = 0; w < peers_.size(); ++w) {
        const bool pulls = pushed[w] % a_clock == 0;
        if (pushed[w] < kClocks * a_clock && (pulls || answered_[w] * a_clock > pushed[w])) {
          may.emplace_back(w, w);
        }
      }
      if (may.empty()) return;
      const auto [from, to] = may[random_.Below(draws_++, may.size())];
      if (from == to) {
        const uint32_t k = pushed[to]++;
        GiveFromWorker(to, static_cast<Clock>(k / a_clock), k % a_clock, buckets);
        continue;
      }
      Message next = std::move(channels_[{from, to}].front());
      channels_[{from, to}].pop_front();
      Give(to, std::move(next));
    }
  }

  std::vector<double> ValuesOf(uint32_t w) {
    const Buffer flat = peers_[w].vectors()->Values();
    const auto* from = reinterpret_cast<const double*>(flat.data());
    return {from, from + kFirst + kSecond};
  }
  const Peer& peer(uint32_t w) const { return peers_[w]; }

  // Of one worker and clock: each its own power of four, times what tells elements apart.
  static double GradientOf(uint32_t w, Clock clock, uint64_t e) {
    return static_cast<double>(uint64_t{1} << (2 * (w * kClocks + clock))) *
           static_cast<double>(1 + e % 7);
  }

 private:
  static void AddSum(Clock, uint64_t, absl::Span<const double> sum, absl::Span<double> values) {
    for (size_t e = 0; e < sum.size(); ++e) values[e] += sum[e];
  }

  Message Roster() const {
    Message message = {.type = MessageType::kRoster, .from = Address::Scheduler()};
    message.epoch = 1;
    wire::Roster roster = {.worker_count = static_cast<uint32_t>(peers_.size())};
    for (uint32_t w = 0; w < peers_.size(); ++w) {
      roster.workers.push_back({.worker = WorkerId{w}, .admitted = 1, .original = true});
    }
    message.body = roster;
    return message;
  }

  // The k-th message of a clock: the pull, the buckets, the clock.
  void GiveFromWorker(uint32_t w, Clock clock, uint32_t k, uint32_t buckets) {
    Message message = {.from = Address::Of(WorkerId{w})};
    message.epoch = 1;
    message.worker = WorkerId{w};
    message.clock = clock;
    if (k == 0) {
      message.type = MessageType::kPull;
      message.body = wire::Pull{};
    } else if (k <= buckets) {
      message.type = MessageType::kPush;
      message.body = wire::Push{.bucket = BucketId{k - 1}, .samples = 3};
      for (const wire::Slice& slice : layout_->buckets(ShardId{0})[k - 1].slices) {
        std::vector<double> gradient;
        const uint64_t first = slice.begin + (slice.param == ParamId{0} ? 0 : kFirst);
        for (uint64_t e = 0; e < slice.elements(); ++e) {
          gradient.push_back(GradientOf(w, clock, first + e));
        }
        message.payload.push_back(Buffer::CopyOf(absl::MakeConstSpan(gradient)));
      }
    } else {
      message.type = MessageType::kClock;
      message.clock = clock + 1;
      message.body = wire::Completion{};
    }
    Give(w, std::move(message));
  }

  void Give(uint32_t to, Message message) {
    wire::Outbox out;
    peers_[to].OnMessage(0, std::move(message), &out);
    for (Message& sent : out.messages) {
      if (sent.to.role == wire::Role::kWorker) ++answered_[to];
      if (sent.to.role != wire::Role::kPeer) continue;
      const uint32_t index = sent.to.index;
      channels_[{to, index}].push_back(std::move(sent));
    }
  }

  CounterRandom random_;
  uint64_t draws_ = 0;
  std::shared_ptr<const wire::Layout> layout_;
  std::vector<Peer> peers_;
  std::map<uint32_t, uint32_t> answered_;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> channels_;
};

TEST(PeerStretchesTest, EveryElementIsSummedOnce) {
  for (const char* policy : {"allreduce", "allreduce:group=2", "eager:mode=solo,seed=1"}) {
    for (uint32_t peers = 1; peers <= 5; ++peers) {
      for (const uint64_t stretch : {1u, 100u, 333u, 1100u, 2200u, 5000u}) {
        PeerGroup group({policy, peers, stretch, /*seed=*/peers * 10 + stretch});
        group.Run();
        for (uint32_t w = 0; w < peers; ++w) {
          const std::vector<double> values = group.ValuesOf(w);
          for (uint64_t e = 0; e < values.size(); ++e) {
            double due = 0;
            for (uint32_t from = 0; from < peers; ++from) {
              for (Clock clock = 0; clock < PeerGroup::kClocks; ++clock) {
                due += PeerGroup::GradientOf(from, clock, e);
              }
            }
            ASSERT_EQ(values[e], due) << policy << ", " << peers << " peers, stretches of "
                                      << stretch << ": element " << e << " of peer " << w;
          }
          EXPECT_EQ(group.peer(w).held_messages(), 0u);
          EXPECT_EQ(group.peer(w).stats().rejects, 0u);
        }
      }
    }
  }
}

// What an all-reduce gains by stretches: the last layers' sums leave before the first gradients are
// computed.
TEST(PeerStretchesTest, AStretchLeavesBeforeTheGradientIsComplete) {
  const auto layout = std::make_shared<const wire::Layout>(*wire::Layout::Build(
      {{.name = "x", .shape = {2}}, {.name = "y", .shape = {2}}}, {.bucket_bytes = 1}));
  for (const char* policy : {"allreduce", "eager:mode=solo"}) {
    Peer peer({.id = WorkerId{0},
               .worker_layout = layout,
               .shard_layout = layout,
               .policy = *consistency::ParsePolicy(policy),
               .total_clocks = 1,
               .stretch_elements = 2},
              nullptr);
    const auto give = [&](Message message) {
      wire::Outbox out;
      message.epoch = 1;
      peer.OnMessage(0, std::move(message), &out);
      return out.messages;
    };
    wire::Roster roster = {.worker_count = 2};
    for (uint32_t w = 0; w < 2; ++w) {
      roster.workers.push_back({.worker = WorkerId{w}, .admitted = 1, .original = true});
    }
    give({.type = MessageType::kRoster, .from = Address::Scheduler(), .body = roster});
    give({.type = MessageType::kStanding,
          .from = Address::PeerOf(WorkerId{1}),
          .clock = 0,
          .body = wire::Parcel{.sequence = 1, .step = 1, .has_values = true}});
    give({.type = MessageType::kPull,
          .from = Address::Of(WorkerId{0}),
          .clock = 0,
          .body = wire::Pull{}});
    const std::vector<Message> sent =
        give({.type = MessageType::kPush,
              .from = Address::Of(WorkerId{0}),
              .body = wire::Push{.bucket = BucketId{0}, .samples = 1}});
    if (policy != std::string("allreduce")) {
      EXPECT_TRUE(sent.empty());
      continue;
    }
    ASSERT_EQ(sent.size(), 1u);
    const auto& parcel = wire::As<wire::Parcel>(sent[0]);
    EXPECT_GE(parcel.begin, 2u);  // of the last parameter
    EXPECT_EQ(parcel.step, 2u);   // of the second stretch, whose hops are two
  }
}

}  // namespace
}  // namespace soapstone::server
