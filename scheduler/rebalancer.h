// Rebalancer: measures how fast the workers are, says when the leaves of a batch should be shared
// out anew, and keeps the books while all agree on the clock from which the new shares hold. A
// value: the coordinator feeds it and publishes what comes of it. Knows neither messages nor time.
//
// With t_r the measured nanoseconds of a sample on rank r and n_r its leaves, a step takes
//     T(n) = max over active r of n_r t_r                          (leaves of equal size)
// The best shares of M leaves, every active rank having one at least (M allowing), are found by
//     n_r = max(1, floor(M v_r / sum v)),  v = 1 / t,
// then leaf by leaf: one too few goes to the rank with the least (n_r + 1) t_r, one too many comes
// from the rank with the greatest n_r t_r. They are proposed when T(now) > (1 + gain_min) T(best).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::scheduler {

struct RebalanceOptions {
  uint32_t leaf_count = 0;    // M; 0: shares are never changed
  Clock clocks_min = 5;       // between two readings of a worker
  Clock trial_clocks = 20;    // read of every worker before the first change, and between changes
  double memory_clocks = 50;  // a reading's weight falls to 1/e after so many
  double gain_min = 0.05;     // of the predicted step time, below which noise would reshuffle
  Clock lead = 8;             // see wire::Roster::share_lead
};

// The best shares by rank for these times of a sample (0: the rank is absent, and gets nothing).
// REQUIRES: some rank is there.
std::vector<uint32_t> BestShares(const std::vector<double>& sample_ns, uint32_t leaf_count);

class Rebalancer {
 public:
  explicit Rebalancer(RebalanceOptions options) : options_(options) {}

  // The worker's cumulative counters. Those of a rank's new holder begin at zero.
  void Observe(WorkerId worker, const wire::Progress& progress);
  // Its measured speed is of no use any more.
  void Forget(WorkerId worker);

  struct Proposal {
    std::vector<uint32_t> leaves;  // by rank
    double gain = 0;               // T(now) / T(best) - 1
  };
  // What to change to; none while too little is known, or little would be gained. Cheap unless
  // every worker was read since the last time. REQUIRES: nobody is being admitted.
  std::optional<Proposal> Propose(const wire::Roster& roster);

  // ---- A change under way
  // From `epoch` on rosters ask the workers for their bounds.
  void Begin(Proposal proposal, Epoch epoch);
  bool changing() const { return change_.has_value(); }
  // A worker's bound, acknowledging the roster of `epoch`.
  void Record(WorkerId worker, Epoch epoch, Clock bound);
  // Once every member has told its bound: ends the change, and appends the shares to `shares`,
  // which loses the entries that nobody will ask for again. Returns the gain.
  std::optional<double> EndIfAgreed(const wire::Roster& roster, SharedList<wire::Shares>* shares);

  void AddTo(Fingerprint* f) const;

 private:
  struct Speed {
    Clock clock = 0;  // at the last reading, as are samples and busy
    uint64_t samples = 0;
    Nanos busy = 0;
    Clock read = 0;        // clocks that `sample_ns` is the mean over
    Clock since = 0;       // clocks read since the last change
    double sample_ns = 0;  // 0: not known
  };
  struct Change {
    Proposal proposal;
    Epoch epoch = 0;
    std::map<WorkerId, Clock> bounds;
  };

  // By rank; 0 where inactive. Empty while a worker with leaves has not been read for long enough.
  std::vector<double> SampleTimes(const wire::Roster& roster) const;

  RebalanceOptions options_;
  std::map<WorkerId, Speed> speeds_;
  std::optional<Change> change_;
  size_t readings_ = 0;  // since shares were last thought about: once a round is often enough
};

}  // namespace soapstone::scheduler
