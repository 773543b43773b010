#include "apps/node/device_runner.h"

#include <functional>
#include <utility>
#include <vector>

#include "apps/loop/node_loop.h"
#include "apps/node/delay_injector.h"
#include "base/status_macros.h"
#include "worker/device/executor.h"
#include "worker/device/sparse_executor.h"

namespace soapstone::apps {
namespace {

// The operator whose backward pass completes the gradients of a part: the first with parameters.
uint32_t LastGradientOp(const models::Graph& graph) {
  uint32_t op = 0;
  while (op + 1 < graph.ops().size() && graph.ops()[op].params.empty()) ++op;
  return op;
}

DelayInjector MakeInjector(const Job& job, WorkerId worker) {
  const wire::Training& training = job.config.training();
  // base_ms is the time of an equal share of the batch.
  const double leaves_a_worker = static_cast<double>(training.micro_batches()) /
                                 static_cast<double>(job.config.cluster().workers());
  return DelayInjector({.stragglers = job.specs.stragglers,
                        .worker = worker,
                        .last_op = job.graph != nullptr ? LastGradientOp(*job.graph) : 0,
                        .leaf_ns = training.base_ms() * kMillisecond / leaves_a_worker});
}

using Device = std::function<void(const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*)>;

absl::StatusOr<Device> MakeDevice(const Job& job, WorkerId worker,
                                  std::shared_ptr<models::GraphRunner> replica) {
  const bool skip_not_finite = SkipsNotFinite(job.config);
  if (job.tables != nullptr) {
    SOAP_ASSIGN_OR_RETURN(std::shared_ptr<worker::SparseExecutor> executor,
                          worker::SparseExecutor::Create({.model = job.tables,
                                                          .layout = job.worker_layout,
                                                          .seed = job.config.training().seed(),
                                                          .batch = job.config.training().batch(),
                                                          .now = NodeLoop::Now,
                                                          .replica = std::move(replica),
                                                          .skip_not_finite = skip_not_finite}));
    return [executor](const auto& command, auto* events) { executor->Run(command, events); };
  }
  const auto spoils = [stragglers = job.specs.stragglers, worker](Clock clock) {
    return stragglers.Spoils(worker, clock);
  };
  SOAP_ASSIGN_OR_RETURN(
      std::shared_ptr<worker::Executor> executor,
      worker::Executor::Create({.graph = *job.graph,
                                .data = job.data,
                                .layout = job.worker_layout,
                                .seed = job.config.training().seed(),
                                .batch = job.config.training().batch(),
                                .optimizer = job.specs.optimizer,
                                .local_momentum = job.specs.policy.local_momentum(),
                                .schedule = job.specs.schedule,
                                .total_clocks = job.total_clocks,
                                .now = NodeLoop::Now,
                                .prefetch = true,
                                .replica = std::move(replica),
                                .skip_not_finite = skip_not_finite,
                                .spoils = spoils}));
  return [executor](const auto& command, auto* events) { executor->Run(command, events); };
}

}  // namespace

absl::StatusOr<DeviceThread::Runner> MakeDeviceRunner(
    const Job& job, WorkerId worker, std::shared_ptr<models::GraphRunner> replica) {
  SOAP_ASSIGN_OR_RETURN(Device device, MakeDevice(job, worker, std::move(replica)));
  return [device = std::move(device), injector = MakeInjector(job, worker), injected = Nanos{0}](
             const worker::DeviceCommand& command, std::vector<worker::DeviceEvent>* events,
             const DeviceThread::Rest& rest) mutable {
    const Nanos began = NodeLoop::Now();
    device(command, events);
    const Nanos due = injector.RestAfter(command, NodeLoop::Now() - began);
    if (due > 0) {
      const Nanos rested = rest(due);
      injector.Rested(rested);
      injected += rested;
    }
    if (!events->empty()) events->back().injected_ns = std::exchange(injected, 0);
  };
}

}  // namespace soapstone::apps
