// SeatExecutor: carries out the device commands of a worker that has a seat in a team: it runs its
// section of the model, part by part (models/runtime/section_runner.h), takes and gives the blocks
// between seats, and sums the gradients of the pieces of parameters that it holds. Owned by the
// device thread of a worker's shell; knows nothing of messages or of other seats.
//
// Invariants
//  1. Of a piece the gradients of one micro-batch's parts are added in the order in which they run,
//     and those of micro-batches along the fixed tree: the bits do not depend on when blocks come.
//  2. What is handed over is never written again.
//  3. A clock's backward halves see what its forward halves saw: the parameters loaded for it, its
//     samples, and what they kept, whatever else is run in between. So do those of what is taken
//     over for a lost team, which has memory of its own from its first command on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/leaf_tree.h"
#include "base/memory/buffer.h"
#include "base/piece_runs.h"
#include "compute/kernel.h"
#include "glog/logging.h"
#include "models/data/batches.h"
#include "models/data/dataset.h"
#include "models/graph/section.h"
#include "models/runtime/section_runner.h"
#include "wire/layout.h"
#include "worker/device/device.h"
#include "worker/device/kept_pieces.h"
#include "worker/program/seat_outline.h"

namespace soapstone::worker {

// A step of a section that was carried out.
struct DoneStep {
  models::SectionStep::Kind kind{};
  uint32_t what = 0;  // kForward, kBackward: the part; kTake, kGive: the team's message
  Clock clock = 0;
  Nanos begin_ns = 0, end_ns = 0;
};

struct SeatExecutorOptions {
  // By samples of the team's batch; and of a batch of held-out samples, of `evaluation_batch`.
  std::map<uint64_t, std::shared_ptr<const models::Section>> sections;
  std::shared_ptr<const models::Section> evaluation;
  uint64_t evaluation_batch = 1;
  std::shared_ptr<const models::TrainTest> data;
  std::shared_ptr<const wire::Layout> layout;  // of the pieces that it holds
  uint64_t seed = 0;
  uint64_t batch = 1;  // of all teams
  uint32_t micro_batches = 1;
  uint32_t team = 0, teams = 1;  // whose micro-batches they are: `team`'s of those of so many teams
  std::shared_ptr<compute::Backend> backend;  // not null
  Clock total_clocks = 0;
  Clock lead = 0;            // so many clocks it is given forward halves before the backward ones
  bool reads_ahead = false;  // values of the next clock come while one is computed
  bool takes_over = false;   // it may be given the micro-batches of a lost team besides
  std::optional<LocalSteps> local;  // it keeps its pieces, and steps them; none: it loads them
  std::function<Nanos()> now;
  std::function<bool(Clock)> spoils;           // as ExecutorOptions::spoils
  std::function<void(const DoneStep&)> watch;  // is told of each step; null: nobody is
};

// The outline of a section, without words (SeatOutline::grants, awaited).
SeatOutline OutlineOf(const models::Section& section, const wire::Layout& layout);

class SeatExecutor {
 public:
  // Prepares kernels for all sizes of batch. Error: a part that no kernel runs.
  static absl::StatusOr<std::unique_ptr<SeatExecutor>> Create(SeatExecutorOptions options);
  SeatExecutor(const SeatExecutor&) = delete;
  SeatExecutor& operator=(const SeatExecutor&) = delete;

  // What a step takes at most, of the sizes of batch: the sections' memory and the blocks of
  // parameters that parts read, what was pulled of them, their gradients along the tree, and blocks
  // that come before they are wanted. Where it may have to take over a team, with one taken over.
  uint64_t memory_bytes() const;

  // In place of the options' watch, from now on.
  void Watch(std::function<void(const DoneStep&)> watch) { options_.watch = std::move(watch); }

  // Carries out one command; appends its event, where one is wanted.
  void Run(const DeviceCommand& command, std::vector<DeviceEvent>* events);

 private:
  // Where a piece lies in a block of parameters that parts read.
  struct Use {
    uint32_t piece = 0;
    PieceRuns runs;
    bool whole = false;  // the block is the piece
  };
  // A section that is ready to run, and how its blocks of parameters and the pieces belong
  // together.
  struct Bound {
    std::unique_ptr<models::SectionRunner> runner;
    std::vector<std::vector<Use>> uses;  // by block of parameters
    // By piece and micro-batch: backward parts that add to its gradient.
    std::vector<std::vector<uint32_t>> parts;
  };
  // The sum of a piece's gradient that is being made.
  struct Sum {
    struct Leaf {
      BufferPool::Block gradient;
      uint32_t parts = 0;  // so far
    };
    std::map<uint32_t, Leaf> leaves;       // micro-batches that are begun and not in the stack
    uint32_t next = 0;                     // micro-batch that joins the stack
    std::vector<BufferPool::Block> stack;  // of the tree; without data: nothing was to be added
  };
  struct Sums {
    std::vector<Sum> of;     // by parameter of the layout
    Clock clock = kNoClock;  // whose gradients they are of
  };

  // Clocks that are under way at once take turns in lead + 1 of these.
  struct Lane {
    std::shared_ptr<models::SectionMemory> memory;
    std::map<uint64_t, Bound> bound;  // by samples of the batch
    Bound* running = nullptr;
    models::MiniBatch feed;
    std::vector<const void*> fields;  // of it, as the section in hand has them
  };
  struct TakenOver {
    Lane lane;
    Sums sums;
  };

  explicit SeatExecutor(SeatExecutorOptions options);
  absl::StatusOr<Bound> Bind(const models::Section& section, bool training,
                             const std::shared_ptr<models::SectionMemory>& memory);
  // A lane with all sizes of batch bound.
  absl::Status Open(Lane* lane);
  // Of a clock, where it is of the own team's; evaluation has the first.
  Lane& LaneOf(const DeviceCommand& command);
  Sums& SumsOf(const DeviceCommand& command);
  TakenOver& TakenOverOf(const DeviceCommand& command);
  std::vector<Use> UsesOf(const models::ParamBlock& block) const;

  void CarryOut(const DeviceCommand& command, const LoadCommand& load, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const BeginBatch& begin, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const RunSection& run, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const TakeCommand& take, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const GiveBlock& give, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const CollectBucket& collect, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const UpdateLocally& update, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const ElasticCommand& elastic, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const TakeDelta& delta, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const EvaluateModel& evaluate, DeviceEvent* event);
  template <typename Other>
  void CarryOut(const DeviceCommand&, const Other&, DeviceEvent*) {
    LOG(FATAL) << "not a seat's to do";
  }

  // The command's team's, of the batch of its clock.
  SampleRange SamplesOf(const DeviceCommand& command) const;
  Bound& BoundOf(const DeviceCommand& command);
  // values: by shard.
  void LoadInto(Bound* bound, const std::vector<Buffers>& values);
  // values: elements of the piece from `begin` on.
  static void Put(uint32_t piece, uint64_t begin, absl::Span<const float> values, Bound* bound);
  void FillHeldOut(uint64_t batch, Lane* lane);
  void RunBackward(uint32_t part, Clock clock, Bound* running, Sums* sums);
  void AddPart(const Use& use, absl::Span<const float> gradient, uint32_t micro_batch, Sums* sums);
  void Complete(uint32_t piece, Clock clock, const Bound& running, Sums* sums);
  bool ReadsData(const models::Section& section) const;
  Nanos BeginStep() const { return options_.watch == nullptr ? 0 : options_.now(); }
  // What is taken over nobody watches: a clock has one step.
  void EndStep(models::SectionStep::Kind kind, uint32_t what, const DeviceCommand& command,
               Nanos begin) const {
    if (options_.watch == nullptr || !command.taken_over.empty()) return;
    options_.watch({kind, what, command.clock, begin, options_.now()});
  }

  SeatExecutorOptions options_;
  models::Batches batches_;
  std::shared_ptr<models::KernelCache> kernels_;
  std::vector<Lane> lanes_;
  std::optional<Bound> evaluates_;  // from the first batch of held-out samples on
  std::vector<Buffers> values_;     // that evaluation is to load, by shard
  BufferPool pool_;
  std::optional<KeptPieces> kept_;  // of local steps
  Sums sums_;
  std::map<uint32_t, TakenOver> taken_over_;  // by team, from its first command on
  std::vector<std::vector<float>> scratch_;
  Clock spoiled_ = kNoClock;
  // Since the last event.
  uint64_t trained_samples_ = 0;
  double loss_sum_ = 0;
  Nanos compute_ns_ = 0;
  DeviceEvent::NotFinite not_finite_;
  // Of the batches of held-out samples so far.
  uint64_t tested_ = 0;
  double tested_loss_ = 0, tested_correct_ = 0;
};

}  // namespace soapstone::worker
