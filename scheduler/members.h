// Members: the roster as it stands, who waits to be let in, who is being let in, and who is done.
// A value: the coordinator changes it, and publishes its roster under the epochs it draws;
// coordinator.h describes the two steps of an admission and why they are two.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::scheduler {

// Newcomers between their first roster and their kStart: one, or all seats of a team.
struct Admission {
  enum class Step : uint8_t {
    kFreezing,  // listed as joining; the shards report the frontiers they hold it at
    kPlacing,   // listed with its start clock; the shards install that
  };
  std::vector<WorkerId> workers;  // ascending
  Step step = Step::kFreezing;
  Epoch awaited = 0;  // every shard's acknowledgement of this epoch, or a later, ends the step
  friend bool operator==(const Admission&, const Admission&) = default;
};

// Invariants: the roster is ascending; one admission at a time; who is done, and who is being
// admitted, is in the roster; who waits is not. Newcomers are admitted by whole teams of `seats`
// ranks that follow each other; without teams each rank is one.
class Members {
 public:
  Members(uint32_t worker_count, uint32_t shards_per_server, uint32_t seats = 1);

  const wire::Roster& roster() const { return roster_; }
  const std::optional<Admission>& admission() const { return admission_; }

  // The job's first nodes, ascending.
  void AddServer(wire::ServerEntry server) { roster_.servers.push_back(std::move(server)); }
  void AddOriginal(wire::Member member, Epoch admitted);
  // Where the job keeps several replicas of its shards.
  void SetChains(SharedList<wire::Chain> chains) { roster_.chains = std::move(chains); }
  // Takes the server out, from `epoch` on. False, changing nothing: some shard is nowhere else.
  bool RemoveServer(ServerId server, Epoch epoch);

  // Behind those who wait already: its rank, and where and by which key others reach it.
  void Enqueue(wire::Member newcomer) { joiners_.push_back(std::move(newcomer)); }
  // Step 1: lists the first whole team of those who wait, as joining from `epoch` on. False,
  // changing nothing, while an admission is under way or no whole team waits.
  bool BeginAdmission(Epoch epoch);
  // Step 2: gives the newcomers their start clock, from `epoch` on. REQUIRES: step 1 under way.
  void Place(Clock start, Epoch epoch);
  // The newcomers are let in, and returned. REQUIRES: step 2 under way.
  std::vector<wire::Member> EndAdmission();

  bool somebody_waits() const { return !joiners_.empty(); }

  // A change of shares: rosters ask the workers for their bounds, `lead` clocks ahead; 0: no more.
  void SetShareLead(Clock lead) { roster_.share_lead = lead; }
  SharedList<wire::Shares>* mutable_shares() { return &roster_.shares; }

  // Forgets the worker, its admission included: who was to be let in with it waits again. True when
  // it was in the roster.
  bool Remove(WorkerId worker);
  // False when it is no member, or not yet let in.
  bool MarkDone(WorkerId worker);

  // Somebody is let in and not lost.
  bool HasStarted() const;
  bool IsDone(WorkerId worker) const { return done_.contains(worker); }
  // In the roster, and let in.
  bool IsMember(WorkerId worker) const;
  // Every member is done, and nobody is on the way in. Who waits for the rest of its team is not.
  bool AllDone() const;

  friend bool operator==(const Members&, const Members&) = default;
  void AddTo(Fingerprint* f) const;

 private:
  bool IsBeingAdmitted(WorkerId worker) const;
  uint32_t TeamOf(WorkerId worker) const { return Index(worker) / seats_; }
  // The first of those who wait with its whole team; none: no team is whole.
  std::optional<uint32_t> WholeTeam() const;
  void ForNewcomers(const std::function<void(wire::Member*)>& each);

  uint32_t seats_;
  wire::Roster roster_;
  std::vector<wire::Member> joiners_;  // registered, wait for admission; oldest first
  std::optional<Admission> admission_;
  std::set<WorkerId> done_;  // completed their last clock
};

}  // namespace soapstone::scheduler
