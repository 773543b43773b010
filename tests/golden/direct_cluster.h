// A cluster without a network or threads: real shards, engines and executors, and one bag of
// messages from which a seeded draw picks the next channel. For tests of numbers.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/training_job.h"
#include "models/data/dataset.h"
#include "server/model/model_gatherer.h"
#include "server/shard/shard.h"
#include "worker/device/executor.h"
#include "worker/engine.h"

namespace soapstone::golden {

struct TrainingSetup {
  std::string model = "lenet5";
  std::string policy = "bsp";
  std::string optimizer = "momentum:lr=0.05,mu=0.9,decay=0.0005";
  std::string schedule = "cosine:warmup=4";
  uint32_t workers = 1;
  uint32_t shards = 1;
  uint32_t transfer_stages = 1;  // of the layout
  uint32_t micro_batches = 4;
  uint64_t batch = 64;
  Clock steps = 30;
  uint64_t seed = 7;
  uint64_t split_seed = 0;
  uint64_t order_seed = 1;  // of the picks
  // A worker that stops dead after it has completed this many steps (kNoClock: none); the others
  // hear of it after `notice_after` further picks.
  uint32_t killed_worker = 0;
  Clock killed_at = kNoClock;
  uint32_t lost_on = 0;  // the shard that does not get what was on its way from it
  int notice_after = 50;
};

struct TrainingResult {
  std::string sha256;
  std::vector<float> parameters;  // by shard, then slice
  double test_accuracy = 0;
  uint64_t violations = 0;
  uint64_t duplicates = 0;
  std::string failure;  // empty, or why the run did not end
};

// The digits, split by `split_seed`.
std::shared_ptr<const models::TrainTest> Digits(uint64_t split_seed = 0);

// What the setup says of the training itself.
cluster::TrainingJob JobOf(const TrainingSetup& setup);

// The job by the cluster's actors.
TrainingResult TrainByCluster(const TrainingSetup& setup);
// The same job by a plain loop: no cluster, no messages, no slices.
TrainingResult TrainSequentially(const TrainingSetup& setup);

}  // namespace soapstone::golden
