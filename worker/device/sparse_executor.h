// SparseExecutor: the device of a model over tables: finds out which rows a step needs, computes on
// those that were pulled, and hands over the gradients of the rows touched. In place of Executor,
// behind the same protocol (worker/device/device.h); knows nothing of messages or clocks on the
// wall.
//
// Where the model has tensors too, an Executor runs its graph, on data one of whose columns is made
// of the rows loaded. It has the slices, this the tables; a command that concerns both goes to
// both.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/memory/buffer.h"
#include "base/memory/sparse_rows.h"
#include "glog/logging.h"
#include "models/data/sampler.h"
#include "models/tables/sparse_model.h"
#include "wire/layout.h"
#include "worker/device/device.h"
#include "worker/device/executor.h"
#include "worker/program/program.h"

namespace soapstone::worker {

struct SparseExecutorOptions {
  std::shared_ptr<const models::SparseModel> model;
  std::shared_ptr<const wire::Layout> layout;  // with the model's tables
  uint64_t seed = 0;
  uint64_t batch = 1;
  std::function<Nanos()> now;
  // Of the model's graph, with the gradient of its rows_input(); null: one of its own.
  std::shared_ptr<models::GraphRunner> replica;
  bool skip_not_finite = false;  // as ExecutorOptions
};

// What the engine must know of such a model: the operators of its graph, or of a model of tables
// alone one, without parameters.
std::vector<OpOutline> SparseOutline(const models::SparseModel& model);

class SparseExecutor {
 public:
  // Error: an operator that this machine cannot run.
  static absl::StatusOr<std::unique_ptr<SparseExecutor>> Create(SparseExecutorOptions options);

  // Carries out one command; appends its event, where one is wanted. REQUIRES: of policies that
  // push gradients at every clock (consistency::PolicyTraits::takes_tables).
  void Run(const DeviceCommand& command, std::vector<DeviceEvent>* events);

 private:
  using Rows = std::vector<SparseRows>;  // by table

  explicit SparseExecutor(SparseExecutorOptions options);

  // What there is to do with the rows, by the command's work; after the graph, where there is one.
  void CarryOut(const DeviceCommand& command, const FindKeys& keys, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const LoadCommand& load, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const RunForward& forward, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const RunBackward& backward, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const CollectBucket& collect, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const UpdateLocally& update, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const ElasticCommand& elastic, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const TakeDelta& delta, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const EvaluateModel& evaluate, DeviceEvent* event);
  // A seat's.
  template <typename Other>
  void CarryOut(const DeviceCommand&, const Other&, DeviceEvent*) {
    LOG(FATAL) << "of a team's section";
  }
  // Whether the graph's executor has a part in it.
  bool ConcernsGraph(const DeviceCommand& command) const;
  void SumRows(const DeviceCommand& command, const RunBackward& backward);
  // Whether what a part has computed is left out; of a model of tables alone it is looked at here.
  bool LeavesOut(const Rows& gradients);
  Buffers Collect(ShardId shard, uint32_t table);
  models::SparseBatch BatchOf(const DeviceCommand& command, MicroBatchRange part);
  Buffers Divide(uint32_t table, const std::vector<uint64_t>& keys) const;

  SparseExecutorOptions options_;
  models::Sampler sampler_;
  BufferPool pool_;
  std::vector<std::vector<uint64_t>> wanted_;  // by table; of the last FindKeys, ascending
  std::vector<models::RowBlock> rows_;         // by table; of the last LoadCommand
  std::unique_ptr<Executor> graph_;            // null: a model of tables alone

  // Sums in progress: partial sums of the tree lie on a stack, as in Executor.
  std::vector<Rows> sums_;
  uint64_t node_samples_ = 0;

  // Of the part in hand.
  uint64_t part_samples_ = 0;
  double part_loss_ = 0;

  // Since the last event.
  DeviceEvent::NotFinite not_finite_;
  uint64_t trained_samples_ = 0;
  double loss_sum_ = 0;
  Nanos compute_ns_ = 0;
};

}  // namespace soapstone::worker
