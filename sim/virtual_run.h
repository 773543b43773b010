// VirtualRun: one run of a virtual cluster: the actors, what happens next in virtual time, and the
// account that is kept. virtual_cluster.h says what is modelled and is what others call.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "cluster/straggler.h"
#include "scheduler/coordinator.h"
#include "server/peer/peer.h"
#include "server/shard/shard.h"
#include "sim/actors.h"
#include "sim/checkers.h"
#include "sim/event_queue.h"
#include "sim/network_model.h"
#include "sim/virtual_cluster.h"
#include "wire/message.h"
#include "wire/outbox.h"
#include "worker/engine.h"

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
  using Event = std::variant<Delivery, DeviceDone, CountedOut, Successor>;

  struct Worker {
    worker::Engine engine;
    std::optional<server::Peer> peer;
    uint32_t life = 0;       // processes that were this worker before
    bool up = true;          // false from a failure to the successor's welcome
    Epoch started_with = 0;  // a roster's
    Nanos failed_at = -1;    // until a successor starts
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
  // To the worker's engine, its peer, or both.
  void DeliverToNode(uint32_t index, wire::Message message);
  void DeliverToWorker(uint32_t index, const wire::Message& message);
  void AfterWorker(uint32_t index);
  void SendAll();
  void RunCommands(uint32_t index);
  worker::DeviceEvent AnswerOf(uint32_t index, const worker::DeviceCommand& command);
  Nanos CostOf(uint32_t index, const worker::DeviceCommand& command);
  void SendHeartbeat(uint32_t index);
  void ReportProgress();
  VirtualResult Result(Nanos end) const;

  const VirtualOptions& options_;
  ActorFactory factory_;
  StragglerModel stragglers_;
  NetworkModel network_;
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
  double reported_ = 0;
  uint64_t events_ = 0;
  uint64_t messages_ = 0;
  uint64_t bytes_ = 0;
  std::vector<Span> spans_;
  std::vector<std::string> news_;
  std::optional<std::string> failure_;
};

}  // namespace soapstone::sim
