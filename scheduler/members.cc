#include "scheduler/members.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"
#include "wire/membership/membership.h"

namespace soapstone::scheduler {

Members::Members(uint32_t worker_count, uint32_t shards_per_server) {
  roster_.worker_count = worker_count;
  roster_.shards_per_server = shards_per_server;
}

void Members::AddOriginal(wire::Member member, Epoch admitted) {
  member.admitted = admitted;
  roster_.workers.push_back(std::move(member));
}

bool Members::BeginAdmission(Epoch epoch) {
  if (admission_.has_value() || joiners_.empty()) return false;
  wire::Member newcomer = std::move(joiners_.front());
  joiners_.erase(joiners_.begin());
  newcomer.admitted = epoch;
  newcomer.joining = true;
  newcomer.original = false;
  admission_ = Admission{newcomer.worker, Admission::Step::kFreezing, epoch};
  std::vector<wire::Member>& workers = roster_.workers.Mutable();
  const auto after = std::find_if(workers.begin(), workers.end(), [&](const wire::Member& member) {
    return member.worker > newcomer.worker;
  });
  workers.insert(after, std::move(newcomer));
  return true;
}

void Members::Place(Clock start, Epoch epoch) {
  wire::Member& newcomer = Newcomer();
  CHECK(newcomer.joining);
  newcomer.joining = false;
  newcomer.start = start;
  admission_->step = Admission::Step::kPlacing;
  admission_->awaited = epoch;
}

wire::Member Members::EndAdmission() {
  wire::Member newcomer = Newcomer();
  CHECK(!newcomer.joining);
  admission_.reset();
  return newcomer;
}

bool Members::Remove(WorkerId worker) {
  std::erase_if(joiners_, [&](const wire::Member& joiner) { return joiner.worker == worker; });
  done_.erase(worker);
  if (IsBeingAdmitted(worker)) admission_.reset();
  return std::erase_if(roster_.workers.Mutable(),
                       [&](const wire::Member& member) { return member.worker == worker; }) > 0;
}

bool Members::MarkDone(WorkerId worker) {
  if (FindMember(roster_, worker) == nullptr || IsBeingAdmitted(worker)) return false;
  done_.insert(worker);
  return true;
}

bool Members::HasStarted() const {
  return std::any_of(roster_.workers.begin(), roster_.workers.end(),
                     [&](const wire::Member& member) { return !IsBeingAdmitted(member.worker); });
}

bool Members::AllDone() const {
  return !admission_.has_value() && joiners_.empty() && done_.size() == roster_.workers.size();
}

wire::Member& Members::Newcomer() {
  CHECK(admission_.has_value());
  std::vector<wire::Member>& workers = roster_.workers.Mutable();
  const auto it = std::find_if(workers.begin(), workers.end(), [&](const wire::Member& member) {
    return member.worker == admission_->worker;
  });
  CHECK(it != workers.end());
  return *it;
}

void Members::AddTo(Fingerprint* f) const {
  f->Add(roster_.workers.size());
  for (const wire::Member& member : roster_.workers) {
    f->Add(member.worker);
    f->Add(member.start);
    f->Add(member.admitted);
    f->Add(member.joining);
    f->Add(member.original);
  }
  f->Add(roster_.servers.size());
  for (const wire::Shares& shares : roster_.shares) {
    f->Add(shares.from);
    for (const uint32_t micro_batches : shares.micro_batches) f->Add(micro_batches);
  }
  f->Add(roster_.share_lead);
  f->Add(joiners_.size());
  for (const wire::Member& joiner : joiners_) f->Add(joiner.worker);
  f->Add(admission_.has_value());
  if (admission_.has_value()) {
    f->Add(admission_->worker);
    f->Add(admission_->step);
    f->Add(admission_->awaited);
  }
  f->Add(done_.size());
  for (const WorkerId worker : done_) f->Add(worker);
}

}  // namespace soapstone::scheduler
