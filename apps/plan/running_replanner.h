// RunningReplanner: plans the strategy of a job in progress anew, in processes beside it, where
// workers have become slower or faster for good (scheduler/seat_speeds.h).
//
// With f_d the factors by which device d has changed since the machine was measured, p the step
// that the planner predicts of the present strategy on a machine slowed by f, q of the best that it
// finds, and t the time of a step as it is now, the job goes on by the latter where
//     q <= p / kGainMin   and   min(kPaidBackSteps, steps left) t (1 - q / p) > stop
// with `stop` what the run took to start, which it takes once more. At most once in kPause.
//
// Where workers leave that the job cannot do without, it stops for them, and what it goes on by is
// planned between the runs, in kFewerBudgetS. Places are numbered anew: the last ones fall vacant,
// and what is known of the first ones stays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/child_process.h"
#include "apps/cli/replanner.h"
#include "apps/plan/measured_inputs.h"
#include "base/ids.h"

namespace soapstone::apps {

struct ReplanTimes {
  Nanos present_ns = 0;  // predicted of the present strategy
  Nanos found_ns = 0;    // and of what was found
  Nanos step_ns = 0;     // as it is
  Nanos stop_ns = 0;     // until the job is under way again
  Clock left = 0;        // clocks
};
// Why it is not worth it; empty: it is.
std::string WhyNotReplanned(const ReplanTimes& times);

// By device of a team: the slowest of those workers that have its seat, of `teams` teams one after
// the other.
std::vector<double> SlownessOfSeats(const std::vector<double>& by_worker, size_t devices);

class RunningReplanner final : public Replanner {
 public:
  static constexpr double kGainMin = 1.1;
  static constexpr Clock kPaidBackSteps = 200;
  static constexpr Nanos kPause = 60 * kSecond;
  static constexpr double kBudgetS = 5;
  static constexpr double kFewerBudgetS = 1;
  static constexpr Nanos kProcessMax = 30 * kSecond;  // of planning: then it is given up

  // `inputs`: where what is measured goes, or is; outlives it. `machine_given`: a machine file, in
  // place of one of this machine; may be empty. `program`: has the command `plan`; empty: this one.
  RunningReplanner(MeasuredInputs* inputs, std::string machine_given, std::string program = "")
      : inputs_(inputs), machine_given_(std::move(machine_given)), program_(std::move(program)) {}

  absl::StatusOr<int> Prepare(const wire::JobConfig& config) override;
  void Begin(Nanos now, const wire::JobConfig& config, const std::string& log_dir) override;
  void Take(Nanos now, const ProgressReport& progress) override;
  void Take(Nanos now, const SlownessReport& slowness) override;
  void AppendFds(std::vector<int>* fds) const override;
  std::vector<std::string> Turn(Nanos now) override;
  bool found() const override { return found_; }
  void GiveUp() override {
    found_ = false;
    work_.reset();
  }
  absl::StatusOr<bool> End(const std::vector<uint32_t>& leaving, wire::JobConfig* config) override;

 private:
  // A search, then both strategies priced; for fewer devices a search alone.
  struct Work {
    std::vector<double> slowness;  // by device, since the run began
    std::string path;              // of what is found
    double budget_s = kBudgetS;
    bool comparing = false;
    std::unique_ptr<ChildProcess> process;
    Nanos until = 0;  // the process has so long
    std::string output;
  };
  Work WorkFor(std::vector<double> slowness);
  std::vector<std::string> Command(const Work& work) const;
  std::string Start(Work* work);
  // Takes what the process says. True: it has ended, or had to.
  static bool HasEnded(Work* work);
  static std::string WhyItFailed(const Work& work);  // of one that has ended; empty: it did not
  std::string OnEnded(Nanos now);
  absl::Status PlanForFewer(uint32_t devices, wire::JobConfig* config);
  ReplanTimes TimesNow(Nanos now, Nanos present_ns, Nanos found_ns) const;
  uint32_t devices() const;

  MeasuredInputs* inputs_;
  std::string machine_given_;
  std::string program_;
  wire::JobConfig config_;
  std::string log_dir_;
  std::vector<double> factors_;  // by device, of the present run's beginning
  Nanos began_ = 0;
  std::optional<Nanos> stop_ns_;  // known when it steps
  struct Mark {
    Nanos at = 0;
    Clock clock = 0;
  };
  std::vector<Mark> marks_;  // of late, ascending
  Clock clocks_ = 0;
  std::optional<Nanos> looked_at_;
  uint32_t searches_ = 0;
  std::optional<Work> work_;
  bool found_ = false;
};

}  // namespace soapstone::apps
