// What goes into an update of a shard's values, and what is the same for all updates of a job.
// Under the stores of slices (tensor_store.h) and of rows (table_store.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/memory/buffer.h"
#include "compute/init.h"
#include "compute/optimizer.h"
#include "compute/schedule.h"
#include "consistency/traits.h"
#include "server/store/store_fault.h"
#include "wire/layout.h"

namespace soapstone::server {

// One contribution to an update: payload a buffer a slice of its bucket; of a table keys and rows.
struct Contribution {
  WorkerId worker{};
  MicroBatchRange micro_batches;
  uint64_t samples = 0;
  uint64_t batch_samples = 0;
  float weight = 1;  // the policy's
  Buffers payload;
};

uint64_t SamplesOf(const std::vector<Contribution>& parts);
// The greatest magnitude in its payload; infinity where a value is not finite.
float GreatestMagnitude(const Contribution& part, bool of_table);

struct TensorStoreOptions {
  std::shared_ptr<const wire::Layout> layout;
  ShardId shard{};
  compute::OptimizerSpec optimizer;
  compute::ScheduleSpec schedule;
  Clock total_clocks = 0;
  uint64_t seed = 0;
  std::shared_ptr<const compute::GivenValues> given;  // initial values; null: drawn from the seed
  consistency::StoreRule rule;
  bool checks = false;  // keep checksums of tensors and rows, for who reads them
  StoreFault fault = StoreFault::kNone;
  bool fixed_tree = false;  // contributions are summed along the tree, else in the order given
  // Told, while the store is made, of each so many bytes that have their initial values. False: the
  // store is not wanted any more; the rest stays without, and it is good for nothing.
  std::function<bool(uint64_t bytes)> initialised;
};

// The gradient of one update, from sums over samples g_j of the contributions j:
//   g = (1 / B) sum_j w_j g_j,    fraction = (1 / B) sum_j w_j samples_j,    B = samples of the
//   global batch, w_j the policy's weights
// so P separate updates of a clock move the parameters, to first order, as far as one synchronous
// update, and decay them as much. With OptimizerRule::mean B is the samples of the contributions.
compute::Update UpdateOf(const TensorStoreOptions& options, Clock clock,
                         const std::vector<Contribution>& parts);

}  // namespace soapstone::server
