// DelayInjector: makes a real worker as slow as a straggler model says, by telling its device how
// long to rest after a command. Who calls: the worker's device thread. A value without a clock: it
// is told what a command took.
//
// A part (micro-batches that run together) is charged when the backward pass of `last_op` has run,
// which is before its last gradients are handed over. With k(part) its micro-batches, t its compute
// time since the part before, F = Factor(worker, clock):
//     owed += leaf_ns * k(part) * F - t      where a micro-batch has a set time (leaf_ns > 0)
//     owed += (F - 1) * t                    else
//     rest = max(owed, 0)
// Of a seat of a team each RunSection is a part: its steps have shares of the set time of a step,
// in the place of micro-batches.
// `owed` starts anew with each run of a program, so that a machine too slow for its set time never
// catches up in a later iteration, while a rest that was too long shortens the next of the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "cluster/straggler.h"
#include "worker/device/device.h"

namespace soapstone::apps {

class DelayInjector {
 public:
  struct Options {
    sim::StragglerModel stragglers;
    WorkerId worker{};
    uint32_t last_op = 0;       // the operator whose backward pass completes a part's gradients
    double micro_batch_ns = 0;  // set time of a micro-batch; 0: whatever it takes
    // Of a seat: by step of its section, of the set time of a step of training; they add up to 1.
    // Micro-batches are steps then.
    std::vector<double> step_shares;
    Clock total_clocks = kClockMax;  // what comes behind them is evaluated, without rests
  };
  explicit DelayInjector(Options options) : options_(std::move(options)) {}

  // How long to rest after `command`, which took `took`.
  Nanos RestAfter(const worker::DeviceCommand& command, Nanos took) {
    if (command.run != run_) {
      run_ = command.run;
      owed_ = 0;
      computed_ = 0;
    }
    computed_ += took;
    const double parts = PartsOf(command);
    if (parts == 0) return 0;
    const auto took_in_all = static_cast<double>(std::exchange(computed_, 0));
    const double factor = options_.stragglers.Factor(options_.worker, command.clock);
    owed_ += options_.micro_batch_ns > 0 ? options_.micro_batch_ns * parts * factor - took_in_all
                                         : (factor - 1) * took_in_all;
    return static_cast<Nanos>(std::clamp(owed_, 0.0, kRestMax));
  }
  // The rest was that long.
  void Rested(Nanos duration) { owed_ -= static_cast<double>(duration); }

 private:
  static constexpr double kRestMax = 3600e9;

  // Of which the command is the last; 0: it is none's.
  double PartsOf(const worker::DeviceCommand& command) const {
    if (const auto* backward = std::get_if<worker::RunBackward>(&command.what)) {
      return backward->op == options_.last_op ? static_cast<double>(backward->part.size()) : 0;
    }
    const auto* section = std::get_if<worker::RunSection>(&command.what);
    if (section == nullptr || command.clock >= options_.total_clocks) return 0;
    const auto first = options_.step_shares.begin();
    return std::accumulate(first + section->first, first + section->last, 0.0);
  }

  Options options_;
  uint64_t run_ = 0;
  Nanos computed_ = 0;  // since the part before
  double owed_ = 0;
};

}  // namespace soapstone::apps
