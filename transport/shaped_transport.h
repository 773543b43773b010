// ShapedTransport: another transport, whose links carry at most so many megabits a second. Makes a
// real worker's links as slow as a straggler model says (cluster/straggler.h), by the formula that
// the simulator's links have (sim/network_model.h): each peer node is a link of its own each way,
// which carries one message at a time, in order:
//     leaves = max(now, link free) + bytes / limit,    bytes = payload + 100
// A message that is sent is handed on, and one that is received is given out, when it leaves.
// Who calls: a worker's loop, in the place of the transport inside.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/steady_clock.h"
#include "transport/transport.h"

namespace soapstone::transport {

// Invariants
//  1. Messages of a link leave in the order they came, whatever the limit was then.
//  2. At most kHeldMax messages are held for a node, and as many altogether that came in: beyond,
//     Send is an error and nothing is taken from the transport inside.
// What is held for a node that has gone is dropped, as what waits in any queue.
class ShapedTransport : public Transport {
 public:
  static constexpr size_t kHeldMax = 10'000;

  // `node_of`: the node that an address is on. A shard's is its server.
  ShapedTransport(std::unique_ptr<Transport> inside,
                  std::function<wire::Address(wire::Address)> node_of)
      : inside_(std::move(inside)), node_of_(std::move(node_of)) {}

  // For what is sent or comes in from now on. 0: no limit.
  void SetLimit(double mbps) { limit_mbps_ = mbps; }

  absl::Status Connect(wire::Address peer, const std::string& endpoint) override {
    return inside_->Connect(peer, endpoint);
  }
  void SetSelf(wire::Address self) override { inside_->SetSelf(self); }
  void SetSession(uint64_t session) override { inside_->SetSession(session); }
  std::string process_key() const override { return inside_->process_key(); }
  void SetHolder(wire::Address node, const std::string& key) override {
    inside_->SetHolder(node, key);
  }
  absl::Status Send(wire::Address node, const wire::Message& message) override;
  std::optional<wire::Message> Receive(SteadyTime deadline) override;
  std::vector<LostNode> TakeLost() override { return inside_->TakeLost(); }
  std::vector<wire::Address> TakeEnded() override { return inside_->TakeEnded(); }
  void Wake() override { inside_->Wake(); }
  // What is held is handed on at once.
  void Close(absl::Duration linger) override;
  std::string endpoint() const override { return inside_->endpoint(); }
  TransportStats stats() const override { return inside_->stats(); }

 private:
  struct Held {
    SteadyTime leaves;
    wire::Message message;
  };
  struct Link {
    SteadyTime free = SteadyTime::InfinitePast();
    std::deque<Held> held;
    // When a message that comes now leaves.
    SteadyTime Admit(SteadyTime now, const wire::Message& message, double limit_mbps);
  };
  using Links = std::map<wire::Address, Link>;  // by node

  void SendDue(SteadyTime now);
  std::optional<wire::Message> TakeDue(SteadyTime now);
  // When the first message held leaves.
  SteadyTime NextDue() const;

  std::unique_ptr<Transport> inside_;
  std::function<wire::Address(wire::Address)> node_of_;
  double limit_mbps_ = 0;
  Links outward_, inward_;
  size_t inward_held_ = 0;
};

}  // namespace soapstone::transport
