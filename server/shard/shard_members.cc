#include "server/shard/shard_members.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "wire/membership/membership.h"

namespace soapstone::server {

using consistency::Level;
using consistency::PolicyTraits;
using wire::Address;
using wire::FindMember;
using wire::Message;

wire::Roster GroupRoster(const wire::Roster& before, const wire::Roster& groups_before,
                         const wire::Roster& roster, Epoch epoch, const PolicyTraits& traits) {
  wire::Roster groups = roster;
  groups.workers = {};
  std::vector<bool> goes_on;
  for (const wire::Member& member : roster.workers) {
    const WorkerId group{consistency::GroupOf(member.worker, traits)};
    if (groups.workers.empty() || groups.workers.back().worker != group) {  // they ascend
      groups.workers.push_back(
          {.worker = group, .start = member.start, .admitted = epoch, .joining = member.joining});
      goes_on.push_back(false);
    }
    wire::Member& entry = groups.workers.Mutable().back();
    if (!member.joining) {
      entry.start = entry.joining ? member.start : std::min(entry.start, member.start);
      entry.joining = false;
    }
    const wire::Member* was = FindMember(before, member.worker);
    goes_on.back() = goes_on.back() || (was != nullptr && was->admitted == member.admitted);
  }
  for (size_t i = 0; i < groups.workers.size(); ++i) {
    const wire::Member* was = FindMember(groups_before, groups.workers[i].worker);
    if (was == nullptr || !goes_on[i]) continue;
    wire::Member& entry = groups.workers.Mutable()[i];
    entry.admitted = was->admitted;
    if (!was->joining) entry = *was;  // whoever comes to it
  }
  return groups;
}

wire::Roster BranchRoster(const wire::Roster& roster, uint32_t group, const PolicyTraits& traits) {
  wire::Roster own = roster;
  own.workers = {};
  for (const wire::Member& member : roster.workers) {
    if (consistency::GroupOf(member.worker, traits) == group) own.workers.push_back(member);
  }
  return own;
}

// The members that this shard has, of those that the job has.
wire::Roster ShardMembers::OwnOf(const wire::Roster& roster, const PolicyTraits& traits,
                                 std::optional<Clock>* restart) {
  if (team_.has_value()) {
    workers_ = roster;
    return wire::TeamRoster(roster, *team_);
  }
  if (level_ == Level::kFlat) return roster;
  const wire::Roster before =
      std::exchange(groups_, GroupRoster(workers_, groups_, roster, epoch_, traits));
  workers_ = roster;
  if (level_ == Level::kRoot) return groups_;
  const WorkerId group{consistency::GroupOfBranch(self_, root_shards_)};
  const wire::Member* was = FindMember(before, group);
  const wire::Member* is = FindMember(groups_, group);
  const bool same = was != nullptr && is != nullptr && was->admitted == is->admitted;
  if (is != nullptr && !(same && was->joining == is->joining)) {
    *restart = is->joining ? 0 : is->start;
  }
  return BranchRoster(roster, Index(group), traits);
}

ShardMembers::Change ShardMembers::Install(const wire::Roster& roster, Epoch epoch,
                                           const PolicyTraits& traits) {
  epoch_ = epoch;
  if (!roster.servers.empty()) saver_ = roster.servers.front().server;
  Change change;
  const wire::Roster before = std::exchange(roster_, OwnOf(roster, traits, &change.restart));
  for (const wire::Member& member : before.workers) {
    const wire::Member* now = FindMember(roster_, member.worker);
    // A replacement under the same rank is another member: the former one leaves first.
    if (now != nullptr && now->admitted == member.admitted) continue;
    change.gone.push_back(member.worker);
  }
  return change;
}

Clock ShardMembers::LatestStart() const {
  Clock start = 0;
  for (const wire::Member& member : roster_.workers) {
    if (!member.joining) start = std::max(start, member.start);
  }
  return start;
}

Address ShardMembers::AddressOf(WorkerId worker) const {
  if (level_ != Level::kRoot) return Address::Of(worker);
  return Address::Of(consistency::BranchOf(self_, Index(worker), root_shards_));
}

std::string ShardMembers::WhyNotTaken(const Message& message) const {
  const wire::Member* member = FindMember(team_.has_value() ? workers_ : roster_, message.worker);
  if (member == nullptr) {
    return absl::StrCat("worker ", Index(message.worker), " is not a member in epoch ", epoch_);
  }
  if (message.from != AddressOf(message.worker)) return "sent in another worker's name";
  if (message.epoch < member->admitted) {
    return absl::StrCat("stale epoch ", message.epoch, "; the worker was admitted in epoch ",
                        member->admitted);
  }
  if (front_.has_value() && !front_->Holds(message.worker)) {
    return absl::StrCat("worker ", Index(message.worker), " holds nothing of this shard");
  }
  return "";
}

void WriteState(StateWriter* writer, const ShardMembers& members) {
  writer->Write(members.epoch_);
  writer->Write(members.saver_);
  if (members.epoch_ > 0) writer->Write(members.roster_);
}

bool ReadState(StateReader* reader, ShardMembers* members) {
  if (members->level_ != consistency::Level::kFlat || members->team_.has_value()) return false;
  members->roster_ = {};
  reader->Read(&members->epoch_);
  reader->Read(&members->saver_);
  if (members->epoch_ > 0) reader->Read(&members->roster_);
  return reader->ok();
}

void ShardMembers::AddTo(Fingerprint* f) const {
  f->Add(epoch_);
  for (const wire::Member& member : roster_.workers) {
    f->Add(member.worker);
    f->Add(member.admitted);
  }
  if (front_.has_value()) front_->AddTo(f);
}

}  // namespace soapstone::server
