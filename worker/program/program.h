// The step program: what a worker does in one step, as instructions with dependencies. The engine
// executes it; the planner will time the same program. A value: built once for a membership and
// shared by all steps that run under it.
//
// Two kinds of instruction. Those of the device (FindKeys .. GiveBlock) go to its queue in
// program order and run there one after another, like kernels on a stream: an instruction that
// depends on an earlier device instruction need not wait for its completion. Those of the network
// (SendPull .. ReceiveBlock) are messages; whoever depends on a SendPull waits for its reply, a
// SendPush waits for the device to hand over the bucket (CollectBucket), and a ReceiveBlock is the
// other end of another worker's SendBlock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "wire/layout.h"
#include "worker/program/seat_outline.h"

namespace soapstone::worker {

// Finds which rows of tables are needed: of the samples of `part`, or of the held-out data; with
// those of the FindKeys before it, from the `first` of a run to its `last`, which tells them.
struct FindKeys {
  MicroBatchRange part;
  bool held_out = false;
  bool first = false;
  bool last = false;
  friend bool operator==(const FindKeys&, const FindKeys&) = default;
};
// The replies become the parameters: of `shard`; none: of all shards.
struct LoadValues {
  std::optional<ShardId> shard;
  friend bool operator==(const LoadValues&, const LoadValues&) = default;
};
// Operator `op` on the micro-batches `part`, which are run together.
struct RunForward {
  uint32_t op = 0;
  MicroBatchRange node;  // the sum that `part` belongs to
  MicroBatchRange part;
  bool begins_node = false;  // `part` is the first of its node
  friend bool operator==(const RunForward&, const RunForward&) = default;
};
// The same backward; its gradients join the sum of `node`.
struct RunBackward {
  uint32_t op = 0;
  MicroBatchRange node;
  MicroBatchRange part;
  bool begins_node = false;
  friend bool operator==(const RunBackward&, const RunBackward&) = default;
};
// Hands over a bucket of the sum of `node`.
struct CollectBucket {
  ShardId shard{};
  BucketId bucket{};
  MicroBatchRange node;
  friend bool operator==(const CollectBucket&, const CollectBucket&) = default;
};
// One local optimizer step with the sum of `node`.
struct UpdateLocally {
  MicroBatchRange node;
  friend bool operator==(const UpdateLocally&, const UpdateLocally&) = default;
};
// d = alpha (x - centre) from the replies; x -= d; buckets of d to collect.
struct MoveElastically {
  friend bool operator==(const MoveElastically&, const MoveElastically&) = default;
};
// d = x - what was loaded; buckets of d to collect.
struct TakeDelta {
  friend bool operator==(const TakeDelta&, const TakeDelta&) = default;
};
// Of a seat of a team (worker/program/seat_outline.h): the samples of the clock; or, where it
// evaluates, of a batch of held-out ones.
struct BeginBatch {
  bool held_out = false;
  friend bool operator==(const BeginBatch&, const BeginBatch&) = default;
};
// Steps [first, last) of the seat's section, which are forward and backward halves of parts.
struct RunSection {
  uint32_t first = 0;
  uint32_t last = 0;
  friend bool operator==(const RunSection&, const RunSection&) = default;
};
// What a ReceiveBlock has brought becomes the section's incoming block `index`.
struct TakeBlock {
  uint32_t index = 0;
  uint32_t number = 0;
  friend bool operator==(const TakeBlock&, const TakeBlock&) = default;
};
// Hands over the section's outgoing block `index`.
struct GiveBlock {
  uint32_t index = 0;
  friend bool operator==(const GiveBlock&, const GiveBlock&) = default;
};
// Loss and accuracy on the held-out data; of a seat, of all batches since its last one of training.
struct EvaluateModel {
  friend bool operator==(const EvaluateModel&, const EvaluateModel&) = default;
};

// Asks `shard` for its slices, and for the rows found; done when the reply is here.
struct SendPull {
  ShardId shard{};
  friend bool operator==(const SendPull&, const SendPull&) = default;
};
// Sends what the CollectBucket that it depends on handed over.
struct SendPush {
  ShardId shard{};
  BucketId bucket{};
  MicroBatchRange node;  // the sum that it is of
  friend bool operator==(const SendPush&, const SendPush&) = default;
};
// Tells `shard` that this clock is complete.
struct SendClock {
  ShardId shard{};
  friend bool operator==(const SendClock&, const SendClock&) = default;
};
// Asks `shard` for its slices at the next clock; done when sent.
struct SendPrefetch {
  ShardId shard{};
  friend bool operator==(const SendPrefetch&, const SendPrefetch&) = default;
};

// Sends another seat of the team what the GiveBlock that it depends on handed over; without one,
// word that the other may begin this clock.
struct SendBlock {
  uint32_t number = 0;  // of the team's messages
  uint32_t seat = 0;
  friend bool operator==(const SendBlock&, const SendBlock&) = default;
};
// Done when the block is here.
struct ReceiveBlock {
  uint32_t number = 0;
  friend bool operator==(const ReceiveBlock&, const ReceiveBlock&) = default;
};

using DeviceInstruction = std::variant<FindKeys, LoadValues, RunForward, RunBackward, CollectBucket,
                                       UpdateLocally, MoveElastically, TakeDelta, EvaluateModel,
                                       BeginBatch, RunSection, TakeBlock, GiveBlock>;
using NetworkInstruction =
    std::variant<SendPull, SendPush, SendClock, SendPrefetch, SendBlock, ReceiveBlock>;

struct Instruction {
  std::variant<DeviceInstruction, NetworkInstruction> what;
  std::vector<uint32_t> deps;  // earlier instructions, ascending
  Clock ahead = 0;             // it is of so many clocks after the run's (strategy/window.h)
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

inline bool IsOfDevice(const Instruction& instruction) {
  return std::holds_alternative<DeviceInstruction>(instruction.what);
}
// Which shard the message is for. REQUIRES: it is for one.
ShardId ShardOf(const NetworkInstruction& what);
// The instruction, if it is a `What`; else null. Valid as long as the instruction.
template <typename What>
const What* As(const Instruction& instruction) {
  using Kind = std::conditional_t<std::is_constructible_v<DeviceInstruction, What>,
                                  DeviceInstruction, NetworkInstruction>;
  return std::get_if<What>(std::get_if<Kind>(&instruction.what));
}

// What the engine must know of the model: for each operator in forward order, the parameters whose
// gradient its backward pass produces.
struct OpOutline {
  std::vector<ParamId> params;
};

// A sum of gradients that is pushed as one: its range and the parts that are computed for it. With
// the fixed tree the parts are single micro-batches, summed along the tree; else `parts` are summed
// in order.
struct NodePlan {
  MicroBatchRange node;
  std::vector<MicroBatchRange> parts;
  friend bool operator==(const NodePlan&, const NodePlan&) = default;
};

struct Program {
  enum class Kind : uint8_t {
    kStep,
    kTakeover,
    kInitialPull,
    kLocalStep,
    kExchange,
    kFlush,
    kFinalEvaluate,
    kEvaluateBatch,
    kFill,
  };
  Kind kind{};
  std::vector<Instruction> instructions;
  std::vector<NodePlan> nodes;

  // Links: what follows from the instructions, looked up where it would be searched for.
  // Of `instruction`: those that wait for it to be satisfied, ascending. A device instruction does
  // not wait for another of the device, behind which it runs anyway.
  std::span<const uint32_t> DependantsOf(uint32_t instruction) const {
    return {dependants.data() + first_dependant[instruction],
            dependants.data() + first_dependant[instruction + 1]};
  }
  std::vector<uint32_t> awaited;          // by instruction: whose dependant it is so often
  std::vector<uint32_t> first_dependant;  // by instruction, in `dependants`, and the end
  std::vector<uint32_t> dependants;
  std::vector<uint32_t> device;           // the device instructions
  std::vector<uint32_t> pulls;            // the SendPull, by shard; empty: there is none
  std::map<uint32_t, uint32_t> receives;  // the ReceiveBlock, by number
  uint32_t loads = 0;                     // LoadValues, MoveElastically
  Clock lead = 0;                         // its pulls are so many clocks ahead
  MicroBatchRange taken_over;             // a lost team's; empty: it is of the worker's own
};

// Fills in the links. The builders below have done so.
void LinkProgram(Program* program);

struct ProgramInputs {
  const wire::Layout* layout = nullptr;
  const std::vector<OpOutline>* ops = nullptr;
  bool ordered_reads = false;  // PolicyTraits::ordered_reads
  // Each shard's values are loaded when the forward pass comes to them. For layouts with transfer
  // stages.
  bool by_transfer_stages = false;
  // A shard is asked for its next values as soon as it has the clock (PolicyTraits::pulls_ahead).
  bool asks_early = false;
  // A seat asks for the values of the next clock as soon as it has those of its own.
  bool reads_ahead = false;
  // Nothing of a node is handed over before all of its gradient is there: whether it is finite is
  // known then, and all buckets leave a part of it out or none.
  bool whole_nodes = false;
  // > 0: a step needs rows of all these micro-batches, since it may have to take over any of them.
  uint32_t keys_of_micro_batches = 0;
};

// Data-parallel step: find the keys (where the model has tables), pull all, load, then per node and
// part forward and backward; a bucket is collected and pushed as soon as the backward pass of the
// node's last part has produced it, while earlier layers still run; then clock, per shard. By
// transfer stages: the loads of the shards that an operator needs stand before its forward pass,
// and a shard's clock is followed by the pull of its next values.
Program BuildStep(const ProgramInputs& inputs, const std::vector<NodePlan>& nodes);
// The same without pull, load and clock: micro-batches taken over from a lost worker in mid-step.
// With `reload` the parameters they need are no longer there, and are loaded again first.
Program BuildTakeover(const ProgramInputs& inputs, const std::vector<NodePlan>& nodes,
                      bool reload = false);
// Pull all and load.
Program BuildInitialPull(const ProgramInputs& inputs);
// Forward, backward, local update: a step between exchanges.
Program BuildLocalStep(const ProgramInputs& inputs, const std::vector<NodePlan>& nodes);
// Elastic: pull all, elastic, then collect and push every bucket as `node`, and clock.
Program BuildExchange(const ProgramInputs& inputs, MicroBatchRange node);
// The end of a round of local steps: delta, then collect and push every bucket as `node`, and
// clock.
Program BuildDeltaPush(const ProgramInputs& inputs, MicroBatchRange node);
// Pull all, and nothing with it: the replies say that all our pushes were taken.
Program BuildFlush(const ProgramInputs& inputs);
// Pull all (final), load, evaluate.
Program BuildFinalEvaluate(const ProgramInputs& inputs);

// A step of a seat of a team: pull all, load, then its section's steps in their order, with what
// they receive and send; a bucket is collected and pushed as soon as all of its gradient is there;
// then clock, per shard. `node`: all micro-batches of the team's batch.
Program BuildSeatStep(const ProgramInputs& inputs, const SeatOutline& outline,
                      MicroBatchRange node);
// The same of a seat that runs ahead by `lead` > 0 clocks: pull, load and the forward halves are of
// the clock that is so much later, whose outline is `ahead`; null: the run ends before it.
Program BuildSeatStepAhead(const ProgramInputs& inputs, const SeatOutline& outline,
                           const SeatOutline* ahead, Clock lead, MicroBatchRange node);
// The same where seats keep parameters between exchanges: no pull, no push; its sums are a local
// step's.
Program BuildSeatLocalStep(const ProgramInputs& inputs, const SeatOutline& outline,
                           MicroBatchRange node);
// A step of a seat for the micro-batches `node` of a lost team: no pull and no clock. The
// parameters that it begins with are loaded again.
Program BuildSeatTakeover(const ProgramInputs& inputs, const SeatOutline& outline,
                          MicroBatchRange node);
// What comes before its first step, for each clock that it runs ahead: pull all, load, and the
// forward halves.
Program BuildSeatFill(const ProgramInputs& inputs, const SeatOutline& outline);
// Pull all (final) and load; then, for each batch of held-out samples, its forward halves, and
// after those of the last what came of all.
Program BuildSeatFinalLoad(const ProgramInputs& inputs);
Program BuildSeatEvaluation(const ProgramInputs& inputs, const SeatOutline& outline, bool last);

// Which micro-batches are summed along the tree before they are pushed, as its largest nodes.
// Others are pushed one by one: those that someone else may have supplied a part of, where shards
// do not take a larger node in the place of its parts (they do where PolicyTraits::takes_over()).
enum class Merge : uint8_t { kNone, kOwn, kAll };
// The nodes a worker pushes in a step. `taken_over` ascends.
std::vector<NodePlan> PlanTreeNodes(MicroBatchRange own, const std::vector<uint32_t>& taken_over,
                                    uint32_t micro_batch_count, Merge merge);
// One node for everything the worker owns: policies whose sums need not be reproducible.
std::vector<NodePlan> PlanSingleNode(MicroBatchRange own, const std::vector<uint32_t>& taken_over);

}  // namespace soapstone::worker
