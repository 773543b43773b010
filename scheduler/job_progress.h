// JobProgress: how far the nodes of a job say that they are: the counters of each worker, whether
// any of them moves, and work of servers that takes long. A value: the coordinator feeds it with
// reports, and acts on what it finds. It sends nothing and ends nothing.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "scheduler/members.h"
#include "wire/message.h"

namespace soapstone::scheduler {

// Invariant: a rank's counters never shrink, whoever holds it.
class JobProgress {
 public:
  // ---- Workers
  void Record(Nanos now, WorkerId worker, const wire::Progress& report);
  // Another process takes the rank: its counters begin at zero, and are added to the former's.
  void Succeed(WorkerId worker);
  Clock ClockOf(WorkerId worker) const;  // 0: it has not reported
  // Of each rank ever held the latest report, with the counters of its former holders added.
  const std::map<WorkerId, wire::Progress>& workers() const { return workers_; }

  // ---- Standstill
  // The workers step from now on.
  void Begin(Nanos now) { moved_at_ = now; }
  // Time in which nobody listened.
  void ForgivePause(Nanos pause) { moved_at_ += pause; }
  // Since some worker last told of other counters than before.
  Nanos Still(Nanos now) const { return now - moved_at_; }
  // What each of the members that are not done waits for. Empty: one of them computes, or has not
  // said what it does.
  std::string AllWait(const Members& members) const;

  // ---- Servers
  // What came with the heartbeat of a server; null: nothing, its work is done. True: it came
  // forward since it last said so.
  bool RecordWork(wire::Address server, const wire::SlowWork* work);
  void ForgetWork() { slow_work_.clear(); }
  // "server 0 makes its parameters: 43% of 1600.0 MB". Empty: no server has any.
  std::string WorkText(bool saving) const;

 private:
  std::map<WorkerId, wire::Progress> workers_;
  std::map<WorkerId, wire::Progress> former_;  // of ranks with a successor, without the latter's
  Nanos moved_at_ = 0;
  std::map<wire::Address, wire::SlowWork> slow_work_;
};

}  // namespace soapstone::scheduler
