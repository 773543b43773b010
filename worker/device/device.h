// The device protocol: what the engine asks of compute, and what compute answers. On a machine the
// device thread answers (worker/device/executor.h), in the simulator a cost model does.
//
// The device runs commands strictly in the order given. It answers only commands whose
// `wants_event` is set.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "worker/program/program.h"

namespace soapstone::worker {

// LoadValues with what is loaded.
struct LoadCommand {
  std::optional<ShardId> shard;  // none: all
  // By shard, a buffer a slice, then one a table: the rows of the last FindKeys; empty for shards
  // that are not loaded.
  std::vector<Buffers> frames;
  bool starts_round = false;    // keep it for the TakeDelta that ends the round
  bool fresh_momentum = false;  // forget the local optimizer's state
};
// MoveElastically with the centre.
struct ElasticCommand {
  std::vector<Buffers> frames;  // by shard, a buffer a slice
  double alpha = 0;             // moving rate
};

// TakeBlock with the block.
struct TakeCommand {
  uint32_t index = 0;
  uint32_t number = 0;
  Buffer block;
};

// What the device does: an instruction, and where it reads parameters or a block these.
using DeviceWork = std::variant<FindKeys, LoadCommand, RunForward, RunBackward, CollectBucket,
                                UpdateLocally, ElasticCommand, TakeDelta, EvaluateModel, BeginBatch,
                                RunSection, TakeCommand, GiveBlock>;

struct DeviceCommand {
  uint64_t run = 0;          // which execution of a program this belongs to
  uint32_t instruction = 0;  // index in that program
  DeviceWork what;
  bool wants_event = false;
  Clock clock = 0;                 // the global batch it works on; for learning rates too
  uint32_t micro_batch_count = 0;  // M, of that batch
  bool tree_sum = false;           // parts are summed along the fixed tree
  MicroBatchRange taken_over;      // Program::taken_over
};

// Of a model: a step's forward pass, or halves of a section.
inline bool RunsOperators(const DeviceCommand& command) {
  return std::holds_alternative<RunForward>(command.what) ||
         std::holds_alternative<RunSection>(command.what);
}

struct DeviceEvent {
  uint64_t run = 0;
  uint32_t instruction = 0;
  Buffers frames;        // CollectBucket: a buffer a slice of the bucket; of a table keys, rows.
                         // FindKeys, the last: by shard, then by table, keys. EvaluateModel: of a
                         // classifier the confusion, a buffer a class, as Evaluated carries it.
                         // GiveBlock: the block
  uint64_t samples = 0;  // CollectBucket: in the node's sum; EvaluateModel: held-out samples
  // Computed since the last event; zero where there is nothing to report.
  uint64_t trained_samples = 0;
  double loss_sum = 0;
  Nanos compute_ns = 0;
  Nanos injected_ns = 0;  // rested, as a straggler model asked
  double correct = 0;     // EvaluateModel
  // Since the last event: parts whose gradient was not finite, of the first of them the tensor
  // (wire::Layout::NameOf) that was found so. Or a step of the device's own, UpdateLocally, has
  // left parameters so.
  struct NotFinite {
    uint64_t updates = 0;
    uint32_t tensor = 0;
    bool parameters = false;
    friend bool operator==(const NotFinite&, const NotFinite&) = default;
  };
  NotFinite not_finite;
};

}  // namespace soapstone::worker
