// VirtualRun: one run of a virtual cluster: the actors, what happens next in virtual time, and the
// account that is kept. virtual_cluster.h says what is modelled and is what others call.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"
#include "cluster/straggler.h"
#include "scheduler/coordinator.h"
#include "server/peer/peer.h"
#include "server/shard/shard.h"
#include "sim/actors.h"
#include "sim/checkers.h"
#include "sim/event_queue.h"
#include "sim/network_model.h"
#include "sim/virtual/machine_network.h"
#include "sim/virtual/seat_costs.h"
#include "sim/virtual/shared_device.h"
#include "sim/virtual_cluster.h"
#include "sim/whole_pushes.h"
#include "wire/message.h"
#include "wire/outbox.h"
#include "worker/engine.h"
#include "worker/engine_options.h"

namespace soapstone::sim {

// Runs once.
class VirtualRun {
 public:
  // `options` outlives it, and has been checked.
  VirtualRun(const VirtualOptions& options, ActorFactory factory, StragglerModel stragglers);

  VirtualResult Run();

 private:
  // What happens. To or of a worker: in its `life`, else it is nobody's any more.
  struct Delivery {
    wire::Message message;
    uint32_t life = 0;
  };
  struct DeviceDone {
    uint32_t worker = 0;
    uint32_t life = 0;
    worker::DeviceEvent event;
  };
  struct CountedOut {
    uint32_t worker = 0;
  };
  struct Successor {
    uint32_t worker = 0;
  };
  // A worker's device has done what it had begun, where it keeps parameters.
  struct DeviceTurn {
    uint32_t worker = 0;
  };
  // A server has applied the first of the shard's messages.
  struct Applied {
    uint32_t shard = 0;
  };
  using Event = std::variant<Delivery, DeviceDone, CountedOut, Successor, DeviceTurn, Applied>;

  struct Worker {
    worker::Engine engine;
    std::optional<server::Peer> peer;
    std::optional<worker::EngineOptions> seat;  // of a worker of a team
    SharedDevice device;                        // of one that keeps parameters on a machine's links
    uint32_t life = 0;                          // processes that were this worker before
    bool up = true;                             // false from a failure to the successor's welcome
    Epoch started_with = 0;                     // a roster's
    Nanos failed_at = -1;                       // until a successor starts
    Nanos down = 0;
    Nanos device_free = 0;
    Nanos busy = 0;
    Nanos done_at = -1;
    Clock clock = 0;
    Clock reported = 0;
    uint64_t skipped = 0;
    // Computed since the device's last answer.
    uint64_t samples = 0;
    Nanos compute = 0;
  };

  void Register();
  bool Over() const { return coordinator_.ended().has_value() || failure_.has_value(); }
  bool EndedWell() const;
  void Step();
  void Settle();
  void Deliver(wire::Message message);
  bool Reaches(const Delivery& delivery) const;
  // The worker that a message to `to` is for; none: to another node.
  static std::optional<uint32_t> WorkerAt(wire::Address to);
  void Post(Nanos at, wire::Message message);
  void Fail(uint32_t index);
  double LimitOf(const wire::Message& message) const;
  // Where a machine's servers, or devices, take time to apply: a shard's messages wait their turn.
  struct ShardQueue {
    std::deque<wire::Message> messages;
    bool applying = false;  // the first of them
  };
  void ArriveAtShard(wire::Message message);
  void ServeShard(uint32_t shard);
  // Whether it takes time, which has begun.
  bool BeginUpdate(uint32_t shard, const wire::Message& push);
  void EndUpdate(uint32_t shard);
  void DeliverToShard(wire::Message message);
  void TakeTurns(uint32_t worker);
  void EndTurn(uint32_t worker);
  bool IsShared(uint32_t worker) const;
  void AddToShared(uint32_t index, const worker::DeviceCommand& command);
  // The device computes, for what is counted and drawn.
  void Compute(uint32_t index, Clock clock, Nanos begin, Nanos cost);
  void TakeAnswer(uint32_t index, worker::DeviceEvent answer);
  // To the worker's engine, its peer, or both.
  void DeliverToNode(uint32_t index, wire::Message message);
  void DeliverToWorker(uint32_t index, const wire::Message& message);
  void AfterWorker(uint32_t index);
  void SendAll();
  Nanos ArrivalOf(const wire::Message& message, uint64_t bytes);
  void RunCommands(uint32_t index);
  worker::DeviceEvent AnswerOf(uint32_t index, const worker::DeviceCommand& command);
  Nanos CostOf(uint32_t index, const worker::DeviceCommand& command) const;
  // Of the steps of a seat's section, without stragglers. REQUIRES: the clock is one of training.
  absl::Span<const Nanos> SeatSteps(uint32_t index, Clock clock) const;
  void SendHeartbeat(uint32_t index);
  void CountStep(uint32_t index, Clock before);
  Nanos MeanStep() const;
  void ReportProgress();
  VirtualResult Result(Nanos end) const;

  const VirtualOptions& options_;
  ActorFactory factory_;
  StragglerModel stragglers_;
  SeatCosts even_costs_;  // of a model that is split, where the options have none
  NetworkModel network_;
  std::optional<MachineNetwork> machine_;  // in its place
  WholePushes whole_pushes_;               // at shards of owners
  std::vector<ShardQueue> shard_queues_;   // with a machine
  std::vector<Nanos> server_free_;         // likewise, by server
  scheduler::Coordinator coordinator_;
  Checkers checkers_;
  std::vector<server::Shard> shards_;
  std::vector<Worker> workers_;
  EventQueue<Event> queue_;
  wire::Outbox outbox_;                          // emptied after each call of an actor
  std::vector<worker::DeviceCommand> commands_;  // likewise
  std::vector<worker::DeviceEvent> answers_;     // of the training's device, to one command
  TrainingMoment trained_;                       // without now and bytes
  Nanos horizon_ = std::numeric_limits<Nanos>::max();
  uint64_t iterations_ = 0;
  uint64_t failures_ = 0;
  // Of a model that is split: by clock, how many workers have completed it, and when the last did.
  struct StepEnd {
    uint32_t workers = 0;
    Nanos at = 0;
  };
  std::vector<StepEnd> step_ends_;
  Nanos first_step_ = 0;
  double reported_ = 0;
  uint64_t events_ = 0;
  uint64_t messages_ = 0;
  uint64_t bytes_ = 0;
  std::vector<Span> spans_;
  std::vector<std::string> news_;
  std::optional<std::string> failure_;
};

}  // namespace soapstone::sim
