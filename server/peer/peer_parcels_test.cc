// What a peer takes of another's parcels: as many frames as that likes to send, in their order, and
// none that lie about their sizes.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "consistency/policy.h"
#include "server/peer/peer.h"

namespace soapstone::server {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

constexpr uint64_t kVectorElements = 8;

// Two peers of one round of all-reduce. What peer 0 sends to peer 1 goes through `on_the_way`.
class PeerParcelsTest : public ::testing::Test {
 protected:
  PeerParcelsTest()
      : layout_(std::make_shared<const wire::Layout>(*wire::Layout::Build(
            {{.name = "x", .shape = {static_cast<int64_t>(kVectorElements)}}}, {}))) {
    for (uint32_t w = 0; w < 2; ++w) {
      peers_[w].emplace(PeerOptions{.id = WorkerId{w},
                                    .worker_layout = layout_,
                                    .shard_layout = layout_,
                                    .policy = *consistency::ParsePolicy("allreduce"),
                                    .total_clocks = 1},
                        MakeDoubleVectors(std::vector<double>(kVectorElements), AddSum));
    }
  }

  static void AddSum(Clock, uint64_t, absl::Span<const double> sum, absl::Span<double> values) {
    for (size_t e = 0; e < sum.size(); ++e) values[e] += sum[e];
  }

  void RunARound() {
    for (uint32_t w = 0; w < 2; ++w) {
      Give(w, Roster());
      Give(w, FromWorker(w, MessageType::kPull, 0, wire::Pull{}));
      Message push = FromWorker(w, MessageType::kPush, 0, wire::Push{.samples = 1});
      push.payload = {Doubles([w](uint64_t e) { return e + 100.0 * w; })};
      Give(w, std::move(push));
      Give(w, FromWorker(w, MessageType::kClock, 1, wire::Completion{}));
    }
    for (uint32_t w = 0; w < 2; ++w) Give(w, FromWorker(w, MessageType::kPull, 1, wire::Pull{}));
  }

  static Buffer Doubles(const std::function<double(uint64_t)>& of) {
    std::vector<double> values;
    for (uint64_t e = 0; e < kVectorElements; ++e) values.push_back(of(e));
    return Buffer::CopyOf(absl::MakeConstSpan(values));
  }

  std::vector<double> ValuesOf(uint32_t w) {
    const Buffer flat = peers_[w]->vectors()->Values();
    const auto* from = reinterpret_cast<const double*>(flat.data());
    return {from, from + kVectorElements};
  }

  std::function<void(Message*)> on_the_way_ = [](Message*) {};
  std::array<std::optional<Peer>, 2> peers_;
  const std::vector<double> sum_ = {100, 102, 104, 106, 108, 110, 112, 114};

 private:
  static Message Roster() {
    Message message;
    message.type = MessageType::kRoster;
    message.from = Address::Scheduler();
    message.epoch = 1;
    wire::Roster roster = {.worker_count = 2};
    for (uint32_t w = 0; w < 2; ++w) {
      roster.workers.push_back({.worker = WorkerId{w}, .admitted = 1, .original = true});
    }
    message.body = roster;
    return message;
  }

  static Message FromWorker(uint32_t w, MessageType type, Clock clock, wire::Body body) {
    Message message;
    message.type = type;
    message.from = Address::Of(WorkerId{w});
    message.epoch = 1;
    message.worker = WorkerId{w};
    message.clock = clock;
    message.body = std::move(body);
    return message;
  }

  // And what follows from it, in the order in which it is sent.
  void Give(uint32_t to, Message message) {
    std::deque<std::pair<uint32_t, Message>> under_way;
    under_way.emplace_back(to, std::move(message));
    while (!under_way.empty()) {
      auto [w, next] = std::move(under_way.front());
      under_way.pop_front();
      wire::Outbox out;
      peers_[w]->OnMessage(0, std::move(next), &out);
      for (Message& sent : out.messages) {
        if (sent.to.role != wire::Role::kPeer) continue;
        if (w == 0 && !sent.payload.empty()) on_the_way_(&sent);
        const uint32_t index = sent.to.index;
        under_way.emplace_back(index, std::move(sent));
      }
    }
  }

  std::shared_ptr<const wire::Layout> layout_;
};

TEST_F(PeerParcelsTest, FramesLieInTheirOrder) {
  uint64_t cut = 0;
  on_the_way_ = [&cut](Message* parcel) {
    const Buffer whole = parcel->payload.front();
    if (parcel->payload.size() != 1 || whole.size() < 2 * sizeof(double)) return;
    ++cut;
    parcel->payload = {whole.Slice(0, sizeof(double)),
                       whole.Slice(sizeof(double), whole.size() - sizeof(double))};
  };
  RunARound();
  EXPECT_GT(cut, 0u);
  EXPECT_EQ(ValuesOf(0), sum_);
  EXPECT_EQ(ValuesOf(1), sum_);
  EXPECT_EQ(peers_[1]->stats().rejects, 0u);
}

struct Lie {
  std::string name;
  std::function<void(Message*)> tell;
};

class LyingPeerTest : public PeerParcelsTest, public ::testing::WithParamInterface<Lie> {};

// It is counted, and nothing of it is taken: this peer has its own gradient alone, and waits.
TEST_P(LyingPeerTest, NothingIsTaken) {
  uint64_t told = 0;
  on_the_way_ = [&told](Message* parcel) {
    ++told;
    GetParam().tell(parcel);
  };
  RunARound();
  EXPECT_GT(told, 0u);
  EXPECT_EQ(peers_[1]->stats().rejects, told);
  EXPECT_EQ(ValuesOf(1), std::vector<double>(kVectorElements));
}

// Views of one buffer that is large enough for every lie.
Buffer Bytes(size_t begin, size_t size) {
  static const Buffer all = Buffer::CopyOf(std::string(16 * kVectorElements * sizeof(double), 'x'));
  return all.Slice(begin, size);
}

INSTANTIATE_TEST_SUITE_P(
    Lies, LyingPeerTest,
    ::testing::Values(
        Lie{"NoFrame", [](Message* m) { m->payload.clear(); }},
        Lie{"AnElementLess",
            [](Message* m) { m->payload = {Bytes(0, m->payload_bytes() - sizeof(double))}; }},
        Lie{"AnElementMore", [](Message* m) { m->payload.push_back(Bytes(0, sizeof(double))); }},
        Lie{"HalvesOfElements",
            [](Message* m) {
              const size_t bytes = m->payload_bytes();
              m->payload = {Bytes(0, 4), Bytes(8, bytes - 4)};
            }},
        Lie{"Misaligned", [](Message* m) { m->payload = {Bytes(1, m->payload_bytes())}; }},
        Lie{"BeyondTheModel",
            [](Message* m) {
              auto& parcel = std::get<wire::Parcel>(m->body);
              const uint64_t elements = parcel.end - parcel.begin;
              parcel.begin = kVectorElements - elements + 1;
              parcel.end = kVectorElements + 1;
            }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace soapstone::server
