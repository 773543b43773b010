// RouteTable: how to answer nodes that this one did not connect to. A route is learned from a
// node's messages, and the newest wins. Bounded: nothing a stranger sends makes it grow.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "absl/container/btree_map.h"
#include "wire/message.h"

namespace soapstone::transport {

struct RouteLimits {
  size_t routes_max = 100'000;    // all
  size_t temporary_max = 10'000;  // of nodes without a rank; beyond, the oldest is forgotten
};

// Route: what the transport needs to reach the node.
template <typename Route>
class RouteTable {
 public:
  explicit RouteTable(RouteLimits limits = {}) : limits_(limits) {}

  // False when the table is full; an address that is known can always be updated.
  bool Learn(wire::Address node, const Route& route) {
    if (auto it = routes_.find(node); it != routes_.end()) {
      it->second = route;
      return true;
    }
    if (node.IsTemporary()) {
      while (temporary_.size() >= limits_.temporary_max && !temporary_.empty()) {
        routes_.erase(temporary_.front());
        temporary_.pop_front();
      }
    }
    if (routes_.size() >= limits_.routes_max) return false;
    if (node.IsTemporary()) temporary_.push_back(node);
    routes_.emplace(node, route);
    return true;
  }

  // Null when unknown. Valid until the next Learn. A node that is gone keeps its route: it may
  // reconnect, and what it may take is bounded.
  const Route* Find(wire::Address node) const {
    const auto it = routes_.find(node);
    return it == routes_.end() ? nullptr : &it->second;
  }

  size_t size() const { return routes_.size(); }

 private:
  const RouteLimits limits_;
  absl::btree_map<wire::Address, Route> routes_;
  std::deque<wire::Address> temporary_;  // those in routes_, in the order learned
};

}  // namespace soapstone::transport
