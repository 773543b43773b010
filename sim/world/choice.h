// What can happen next in a world (sim/world.h), and how many faults of each kind may.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "base/fingerprint.h"

namespace soapstone::sim {

struct Choice {
  enum class Kind : uint8_t {
    kDeliver,    // head of channel from -> to
    kDevice,     // worker slot `from`: its device runs up to the next event
    kCrash,      // worker slot `from`
    kNotice,     // the coordinator is told that slot `from`, crashed, is lost
    kCut,        // channel from -> to of a crashed worker: the rest is lost
    kDuplicate,  // head of channel from -> to
    kLeave,      // worker slot `from`
    kJoin,       // a new slot says Hello
    kReport,     // worker slot `from` sends a heartbeat: `to` times as slow as the fastest
    kBreak,      // the connection of nodes `from` and `to` breaks: nothing of it arrives until
    kResume,     // it is made again, and goes on where it was (wire/session.h)
    kLose,       // it cannot be made again: what is under way is gone, both ends tell the scheduler
    kLateWord,   // node `to` finds that its link to slot `from`, noticed, is lost
    kSettle,     // the coordinator acts upon the links that it heard are lost
    kForget,     // head of channel from -> to, an answer, is gone
    kAsk,        // worker slot `from` asks again
    kWatch,      // all that wait do, since nothing else can happen
    kSilence,    // the timeout of worker slot `from`, which lives: its heartbeats are late
    kDeadline,   // what the coordinator waits for has its deadline
    kHeartbeat,  // worker slot `from`, counted out for its silence, is heard again
    kServerCrash,    // server `from`
    kServerNotice,   // the coordinator is told that server `from`, crashed, is lost
    kServerSuspect,  // it is told so of one that lives, and goes on until it is told
    kCheckpoint,     // the scheduler is asked for checkpoints, or for an end with one
  };
  Kind kind{};
  uint32_t from = 0;
  uint32_t to = 0;
  bool is_fault() const {
    return kind == Kind::kCrash || kind == Kind::kDuplicate || kind == Kind::kLeave ||
           kind == Kind::kJoin || kind == Kind::kCut || kind == Kind::kReport ||
           kind == Kind::kBreak || kind == Kind::kLose || kind == Kind::kLateWord ||
           kind == Kind::kForget || kind == Kind::kAsk || kind == Kind::kSilence ||
           kind == Kind::kDeadline || kind == Kind::kServerCrash || kind == Kind::kServerSuspect;
  }
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

// How many of each fault a run may have.
struct FaultBudget {
  uint32_t crashes = 0;     // a worker stops; the coordinator hears of it later
  uint32_t leaves = 0;      // a worker is told to finish its step and leave
  uint32_t joins = 0;       // a new worker asks for a free rank
  uint32_t duplicates = 0;  // the head of a channel of data messages arrives twice
  uint32_t reports = 0;     // a worker tells a speed, which the scheduler may re-balance by
  uint32_t breaks = 0;      // a connection breaks with what is under way, and is made again later
  uint32_t losses = 0;      // two nodes, a worker among them, cannot reach one another any more
  uint32_t forgets = 0;     // a server loses an answer to a worker, before it leaves
  uint32_t asks = 0;        // a worker asks again although nothing is lost
  uint32_t late_words = 0;  // of a link to a worker that crashed, when that is known already
  uint32_t timers = 0;      // a timer of the scheduler's fires before what it waits for comes
  uint32_t server_crashes = 0;   // a server stops; others have its shards
  uint32_t server_suspects = 0;  // a server that lives is counted out
  // What is left of a kind of which there are only so many; null: of the others.
  uint32_t* Of(Choice::Kind kind);
  void AddTo(Fingerprint* f) const;
  friend bool operator==(const FaultBudget&, const FaultBudget&) = default;
};

// "deliver push worker-1 -> shard-0 clock 3 ...". `head`: of the choice's channel, its first
// message; `slot`: the process `from`; `slots`: how many there are.
std::string Describe(const Choice& choice, const std::function<std::string()>& head,
                     const std::function<std::string()>& slot, size_t slots);

}  // namespace soapstone::sim
