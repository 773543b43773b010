#include "worker/step_schedule.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "glog/logging.h"
#include "wire/membership/membership.h"

namespace soapstone::worker {

void StepSchedule::Start(Clock clock) {
  clock_ = start_clock_ = std::min(clock * options_->policy.period(), options_->total_clocks);
  // The shards' only clock is the end; where to begin, the peer knows.
  if (options_->policy.decentralised() && clock > 0) clock_ = options_->total_clocks;
}

void StepSchedule::OnRoster(const wire::Roster& roster) {
  latest_start_ = 0;
  for (const wire::Member& m : roster.workers) latest_start_ = std::max(latest_start_, m.start);
  if (roster.share_lead == 0) bounds_.by_shares.reset();
}

Clock StepSchedule::Bind(const wire::Roster& roster) {
  if (!bounds_.by_shares.has_value()) bounds_.by_shares = shard_clock() + 1 + roster.share_lead;
  return *bounds_.by_shares;
}

std::optional<Clock> StepSchedule::BindBy(uint32_t number, Clock clock, Clock asked) {
  if (number < bounds_.number) return std::nullopt;
  if (number > bounds_.number) {
    const Clock period = options_->policy.period();
    const Clock begun = clock_ + begun_.clocks + (begun_.one_more ? 1 : 0);
    bounds_.number = number;
    bounds_.by_order = std::max({clock, asked, (begun + period - 1) / period});
  }
  return bounds_.by_order;
}

bool StepSchedule::TakeReleased() {
  if (!held_ || at_bound()) return false;
  held_ = false;
  return true;
}

// What comes after `clock_` completed steps.
std::shared_ptr<const Program> StepSchedule::Next(const wire::Roster& roster, Epoch epoch) {
  const ProgramInputs inputs = options_->Inputs();
  if (leave_requested_ && !at_exchange_ && clock_ < options_->total_clocks) {
    // A seat goes at once, by a program of nothing: what not all holders have pushed is dropped
    // with its team, and a pull is answered when all have asked, who may wait for this one's
    // blocks.
    if (options_->seat != nullptr) {
      return std::make_shared<Program>(Program{.kind = Program::Kind::kFlush});
    }
    // A reply comes after everything we sent on that channel was taken: then we may go without
    // losing an update to a roster that overtakes it.
    return std::make_shared<Program>(BuildFlush(inputs));
  }
  if (begun_.clocks < Ahead()) {
    const SeatOutline* outline = options_->SeatOutlineAt(clock_ + begun_.clocks);
    CHECK(outline != nullptr) << "a batch of a size that the strategy was not lowered for";
    begun_.one_more = true;
    return std::make_shared<Program>(BuildSeatFill(inputs, *outline));
  }
  if (at_exchange_) {
    const MicroBatchRange rank = {options_->rank(), options_->rank() + 1};
    const bool elastic =
        std::holds_alternative<consistency::ElasticExchange>(options_->policy.exchange);
    return std::make_shared<Program>(elastic ? BuildExchange(inputs, rank)
                                             : BuildDeltaPush(inputs, rank));
  }
  if (finished()) return nullptr;
  if (NeedsValues()) return std::make_shared<Program>(BuildInitialPull(inputs));
  return NextStep(roster, epoch);
}

// Workers that keep parameters begin with others': under the elastic rule once, else each round.
bool StepSchedule::NeedsValues() const {
  struct Needs {
    bool operator()(const consistency::GradientExchange&) const { return false; }
    bool operator()(const consistency::ElasticExchange&) const { return round == kNoClock; }
    bool operator()(const consistency::DeltaExchange&) const { return round != now; }
    bool operator()(const consistency::PeerExchange&) const { return false; }
    Clock round, now;
  };
  return std::visit(Needs{round_, shard_clock()}, options_->policy.exchange);
}

std::shared_ptr<const Program> StepSchedule::NextStep(const wire::Roster& roster, Epoch epoch) {
  held_ = at_bound();
  if (held_) return nullptr;
  begun_.one_more = RunsForward();
  const wire::Shares* shares = SharesAt(roster, shard_clock());
  const Clock shares_from = shares != nullptr ? shares->from : kNoClock;
  // A newcomer of this epoch changes who owns what at its start clock.
  const bool starts_later = latest_start_ > 0 && shard_clock() <= latest_start_;
  std::pair<uint64_t, uint64_t> samples;
  if (options_->seat != nullptr) {
    samples.first = options_->TeamSamples(clock_);
    if (RunsForward()) samples.second = options_->TeamSamples(clock_ + options_->lead());
  }
  if (step_ == nullptr || step_epoch_ != epoch || starts_later ||
      step_shares_from_ != shares_from || step_samples_ != samples) {
    step_samples_ = samples;
    step_ = std::make_shared<Program>(BuildStepUnder(roster));
    step_epoch_ = epoch;
    step_shares_from_ = shares_from;
  }
  return step_;
}

Program StepSchedule::BuildStepUnder(const wire::Roster& roster) const {
  const consistency::PolicyTraits& policy = options_->policy;
  const uint32_t micro_batch_count = options_->micro_batch_count;
  const ProgramInputs inputs = options_->Inputs();
  if (options_->seat != nullptr) return BuildStepOfSeat();
  wire::OwnedMicroBatches owned =
      MicroBatchesOwned(roster, options_->id, shard_clock(), micro_batch_count);
  // A round is closed without the lost as it is without the slow.
  if (policy.backup()) owned.taken_over.clear();
  if (policy.keeps_parameters()) {
    return BuildLocalStep(inputs, PlanSingleNode(owned.own, owned.taken_over));
  }
  if (!policy.fixed_tree) return BuildStep(inputs, PlanSingleNode(owned.own, owned.taken_over));
  // Of a replacement's micro-batches others may have supplied some.
  const wire::Member* me = FindMember(roster, options_->id);
  const bool original = me != nullptr && me->original;
  const Merge merge = policy.takes_over() ? Merge::kAll : original ? Merge::kOwn : Merge::kNone;
  return BuildStep(inputs, PlanTreeNodes(owned.own, owned.taken_over, micro_batch_count, merge));
}

Program StepSchedule::BuildStepOfSeat() const {
  const ProgramInputs inputs = options_->Inputs();
  const MicroBatchRange node = options_->TeamMicroBatches();
  const Clock lead = options_->lead();
  const SeatOutline* outline = options_->SeatOutlineAt(clock_);
  const SeatOutline* ahead = RunsForward() ? options_->SeatOutlineAt(clock_ + lead) : nullptr;
  CHECK(outline != nullptr && (ahead != nullptr || !RunsForward()))
      << "a batch of a size that the strategy was not lowered for";
  if (options_->policy.keeps_parameters()) return BuildSeatLocalStep(inputs, *outline, node);
  if (lead == 0) return BuildSeatStep(inputs, *outline, node);
  return BuildSeatStepAhead(inputs, *outline, ahead, lead, node);
}

std::shared_ptr<const Program> StepSchedule::NextEvaluation() const {
  const auto batch = static_cast<uint64_t>(evaluated_);
  if (options_->seat == nullptr || batch >= options_->seat->evaluation_batches) return nullptr;
  const bool last = batch + 1 == options_->seat->evaluation_batches;
  return std::make_shared<Program>(
      BuildSeatEvaluation(options_->Inputs(), options_->seat->evaluation, last));
}

std::shared_ptr<const Program> StepSchedule::FinalEvaluation() const {
  if (options_->seat != nullptr) {
    return std::make_shared<Program>(BuildSeatFinalLoad(options_->Inputs()));
  }
  return std::make_shared<Program>(BuildFinalEvaluate(options_->Inputs()));
}

ProgramRun::Clocks StepSchedule::ClocksOf(Program::Kind kind) const {
  switch (kind) {
    case Program::Kind::kFinalEvaluate:
      return {.step = clock_, .shard = options_->ReadClock(options_->total_clocks), .final = true};
    case Program::Kind::kEvaluateBatch:
      return {.step = next_clock(), .shard = options_->ReadClock(options_->total_clocks)};
    case Program::Kind::kFlush:
      return {.step = clock_, .shard = options_->ReadClock(clock_)};
    case Program::Kind::kFill:
      return {.step = clock_ + begun_.clocks, .shard = shard_clock() + begun_.clocks};
    case Program::Kind::kExchange:
      // After the local steps of round r, clock_ stands at (r+1) tau, or at the end.
      return {.step = clock_ - 1, .shard = options_->policy.Rounds(clock_) - 1};
    default:
      return {.step = clock_, .shard = shard_clock()};
  }
}

void StepSchedule::OnEnd(Program::Kind kind) {
  switch (kind) {
    case Program::Kind::kStep:
      ++clock_;
      if (!std::exchange(begun_.one_more, false)) --begun_.clocks;
      break;
    case Program::Kind::kFill:
      ++begun_.clocks;
      begun_.one_more = false;
      break;
    case Program::Kind::kLocalStep:
      ++clock_;
      begun_.one_more = false;
      // A seat that leaves goes without one: it would be of a part of its team's parameters.
      at_exchange_ = clock_ % options_->policy.period() == 0 || clock_ == options_->total_clocks ||
                     (leave_requested_ && options_->seat == nullptr);
      break;
    case Program::Kind::kExchange:
      at_exchange_ = false;
      break;
    case Program::Kind::kInitialPull:
      round_ = shard_clock();
      break;
    case Program::Kind::kEvaluateBatch:
      ++evaluated_;
      break;
    default:
      break;
  }
}

uint64_t StepSchedule::FastForward(Clock clock) {
  const Clock to = std::min(clock, options_->total_clocks);
  begun_.one_more = to < End();
  return static_cast<uint64_t>(to - std::exchange(clock_, to));
}

void StepSchedule::AddTo(Fingerprint* f) const {
  f->Add(clock_);
  f->Add(start_clock_);
  f->Add(at_exchange_);
  f->Add(leave_requested_);
  f->Add(bounds_.by_shares.value_or(kNoClock));
  f->Add(bounds_.number);
  f->Add(bounds_.by_order);
  f->Add(begun_.one_more);
  f->Add(held_);
  f->Add(round_);
  f->Add(latest_start_);
  f->Add(evaluated_);
  f->Add(begun_.clocks);
  f->Add(step_ != nullptr ? step_epoch_ : 0);
}

}  // namespace soapstone::worker
