#include "sim/team/team_truth.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/team/team_options.h"
#include "wire/membership/membership.h"
#include "wire/membership/teams.h"

namespace soapstone::sim {

using wire::Message;
using wire::MessageType;

TeamTruth::TeamTruth(std::shared_ptr<const cluster::TrainingJob> job) : job_(std::move(job)) {
  const planner::TeamPlan& plan = job_->team->plan;
  for (uint32_t k = 0; k < job_->layout->shard_count(); ++k) {
    OfShard of = {.holders = cluster::HoldersOf(*job_->team, ShardId{k}),
                  .own_lag = plan.ReadsAhead() ? 1 : 0};
    for (const uint32_t seat : of.holders) {
      of.own_lag = std::max(of.own_lag, Clock{plan.LeadOf(seat)});
    }
    of.teams.resize(job_->team->shape.teams);
    of.counts.resize(job_->layout->bucket_count(ShardId{k}));
    if (takes_over()) {
      for (Team& team : of.teams) team.applied.resize(of.counts.size());
    }
    shards_.push_back(std::move(of));
  }
}

server::CountedPart TeamTruth::UpdateOf(uint32_t by, Epoch admitted, uint32_t team, Clock clock,
                                        ShardId shard, uint32_t bucket) const {
  server::CountedPart sum;
  bool first = true;
  for (const uint32_t seat : shards_[Index(shard)].holders) {
    const SeatHolder of = {wire::WorkerAt(WorkerId{by}, seat, job_->team->shape), admitted};
    const server::CountedPart part = PartOf(of, team, clock, shard, BucketId{bucket});
    sum = first ? part : server::Join(sum, part);
    first = false;
  }
  return sum;
}

void TeamTruth::BeforeShard(ShardId shard, const Message& in, SeatHolder sender) {
  if (in.type == MessageType::kRoster) TakeRoster(shard, in);
  if (in.type == MessageType::kPush) TakePush(shard, in, sender);
}

// Who is gone leaves what is whole; who comes begins at the clock that the roster says.
void TeamTruth::TakeRoster(ShardId shard, const Message& in) {
  OfShard& of = shards_[Index(shard)];
  if (in.epoch <= of.epoch) return;
  of.epoch = in.epoch;
  const wire::Roster teams = wire::TeamRoster(std::get<wire::Roster>(in.body), job_->team->shape);
  const size_t buckets = of.counts.size();
  // What is whole, but for rounds of members: those go on without it.
  const consistency::PolicyTraits& policy = job_->specs.policy;
  const bool stays =
      policy.fixed_tree || !std::holds_alternative<consistency::RoundTraits>(policy.gate);
  for (uint32_t t = 0; t < of.teams.size(); ++t) {
    Team& team = of.teams[t];
    const auto is = [t](const wire::Member& member) { return Index(member.worker) == t; };
    const auto now = std::find_if(teams.workers.begin(), teams.workers.end(), is);
    const bool same = now != teams.workers.end() && team.present && now->admitted == team.admitted;
    for (uint32_t b = 0; b < buckets && team.present && !same && stays; ++b) {
      const auto here = team.here.begin() + static_cast<int64_t>(b * of.holders.size());
      const Clock whole = *std::min_element(here, here + static_cast<int64_t>(of.holders.size()));
      for (Clock clock = team.applied[b]; clock < whole; ++clock) {
        of.left.push_back({t, b, team.admitted, clock});
      }
    }
    // Of what a team that is gone has computed for another, the rest will not come.
    std::erase_if(of.taken,
                  [&](const Taken& taken) { return taken.by == t && !same && !taken.whole(); });
    if (now == teams.workers.end()) {
      team = takes_over() ? Team{.applied = std::move(team.applied)} : Team{};
      continue;
    }
    const bool begins = !same || (team.joining && !now->joining);
    team.present = true;
    team.joining = now->joining;
    team.admitted = now->admitted;
    if (!begins) continue;
    team.read = kNoClock;
    team.here.assign(buckets * of.holders.size(), now->start);
    if (!takes_over()) team.applied.assign(buckets, now->start);
  }
}

// A part counts once, of a member that the shard knows of, in the order of its clocks.
void TeamTruth::TakePush(ShardId shard, const Message& in, SeatHolder sender) {
  OfShard& of = shards_[Index(shard)];
  const uint32_t bucket = Index(wire::As<wire::Push>(in).bucket);
  Team& team = of.teams[Index(wire::TeamOf(sender.rank, job_->team->shape))];
  const uint32_t seat = wire::SeatOf(sender.rank, job_->team->shape);
  const auto holder = std::find(of.holders.begin(), of.holders.end(), seat);
  if (holder == of.holders.end()) return Fail("a seat pushes to a shard that it does not hold");
  if (!team.present || team.joining || team.admitted != sender.admitted) return;
  const auto place = static_cast<size_t>(holder - of.holders.begin());
  const bool gradients = job_->specs.policy.pushes_gradients();
  const uint32_t each = gradients ? job_->micro_batches / job_->team->shape.teams : 1;
  const uint32_t whose = wire::As<wire::Push>(in).micro_batches.begin / each;
  if (whose != Index(wire::TeamOf(sender.rank, job_->team->shape))) {
    return TakePushFor(&of, whose, in, sender, place);
  }
  Clock& here = team.here[bucket * of.holders.size() + place];
  if (in.clock == here) ++here;
  if (in.clock > here) Fail(absl::StrCat("E1: ", wire::ToString(in), " comes before its turn"));
}

void TeamTruth::TakePushFor(OfShard* of, uint32_t team, const Message& in, SeatHolder sender,
                            size_t holder) {
  if (!takes_over()) return Fail(absl::StrCat("E1: ", wire::ToString(in), " is another team's"));
  const Taken taken = {.by = Index(wire::TeamOf(sender.rank, job_->team->shape)),
                       .team = team,
                       .bucket = Index(wire::As<wire::Push>(in).bucket),
                       .admitted = sender.admitted,
                       .clock = in.clock,
                       .here = std::vector<bool>(of->holders.size())};
  auto at = std::find_if(of->taken.begin(), of->taken.end(), [&](const Taken& other) {
    return other.by == taken.by && other.team == taken.team && other.bucket == taken.bucket &&
           other.admitted == taken.admitted && other.clock == taken.clock;
  });
  if (at == of->taken.end()) at = of->taken.insert(at, taken);
  at->here[holder] = true;
}

void TeamTruth::AfterShard(const server::Shard& shard, absl::Span<const Message> sent) {
  const auto& counts = shard.store().counts()->buckets();
  for (uint32_t b = 0; b < counts.size(); ++b) {
    server::CountStore::Count& before = shards_[Index(shard.id())].counts[b];
    if (counts[b] == before) continue;
    ExpectUpdates(shard.id(), b, counts[b]);
    before = counts[b];
  }
  CheckAnswers(shard.id(), sent);
}

void TeamTruth::ExpectUpdates(ShardId shard, uint32_t bucket,
                              const server::CountStore::Count& now) {
  const server::CountStore::Count& before = shards_[Index(shard)].counts[bucket];
  const server::CountedPart sum = {now.sum - before.sum, now.order - before.order};
  if (Explain(shard, bucket, now.applied - before.applied, sum)) return;
  Fail(absl::StrCat("E1: bucket ", bucket, " of shard ", Index(shard), " takes ",
                    now.applied - before.applied,
                    " updates that are no team's, were here already, or have their parts in "
                    "another order"));
}

std::vector<TeamTruth::Candidate> TeamTruth::Candidates(ShardId shard, uint32_t bucket) const {
  const OfShard& of = shards_[Index(shard)];
  const size_t holders = of.holders.size();
  std::vector<Candidate> candidates;
  for (uint32_t t = 0; t < of.teams.size(); ++t) {
    const Team& team = of.teams[t];
    if (!team.present || team.here.empty()) continue;
    const auto here = team.here.begin() + static_cast<int64_t>(bucket * holders);
    const Clock clock = team.applied[bucket];
    if (clock >= *std::min_element(here, here + static_cast<int64_t>(holders))) continue;
    candidates.push_back({t, UpdateOf(t, team.admitted, t, clock, shard, bucket), std::nullopt});
  }
  for (const Left& left : of.left) {
    if (left.bucket != bucket) continue;
    if (takes_over() && left.clock != of.teams[left.team].applied[bucket]) continue;
    candidates.push_back({left.team,
                          UpdateOf(left.team, left.admitted, left.team, left.clock, shard, bucket),
                          left});
  }
  for (const Taken& taken : of.taken) {
    if (taken.bucket != bucket || !taken.whole()) continue;
    if (taken.clock != of.teams[taken.team].applied[bucket]) continue;
    candidates.push_back(
        {taken.team, UpdateOf(taken.by, taken.admitted, taken.team, taken.clock, shard, bucket),
         std::nullopt});
  }
  return candidates;
}

// So many updates of this sum are the next ones of some teams: they are applied.
bool TeamTruth::Explain(ShardId shard, uint32_t bucket, uint64_t updates, server::CountedPart sum) {
  if (updates == 0) return sum == server::CountedPart();
  OfShard& of = shards_[Index(shard)];
  for (const Candidate& next : Candidates(shard, bucket)) {
    const bool advances = !next.left.has_value() || takes_over();
    Clock* const applied = advances ? &of.teams[next.team].applied[bucket] : nullptr;
    if (applied != nullptr) ++*applied;
    if (next.left.has_value()) std::erase(of.left, *next.left);
    if (Explain(shard, bucket, updates - 1,
                {sum.sum - next.update.sum, sum.order - next.update.order})) {
      return true;
    }
    if (applied != nullptr) --*applied;
    if (next.left.has_value()) of.left.push_back(*next.left);
  }
  return false;
}

void TeamTruth::CheckAnswers(ShardId shard, absl::Span<const Message> sent) {
  const OfShard& of = shards_[Index(shard)];
  std::vector<const Message*> answers;
  for (const Message& message : sent) {
    if (message.type == MessageType::kPullReply) answers.push_back(&message);
  }
  for (size_t first = 0; first < answers.size(); first += of.holders.size()) {
    const Message& answer = *answers[first];
    const WorkerId team = wire::TeamOf(WorkerId{answer.to.index}, job_->team->shape);
    for (size_t h = 0; h < of.holders.size(); ++h) {
      const WorkerId due = wire::WorkerAt(team, of.holders[h], job_->team->shape);
      const Message* const each = first + h < answers.size() ? answers[first + h] : nullptr;
      if (each == nullptr || each->to != wire::Address::Of(due) || each->clock != answer.clock ||
          !(each->body == answer.body)) {
        return Fail(absl::StrCat("T1: ", wire::ToString(answer),
                                 ": not all holders are answered together, with one version"));
      }
    }
    CheckRead(shard, Index(team), answer);
  }
}

void TeamTruth::CheckRead(ShardId shard, uint32_t team, const Message& reply) {
  const OfShard& of = shards_[Index(shard)];
  const consistency::Guarantee& guarantee = job_->specs.policy.guarantee;
  const bool final = wire::As<wire::PullReply>(reply).final;
  const Clock clock = final ? job_->specs.policy.Rounds(job_->total_clocks) : reply.clock;
  const auto fail = [&](const char* what, Clock have) {
    Fail(absl::StrCat(what, ": ", wire::ToString(reply), ", where clock ", have, " is applied"));
  };
  if (!of.teams[team].present) return fail("T1: of no team's", 0);
  Clock& read = shards_[Index(shard)].teams[team].read;
  if (!final && of.holders.size() > 1 && clock <= read) return fail("T1: a second answer", read);
  if (!final) read = clock;
  Clock least = kClockMax, most = 0;
  for (const Team& each : of.teams) {
    if (!takes_over() && (!each.present || each.joining)) continue;
    for (const Clock applied : each.applied) {
      least = std::min(least, applied);
      most = std::max(most, applied);
    }
  }
  const std::vector<Clock>& mine = of.teams[team].applied;
  const Clock own = mine.empty() ? clock : *std::min_element(mine.begin(), mine.end());
  if (least == kClockMax) return;  // it has no parameters
  if (final && least < clock) return fail("S1: a final read", least);
  const Clock lag = std::max<Clock>(clock - least, 0);
  ++read_lags_[std::min(static_cast<size_t>(lag), read_lags_.size() - 1)];
  if (guarantee.read_lag_max.has_value() && lag > *guarantee.read_lag_max) {
    return fail("S1", least);
  }
  const bool has_own = final || guarantee.own_writes;
  if (has_own && own < clock - (final ? 0 : of.own_lag)) return fail("S2", own);
  if (guarantee.snapshot_reads && (least != clock || most != clock)) return fail("B3", most);
}

void TeamTruth::CheckEnd(const wire::Roster& roster) {
  const wire::Roster teams = wire::TeamRoster(roster, job_->team->shape);
  const Clock rounds = job_->specs.policy.Rounds(job_->total_clocks);
  for (uint32_t k = 0; k < shards_.size(); ++k) {
    for (uint32_t t = 0; t < shards_[k].teams.size(); ++t) {
      const Team& team = shards_[k].teams[t];
      const wire::Member* member = wire::FindMember(teams, WorkerId{t});
      if (member == nullptr && !takes_over()) continue;
      const bool is_here = takes_over() || (team.present && team.admitted == member->admitted);
      const bool all = is_here && std::all_of(team.applied.begin(), team.applied.end(),
                                              [&](Clock applied) { return applied == rounds; });
      if (all || shards_[k].counts.empty()) continue;
      Fail(absl::StrCat("E1: shard ", k, " lacks updates of team ", t));
    }
    // What another has computed meanwhile is not taken twice.
    if (!takes_over() && !shards_[k].left.empty()) {
      Fail(absl::StrCat("E1: shard ", k, " has lost updates"));
    }
  }
}

void TeamTruth::Fail(std::string what) {
  if (!violation_.has_value()) violation_ = std::move(what);
}

void TeamTruth::AddTo(Fingerprint* f) const {
  for (const OfShard& of : shards_) {
    f->Add(of.epoch);
    for (const Team& team : of.teams) {
      f->Add(team.present);
      f->Add(team.joining);
      f->Add(team.admitted);
      f->Add(team.read);
      for (const Clock here : team.here) f->Add(here);
      for (const Clock applied : team.applied) f->Add(applied);
    }
    f->Add(of.left.size());
    f->Add(of.taken.size());
    for (const Taken& taken : of.taken) {
      f->Add(taken.by);
      f->Add(taken.team);
      f->Add(taken.bucket);
      f->Add(taken.clock);
      for (const bool here : taken.here) f->Add(here);
    }
  }
}

}  // namespace soapstone::sim
