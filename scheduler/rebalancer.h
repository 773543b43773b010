// Rebalancer: measures how fast the workers are, says when the micro-batches of a batch should be
// shared out anew, and keeps the books while all agree on the clock from which the new shares hold.
// A value: the coordinator feeds it and publishes what comes of it. Knows neither messages nor
// time.
//
// With t_r the measured nanoseconds of a sample on rank r and n_r its micro-batches, a step takes
//     T(n) = max over active r of n_r t_r                          (micro-batches of equal size)
// The best shares of M micro-batches are found by giving one to each rank that is absent, to the
// others
//     n_r = max(1, floor(M' v_r / sum v)),  v = 1 / t,  M' = M - absent ranks
// then micro-batch by micro-batch: one too few goes to the rank with the least (n_r + 1) t_r, one
// too many comes from the rank with the greatest n_r t_r. They are proposed when
//     T(now) / T(best) - 1 > gain_min + noise_weight * max over r of (standard error of t_r) / t_r
// An absent rank keeps a micro-batch so that whoever takes it has one from its first clock on, and
// can be measured.
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
  uint32_t micro_batch_count = 0;  // M; 0: shares are never changed
  Clock clocks_min = 5;            // between two readings of a worker
  double memory_clocks = 100;      // a reading's weight falls to 1/e after so many
  double gain_min = 0.05;          // of the predicted step time
  double noise_weight = 2;         // noise must not reshuffle
  double jump_min = 0.25;          // so far off the mean ..
  uint32_t doubts_max = 3;  // .. so many times in a row: the speed has changed, a new mean begins
  Clock lead = 8;           // see wire::Roster::share_lead
};

// The best shares by rank for these times of a sample (0: the rank is absent). REQUIRES: some rank
// is there; as many micro-batches as ranks.
std::vector<uint32_t> BestShares(const std::vector<double>& sample_ns, uint32_t micro_batch_count);

class Rebalancer {
 public:
  explicit Rebalancer(RebalanceOptions options) : options_(options) {}

  // The worker's cumulative counters. Those of a rank's new holder begin at zero.
  void Observe(WorkerId worker, const wire::Progress& progress);
  // Its measured speed is of no use any more.
  void Forget(WorkerId worker);

  struct Proposal {
    std::vector<uint32_t> micro_batches;  // by rank
    double gain = 0;                      // T(now) / T(best) - 1
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
  // Members that have not told theirs, while a change is under way.
  std::vector<WorkerId> Unanswered(const wire::Roster& roster) const;
  // Once every member has told its bound: ends the change, and appends the shares to `shares`,
  // which loses the entries that nobody will ask for again. Returns the gain.
  std::optional<double> EndIfAgreed(const wire::Roster& roster, SharedList<wire::Shares>* shares);

  void AddTo(Fingerprint* f) const;

 private:
  struct Speed {
    Clock clock = 0;  // at the last reading, as are samples and busy
    uint64_t samples = 0;
    Nanos busy = 0;
    uint32_t readings = 0;  // in the mean
    // Readings in a row that were far off, all to one side: not yet in the mean.
    int side = 0;
    uint32_t doubts = 0;
    double doubted = 0;  // their sum, each times its clocks
    double doubted_clocks = 0;
    double read = 0;      // clocks in the mean
    double mean = 0;      // ns of a sample
    double variance = 0;  // of one clock's
  };
  struct Change {
    Proposal proposal;
    Epoch epoch = 0;
    std::map<WorkerId, Clock> bounds;
  };

  void Learn(double sample_ns, Clock clocks, Speed* speed) const;
  void Average(double sample_ns, double clocks, Speed* speed) const;
  // By rank; 0 where absent. Empty while somebody was not read twice. `noise`: the greatest
  // relative standard error.
  std::vector<double> SampleTimes(const wire::Roster& roster, double* noise) const;

  RebalanceOptions options_;
  std::map<WorkerId, Speed> speeds_;
  std::optional<Change> change_;
  size_t readings_ = 0;  // since shares were last thought about: once a round is often enough
};

}  // namespace soapstone::scheduler
