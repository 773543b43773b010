#include "apps/node/device_runner.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/loop/delay_injector.h"
#include "apps/loop/node_loop.h"
#include "apps/node/compute_backend.h"
#include "apps/report/process_memory.h"
#include "apps/report/report.h"
#include "apps/report/step_memory.h"
#include "base/status_macros.h"
#include "cluster/actor_options.h"
#include "cluster/team/team_options.h"
#include "compute/optimizer.h"
#include "glog/logging.h"
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
  // base_ms is the time of an equal share of the batch.
  const double micro_batches_a_worker =
      static_cast<double>(job.micro_batches) / static_cast<double>(job.workers);
  return DelayInjector(
      {.stragglers = job.specs.stragglers,
       .worker = worker,
       .last_op = job.graph != nullptr ? LastGradientOp(*job.graph) : 0,
       .micro_batch_ns = job.config.training().base_ms() * kMillisecond / micro_batches_a_worker});
}

// Backward halves take twice as long as forward ones.
DelayInjector MakeSeatInjector(const Job& job, WorkerId worker) {
  const uint32_t seat = wire::SeatOf(worker, job.team->shape);
  const models::Section& section = job.team->plan.steps.begin()->second.seats[seat].section;
  std::vector<double> shares;
  for (const models::SectionStep& step : section.steps) {
    const bool forward = step.kind == models::SectionStep::Kind::kForward;
    const bool backward = step.kind == models::SectionStep::Kind::kBackward;
    shares.push_back(forward ? 1 : backward ? 2 : 0);
  }
  const double all = std::max(1.0, std::accumulate(shares.begin(), shares.end(), 0.0));
  for (double& share : shares) share /= all;
  return DelayInjector({.stragglers = job.specs.stragglers,
                        .worker = worker,
                        .micro_batch_ns = job.config.training().base_ms() * kMillisecond,
                        .step_shares = std::move(shares),
                        .total_clocks = job.total_clocks});
}

using Device = std::function<void(const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*)>;

absl::StatusOr<Device> MakeDevice(const Job& job, WorkerId worker,
                                  std::shared_ptr<models::GraphRunner> replica) {
  if (job.tables != nullptr) {
    worker::SparseExecutorOptions options = cluster::SparseExecutorOptionsOf(job);
    options.now = NodeLoop::Now;
    options.replica = std::move(replica);
    SOAP_ASSIGN_OR_RETURN(std::shared_ptr<worker::SparseExecutor> executor,
                          worker::SparseExecutor::Create(std::move(options)));
    return [executor](const auto& command, auto* events) { executor->Run(command, events); };
  }
  worker::ExecutorOptions options = cluster::ExecutorOptionsOf(job, worker);
  options.now = NodeLoop::Now;
  options.prefetch = true;
  options.replica = std::move(replica);
  SOAP_ASSIGN_OR_RETURN(std::shared_ptr<worker::Executor> executor,
                        worker::Executor::Create(std::move(options)));
  return [executor](const auto& command, auto* events) { executor->Run(command, events); };
}

// Of the server beside a seat: values, the version that is being made, the optimizer's state, and a
// gradient of each holder in each team.
uint64_t KeptBytes(const Job& job, uint32_t rank) {
  const uint64_t state = 2 + compute::FloatsOf(job.specs.optimizer.kind);
  uint64_t bytes = 0;
  for (uint32_t set = 0; set < job.team->sets(); ++set) {
    const ShardId shard{rank * job.team->sets() + set};
    const uint64_t floats =
        state + job.team->shape.teams * cluster::HoldersOf(*job.team, shard).size();
    bytes += job.layout->elements(shard) * sizeof(float) * floats;
  }
  return bytes;
}

// Of the peer beside a worker: values, the next ones, the gradient, what it contributes, the sum,
// and the optimizer's state.
uint64_t PeerBytes(const Job& job, WorkerId worker) {
  if (!cluster::HasPeer(job, worker)) return 0;
  const uint64_t vectors = 5 + compute::FloatsOf(job.specs.optimizer.kind);
  return vectors * sizeof(float) * cluster::PeerVectorsOptionsOf(job, worker).layout->elements();
}

}  // namespace

absl::StatusOr<DeviceThread::Runner> MakeDeviceRunner(const Job& job, WorkerId worker,
                                                      std::shared_ptr<models::GraphRunner> replica,
                                                      std::shared_ptr<worker::SeatExecutor> seat) {
  Device device;
  if (seat != nullptr) {
    device = [seat = std::move(seat)](const auto& command, auto* events) {
      seat->Run(command, events);
    };
  } else {
    SOAP_ASSIGN_OR_RETURN(device, MakeDevice(job, worker, std::move(replica)));
  }
  DelayInjector delays =
      job.team != nullptr ? MakeSeatInjector(job, worker) : MakeInjector(job, worker);
  return [device = std::move(device), injector = std::move(delays), injected = Nanos{0}](
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

absl::StatusOr<std::shared_ptr<worker::SeatExecutor>> PrepareSeat(const Job& job,
                                                                  int64_t wanted_rank,
                                                                  bool listens) {
  if (wanted_rank < 0) {
    return absl::FailedPreconditionError(
        "cluster.strategy gives each worker its part of the model by its rank: start it with "
        "--rank=N");
  }
  if (job.workers > 1 && !listens) {
    return absl::FailedPreconditionError(
        "cluster.strategy has workers reach each other, and this one listens nowhere");
  }
  if (wanted_rank >= int64_t{job.workers}) return nullptr;  // it will be refused
  const auto rank = static_cast<uint32_t>(wanted_rank);
  worker::SeatExecutorOptions options = cluster::SeatExecutorOptionsOf(job, WorkerId{rank});
  options.now = NodeLoop::Now;
  SOAP_ASSIGN_OR_RETURN(options.backend, MakeBackend(job.config.cluster(), rank));
  const uint64_t available = FreeMemory(options.backend.get());
  const uint64_t before = ReadResidentMemory().now_bytes;
  SOAP_ASSIGN_OR_RETURN(std::shared_ptr<worker::SeatExecutor> seat,
                        worker::SeatExecutor::Create(std::move(options)));
  const bool keeps = job.team->KeepsParameters(rank);
  const wire::TeamShape& shape = job.team->shape;
  const std::string of_team =
      shape.teams > 1 ? absl::StrCat(" of team ", Index(wire::TeamOf(WorkerId{rank}, shape))) : "";
  const std::string what = absl::StrCat("seat ", wire::SeatOf(WorkerId{rank}, shape), of_team,
                                        ", by ", job.config.cluster().strategy(),
                                        keeps ? ", with the parameters that it keeps," : "");
  const uint64_t needed =
      seat->memory_bytes() + (keeps ? KeptBytes(job, rank) : 0) + PeerBytes(job, WorkerId{rank});
  SOAP_RETURN_IF_ERROR(CheckFits(what, needed, available));
  LOG(INFO) << what << " needs " << Bytes(needed) << " of memory beside the " << Bytes(before)
            << " that its process has";
  return seat;
}

std::string NameOfWork(const Job& job, uint32_t op) {
  if (job.team != nullptr) return absl::StrCat("step ", op);
  const bool named = job.graph != nullptr && op < job.graph->ops().size();
  return named ? job.graph->ops()[op].name : absl::StrCat("operator ", op);
}

}  // namespace soapstone::apps
