// TeamTruth: what must hold at the shards of a world of teams (sim/team/team_world.h), judged from
// outside: by the messages that go into a shard, what is in its store, and what comes out; by no
// book of the shard's or its policy's.
//   E1 a bucket takes a team's update when all its holders' parts are here, once, in the order of
//      seats; nothing else, and nothing of a former team under the same ranks. Where teams take
//      over for each other it takes at each clock one update for the micro-batches of each, whoever
//      has made it
//   T1 all holders of a team are answered together, with one version, and of a clock once where
//      there are several
//   S1 a read at clock c: c - min over teams of the clock applied <= the bound, its own team
//      counted like any other
//   S2 a read has its team's own updates, but of the clocks by which a holder is ahead; where the
//      policy says so
//   B3 snapshot policies: a read of clock c has the updates of clocks < c of all teams, and no
//      other
// A value, copied with its world.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "cluster/training_job.h"
#include "server/shard/shard.h"
#include "sim/team/team_contents.h"
#include "wire/message.h"

namespace soapstone::sim {

class TeamTruth {
 public:
  explicit TeamTruth(std::shared_ptr<const cluster::TrainingJob> job);

  // Around each Shard::OnMessage. sender: of a worker's message, the process that has sent it.
  void BeforeShard(ShardId shard, const wire::Message& in, SeatHolder sender);
  void AfterShard(const server::Shard& shard, absl::Span<const wire::Message> sent);
  // The job has ended well: everything is in of the teams that are admitted by this roster.
  void CheckEnd(const wire::Roster& roster);

  // The first thing that went wrong.
  const std::optional<std::string>& violation() const { return violation_; }
  // Reads by lag; the last counts the longer ones too. No part of the state.
  const std::vector<uint64_t>& read_lags() const { return read_lags_; }
  void AddTo(Fingerprint* f) const;

 private:
  struct Team {
    bool present = false, joining = false;
    Epoch admitted = 0;
    std::vector<Clock> here;     // by bucket, by holder: clock of the next part
    std::vector<Clock> applied;  // by bucket: clock of the next update
    Clock read = kNoClock;       // of the last answer
  };
  // Parts of what a team has computed for another.
  struct Taken {
    uint32_t by = 0, team = 0, bucket = 0;
    Epoch admitted = 0;
    Clock clock = 0;
    std::vector<bool> here;  // by holder
    bool whole() const { return std::find(here.begin(), here.end(), false) == here.end(); }
  };
  // Of a team that is gone, whole but not applied.
  struct Left {
    uint32_t team = 0, bucket = 0;
    Epoch admitted = 0;
    Clock clock = 0;
    friend bool operator==(const Left&, const Left&) = default;
  };
  struct OfShard {
    std::vector<uint32_t> holders;
    Clock own_lag = 0;
    Epoch epoch = 0;
    std::vector<Team> teams;
    std::vector<Left> left;
    std::vector<Taken> taken;
    std::vector<server::CountStore::Count> counts;  // before the message in hand
  };

  bool takes_over() const { return job_->specs.policy.takes_over(); }
  // Of team `by`, for the micro-batches of `team`.
  server::CountedPart UpdateOf(uint32_t by, Epoch admitted, uint32_t team, Clock clock,
                               ShardId shard, uint32_t bucket) const;
  // Every update of these that may be the next one.
  struct Candidate {
    uint32_t team = 0;
    server::CountedPart update;
    std::optional<Left> left;
  };
  std::vector<Candidate> Candidates(ShardId shard, uint32_t bucket) const;
  void TakePushFor(OfShard* of, uint32_t team, const wire::Message& in, SeatHolder sender,
                   size_t holder);
  void TakeRoster(ShardId shard, const wire::Message& in);
  void TakePush(ShardId shard, const wire::Message& in, SeatHolder sender);
  void ExpectUpdates(ShardId shard, uint32_t bucket, const server::CountStore::Count& now);
  bool Explain(ShardId shard, uint32_t bucket, uint64_t updates, server::CountedPart sum);
  void CheckAnswers(ShardId shard, absl::Span<const wire::Message> sent);
  void CheckRead(ShardId shard, uint32_t team, const wire::Message& reply);
  void Fail(std::string what);

  std::shared_ptr<const cluster::TrainingJob> job_;
  std::vector<OfShard> shards_;
  std::vector<uint64_t> read_lags_ = std::vector<uint64_t>(16);
  std::optional<std::string> violation_;
};

}  // namespace soapstone::sim
