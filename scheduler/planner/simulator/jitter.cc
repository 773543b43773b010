// Step times when computation does not take the same time at every step.
#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "glog/logging.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

// A forward or backward part takes t·exp(σ·z − σ²/2), whose mean is t, with z standard normal and a
// function of (seed, sample, operator, part, direction): strategies are compared by common random
// numbers.
std::vector<Nanos> Simulator::SampleStepTimes(const Jitter& jitter) {
  CHECK(!proposal_.pending()) << "Accept or Reject first";
  std::vector<Nanos> times;
  for (uint32_t sample = 0; sample < jitter.samples; ++sample) {
    const CounterRandom random(jitter.seed, RandomUse::kPlanJitter, sample);
    for (uint32_t op = 0; op < connections_.ops(); ++op) {
      for (uint32_t backward : {0u, 1u}) {
        const std::vector<Nanos>& busy = backward != 0 ? now_.op(op).backward : now_.op(op).forward;
        const BlockKind kind = backward != 0 ? BlockKind::kBackward : BlockKind::kForward;
        for (uint32_t part = 0; part < busy.size(); ++part) {
          const uint64_t index = (uint64_t{2} * op + backward) * kPartsMax + part;
          const double factor =
              std::exp(jitter.sigma * random.Normal(index) - jitter.sigma * jitter.sigma / 2);
          const double drawn = static_cast<double>(busy[part]) * factor;
          tasks_.SetBusy(kind, op, part, std::max<Nanos>(1, std::llround(drawn)));
        }
      }
    }
    times.push_back(Simulate());
  }
  tasks_.PlaceOps(now_);
  return times;
}

}  // namespace soapstone::planner
