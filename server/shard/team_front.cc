#include "server/shard/team_front.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace soapstone::server {

using wire::Message;

TeamFront::TeamFront(wire::TeamShape shape, std::vector<uint32_t> holders, TeamFault fault)
    : shape_(shape), holders_(std::move(holders)), teams_(shape.teams), fault_(fault) {
  CHECK(!holders_.empty()) << "parameters that nobody holds";
  for (uint32_t team = 0; team < shape_.teams; ++team) Forget(WorkerId{team});
}

bool TeamFront::Holds(WorkerId worker) const {
  return std::binary_search(holders_.begin(), holders_.end(), wire::SeatOf(worker, shape_));
}

size_t TeamFront::HolderOf(WorkerId worker) const {
  const auto at = std::lower_bound(holders_.begin(), holders_.end(), wire::SeatOf(worker, shape_));
  return static_cast<size_t>(at - holders_.begin());
}

std::vector<WorkerId> TeamFront::HoldersOf(WorkerId team) const {
  std::vector<WorkerId> workers;
  for (const uint32_t seat : holders_) workers.push_back(wire::WorkerAt(team, seat, shape_));
  return workers;
}

// All parts are of the same samples of the team's batch, each of what its seat computes of them:
// the first one's numbers are the team's.
std::optional<std::vector<Message>> TeamFront::TakePush(Message push) {
  const WorkerId team = wire::TeamOf(push.worker, shape_);
  const auto& body = wire::As<wire::Push>(push);
  const auto at = pushes_.try_emplace(Key{team, push.clock, body.bucket, body.micro_batches}).first;
  Parts& parts = at->second;
  parts.of.resize(holders_.size());
  parts.here.resize(holders_.size());
  const size_t holder = HolderOf(push.worker);
  if (parts.here[holder]) return std::nullopt;
  parts.here[holder] = true;
  bytes_ += push.payload_bytes();
  push.worker = team;
  const size_t place = fault_ == TeamFault::kAsTheyCome ? parts.count : holder;
  parts.of[place] = std::move(push);
  if (fault_ == TeamFault::kFirstPush && parts.count++ == 0) return {{parts.of[place]}};
  if (fault_ != TeamFault::kFirstPush && ++parts.count == holders_.size()) {
    std::vector<Message> of = std::move(parts.of);
    pushes_.erase(at);
    for (const Message& part : of) bytes_ -= part.payload_bytes();
    return of;
  }
  return std::nullopt;
}

std::optional<Message> TeamFront::TakeClock(const Message& clock) {
  const WorkerId id = wire::TeamOf(clock.worker, shape_);
  Team& team = Of(id);
  Clock& completed = team.completed[HolderOf(clock.worker)];
  completed = std::max(completed, clock.clock);
  const Clock all = *std::min_element(team.completed.begin(), team.completed.end());
  if (all <= team.told) return std::nullopt;
  team.told = all;
  Message whole = clock;
  whole.worker = id;
  whole.clock = all;
  return whole;
}

std::optional<Message> TeamFront::TakePull(Message pull) {
  const WorkerId id = wire::TeamOf(pull.worker, shape_);
  Team& team = Of(id);
  const Clock clock = pull.clock;
  const bool final = wire::As<wire::Pull>(pull).final;
  if (holders_.size() == 1) {
    pull.worker = id;
    return pull;
  }
  // Asked again: the answer is under way.
  if (!final && clock <= team.answered) return std::nullopt;
  const WorkerId from = pull.worker;
  team.pulls[HolderOf(from)] = std::move(pull);
  Message whole = *team.pulls[HolderOf(from)];
  for (const std::optional<Message>& other : team.pulls) {
    if (fault_ == TeamFault::kFirstPull) break;
    if (!other.has_value() || other->clock != clock ||
        wire::As<wire::Pull>(*other).final != final) {
      return std::nullopt;
    }
  }
  whole.worker = id;
  if (!final) team.answered = clock;
  std::fill(team.pulls.begin(), team.pulls.end(), std::nullopt);
  return whole;
}

bool TeamFront::TakeUnasked(WorkerId team, Clock clock) {
  if (holders_.size() == 1 || fault_ == TeamFault::kEachFresh) return true;
  Clock& answered = Of(team).answered;
  return std::exchange(answered, std::max(answered, clock)) < clock;
}

void TeamFront::Forget(WorkerId team) {
  std::erase_if(pushes_, [&](const auto& push) {
    if (std::get<WorkerId>(push.first) != team) return false;
    for (const Message& part : push.second.of) bytes_ -= part.payload_bytes();
    return true;
  });
  Of(team) = {.completed = std::vector<Clock>(holders_.size(), kNoClock),
              .pulls = std::vector<std::optional<Message>>(holders_.size())};
}

void TeamFront::AddTo(Fingerprint* f) const {
  f->Add(pushes_.size());
  for (const auto& [key, parts] : pushes_) {
    f->Add(std::get<WorkerId>(key));
    f->Add(std::get<Clock>(key));
    f->Add(std::get<BucketId>(key));
    f->Add(std::get<MicroBatchRange>(key).begin);
    f->Add(std::get<MicroBatchRange>(key).end);
    for (const bool here : parts.here) f->Add(here);
  }
  for (const Team& team : teams_) {
    for (const Clock completed : team.completed) f->Add(completed);
    f->Add(team.told);
    f->Add(team.answered);
    for (const std::optional<Message>& pull : team.pulls) {
      f->Add(pull.has_value() ? pull->clock : kNoClock);
      f->Add(pull.has_value() && wire::As<wire::Pull>(*pull).final);
    }
  }
}

}  // namespace soapstone::server
