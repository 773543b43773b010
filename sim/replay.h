// Replay: a recording picks the next message. The actors are the shipped ones; each handles what
// its recording says it handled, in that order and at those times, as soon as the message named
// there has been sent (again) by its sender. What an actor does depends on nothing else, so every
// value comes out as it was; where it does not, the replay has diverged and says at which event.
// Who calls: experiment/cosim/job_replay.h, with real stores and devices behind the actors; tests.
// Has no clock: time is the recorded one.
//
// Not recorded, hence not checked: what a process does beside its actor, such as writing the model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/recording.h"
#include "scheduler/coordinator.h"
#include "server/peer/peer.h"
#include "sim/actors.h"
#include "sim/training.h"
#include "wire/message.h"
#include "worker/device/device.h"

namespace soapstone::sim {

// Carries out a command at once, and appends its event where one is wanted. Times in it are
// overwritten by the recorded ones.
using ReplayDevice =
    std::function<void(const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*)>;

struct ReplayOptions {
  JobShape shape;  // without `training`
  scheduler::CoordinatorOptions coordinator;
  // The job and its stores (its device and `settled` are not called); null: count stores and one
  // operator, as ActorFactory makes them of `shape`. Outlives the replay.
  const Training* training = nullptr;
  // A device for each process that stood for a worker.
  std::function<ReplayDevice(WorkerId)> make_device;
  std::function<void(uint64_t events)> progress;  // called every few thousand events; may be null
};

struct ReplayResult {
  uint64_t events = 0;    // replayed
  uint64_t messages = 0;  // of them
  uint64_t unread = 0;    // sent, and handled by nobody in the recording
  Nanos duration = 0;     // from the first event to the last
  // One line: the actor and the number of the event that could not be replayed, what it is, and
  // why.
  std::optional<std::string> divergence;
  std::optional<wire::Evaluation> evaluation;
  std::string sha256;  // of the parameters, as the shards handed them over; empty: they did not
};

// Error: InvalidArgument where the job cannot be laid out, or an actor is none of the job.
absl::StatusOr<ReplayResult> Replay(const Recording& recording, const ReplayOptions& options);

}  // namespace soapstone::sim
