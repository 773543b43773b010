#include "scheduler/members.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "glog/logging.h"
#include "wire/membership/chains.h"
#include "wire/membership/membership.h"

namespace soapstone::scheduler {

Members::Members(uint32_t worker_count, uint32_t shards_per_server, uint32_t seats)
    : seats_(seats) {
  roster_.worker_count = worker_count;
  roster_.shards_per_server = shards_per_server;
}

void Members::AddOriginal(wire::Member member, Epoch admitted) {
  member.admitted = admitted;
  roster_.workers.push_back(std::move(member));
}

bool Members::RemoveServer(ServerId server, Epoch epoch) {
  if (roster_.chains.empty() || !wire::OnlyOn(roster_.chains, server).empty()) return false;
  wire::RemoveServer(server, epoch, &roster_.chains);
  std::erase_if(roster_.servers, [&](const auto& entry) { return entry.server == server; });
  return true;
}

std::optional<uint32_t> Members::WholeTeam() const {
  for (const wire::Member& joiner : joiners_) {
    const uint32_t team = TeamOf(joiner.worker);
    const auto seats =
        std::count_if(joiners_.begin(), joiners_.end(),
                      [&](const wire::Member& other) { return TeamOf(other.worker) == team; });
    if (seats == int64_t{seats_}) return team;
  }
  return std::nullopt;
}

bool Members::BeginAdmission(Epoch epoch) {
  if (admission_.has_value()) return false;
  const std::optional<uint32_t> team = WholeTeam();
  if (!team.has_value()) return false;
  const auto others = std::stable_partition(
      joiners_.begin(), joiners_.end(),
      [&](const wire::Member& joiner) { return TeamOf(joiner.worker) == *team; });
  std::vector<wire::Member> newcomers(std::make_move_iterator(joiners_.begin()),
                                      std::make_move_iterator(others));
  joiners_.erase(joiners_.begin(), others);
  std::ranges::sort(newcomers, {}, &wire::Member::worker);
  admission_ = Admission{.step = Admission::Step::kFreezing, .awaited = epoch};
  std::vector<wire::Member>& workers = roster_.workers.Mutable();
  for (wire::Member& newcomer : newcomers) {
    newcomer.admitted = epoch;
    newcomer.joining = true;
    newcomer.original = false;
    admission_->workers.push_back(newcomer.worker);
    const auto after =
        std::find_if(workers.begin(), workers.end(),
                     [&](const wire::Member& member) { return member.worker > newcomer.worker; });
    workers.insert(after, std::move(newcomer));
  }
  return true;
}

void Members::Place(Clock start, Epoch epoch) {
  ForNewcomers([start](wire::Member* newcomer) {
    CHECK(newcomer->joining);
    newcomer->joining = false;
    newcomer->start = start;
  });
  admission_->step = Admission::Step::kPlacing;
  admission_->awaited = epoch;
}

std::vector<wire::Member> Members::EndAdmission() {
  std::vector<wire::Member> newcomers;
  ForNewcomers([&newcomers](wire::Member* newcomer) {
    CHECK(!newcomer->joining);
    newcomers.push_back(*newcomer);
  });
  admission_.reset();
  return newcomers;
}

bool Members::Remove(WorkerId worker) {
  const auto is = [worker](const wire::Member& member) { return member.worker == worker; };
  std::erase_if(joiners_, is);
  done_.erase(worker);
  if (IsBeingAdmitted(worker)) {
    std::vector<wire::Member> again;
    ForNewcomers([&](wire::Member* newcomer) {
      if (newcomer->worker == worker) return;
      again.push_back(
          {.worker = newcomer->worker, .endpoint = newcomer->endpoint, .key = newcomer->key});
    });
    for (const wire::Member& newcomer : again) {
      std::erase_if(roster_.workers.Mutable(),
                    [&](const wire::Member& member) { return member.worker == newcomer.worker; });
    }
    joiners_.insert(joiners_.begin(), again.begin(), again.end());
    admission_.reset();
  }
  return std::erase_if(roster_.workers.Mutable(), is) > 0;
}

bool Members::MarkDone(WorkerId worker) {
  if (!IsMember(worker)) return false;
  done_.insert(worker);
  return true;
}

bool Members::HasStarted() const {
  return std::any_of(roster_.workers.begin(), roster_.workers.end(),
                     [&](const wire::Member& member) { return !IsBeingAdmitted(member.worker); });
}

bool Members::IsMember(WorkerId worker) const {
  return FindMember(roster_, worker) != nullptr && !IsBeingAdmitted(worker);
}

bool Members::AllDone() const {
  return !admission_.has_value() && !WholeTeam().has_value() &&
         done_.size() == roster_.workers.size();
}

bool Members::IsBeingAdmitted(WorkerId worker) const {
  return admission_.has_value() &&
         std::ranges::find(admission_->workers, worker) != admission_->workers.end();
}

void Members::ForNewcomers(const std::function<void(wire::Member*)>& each) {
  CHECK(admission_.has_value());
  size_t found = 0;
  for (wire::Member& member : roster_.workers.Mutable()) {
    if (!IsBeingAdmitted(member.worker)) continue;
    each(&member);
    ++found;
  }
  CHECK(found == admission_->workers.size());
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
    for (const WorkerId worker : admission_->workers) f->Add(worker);
    f->Add(admission_->step);
    f->Add(admission_->awaited);
  }
  f->Add(done_.size());
  for (const WorkerId worker : done_) f->Add(worker);
}

}  // namespace soapstone::scheduler
