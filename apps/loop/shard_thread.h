// ShardThread: one shard of a server, on a thread of its own or, where it is the only one and
// small, on the loop's: two hand-overs cost more there than they win. It is made on a thread in any
// case: that takes as long as the model is large, and the loop has heartbeats to send. Messages
// come in through an inbox and wait there, in their order, until the shard is made; what the shard
// sends goes out through the server's. Nothing else is shared.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/loop/job_events.h"
#include "apps/loop/recorder.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "base/memory/bounded_inbox.h"
#include "observe/status/published.h"
#include "server/replica/replica.h"
#include "server/shard/shard.h"
#include "server/store/capture.h"
#include "server/store/snapshot.h"
#include "server/store/table_capture.h"
#include "wire/message.h"

namespace soapstone::apps {

using MessageInbox = BoundedInbox<wire::Message>;

// How far a shard's making is, and whether it is still wanted. Any thread.
struct ShardProgress {
  std::atomic<uint64_t> done_bytes{0};
  std::atomic<bool> wanted{true};
};
using ShardMaker = std::function<std::unique_ptr<server::Replica>(ShardProgress*)>;

// Takes a shard's part of a checkpoint and has it written; never waits. The thread that handles the
// shard's messages calls it.
using CaptureSink = std::function<void(ShardId, server::Capture)>;

struct ShardThreadOptions {
  // The shard is given no more messages once its guarantee is broken.
  bool strict = false;
  std::optional<server::SnapshotTaker> taker;   // empty: no learning curve is asked for
  CaptureSink captures;                         // null: there are no checkpoints
  std::unique_ptr<Recorder> recorder;           // null: not recorded
  std::unique_ptr<timeline::EventFile> events;  // null: no timeline
  bool own_thread = true;                       // false: Put handles the message
  std::optional<int> cpu;                       // the thread stays there; empty: where it may run
  uint64_t queued_bytes_max = uint64_t{256} << 20;  // from then on it is behind
};

// What a shard's counters say, as metrics and heartbeats show them.
struct ShardStatus {
  server::ShardStats stats;
  Histogram read_lags;    // of all workers
  Histogram stalenesses;  // likewise
  uint64_t violations = 0;
  uint64_t held_bytes = 0;
  wire::ShardReads reads;  // of each worker
};

// The loop's thread constructs, Puts, Looks and Joins. `out` outlives it.
class ShardThread {
 public:
  // `wake` makes the loop look into `out`; any thread may call it.
  ShardThread(std::unique_ptr<server::Replica> replica, MessageInbox* out,
              std::function<void()> wake, ShardThreadOptions options = {});
  // The shard is what `make` returns, on a thread.
  ShardThread(ShardMaker make, MessageInbox* out, std::function<void()> wake,
              ShardThreadOptions options = {});
  ~ShardThread() { Join(); }

  // A strict shard has broken its guarantee, or its replica has failed, and its thread has ended.
  bool broken() const { return broken_; }
  // Never waits. False when its thread has ended, or far too much is queued.
  bool Put(Nanos now, wire::Message message);
  // Where the loop serves it: handles what came before it was made. After each wake.
  void Look(Nanos now);
  // So much is queued that the loop shall bring it no more than it takes.
  bool behind() const;

  // Its counters as they were when it last looked up after this was asked; null: not made yet, or
  // another server has the shard's messages. Does not wait.
  std::shared_ptr<const ShardStatus> AskStatus();

  bool made() const { return made_.load(std::memory_order_acquire); }
  uint64_t made_bytes() const { return progress_.done_bytes.load(std::memory_order_relaxed); }
  // For how long its thread has been at one message, and at which ("a push of clock 3").
  Nanos BusyFor(Nanos now) const;
  std::string WhatItDoes() const;

  // Handles what is queued, then ends the thread; gives up making the shard. It may be looked at
  // afterwards; if it was not made(), for its id only.
  const server::Replica& Join();
  // Those taken, and the end. REQUIRES: joined.
  std::vector<server::Snapshot> TakeSnapshots();

 private:
  struct Arrival {
    wire::Message message;
    Nanos at = 0;
  };

  void Make();
  // Where somebody has asked.
  void SayStatus();
  void TookFromQueue(uint64_t bytes) {
    queued_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    queued_.fetch_sub(1, std::memory_order_relaxed);
  }
  void Run();
  // What was handled has ended, and its answers wait.
  void NoteHandled(timeline::Event handled);
  // False: the thread is to end.
  bool Handle(Nanos now, Arrival arrival);
  // Where rows are being written down, and as many are kept for that as may be.
  void WaitForWriter();
  // What it has to say, also of checkpoints. False: the thread is to end.
  bool SendAll();
  // Where the shard has come to the clock that it is to be captured at; or says that it is past it.
  void LookAtOrder();

  ShardMaker make_;
  ShardProgress progress_;
  std::unique_ptr<server::Replica> replica_;  // the loop's once made_ is seen, or joined
  std::atomic<bool> made_{false};
  bool serving_ = false;  // by the loop: made, and what came before is handled
  std::vector<server::Snapshot> snapshots_;
  server::CaptureOrder order_;                    // of the scheduler, for a checkpoint
  std::weak_ptr<server::TableCapture> captured_;  // rows that are being written down
  BoundedInbox<Arrival> in_;
  std::atomic<uint64_t> queued_bytes_{0};
  std::atomic<uint64_t> queued_{0};
  std::atomic<Nanos> busy_since_{0};  // 0: idle
  std::atomic<wire::MessageType> busy_with_{wire::MessageType::kNone};
  std::atomic<Clock> busy_clock_{0};
  MessageInbox* out_;
  std::function<void()> wake_;
  ShardThreadOptions options_;
  wire::Outbox outbox_;  // of the thread that handles messages
  std::atomic<bool> broken_{false};
  std::atomic<bool> status_asked_{false};
  status::Published<ShardStatus> status_;
  std::jthread thread_;
};

}  // namespace soapstone::apps
