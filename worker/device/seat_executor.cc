#include "worker/device/seat_executor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <variant>

#include "base/finite.h"
#include "base/status_macros.h"
#include "models/runtime/model_input.h"

namespace soapstone::worker {
namespace {

using models::SectionStep;

// Whether the piece lies in the block of its parameter that a part reads.
bool LiesIn(const ParamSpec& piece, const models::ParamBlock& block) {
  if (piece.piece->param != block.param) return false;
  for (size_t d = 0; d < piece.shape.size(); ++d) {
    const models::Range& range = block.tensor.block[d];
    const int64_t begin = piece.piece->begin[d];
    if (begin < range.begin || begin + piece.shape[d] > range.end) return false;
  }
  return true;
}

// Where the piece's elements are in the block, with what is put around that.
PieceRuns RunsIn(const ParamSpec& piece, const models::ParamBlock& block) {
  ParamSpec within = {.shape = piece.shape};
  within.piece = {.shape = block.tensor.shape()};
  for (size_t d = 0; d < piece.shape.size(); ++d) {
    within.piece->begin.push_back(piece.piece->begin[d] - block.tensor.block[d].begin +
                                  block.tensor.before[d]);
  }
  return PieceRuns(within);
}

// Which pieces of the layout's lie in the block, ascending.
std::vector<uint32_t> PiecesIn(const models::ParamBlock& block, const wire::Layout& layout) {
  std::vector<uint32_t> pieces;
  for (uint32_t p = 0; p < layout.params().size(); ++p) {
    if (LiesIn(layout.params()[p], block)) pieces.push_back(p);
  }
  return pieces;
}

bool IsBackward(const SectionStep& step, const models::Section& section) {
  if (step.kind == SectionStep::Kind::kTake) return section.incoming[step.index].backward;
  if (step.kind == SectionStep::Kind::kGive) return section.outgoing[step.index].backward;
  return step.kind == SectionStep::Kind::kBackward;
}

uint64_t BytesOf(const std::vector<int64_t>& size) {
  return static_cast<uint64_t>(compute::TensorSpec{.shape = size}.bytes());
}

}  // namespace

SeatOutline OutlineOf(const models::Section& section, const wire::Layout& layout) {
  SeatOutline outline;
  for (const models::IncomingBlock& block : section.incoming) {
    outline.incoming.push_back({block.number, block.seat, BytesOf(block.size)});
  }
  for (const models::OutgoingBlock& block : section.outgoing) {
    outline.outgoing.push_back({block.number, block.seat, BytesOf(block.size)});
  }
  std::map<uint32_t, size_t> last;  // by piece: the step behind which its gradient is all there
  for (const SectionStep& step : section.steps) {
    SeatOutline::Step to = {.index = step.index};
    if (!IsBackward(step, section))
      outline.backward_from = static_cast<uint32_t>(outline.steps.size()) + 1;
    if (step.kind == SectionStep::Kind::kTake) to.kind = SeatOutline::Step::Kind::kTake;
    if (step.kind == SectionStep::Kind::kGive) to.kind = SeatOutline::Step::Kind::kGive;
    if (step.kind == SectionStep::Kind::kBackward) {
      for (const uint32_t block : section.parts[step.index].params) {
        for (const uint32_t piece : PiecesIn(section.param_blocks[block], layout)) {
          last[piece] = outline.steps.size();
        }
      }
    }
    outline.steps.push_back(std::move(to));
  }
  for (const auto& [piece, step] : last) outline.steps[step].ready.push_back(ParamId{piece});
  return outline;
}

SeatExecutor::SeatExecutor(SeatExecutorOptions options)
    : options_(std::move(options)),
      batches_(&options_.data->train, options_.seed, options_.batch),
      kernels_(std::make_shared<models::KernelCache>()),
      lanes_(static_cast<size_t>(options_.lead) + 1) {
  sums_.of.resize(options_.layout->params().size());
  if (options_.local.has_value()) {
    kept_.emplace(options_.layout, *options_.local, options_.total_clocks);
  }
}

absl::Status SeatExecutor::Open(Lane* lane) {
  lane->memory = std::make_shared<models::SectionMemory>();
  for (const auto& [samples, section] : options_.sections) {
    SOAP_ASSIGN_OR_RETURN(lane->bound[samples], Bind(*section, /*training=*/true, lane->memory));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SeatExecutor>> SeatExecutor::Create(SeatExecutorOptions options) {
  std::unique_ptr<SeatExecutor> executor(new SeatExecutor(std::move(options)));
  for (Lane& lane : executor->lanes_) SOAP_RETURN_IF_ERROR(executor->Open(&lane));
  return executor;
}

uint64_t SeatExecutor::memory_bytes() const {
  uint64_t parameters = 0, step = 0;
  const uint64_t others = options_.takes_over ? 1 : 0;  // teams that are taken over
  const uint64_t lanes = lanes_.size() + others;
  for (const auto& [samples, bound] : lanes_.front().bound) {
    uint64_t early = 0;  // of the clocks under way and the next
    for (const models::IncomingBlock& block : bound.runner->section().incoming) {
      early += 2 * BytesOf(block.size);
    }
    step = std::max(step, static_cast<uint64_t>(bound.runner->memory().bytes) + early);
    for (const models::ParamBlock& block : bound.runner->section().param_blocks) {
      parameters += BytesOf(block.tensor.shape());
    }
  }
  const uint64_t held = options_.layout->elements() * sizeof(float);
  const auto levels = static_cast<uint64_t>(std::bit_width(options_.micro_batches));
  // Of the clock in hand; and of the next one, on their way and with the device. Who may take over
  // keeps those of the clock that is loaded and of the one before.
  const uint64_t values = options_.reads_ahead || options_.takes_over ? 3 : 1;
  const uint64_t kept = kept_.has_value() ? kept_->memory_bytes() : 0;
  return lanes * (step + parameters) + held * (values + levels * (1 + others)) + kept;
}

std::vector<SeatExecutor::Use> SeatExecutor::UsesOf(const models::ParamBlock& block) const {
  std::vector<Use> uses;
  const std::vector<ParamSpec>& params = options_.layout->params();
  for (const uint32_t piece : PiecesIn(block, *options_.layout)) {
    uses.push_back({.piece = piece,
                    .runs = RunsIn(params[piece], block),
                    .whole = params[piece].shape == block.tensor.shape()});
  }
  return uses;
}

absl::StatusOr<SeatExecutor::Bound> SeatExecutor::Bind(
    const models::Section& section, bool training,
    const std::shared_ptr<models::SectionMemory>& memory) {
  Bound bound;
  SOAP_ASSIGN_OR_RETURN(bound.runner,
                        models::SectionRunner::Create(section, {.backend = options_.backend,
                                                                .kernels = kernels_,
                                                                .seed = options_.seed,
                                                                .training = training,
                                                                .memory = memory}));
  for (const models::ParamBlock& block : section.param_blocks) {
    bound.uses.push_back(UsesOf(block));
  }
  bound.parts.assign(sums_.of.size(), std::vector<uint32_t>(options_.micro_batches));
  for (const SectionStep& step : section.steps) {
    if (step.kind != SectionStep::Kind::kBackward) continue;
    const models::SectionPart& part = section.parts[step.index];
    for (const uint32_t block : part.params) {
      for (const Use& use : bound.uses[block]) ++bound.parts[use.piece][part.micro_batch];
    }
  }
  return bound;
}

void SeatExecutor::Run(const DeviceCommand& command, std::vector<DeviceEvent>* events) {
  const Nanos begin = options_.now();
  DeviceEvent event = {.run = command.run, .instruction = command.instruction};
  std::visit([&](const auto& what) { CarryOut(command, what, &event); }, command.what);
  compute_ns_ += options_.now() - begin;
  if (!command.wants_event) return;
  event.not_finite = std::exchange(not_finite_, {});
  event.trained_samples = std::exchange(trained_samples_, 0);
  if (!std::holds_alternative<EvaluateModel>(command.what)) {
    event.loss_sum = std::exchange(loss_sum_, 0.0);
  }
  event.compute_ns = std::exchange(compute_ns_, 0);
  events->push_back(std::move(event));
}

void SeatExecutor::CarryOut(const DeviceCommand& command, const LoadCommand& load, DeviceEvent*) {
  if (command.clock >= options_.total_clocks) {
    values_ = load.frames;  // evaluation's, once it has memory
  } else if (kept_.has_value()) {
    kept_->Load(load);
  } else {
    LoadInto(&BoundOf(command), load.frames);
  }
}

SeatExecutor::Lane& SeatExecutor::LaneOf(const DeviceCommand& command) {
  if (!command.taken_over.empty()) return TakenOverOf(command).lane;
  if (command.clock >= options_.total_clocks) return lanes_.front();
  return lanes_[static_cast<size_t>(command.clock) % lanes_.size()];
}

SeatExecutor::Sums& SeatExecutor::SumsOf(const DeviceCommand& command) {
  return command.taken_over.empty() ? sums_ : TakenOverOf(command).sums;
}

SeatExecutor::TakenOver& SeatExecutor::TakenOverOf(const DeviceCommand& command) {
  const uint32_t team = command.taken_over.begin / options_.micro_batches;
  const auto [at, is_new] = taken_over_.try_emplace(team);
  if (is_new) {
    at->second.sums.of.resize(sums_.of.size());
    const absl::Status opened = Open(&at->second.lane);
    LOG_IF(FATAL, !opened.ok()) << "a team's part that is taken over: " << opened;
  }
  return at->second;
}

SampleRange SeatExecutor::SamplesOf(const DeviceCommand& command) const {
  const uint32_t first = command.taken_over.empty() ? options_.team * options_.micro_batches
                                                    : command.taken_over.begin;
  return SamplesOfLeaves({first, first + options_.micro_batches},
                         options_.teams * options_.micro_batches,
                         batches_.BatchSamples(command.clock));
}

SeatExecutor::Bound& SeatExecutor::BoundOf(const DeviceCommand& command) {
  std::map<uint64_t, Bound>& bound = LaneOf(command).bound;
  const auto at = bound.find(SamplesOf(command).size());
  CHECK(at != bound.end()) << "a batch of a size that the strategy was not lowered for";
  return at->second;
}

// From the answers of the shards to the blocks that parts read.
void SeatExecutor::LoadInto(Bound* bound, const std::vector<Buffers>& values) {
  for (uint32_t k = 0; k < values.size(); ++k) {
    if (values[k].empty()) continue;
    const std::vector<wire::Slice>& slices = options_.layout->slices(ShardId{k});
    for (size_t i = 0; i < slices.size(); ++i) {
      const wire::Slice& slice = slices[i];
      Put(Index(slice.param), slice.begin, values[k][i].floats(), bound);
    }
  }
}

void SeatExecutor::Put(uint32_t piece, uint64_t begin, absl::Span<const float> values,
                       Bound* bound) {
  for (uint32_t b = 0; b < bound->uses.size(); ++b) {
    for (const Use& use : bound->uses[b]) {
      if (use.piece != piece) continue;
      const absl::Span<float> to = bound->runner->param(b);
      for (uint64_t e = 0; e < values.size();) {
        const PieceRuns::Run run = use.runs.RunAt(begin + e);
        const uint64_t count = std::min(run.count, values.size() - e);
        std::memcpy(to.data() + run.at, values.data() + e, count * sizeof(float));
        e += count;
      }
    }
  }
}

bool SeatExecutor::ReadsData(const models::Section& section) const {
  for (uint32_t p = 0; p < section.own_parts; ++p) {
    for (const models::PartInput& input : section.parts[p].inputs) {
      if (input.from.kind == models::Assembly::Kind::kField) return true;
    }
  }
  return false;
}

void SeatExecutor::CarryOut(const DeviceCommand& command, const BeginBatch& begin, DeviceEvent*) {
  int64_t counted = INT64_MAX;
  uint64_t first_sample = 0;
  Lane& lane = LaneOf(command);
  if (begin.held_out) {
    if (!evaluates_.has_value()) {
      for (Lane& of : lanes_) {  // so much is not needed any more
        of.bound.clear();
        *of.memory = {};
      }
      absl::StatusOr<Bound> bound = Bind(*options_.evaluation, /*training=*/false, lane.memory);
      LOG_IF(FATAL, !bound.ok()) << "the held-out samples: " << bound.status();
      evaluates_ = *std::move(bound);
      LoadInto(&*evaluates_, std::exchange(values_, {}));
    }
    lane.running = &*evaluates_;
    const auto batch = static_cast<uint64_t>(command.clock - options_.total_clocks);
    FillHeldOut(batch, &lane);
    counted = static_cast<int64_t>(options_.data->test.size() - batch * options_.evaluation_batch);
  } else {
    lane.running = &BoundOf(command);
    for (uint32_t p = 0; kept_.has_value() && p < sums_.of.size(); ++p) {
      Put(p, 0, kept_->values(p), lane.running);
    }
    const SampleRange samples = SamplesOf(command);
    first_sample = samples.begin;
    if (ReadsData(lane.running->runner->section())) {
      batches_.Fill({.clock = command.clock, .begin = samples.begin, .end = samples.end},
                    &lane.feed);
    }
  }
  models::SectionBatch batch = {.step = static_cast<uint64_t>(command.clock),
                                .first_sample = first_sample,
                                .counted = counted};
  lane.fields = models::FieldsOf(lane.feed);
  batch.fields = lane.fields;
  const std::vector<models::FieldSpec> specs = options_.data->train.fields();
  for (size_t f = 0; f < lane.fields.size(); ++f) {
    batch.shapes.push_back({lane.feed.samples});
    batch.shapes.back().insert(batch.shapes.back().end(), specs[f].shape.begin(),
                               specs[f].shape.end());
  }
  const absl::Status begun = lane.running->runner->Begin(batch);
  LOG_IF(FATAL, !begun.ok()) << "a step of " << lane.feed.samples << " samples: " << begun;
}

// The last batch is filled up with its first sample, which does not count.
void SeatExecutor::FillHeldOut(uint64_t batch, Lane* lane) {
  if (!ReadsData(lane->running->runner->section())) return;
  const uint64_t first = batch * options_.evaluation_batch;
  std::vector<uint64_t> indexes(options_.evaluation_batch, first);
  for (uint64_t i = 0; i < indexes.size(); ++i) {
    if (first + i < options_.data->test.size()) indexes[i] = first + i;
  }
  options_.data->test.Gather(indexes, &lane->feed);
}

void SeatExecutor::CarryOut(const DeviceCommand& command, const RunSection& run, DeviceEvent*) {
  Bound* const running = LaneOf(command).running;
  models::SectionRunner& runner = *running->runner;
  const double loss = runner.loss_sum(), correct = runner.correct();
  const int64_t samples = runner.samples();
  for (uint32_t s = run.first; s < run.last; ++s) {
    const SectionStep step = runner.section().steps[s];
    const Nanos began = BeginStep();
    if (step.kind == SectionStep::Kind::kForward) {
      runner.Forward(step.index);
    } else {
      RunBackward(step.index, command.clock, running, &SumsOf(command));
    }
    EndStep(step.kind, step.index, command, began);
  }
  if (command.clock >= options_.total_clocks) {
    tested_loss_ += runner.loss_sum() - loss;
    tested_correct_ += runner.correct() - correct;
    tested_ += static_cast<uint64_t>(runner.samples() - samples);
    return;
  }
  loss_sum_ += runner.loss_sum() - loss;
  trained_samples_ += static_cast<uint64_t>(runner.samples() - samples);
}

// A gradient that is a piece's whole, and its micro-batch's first, is written where it is summed.
void SeatExecutor::RunBackward(uint32_t p, Clock clock, Bound* running, Sums* sums) {
  models::SectionRunner& runner = *running->runner;
  if (std::exchange(sums->clock, clock) != clock) {
    for (Sum& sum : sums->of) sum = {};
  }
  const models::SectionPart& part = runner.section().parts[p];
  std::vector<absl::Span<float>> gradients;
  std::vector<bool> in_place;
  if (scratch_.size() < part.params.size()) scratch_.resize(part.params.size());
  for (size_t i = 0; i < part.params.size(); ++i) {
    const std::vector<Use>& uses = running->uses[part.params[i]];
    const size_t elements = runner.param(part.params[i]).size();
    in_place.push_back(uses.size() == 1 && uses[0].whole);
    if (in_place.back()) {
      Sum::Leaf& leaf = sums->of[uses[0].piece].leaves[part.micro_batch];
      in_place.back() = leaf.parts == 0;
      if (in_place.back()) {
        leaf.gradient = pool_.Take(elements * sizeof(float));
        gradients.push_back(leaf.gradient.floats());
        continue;
      }
    }
    scratch_[i].resize(elements);
    gradients.push_back(absl::MakeSpan(scratch_[i]));
  }
  runner.Backward(p, gradients);
  for (size_t i = 0; i < part.params.size(); ++i) {
    for (const Use& use : running->uses[part.params[i]]) {
      if (!in_place[i]) AddPart(use, gradients[i], part.micro_batch, sums);
      Sum::Leaf& leaf = sums->of[use.piece].leaves[part.micro_batch];
      ++leaf.parts;
      if (leaf.parts == running->parts[use.piece][part.micro_batch]) {
        Complete(use.piece, clock, *running, sums);
      }
    }
  }
}

// What a part gives of a piece: written where it is the first of its micro-batch, else added.
void SeatExecutor::AddPart(const Use& use, absl::Span<const float> gradient, uint32_t micro_batch,
                           Sums* sums) {
  Sum::Leaf& leaf = sums->of[use.piece].leaves[micro_batch];
  const uint64_t elements = options_.layout->params()[use.piece].elements();
  const bool first = leaf.parts == 0;
  if (first) leaf.gradient = pool_.Take(elements * sizeof(float));
  float* const to = leaf.gradient.floats().data();
  for (uint64_t e = 0; e < elements;) {
    const PieceRuns::Run run = use.runs.RunAt(e);
    const float* const from = gradient.data() + run.at;
    if (first) {
      std::memcpy(to + e, from, run.count * sizeof(float));
    } else {
      for (uint64_t i = 0; i < run.count; ++i) to[e + i] += from[i];
    }
    e += run.count;
  }
}

// Micro-batches that are all there join the tree, in their order. Of one that this seat has no part
// of there is nothing to add.
void SeatExecutor::Complete(uint32_t piece, Clock clock, const Bound& running, Sums* sums) {
  Sum& sum = sums->of[piece];
  const std::vector<uint32_t>& parts = running.parts[piece];
  const MicroBatchRange all = {0, options_.micro_batches};
  while (sum.next < options_.micro_batches) {
    const auto leaf = sum.leaves.find(sum.next);
    const uint32_t wanted = parts[sum.next];
    if (wanted > 0 && (leaf == sum.leaves.end() || leaf->second.parts < wanted)) return;
    sum.stack.emplace_back();
    if (wanted > 0) {
      BufferPool::Block gradient = std::move(leaf->second.gradient);
      sum.leaves.erase(leaf);
      if (options_.spoils != nullptr && clock != spoiled_ && options_.spoils(clock)) {
        spoiled_ = clock;
        gradient.floats().front() = std::nanf("");
      }
      if (!AllFinite(gradient.floats()) && not_finite_.updates++ == 0) not_finite_.tensor = piece;
      sum.stack.back() = std::move(gradient);
    }
    for (uint32_t m = NodesCompletedBy(sum.next, all); m > 0; --m) {
      const BufferPool::Block top = std::move(sum.stack.back());
      sum.stack.pop_back();
      BufferPool::Block& below = sum.stack.back();
      if (below.data == nullptr) {
        below = top;
      } else if (top.data != nullptr) {
        const absl::Span<float> to = below.floats();
        const absl::Span<const float> from = top.floats();
        for (size_t e = 0; e < to.size(); ++e) to[e] += from[e];
      }
    }
    ++sum.next;
  }
}

void SeatExecutor::CarryOut(const DeviceCommand& command, const TakeCommand& take, DeviceEvent*) {
  const Nanos began = BeginStep();
  LaneOf(command).running->runner->Take(take.index, take.block);
  EndStep(SectionStep::Kind::kTake, take.number, command, began);
}

void SeatExecutor::CarryOut(const DeviceCommand& command, const GiveBlock& give,
                            DeviceEvent* event) {
  models::SectionRunner& runner = *LaneOf(command).running->runner;
  const Nanos began = BeginStep();
  event->frames.push_back(runner.Give(give.index));
  const uint32_t number = runner.section().outgoing[give.index].number;
  EndStep(SectionStep::Kind::kGive, number, command, began);
}

void SeatExecutor::CarryOut(const DeviceCommand& command, const CollectBucket& collect,
                            DeviceEvent* event) {
  if (kept_.has_value()) {
    event->frames = kept_->HandOver(collect.shard, collect.bucket);
    event->samples = kept_->samples();
    return;
  }
  for (const wire::Slice& slice :
       options_.layout->buckets(collect.shard)[Index(collect.bucket)].slices) {
    const Sum& sum = SumsOf(command).of[Index(slice.param)];
    CHECK(sum.next == options_.micro_batches && sum.stack.size() == 1)
        << "a gradient that is not there";
    event->frames.push_back(
        sum.stack[0].View(slice.begin * sizeof(float), slice.elements() * sizeof(float)));
  }
  event->samples = SamplesOf(command).size();
}

void SeatExecutor::CarryOut(const DeviceCommand& command, const EvaluateModel&,
                            DeviceEvent* event) {
  *event = {.run = command.run, .instruction = command.instruction};
  event->loss_sum = tested_loss_;
  event->samples = tested_;
  event->correct = tested_correct_;  // a part of the team's
}

}  // namespace soapstone::worker
