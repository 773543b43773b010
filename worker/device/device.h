// The device protocol: what the engine asks of compute, and what compute answers. On a machine the
// device thread answers (worker/device/executor.h), in the simulator a cost model does.
//
// The device runs commands strictly in the order given. It answers only commands whose
// `wants_event` is set.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "worker/program/program.h"

namespace soapstone::worker {

struct DeviceCommand {
  uint64_t run = 0;          // which execution of a program this belongs to
  uint32_t instruction = 0;  // index in that program
  Instruction what;
  bool wants_event = false;
  Clock clock = 0;  // the global batch it works on; for kUpdate and learning rates too
  uint32_t leaf_count = 0;
  bool tree_sum = false;        // kBackward: sum parts along the fixed tree
  bool first_part = false;      // kForward, kBackward: this part begins its node
  bool last_part = false;       // kForward, kBackward: this part completes its node
                                // kKeys: first, last of a run of kKeys
  double alpha = 0;             // kElastic: moving rate
  bool starts_round = false;    // kLoad: keep it for the kDelta that ends the round
  bool fresh_momentum = false;  // kLoad: forget the local optimizer's state
  // kLoad, kElastic: by shard, a buffer a slice, then one a table: the rows of the last kKeys;
  // empty for shards that are not loaded.
  std::vector<Buffers> frames;
};

struct DeviceEvent {
  uint64_t run = 0;
  uint32_t instruction = 0;
  Buffers frames;        // kCollect: a buffer a slice of the bucket; of a table keys, rows.
                         // kKeys, the last: by shard, then by table, keys
  uint64_t samples = 0;  // kCollect: in the node's sum; kEvaluate: held-out samples
  // Computed since the last event; zero where there is nothing to report.
  uint64_t trained_samples = 0;
  double loss_sum = 0;
  Nanos compute_ns = 0;
  Nanos injected_ns = 0;  // rested, as a straggler model asked
  uint64_t correct = 0;   // kEvaluate
  // Since the last event: parts whose gradient was not finite, of the first of them the tensor
  // (wire::Layout::NameOf) that was found so. Or a step of the device's own, kUpdate, has left
  // parameters so.
  struct NotFinite {
    uint64_t updates = 0;
    uint32_t tensor = 0;
    bool parameters = false;
    friend bool operator==(const NotFinite&, const NotFinite&) = default;
  };
  NotFinite not_finite;
};

}  // namespace soapstone::worker
