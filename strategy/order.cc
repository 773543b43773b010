#include "strategy/order.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "strategy/regions.h"

namespace soapstone::planner {
namespace {

constexpr int64_t kForwardTime = 1;
constexpr int64_t kBackwardTime = 2;

// All tasks of a team and what each waits for.
class TaskNet {
 public:
  TaskNet(const OpGraph& graph, const Strategy& strategy) : graph_(graph), strategy_(strategy) {
    for (uint32_t op = 0; op < graph.ops.size(); ++op) {
      first_.push_back(static_cast<uint32_t>(tasks_.size()));
      const bool backward = HasBackward(graph, graph.ops[op]);
      const std::vector<uint32_t>& seats = strategy.ops[op].devices;
      for (uint32_t part = 0; part < seats.size(); ++part) {
        AddTask({.op = op, .part = part}, seats[part]);
        if (backward) AddTask({.op = op, .part = part, .backward = true}, seats[part]);
      }
      has_backward_.push_back(backward);
    }
    next_.resize(tasks_.size());
    waits_.resize(tasks_.size(), 0);
    for (uint32_t op = 0; op < graph.ops.size(); ++op) {
      for (uint32_t part = 0; has_backward_[op] && part < strategy.ops[op].devices.size(); ++part) {
        Join(IdOf({.op = op, .part = part}), IdOf({.op = op, .part = part, .backward = true}));
      }
    }
    for (const PlanEdge& edge : graph.edges) {
      for (const Meeting& met :
           MeetingsOf(graph, edge, strategy.ops[edge.from], strategy.ops[edge.to])) {
        const TaskRef from = {.op = edge.from, .part = met.producer};
        const TaskRef to = {.op = edge.to, .part = met.consumer};
        Join(IdOf(from), IdOf(to));
        if (!edge.gradient) continue;
        Join(IdOf({to.op, to.part, true}), IdOf({from.op, from.part, true}));
      }
    }
  }

  uint32_t IdOf(const TaskRef& task) const {
    const uint32_t halves = has_backward_[task.op] ? 2 : 1;
    return first_[task.op] + task.part * halves + (task.backward ? 1 : 0);
  }
  // Whether the operator's part has such a task.
  bool Has(const TaskRef& task) const {
    if (task.op >= first_.size() || (task.backward && !has_backward_[task.op])) return false;
    return task.part < strategy_.ops[task.op].devices.size();
  }
  uint32_t size() const { return static_cast<uint32_t>(tasks_.size()); }
  const TaskRef& task(uint32_t id) const { return tasks_[id]; }
  uint32_t seat(uint32_t id) const { return seats_[id]; }
  const std::vector<uint32_t>& next(uint32_t id) const { return next_[id]; }
  uint32_t waits(uint32_t id) const { return waits_[id]; }
  std::string NameOf(uint32_t id) const {
    const TaskRef& task = tasks_[id];
    return absl::StrCat(graph_.ops[task.op].name, "[", task.part, "] ",
                        task.backward ? "backward" : "forward", " on seat ", seats_[id]);
  }
  void Join(uint32_t from, uint32_t to) {
    next_[from].push_back(to);
    ++waits_[to];
  }

 private:
  void AddTask(const TaskRef& task, uint32_t seat) {
    tasks_.push_back(task);
    seats_.push_back(seat);
  }

  const OpGraph& graph_;
  const Strategy& strategy_;
  std::vector<uint32_t> first_;  // by operator: its first task
  std::vector<bool> has_backward_;
  std::vector<TaskRef> tasks_;
  std::vector<uint32_t> seats_;
  std::vector<std::vector<uint32_t>> next_;
  std::vector<uint32_t> waits_;
};

// Runs the net as a team of devices would, each of which takes the best of what it can run.
class ListSchedule {
 public:
  ListSchedule(const OpGraph& graph, const TaskNet& net, uint32_t seats, uint32_t in_flight)
      : graph_(graph),
        net_(net),
        in_flight_(std::min(in_flight, static_cast<uint32_t>(graph.micro_batches))),
        order_(seats),
        seats_(seats) {
    for (uint32_t id = 0; id < net.size(); ++id) waits_.push_back(net.waits(id));
    ready_at_.assign(net.size(), 0);
    for (Seat& seat : seats_) {
      seat.left.assign(static_cast<size_t>(graph.micro_batches), 0);
      seat.held.resize(static_cast<size_t>(graph.micro_batches));
    }
    for (uint32_t id = 0; id < net.size(); ++id) {
      if (net.task(id).backward) ++seats_[net.seat(id)].left[MicroBatch(id)];
    }
    for (Seat& seat : seats_) {  // micro-batches of which it runs nothing backward hold nothing up
      while (seat.ended < seat.left.size() && seat.left[seat.ended] == 0) ++seat.ended;
    }
  }

  Order Run() {
    for (uint32_t id = 0; id < net_.size(); ++id) {
      if (waits_[id] == 0) Release(id);
    }
    for (uint32_t done = 0; done < net_.size(); ++done) Step();
    return std::move(order_);
  }

 private:
  // Backward halves first, then the earliest micro-batch, then as the model runs.
  using Rank = std::tuple<bool, uint32_t, int64_t, uint32_t, uint32_t>;
  struct Seat {
    int64_t free_at = 0;
    std::priority_queue<std::pair<int64_t, uint32_t>, std::vector<std::pair<int64_t, uint32_t>>,
                        std::greater<>>
        coming;  // (when, task)
    std::priority_queue<Rank, std::vector<Rank>, std::greater<>> there;
    uint32_t ended = 0;                       // micro-batches [0, ended) are behind it
    std::vector<uint32_t> left;               // by micro-batch: backward halves
    std::vector<std::vector<uint32_t>> held;  // by micro-batch: tasks that it may not begin yet
  };

  uint32_t MicroBatch(uint32_t id) const { return graph_.ops[net_.task(id).op].micro_batch; }
  Rank RankOf(uint32_t id) const {
    const TaskRef& task = net_.task(id);
    const int64_t op = task.op;
    return {!task.backward, MicroBatch(id), task.backward ? -op : op, task.part, id};
  }

  void Release(uint32_t id) {
    Seat& seat = seats_[net_.seat(id)];
    const uint32_t micro_batch = MicroBatch(id);
    if (in_flight_ > 0 && !net_.task(id).backward && micro_batch >= seat.ended + in_flight_) {
      seat.held[micro_batch].push_back(id);
    } else {
      seat.coming.push({ready_at_[id], id});
    }
  }

  static int64_t StartOf(const Seat& seat) {
    if (!seat.there.empty()) return seat.free_at;
    if (seat.coming.empty()) return INT64_MAX;
    return std::max(seat.free_at, seat.coming.top().first);
  }

  // The seat that can begin first does.
  void Step() {
    Seat* first = nullptr;
    for (Seat& seat : seats_) {
      if (first == nullptr || StartOf(seat) < StartOf(*first)) first = &seat;
    }
    const int64_t start = StartOf(*first);
    CHECK_LT(start, INT64_MAX) << "tasks that wait for each other";
    while (!first->coming.empty() && first->coming.top().first <= start) {
      first->there.push(RankOf(first->coming.top().second));
      first->coming.pop();
    }
    const uint32_t id = std::get<4>(first->there.top());
    first->there.pop();
    const bool backward = net_.task(id).backward;
    first->free_at = start + (backward ? kBackwardTime : kForwardTime);
    order_[net_.seat(id)].push_back(net_.task(id));
    for (const uint32_t next : net_.next(id)) {
      ready_at_[next] = std::max(ready_at_[next], first->free_at);
      if (--waits_[next] == 0) Release(next);
    }
    if (backward) End(MicroBatch(id), first);
  }

  void End(uint32_t micro_batch, Seat* seat) {
    --seat->left[micro_batch];
    while (seat->ended < seat->left.size() && seat->left[seat->ended] == 0) {
      ++seat->ended;
      const size_t allowed = size_t{seat->ended} + in_flight_ - 1;
      if (in_flight_ == 0 || allowed >= seat->held.size()) continue;
      for (const uint32_t id : seat->held[allowed]) {
        seat->coming.push({std::max(ready_at_[id], seat->free_at), id});
      }
      seat->held[allowed].clear();
    }
  }

  const OpGraph& graph_;
  const TaskNet& net_;
  const uint32_t in_flight_;
  Order order_;
  std::vector<Seat> seats_;
  std::vector<uint32_t> waits_;
  std::vector<int64_t> ready_at_;
};

}  // namespace

bool HasBackward(const OpGraph& graph, const PlanOp& op) {
  return !op.params.empty() || std::any_of(op.in.begin(), op.in.end(), [&](uint32_t edge) {
    return graph.edges[edge].gradient;
  });
}

Order CanonicalOrder(const OpGraph& graph, const Strategy& strategy, uint32_t seats,
                     uint32_t in_flight) {
  const TaskNet net(graph, strategy);
  return ListSchedule(graph, net, seats, in_flight).Run();
}

TimedOrder TimesOf(const OpGraph& graph, const Strategy& strategy, const Order& order) {
  const TaskNet net(graph, strategy);
  std::vector<uint32_t> waits;
  for (uint32_t id = 0; id < net.size(); ++id) waits.push_back(net.waits(id));
  std::vector<int64_t> ready_at(net.size(), 0);
  std::vector<int64_t> free_at(order.size(), 0);
  TimedOrder timed(order.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t seat = 0; seat < order.size(); ++seat) {
      while (timed[seat].size() < order[seat].size()) {
        const TaskRef& task = order[seat][timed[seat].size()];
        const uint32_t id = net.IdOf(task);
        if (waits[id] > 0) break;
        const int64_t start = std::max(free_at[seat], ready_at[id]);
        free_at[seat] = start + (task.backward ? kBackwardTime : kForwardTime);
        timed[seat].push_back({.task = task, .start = start});
        for (const uint32_t next : net.next(id)) {
          --waits[next];
          ready_at[next] = std::max(ready_at[next], free_at[seat]);
        }
        moved = true;
      }
    }
  }
  return timed;
}

Order Settled(const OpGraph& graph, const Strategy& strategy, const TimedOrder& wished) {
  const TaskNet net(graph, strategy);
  using Rank = std::tuple<int64_t, uint32_t, size_t, uint32_t>;  // start, seat, place, task
  std::vector<Rank> rank(net.size());
  std::vector<size_t> forward_left(wished.size(), 0);  // of seats that run all of it first
  const auto is_forward = [](const TimedTask& timed) { return !timed.task.backward; };
  for (uint32_t seat = 0; seat < wished.size(); ++seat) {
    const std::vector<TimedTask>& list = wished[seat];
    for (size_t i = 0; i < list.size(); ++i) {
      const uint32_t id = net.IdOf(list[i].task);
      rank[id] = {list[i].start, seat, i, id};
    }
    if (!std::is_partitioned(list.begin(), list.end(), is_forward)) continue;
    forward_left[seat] = static_cast<size_t>(std::count_if(list.begin(), list.end(), is_forward));
  }
  std::set<Rank> ready;
  std::vector<std::vector<uint32_t>> held(wished.size());  // backward, by seat
  const auto release = [&](uint32_t id) {
    const uint32_t seat = net.seat(id);
    if (net.task(id).backward && forward_left[seat] > 0) return held[seat].push_back(id);
    ready.insert(rank[id]);
  };
  std::vector<uint32_t> waits;
  for (uint32_t id = 0; id < net.size(); ++id) {
    waits.push_back(net.waits(id));
    if (waits[id] == 0) release(id);
  }
  Order settled(wished.size());
  while (!ready.empty()) {
    const uint32_t id = std::get<3>(ready.extract(ready.begin()).value());
    const uint32_t seat = net.seat(id);
    settled[seat].push_back(net.task(id));
    for (const uint32_t next : net.next(id)) {
      if (--waits[next] == 0) release(next);
    }
    if (net.task(id).backward || forward_left[seat] == 0 || --forward_left[seat] > 0) continue;
    for (const uint32_t backward : std::exchange(held[seat], {})) ready.insert(rank[backward]);
  }
  return settled;
}

absl::Status CheckOrder(const OpGraph& graph, const Strategy& strategy, const Order& order) {
  const TaskNet net(graph, strategy);
  std::vector<bool> seen(net.size());
  uint32_t count = 0;
  for (uint32_t seat = 0; seat < order.size(); ++seat) {
    for (const TaskRef& task : order[seat]) {
      if (!net.Has(task)) {
        return absl::InvalidArgumentError(absl::StrCat("the order of seat ", seat,
                                                       " has a task that the strategy has not: "
                                                       "part ",
                                                       task.part, " of operator ", task.op));
      }
      const uint32_t id = net.IdOf(task);
      if (net.seat(id) != seat) {
        return absl::InvalidArgumentError(
            absl::StrCat("the order of seat ", seat, " has a task of another: ", net.NameOf(id)));
      }
      if (seen[id]) {
        return absl::InvalidArgumentError(
            absl::StrCat("the order of seat ", seat, " has a task twice: ", net.NameOf(id)));
      }
      seen[id] = true;
      ++count;
    }
  }
  if (count < net.size()) {
    const auto missing = std::find(seen.begin(), seen.end(), false) - seen.begin();
    return absl::InvalidArgumentError(
        absl::StrCat("the order lacks ", net.NameOf(static_cast<uint32_t>(missing))));
  }
  std::vector<uint32_t> waits;
  for (uint32_t id = 0; id < net.size(); ++id) waits.push_back(net.waits(id));
  std::vector<size_t> at(order.size(), 0);
  uint32_t ran = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t seat = 0; seat < order.size(); ++seat) {
      while (at[seat] < order[seat].size() && waits[net.IdOf(order[seat][at[seat]])] == 0) {
        for (const uint32_t next : net.next(net.IdOf(order[seat][at[seat]]))) --waits[next];
        ++at[seat];
        ++ran;
        moved = true;
      }
    }
  }
  if (ran == net.size()) return absl::OkStatus();
  std::string stuck;
  for (uint32_t seat = 0; seat < order.size(); ++seat) {
    if (at[seat] == order[seat].size()) continue;
    absl::StrAppend(&stuck, stuck.empty() ? "" : "; ", net.NameOf(net.IdOf(order[seat][at[seat]])));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the orders of the seats wait for each other: ", stuck));
}

}  // namespace soapstone::planner
