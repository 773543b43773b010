// TrainingJob: what is trained, on which data and by which rules: the one value that all actors of
// a job are made from (actor_options.h), whoever runs them: processes (job.h adds what they are to
// write and to say), virtual time, replays, tests, the bench. Knows no process, file or clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cluster/job_specs.h"
#include "cluster/team/team_options.h"
#include "compute/init.h"
#include "models/data/dataset.h"
#include "models/graph/graph.h"
#include "models/tables/sparse_model.h"
#include "server/store/store_fault.h"
#include "wire/layout.h"
#include "worker/program/program.h"

namespace soapstone::cluster {

struct TrainingJob {
  JobSpecs specs;
  // A model of tensors: its graph and its data. Of tables (models/tables/sparse_model.h): `tables`,
  // which has the data, and the graph of those that have tensors too. None of them: the stores
  // count (sim/actors.h), or the values are the maker's own.
  std::shared_ptr<const models::Graph> graph;
  std::shared_ptr<const models::TrainTest> data;
  std::shared_ptr<const models::SparseModel> tables;
  std::shared_ptr<const compute::GivenValues> given;  // initial values; null: the seed's
  std::shared_ptr<const wire::Layout> layout;         // says how many shards there are
  uint64_t seed = 0;                                  // initial values, order of the data
  uint64_t batch = 0;          // samples of a full global batch, over all workers
  uint32_t micro_batches = 0;  // M of base/leaf_tree.h; 0, of simulations alone: one a worker
  Clock total_clocks = 0;      // local steps of a worker
  uint32_t workers = 1;
  uint32_t replicas = 1;              // of each shard, on as many servers
  bool rebalance = false;             // the batch is shared out by measured speed
  bool skip_not_finite = false;       // training.on_nonfinite
  bool strict = false;                // who keeps values keeps checksums of them, for who reads
  Nanos patience_ns = 5 * kSecond;    // of workers, with values that were asked for
  std::string precision = "float32";  // as the job asks for it
  int threads = 1;                    // of a worker's kernels on a processor: bits depend on it
  server::StoreFault store_fault = server::StoreFault::kNone;  // of all stores; for tests
  // The model is split over the workers; null: each runs all of it.
  std::shared_ptr<const TeamJob> team;
  // Least elements of a stretch that an all-reduce sums by itself (server/peer/peer.h).
  uint64_t stretch_elements = uint64_t{1} << 20;

  // What follows from the rest (Complete).
  uint64_t train_samples = 0;
  std::shared_ptr<const std::vector<worker::OpOutline>> ops;
  // What workers see of who keeps the parameters: the layout, or that of their own peer.
  std::shared_ptr<const wire::Layout> worker_layout;
};

// Fills in what follows from the rest; of a job without a model the layout alone, its samples and
// operators are the maker's to say. REQUIRES: a layout; of a graph without tables its data.
void Complete(TrainingJob* job);

}  // namespace soapstone::cluster
