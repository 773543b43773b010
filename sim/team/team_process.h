// TeamProcess: a process of a world of teams (sim/team/team_world.h) that has, or had, a seat: the
// shipped engine, and the device that runs its commands, whose blocks and gradients are integers
// that say whose they are. A value; the world changes it.
//   B1 a step, and a batch that is evaluated, is computed with the parameters of its clock, its
//      backward halves like its forward ones; and so is what is taken over of a lost team. Where
//      seats keep parameters: with those after the exchange of the round before, and after the
//      local step before
//   B2 a block that the device takes is the one of its clock and number, of this very team
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "cluster/training_job.h"
#include "sim/team/team_contents.h"
#include "sim/team/team_mutant.h"
#include "worker/device/device.h"
#include "worker/engine.h"

namespace soapstone::sim {

struct TeamProcess {
  // The scheduler has welcomed it.
  void Begin(const cluster::TrainingJob& job, TeamMutant mutant);
  // It acts no more.
  void Stop();
  SeatHolder holder() const { return {rank, admitted}; }

  struct Outcome {
    std::optional<worker::DeviceEvent> event;
    std::optional<std::string> violation;
  };
  // Runs commands up to the first that is to be answered.
  Outcome RunDevice(const cluster::TrainingJob& job, TeamMutant mutant);

  void AddTo(Fingerprint* f) const;

  WorkerId rank{};                                       // that it asks for
  std::shared_ptr<const worker::EngineOptions> options;  // from Begin on
  std::optional<worker::Engine> engine;                  // likewise
  std::vector<worker::DeviceCommand> commands;           // not yet run
  std::vector<Clock> loaded;  // the clock of its parameters, in turns; evaluation has the first
  Clock stepped = kNoClock;   // its parameters have had the local steps of the clocks below
  std::map<uint32_t, Clock> loaded_for;  // the same for what it takes over, by team
  Epoch admitted = 0;                    // with its team, by the scheduler; 0: not yet
  Epoch heard = 0;                       // the latest roster that came
  bool let_in = false;                   // the scheduler has sent it off
  bool started = false;                  // and that came
  bool leaving = false;                  // told to
  bool crashed = false;                  // by a fault
  bool noticed = false;                  // and the scheduler knows
  bool out = false;                      // the scheduler has counted it out
  bool gone = false;                     // it acts no more

 private:
  // The round of the parameters that a clock is computed with.
  Clock RoundOf(const cluster::TrainingJob& job, Clock clock) const;
  Clock& LoadedFor(const cluster::TrainingJob& job, const worker::DeviceCommand& command);
  // Whose micro-batches the command is of.
  uint32_t TeamOf(const cluster::TrainingJob& job, const worker::DeviceCommand& command) const;
  const worker::SeatOutline& OutlineOf(const cluster::TrainingJob& job,
                                       const worker::DeviceCommand& command) const;
  std::optional<std::string> Carry(const cluster::TrainingJob& job, TeamMutant mutant,
                                   const worker::DeviceCommand& command,
                                   worker::DeviceEvent* event);
  std::optional<std::string> CheckBlock(const cluster::TrainingJob& job,
                                        const worker::DeviceCommand& command,
                                        const worker::TakeCommand& take) const;
};

}  // namespace soapstone::sim
