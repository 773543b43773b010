#include "worker/team_takeover.h"

#include <algorithm>

#include "glog/logging.h"
#include "wire/membership/membership.h"
#include "wire/membership/teams.h"

namespace soapstone::worker {

std::optional<Clock> TeamTakeover::OnRoster(const wire::Roster& roster, Epoch epoch) {
  wire::Roster teams = wire::TeamRoster(roster, options_->seat->team);
  const wire::Member* own = wire::FindMember(teams, WorkerId{options_->team()});
  if (own == nullptr) return std::nullopt;
  admitted_ = own->admitted;
  // A former team's, or of an admission that came to nothing: who is gone says no more.
  words_.erase(words_.begin(), words_.lower_bound(admitted_));
  std::erase_if(pending_, [&](const Pending& pending) { return pending.epoch < admitted_; });
  pending_.push_back({.epoch = epoch, .teams = std::move(teams), .loaded = loaded_});
  Agree();
  return loaded_;
}

bool TeamTakeover::OnWord(uint32_t seat, Epoch epoch, Clock loaded) {
  const bool known = words_.contains(epoch);
  if (epoch < std::max(admitted_, agreed_)) return false;
  if (!known && words_.size() >= kWordsMax) return false;
  if (!words_[epoch].emplace(seat, loaded).second) return false;
  Agree();
  return true;
}

// Words that were used stay until those of a later roster are: a second copy is known by them.
void TeamTakeover::Agree() {
  while (!pending_.empty()) {
    Pending& next = pending_.front();
    const std::map<uint32_t, Clock>& words = words_[next.epoch];
    if (words.size() + 1 < options_->seat->team.seats) return;
    Clock least = next.loaded, greatest = next.loaded;
    for (const auto& [seat, loaded] : words) {
      least = std::min(least, loaded);
      greatest = std::max(greatest, loaded);
    }
    if (!in_force_.empty()) in_force_.back().until = greatest;
    for (Clock c = std::max(least, first_kept()); c <= loaded_; ++c) Plan(next.teams, c);
    in_force_.push_back({.teams = std::move(next.teams)});
    agreed_ = next.epoch;
    words_.erase(words_.begin(), words_.find(agreed_));
    pending_.erase(pending_.begin());
  }
}

std::vector<wire::Message> TeamTakeover::TakeDeferred() {
  std::vector<wire::Message> replies;
  for (auto& [shard, reply] : deferred_) replies.push_back(std::move(reply));
  deferred_.clear();
  return replies;
}

// A seat that holds no parameters needs none of a clock to run it.
Clock TeamTakeover::first_kept() const {
  if (options_->layout->shard_count() == 0) return first_open();
  return values_.empty() ? kClockMax : values_.begin()->first;
}

// No shard keeps it back, but each seat that it sends to, by a clock; and so on through the team.
Clock TeamTakeover::first_open() const {
  const Clock ahead = options_->layout->shard_count() > 0 ? 1 : options_->seat->team.seats;
  return std::max<Clock>(loaded_ - ahead, 0);
}

void TeamTakeover::OnLoad(Clock clock, std::vector<Buffers> values) {
  CHECK(!holds() && clock > loaded_);
  loaded_ = clock;
  values_[clock] = std::move(values);
  while (in_force_.size() > 1 && in_force_.front().until < clock)
    in_force_.erase(in_force_.begin());
  for (const InForce& roster : in_force_) Plan(roster.teams, clock);
  DropValues();
}

std::vector<Buffers> TeamTakeover::ValuesOf(Clock clock) const {
  const auto at = values_.find(clock);
  return at != values_.end() ? at->second : std::vector<Buffers>();
}

void TeamTakeover::Plan(const wire::Roster& teams, Clock clock) {
  for (const uint32_t team : wire::TeamsTakenOver(teams, WorkerId{options_->team()}, clock)) {
    if (!planned_.emplace(clock, team).second) continue;
    std::vector<Clock>& due = lanes_[team].due;
    due.insert(std::upper_bound(due.begin(), due.end(), clock), clock);
  }
}

void TeamTakeover::DropValues() {
  const Clock first = first_wanted();
  values_.erase(values_.begin(), values_.lower_bound(first));
  planned_.erase(planned_.begin(), planned_.lower_bound({std::min(first, first_kept()), 0}));
}

Clock TeamTakeover::first_wanted() const {
  Clock first = first_open();
  for (const auto& [team, lane] : lanes_) {
    if (lane.run.has_value()) first = std::min(first, lane.run->clock());
    if (!lane.due.empty()) first = std::min(first, lane.due.front());
  }
  return first;
}

bool TeamTakeover::Begin(uint64_t* next_run) {
  bool begun = false;
  for (auto& [team, lane] : lanes_) {
    if (lane.run.has_value() || lane.due.empty()) continue;
    const Clock clock = lane.due.front();
    const uint64_t samples = options_->SamplesOf(team, clock);
    if (lane.program == nullptr || lane.samples != samples) {
      const SeatOutline* outline = options_->SeatOutlineOf(team, clock);
      CHECK(outline != nullptr) << "a batch of a size that the strategy was not lowered for";
      lane.program = std::make_shared<const Program>(
          BuildSeatTakeover(options_->Inputs(), *outline, options_->MicroBatchesOf(team)));
      lane.samples = samples;
    }
    lane.due.erase(lane.due.begin());
    lane.run.emplace(lane.program, (*next_run)++, ProgramRun::Clocks{.step = clock, .shard = clock},
                     options_->layout->shard_count());
    begun = true;
  }
  return begun;
}

ProgramRun* TeamTakeover::Find(uint64_t id) {
  for (auto& [team, lane] : lanes_) {
    if (lane.run.has_value() && lane.run->id() == id) return &*lane.run;
  }
  return nullptr;
}

ProgramRun* TeamTakeover::FindOf(MicroBatchRange taken_over) {
  for (auto& [team, lane] : lanes_) {
    if (options_->MicroBatchesOf(team) == taken_over && lane.run.has_value()) return &*lane.run;
  }
  return nullptr;
}

std::vector<ProgramRun*> TeamTakeover::runs() {
  std::vector<ProgramRun*> runs;
  for (auto& [team, lane] : lanes_) {
    if (lane.run.has_value()) runs.push_back(&*lane.run);
  }
  return runs;
}

void TeamTakeover::DropCompleted() {
  bool dropped = false;
  for (auto& [team, lane] : lanes_) {
    if (!lane.run.has_value() || !lane.run->complete()) continue;
    lane.run.reset();
    dropped = true;
  }
  if (dropped) DropValues();
}

void TeamTakeover::AddTo(Fingerprint* f) const {
  f->Add(admitted_);
  f->Add(loaded_);
  f->Add(pending_.size());
  for (const Pending& pending : pending_) {
    f->Add(pending.epoch);
    f->Add(pending.loaded);
  }
  f->Add(words_.size());
  for (const auto& [epoch, words] : words_) {
    f->Add(epoch);
    for (const auto& [seat, loaded] : words) {
      f->Add(seat);
      f->Add(loaded);
    }
  }
  f->Add(in_force_.size());
  for (const InForce& roster : in_force_) f->Add(roster.until);
  for (const auto& [clock, team] : planned_) {
    f->Add(clock);
    f->Add(team);
  }
  for (const auto& [team, lane] : lanes_) {
    f->Add(team);
    for (const Clock clock : lane.due) f->Add(clock);
    f->Add(lane.run.has_value());
    if (lane.run.has_value()) lane.run->AddTo(f);
  }
  for (const auto& [shard, reply] : deferred_) {
    f->Add(shard);
    f->Add(reply.clock);
  }
}

}  // namespace soapstone::worker
