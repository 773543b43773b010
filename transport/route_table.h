// RouteTable: how to answer nodes that this one did not connect to. A route is learned from a
// node's messages; the newest wins, unless it is of an older epoch: then it is from a former holder
// of the rank, which was suspended and does not know that it was replaced. Bounded: nothing a
// stranger sends makes it grow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "wire/message.h"

namespace soapstone::transport {

struct RouteLimits {
  size_t routes_max = 100'000;    // all
  size_t temporary_max = 10'000;  // of nodes without a rank; beyond, the oldest is forgotten
};

template <typename Route>
bool IsSameRoute(const Route& a, const Route& b) {
  return a == b;
}
template <typename T>
bool IsSameRoute(const std::weak_ptr<T>& a, const std::weak_ptr<T>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

// Route: what the transport needs to reach the node.
template <typename Route>
class RouteTable {
 public:
  explicit RouteTable(RouteLimits limits = {}) : limits_(limits) {}

  // False when the table is full, or the route is older than the one known.
  bool Learn(wire::Address node, const Route& route, Epoch epoch = 0) {
    if (auto it = routes_.find(node); it != routes_.end()) {
      Known& known = it->second;
      if (!IsSameRoute(known.route, route) && epoch < known.epoch) return false;
      known = {route, std::max(epoch, known.epoch)};
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
    routes_.emplace(node, Known{route, epoch});
    return true;
  }

  // The rank of `node` is another process's now.
  void Forget(wire::Address node) { routes_.erase(node); }

  // Null when unknown. Valid until the next Learn. A node that is gone keeps its route: it may
  // reconnect, and what it may take is bounded.
  const Route* Find(wire::Address node) const {
    const auto it = routes_.find(node);
    return it == routes_.end() ? nullptr : &it->second.route;
  }

  // Who is answered by a route that `is` says it of, and the greatest epoch heard of that node;
  // scans.
  template <typename Predicate>
  std::optional<std::pair<wire::Address, Epoch>> NodeWhere(const Predicate& is) const {
    for (const auto& [node, known] : routes_) {
      if (is(known.route)) return std::pair(node, known.epoch);
    }
    return std::nullopt;
  }

  size_t size() const { return routes_.size(); }

 private:
  struct Known {
    Route route;
    Epoch epoch = 0;  // the greatest heard on it
  };

  const RouteLimits limits_;
  absl::btree_map<wire::Address, Known> routes_;
  std::deque<wire::Address> temporary_;  // those in routes_, in the order learned
};

}  // namespace soapstone::transport
