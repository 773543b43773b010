#include "worker/takeover.h"

#include <algorithm>

#include "wire/membership/membership.h"

namespace soapstone::worker {

void Takeover::OnStep(const Program& step) {
  planned_before_ = std::move(planned_);
  planned_.assign(options_->micro_batch_count, false);
  for (const NodePlan& node : step.nodes) {
    std::fill(planned_.begin() + node.node.begin, planned_.begin() + node.node.end, true);
  }
}

ProgramRun* Takeover::Begin(const wire::Roster& roster, Step step, Clock clock, uint64_t id,
                            bool reload) {
  const uint32_t micro_batch_count = options_->micro_batch_count;
  std::vector<bool>& planned = step == Step::kThis ? planned_ : planned_before_;
  if (planned.size() != micro_batch_count) return nullptr;
  std::vector<uint32_t> micro_batches;
  for (const uint32_t micro_batch :
       MicroBatchesOwned(roster, options_->id, clock, micro_batch_count).taken_over) {
    if (planned[micro_batch]) continue;
    planned[micro_batch] = true;
    micro_batches.push_back(micro_batch);
  }
  if (micro_batches.empty()) return nullptr;
  auto program = std::make_shared<const Program>(
      BuildTakeover(options_->Inputs(),
                    PlanTreeNodes({}, micro_batches, micro_batch_count, Merge::kAll), reload));
  return &runs_.emplace_back(std::move(program), id,
                             ProgramRun::Clocks{.step = clock, .shard = clock},
                             options_->layout->shard_count());
}

ProgramRun* Takeover::Find(uint64_t id) {
  const auto run = std::find_if(runs_.begin(), runs_.end(),
                                [&](const ProgramRun& run) { return run.id() == id; });
  return run != runs_.end() ? &*run : nullptr;
}

void Takeover::DropCompleted() {
  std::erase_if(runs_, [](const ProgramRun& run) { return run.complete(); });
}

void Takeover::AddTo(Fingerprint* f) const {
  f->Add(runs_.size());
  for (const ProgramRun& run : runs_) run.AddTo(f);
  for (const bool planned : planned_) f->Add(planned);
  for (const bool planned : planned_before_) f->Add(planned);
}

}  // namespace soapstone::worker
