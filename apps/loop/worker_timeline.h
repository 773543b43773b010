// WorkerTimeline: what a worker writes into a timeline's folder: its loop tells it what is sent and
// what comes, its device's thread what is run. A part of the worker's shell.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "apps/loop/device_thread.h"
#include "apps/loop/job_events.h"
#include "cluster/job.h"
#include "observe/timeline/event_file.h"
#include "wire/message.h"
#include "worker/device/seat_executor.h"

namespace soapstone::apps {

// The loop's thread calls it. Where the job has no timeline each call is a look at a null pointer.
class WorkerTimeline {
 public:
  // seat: its executor, which tells of what it does; null: it has none.
  void Open(const Job& job, WorkerId self, uint64_t session, worker::SeatExecutor* seat = nullptr);

  // `runner`, and each of its commands becomes an event. The events outlive this.
  DeviceThread::Runner Around(DeviceThread::Runner runner) const;

  // Around the sending of `messages`.
  void BeforeSending(const std::vector<wire::Message>& messages) {
    if (loop_ != nullptr) NoteSent(messages);
  }
  void AfterSending() {
    if (!sent_.empty()) WriteSent();
  }
  void OnMessage(const wire::Message& message) {
    if (loop_ != nullptr && message.type == wire::MessageType::kPullReply) OnReply(message);
  }
  // The engine's counters, once the worker has started, at least once a step.
  void OnProgress(const wire::Progress& progress) {
    if (loop_ != nullptr && progress.clock != clock_) OnClock(progress);
  }

 private:
  void NoteSent(const std::vector<wire::Message>& messages);
  void WriteSent();
  void OnReply(const wire::Message& reply);
  void OnClock(const wire::Progress& progress);

  struct Asked {
    Clock clock = kNoClock;
    Nanos at = 0;
  };

  std::unique_ptr<timeline::EventFile> loop_;  // null: no timeline
  std::shared_ptr<timeline::EventFile> device_;
  uint32_t team_ = 0;  // of a worker with a seat
  bool has_seat_ = false;
  std::vector<timeline::Event> sent_;  // in the transport's hand
  std::map<uint32_t, Asked> asked_;    // by shard: the pull that is to be answered
  Clock clock_ = kNoClock;             // in hand
  uint64_t skipped_ = 0;               // before it
  Nanos began_ = 0;
};

}  // namespace soapstone::apps
