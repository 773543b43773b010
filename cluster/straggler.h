// StragglerModel: how much longer than usual an iteration takes, as a function of (worker, clock);
// what a worker's links carry meanwhile; and when it fails. Counter-based: no state, so every
// policy and every order of events meets the same delays (paired experiments). Who calls: the
// virtual cluster's device cost model and network, and a real worker that injects the same. Knows
// nothing of policies.
//
// With Z standard normal, U uniform on (0, 1], B_p true with probability p, drawn anew for every
// (worker w, clock c) unless said otherwise, the factor of an iteration's time:
//
//   none                           1
//   jitter:sigma=S                 exp(S Z - S^2 / 2): lognormal with mean 1
//   exponential:rate=R             1 - ln(U) / R: mean 1 + 1 / R
//   pareto:alpha=A,scale=S         1 + S (U^(-1/A) - 1): shifted, mean 1 + S / (A - 1), A > 1
//   stall:p=P,factor=F,duration=D  F if B_P held at any of the clocks (c - D, c], else 1 (D = 1)
//   periodic:every=K,factor=F      F if (c + w) mod K = K - 1, else 1
//   slow:workers=N,factor=F,from=C F for workers [0, N) from clock C on, else 1 (N = 1, C = 0)
//   rotating:workers=N,every=K,factor=F      F for the worker floor(c / K) mod N, else 1
//   bursts:enter=P,leave=Q,factor=F,group=G  F while the Markov chain of the group floor(w / G) is
//       on: it turns on with probability P and off with Q at each clock, and starts in its
//       stationary state, on with P / (P + Q)
//   trace:file=CSV,base_us=B       as recorded: cluster/straggler_trace.h
//
// Three that leave the factor at 1:
//
//   link:workers=N,mbps=B,every=K,duration=D
//       the links of workers [0, N) carry at most B megabits a second each way while the worker is
//       at the last D of every K clocks (N = D = K = 1)
//   failstop:p=P,down_ms=T
//       the process of a worker w > 0 ends without a word as it begins to compute clock c, if B_P;
//       T (1,000) milliseconds later one that takes its place is started. Worker 0 is spared, so
//       that somebody carries on; a successor has draws of its own
//
//   nan:worker=W,clock=C
//       a fault for tests: one element of worker W's gradient is NaN at clock C, of a model of
//       tensors that really trains
//
// Models joined by '+' multiply; of several links the slowest counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/memory/shared_list.h"
#include "base/spec.h"

namespace soapstone::sim {

// The models, their arguments by the letters of the table above.

// none.
struct Steady {
  friend bool operator==(const Steady&, const Steady&) = default;
};
struct Jitter {
  double sigma = 0;
  friend bool operator==(const Jitter&, const Jitter&) = default;
};
struct Exponential {
  double rate = 1;
  friend bool operator==(const Exponential&, const Exponential&) = default;
};
struct Pareto {
  double alpha = 1;
  double scale = 1;
  friend bool operator==(const Pareto&, const Pareto&) = default;
};
struct Stall {
  double probability = 0;
  double factor = 1;
  int64_t duration = 1;
  friend bool operator==(const Stall&, const Stall&) = default;
};
struct Periodic {
  int64_t every = 1;
  double factor = 1;
  friend bool operator==(const Periodic&, const Periodic&) = default;
};
struct Slow {
  int64_t workers = 1;
  double factor = 1;
  int64_t from = 0;
  friend bool operator==(const Slow&, const Slow&) = default;
};
struct Rotating {
  int64_t workers = 1;
  int64_t every = 1;
  double factor = 1;
  friend bool operator==(const Rotating&, const Rotating&) = default;
};
struct Bursts {
  double enter = 0;
  double leave = 1;
  double factor = 1;
  int64_t group = 1;
  friend bool operator==(const Bursts&, const Bursts&) = default;
};
// trace.
struct Recorded {
  double base_us = 0;                       // 0: the median
  SharedList<std::vector<double>> factors;  // by recorded worker, by clock
  friend bool operator==(const Recorded&, const Recorded&) = default;
};
// link.
struct SlowLink {
  int64_t workers = 1;
  double mbps = 0;
  int64_t every = 1;
  int64_t duration = 1;
  friend bool operator==(const SlowLink&, const SlowLink&) = default;
};
struct FailStop {
  double probability = 0;
  double down_ms = 1000;
  friend bool operator==(const FailStop&, const FailStop&) = default;
};
// nan.
struct SpoiltGradient {
  int64_t worker = 0;
  int64_t clock = 0;
  friend bool operator==(const SpoiltGradient&, const SpoiltGradient&) = default;
};
using Straggler = std::variant<Steady, Jitter, Exponential, Pareto, Stall, Periodic, Slow, Rotating,
                               Bursts, Recorded, SlowLink, FailStop, SpoiltGradient>;

// One model of a list.
struct StragglerPart {
  Straggler model;
  std::string spec;  // canonical text
  friend bool operator==(const StragglerPart&, const StragglerPart&) = default;
};

class StragglerModel {
 public:
  StragglerModel() = default;
  // Errors: InvalidArgument that names the unknown model or argument and lists what there is, or
  // the trace's line; NotFound where the trace cannot be read.
  static absl::StatusOr<StragglerModel> Parse(std::string_view text, uint64_t seed);

  // Time of iteration `clock` (0-based) of `worker`, in units of the base iteration time. O(1), but
  // for stall O(D) and for bursts O(1 / (P + Q)) on average.
  double Factor(WorkerId worker, Clock clock) const;

  // What each link of `worker`, at `clock`, carries at most, in megabits a second each way; 0: no
  // limit of the model's.
  double LinkMbps(WorkerId worker, Clock clock) const;
  bool limits_links() const { return Has<SlowLink>(); }

  // True: the process of `worker` ends as it begins to compute `clock`. `life`: the epoch of the
  // roster that it was started with, which tells it from its predecessors.
  bool Fails(WorkerId worker, Clock clock, Epoch life) const;
  bool fails() const { return Has<FailStop>(); }
  // True: the gradient of `worker` at `clock` is to have a NaN.
  bool Spoils(WorkerId worker, Clock clock) const;
  // The greatest rank whose gradients it spoils; -1: nobody's.
  int64_t spoilt_worker_max() const;
  // The most workers that one of its models counts: N of slow, rotating and link.
  int64_t workers_max() const;
  // From a failure to the successor's start. 0: fails() is false.
  Nanos down_ns() const;

  std::string ToString() const;
  friend bool operator==(const StragglerModel&, const StragglerModel&) = default;

 private:
  template <typename Model>
  bool Has() const {
    return std::any_of(parts_.begin(), parts_.end(), [](const StragglerPart& part) {
      return std::holds_alternative<Model>(part.model);
    });
  }

  uint64_t seed_ = 0;
  std::vector<StragglerPart> parts_;
};

}  // namespace soapstone::sim
