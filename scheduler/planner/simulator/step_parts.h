// What a step's time is made of, read off its timeline. For reports.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

// Of the device that computes longest, the first of equals. The four parts add up to the step:
//   compute          it computes
//   communication    it does not, and some transfer between operators is under way on some link
//   synchronization  neither, and gradients or parameters are on their way or being applied
//   idle             none of these: it waits for another device to compute, or for a latency
struct StepParts {
  uint32_t device = 0;
  Nanos step_ns = 0;
  Nanos compute_ns = 0, communication_ns = 0, synchronization_ns = 0, idle_ns = 0;
};

// Takes a timeline task by task, since that of a thousand devices fills gigabytes; what it keeps
// grows with the pauses of queues.
class StepPartsFold {
 public:
  explicit StepPartsFold(uint32_t device) : device_(device) {}
  // In the order of a run.
  void Add(const TimelineTask& task);
  // step_ns: Simulator::StepTime(), which may end with a latency behind the last task. Once.
  StepParts Parts(Nanos step_ns);

 private:
  // A task begins (+1) or ends (−1).
  struct Edge {
    Nanos at = 0;
    int what = 0;  // 0: computes, 1: transfers, 2: synchronizes
    int change = 0;
  };
  // What one queue does without a pause.
  struct Piece {
    Nanos start = 0, end = 0;
    int what = 0;
  };
  void Close(const Piece& piece);

  const uint32_t device_;
  std::vector<Edge> edges_;
  std::vector<Piece> last_;  // by queue: a queue that is full has few
};

// Of its strategy's step.
StepParts PartsOf(Simulator* simulator);

}  // namespace soapstone::planner
