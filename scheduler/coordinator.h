// Coordinator: the scheduler's actor. Registers nodes, holds the start barrier, keeps membership
// and epochs, notices who is silent, and ends the job: workers done -> final evaluation -> servers
// write the model -> everybody exits.
//
// Admission of workers is in two steps, so that no bound is broken by a join:
//   1. a roster (epoch e) that lists the newcomer as `joining`; every shard installs it at its own
//      frontier f_k, so no member can run further ahead of it, and acknowledges with f_k;
//   2. a roster (epoch e+1) that gives it the start clock max_k f_k; when every shard has
//      acknowledged that too, kStart goes to the newcomer.
// max_k f_k is at most the clock of every other member, since a clock is applied only after it was
// completed: so the newcomer enters at or below the slowest, and at or above every shard.
// Newcomers are admitted one at a time, the rest wait in the order they came; of teams all seats of
// one at a time, once they are there, with one start clock. Until its kStart a
// newcomer does not keep the job alive: if all others are lost, some shard may lack updates below
// its start clock that nobody will send any more.
// At the job's start all workers join together, at clock 0, in one step.
//
// With re-balancing (scheduler/rebalancer.h) the shares of a batch change in two steps as well, so
// that each micro-batch has one owner at every clock although the workers are at different ones:
//   1. a roster asks every member for a bound, the first clock it will not begin until it hears
//   more;
//   2. a roster gives the new shares from the greatest of those bounds on: nobody has begun it.
// An admission and a change of shares wait for each other's end.
//
// While the workers step, nothing has a deadline as long as one of them computes: a step may take
// an hour. Where all of them wait for values, none has moved for timeout_ns and every node answers,
// that is said, again each timeout_ns; after finish_timeout_ns the job ends.
//
// Invariants: epochs only grow; a lost or refused node never comes back under an older epoch; every
// wait has a deadline; after ended() is set nothing leaves but
// kShutdown and kRefuse. Messages of one sender must arrive in the order they were sent.
// A value: copying it copies the job's state. Keeps no pointers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "scheduler/broken_links.h"
#include "scheduler/entrance.h"
#include "scheduler/job_progress.h"
#include "scheduler/members.h"
#include "scheduler/news.h"
#include "scheduler/rebalancer.h"
#include "scheduler/registry.h"
#include "scheduler/scheduler_messages.h"
#include "scheduler/server_reports.h"
#include "scheduler/shard_acks.h"
#include "wire/membership/teams.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::scheduler {

struct CoordinatorOptions {
  uint32_t servers = 1;
  uint32_t workers = 1;
  uint32_t shards_per_server = 1;
  uint32_t replicas = 1;       // of each shard, on as many servers
  uint32_t idle_servers = 0;   // the last of them, which have replicas of others' shards alone
  uint64_t session = 1;        // random, nonzero; the shell draws it
  uint64_t config_digest = 0;  // a Hello with another one is refused
  // The policy's bits are promised: a Hello with another arithmetic than the first of its role is
  // refused.
  bool one_arithmetic = false;
  Nanos heartbeat_ns = kSecond / 2;
  Nanos timeout_ns = 5 * kSecond;
  // From the report of a lost link to the verdict: all ends that lost theirs at the same time have
  // reported by then, though quiet links are asked twice a second only.
  Nanos link_patience_ns = 1200 * kMillisecond;
  // To register. For all shards to take a roster, from when they last came forward with their
  // initial values.
  Nanos start_timeout_ns = 60 * kSecond;
  // For the evaluation. For the saving, from when it last came forward.
  Nanos finish_timeout_ns = 30 * 60 * kSecond;
  bool evaluate = true;  // final evaluation by one worker, or one team
  bool save = true;      // servers gather, hash (and write) the model
  RebalanceOptions rebalance;
  Clock first_clock = 0;  // the workers begin there: of a job that goes on from a checkpoint
  // Where the model is split over teams of workers. A team cannot go on without one of its seats:
  // it is dropped whole, and others go on.
  std::optional<wire::TeamShape> team;
  // A step needs the micro-batches of each team; one that is left takes over those of one that is
  // lost, and no more.
  bool needs_all_teams = false;
  bool ends_with_a_team = false;  // none goes on where one is gone
  bool beside_workers = false;    // server k is in the process of worker k
  wire::ShardPlaces places() const { return {servers, shards_per_server, replicas, idle_servers}; }
  // Where training has diverged at a clock: what was set, and what to try. Null: nothing is said.
  std::function<std::string(Clock)> on_divergence;
};

class Coordinator {
 public:
  enum class Phase : uint8_t {
    kRegistering,  // waiting for all servers and workers
    kInstalling,   // waiting for the shards to install the first roster
    kRunning,
    kEvaluating,
    kSaving,
    kClosing,  // kShutdown sent
  };
  static constexpr wire::TimerId kTick{1};
  static constexpr wire::TimerId kSettle{2};  // SettleLinks, between two ticks

  explicit Coordinator(CoordinatorOptions options);

  void Start(Nanos now, wire::Outbox* out);
  void OnMessage(Nanos now, const wire::Message& message, wire::Outbox* out);
  void OnTimer(Nanos now, wire::TimerId timer, wire::Outbox* out);

  // A node is gone (heartbeats ceased; the checker calls it at will). A lost worker: the others go
  // on with a new roster, as they do where each shard of a lost server has another replica. Else
  // with a lost server, and with the last worker, the job ends with kExitPeerLost.
  // `heard`: the greatest epoch that was heard of it. Nothing happens where that is of the rank's
  // former holder, who is counted out already. `why`: what it said of it itself.
  void OnLost(Nanos now, wire::Address node, Epoch heard, wire::Outbox* out,
              std::string_view why = {});
  // The connection to a node has ended, which has that rank or said its Hello by that temporary
  // address. It may make another; the job does not begin before it was heard a heartbeat later:
  // what is heard until then was under way.
  void OnConnectionEnded(Nanos now, wire::Address node) {
    if (phase_ == Phase::kRegistering) nodes_.End(node, now);
  }
  // Counts out who cannot be reached by others that live, link_patience_ns after the first report
  // of a pair (scheduler/broken_links.h); the job ends where nobody can be spared.
  void SettleLinks(Nanos now, wire::Outbox* out);
  bool links_to_settle() const { return !broken_links_.empty(); }
  // A server that has been told to end; false: some shard is nowhere else, and it is to stay.
  bool OnServerLeaves(Nanos now, wire::Address server, wire::Outbox* out);
  // Ends the job from outside (SIGTERM, Ctrl-C).
  void Abort(Nanos /*now*/, int32_t code, std::string reason, wire::Outbox* out) {
    if (!ended_.has_value()) End({code, std::move(reason)}, out);
  }

  Phase phase() const { return phase_; }
  Epoch epoch() const { return messages_.epoch(); }
  const wire::Roster& roster() const { return members_.roster(); }
  // By which key the process is known that has the place; empty: nobody has it, or it has none.
  std::string KeyOf(wire::Address place) const {
    const Node* node = nodes_.Find(place);
    return node != nullptr ? node->key : "";
  }
  // Who has not registered: "server 1, worker 2".
  // How many of a role have registered, or, once the job has a roster, are in it.
  uint32_t Present(wire::Role role) const {
    if (phase_ == Phase::kRegistering) return nodes_.HoldersOf(role);
    const bool servers = role == wire::Role::kServer;
    return static_cast<uint32_t>(servers ? roster().servers.size() : roster().workers.size());
  }
  std::string Missing() const { return nodes_.Missing(phase_ == Phase::kRegistering); }
  // The machine of who holds the rank, as it says; empty: nobody does, or it does not say.
  std::string HostOf(wire::Address place) const {
    const Node* node = nodes_.Find(place);
    return node == nullptr ? "" : node->host;
  }
  // Nodes not heard from for longer than `timeout`.
  std::vector<wire::Address> Silent(Nanos now, Nanos timeout) const {
    return nodes_.Silent(now, timeout);
  }
  // Of each rank ever held the latest report, with the counters of its former holders added.
  const std::map<WorkerId, wire::Progress>& progress() const { return progress_.workers(); }
  // How the reads of the servers' shards stand, by what each last said of them.
  const ServerReports& reports() const { return reports_; }
  const std::optional<wire::Evaluation>& evaluation() const { return evaluation_; }
  const std::optional<wire::Saved>& saved() const { return saved_; }
  // Lines for the user since the last call: who joined, who was lost, what is waited for.
  std::vector<std::string> TakeNews() { return news_.Take(); }
  // Set when the job is over: the exit code of this process, and why.
  const std::optional<wire::Notice>& ended() const { return ended_; }
  // Messages that were dropped: of nodes that are not registered (any longer), of another session,
  // malformed, or out of place in this phase.
  uint64_t ignored() const { return ignored_; }
  // All that decides later behaviour, times excepted.
  void AddTo(Fingerprint* f) const;
  // Those times, while it registers.
  void AddTimesTo(Fingerprint* f) const;

 private:
  void OnHello(Nanos now, const wire::Message& message, wire::Outbox* out);
  void OnRosterAck(Nanos now, const wire::Message& message, wire::Outbox* out);
  void OnWorkerMessage(Nanos now, const wire::Message& message, wire::Outbox* out);
  void OnLeave(Nanos now, WorkerId worker, wire::Outbox* out);
  void OnLostLink(Nanos now, const wire::Message& message, const wire::LostLink& lost,
                  wire::Outbox* out);
  // Who holds the rank is named by the rosters from `epoch` on, or an earlier one.
  bool HasBeenTold(wire::Address node, Epoch epoch) const;
  void AwaitSettling(Nanos now, wire::Outbox* out) const;
  void ForgivePause(Nanos now);
  void OnServerHeartbeat(Nanos now, const wire::Message& message);
  void TellSlowWork(Nanos now);
  void OnNotFinite(const wire::Message& message, wire::Outbox* out);
  // False when the sender is not registered, or the message is of its rank's former holder.
  bool IsFromRegistered(const wire::Message& message, wire::Outbox* out);
  void AnswerAfterTheEnd(const wire::Message& message, wire::Outbox* out) const;

  void BeginIfComplete(Nanos now, wire::Outbox* out) {
    if (phase_ == Phase::kRegistering && nodes_.complete()) BeginInstalling(now, out);
  }
  void BeginInstalling(Nanos now, wire::Outbox* out);
  void BeginRunning(Nanos now, wire::Outbox* out);
  void AdmitNext(Nanos now, wire::Outbox* out);
  void AdvanceAdmission(Nanos now, wire::Outbox* out);
  // The job ends with `why`, or its shards go on where their other replicas are.
  void RemoveServer(Nanos now, ServerId server, wire::Notice why, wire::Outbox* out);
  // Who gathers the model: the first server that is left.
  wire::Address Saver() const;
  // Takes the worker out of registry and roster; the job ends with `if_none_left` if it was the
  // last that had started and is still needed.
  void RemoveWorker(Nanos now, WorkerId worker, wire::Notice if_none_left, wire::Outbox* out);
  // Why the job cannot go on where this seat of a team is gone; none: other teams do.
  std::optional<wire::Notice> WhyNotWithoutTeamOf(WorkerId seat, wire::Notice if_none_left) const;
  // Takes those that are left of the seat's team out of registry and roster, and has them end.
  void DropTeamOf(WorkerId seat, wire::Outbox* out);
  std::string SpokenNewcomers(const std::vector<wire::Member>& newcomers) const;
  void ConsiderRebalance(Nanos now, wire::Outbox* out);
  void EndRebalanceIfAgreed(Nanos now, wire::Outbox* out);
  void FinishIfAllDone(Nanos now, wire::Outbox* out);
  void SendEvaluate(Nanos now, wire::Outbox* out);
  void OnEvaluated(Nanos now, WorkerId worker, const wire::Message& message, wire::Outbox* out);
  void BeginSaving(Nanos now, wire::Outbox* out);
  // The model is there; its loss says whether it is one.
  void EndWell(wire::Outbox* out);
  void TakeWaiting(Nanos now, wire::Address node);
  void End(wire::Notice why, wire::Outbox* out);

  void CheckDeadlines(Nanos now, wire::Outbox* out);
  void CheckRebalance(Nanos now, wire::Outbox* out);
  void CheckStandstill(Nanos now, wire::Outbox* out);

  CoordinatorOptions options_;
  Phase phase_ = Phase::kRegistering;
  SchedulerMessages messages_;
  Entrance entrance_;
  // Who waits for a place, by their temporary addresses, and when they last asked.
  std::map<wire::Address, Nanos> waiting_;
  Registry nodes_;
  Members members_;
  ShardAcks acks_;
  Rebalancer rebalancer_;
  BrokenLinks broken_links_;
  std::set<WorkerId> evaluators_;  // kEvaluating: who has not answered
  JobProgress progress_;
  ServerReports reports_;
  std::optional<wire::Evaluation> evaluation_;
  std::optional<wire::Saved> saved_;
  std::optional<wire::Notice> ended_;
  News news_;
  uint64_t ignored_ = 0;
  Nanos tick_due_ = 0;
  Nanos wait_began_ = 0;  // of the wait that CheckDeadlines watches
};

}  // namespace soapstone::scheduler
