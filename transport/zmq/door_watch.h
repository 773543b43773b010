// DoorWatch: keeps those who are not of the job from costing a node that listens over tcp anything
// (transport/zmq/door.h says whom). libzmq tells who was accepted and who has ended (a socket
// monitor), the kernel how much each has sent (TCP_INFO of a duplicate of the descriptor, which is
// closed with the proof). Who is held has a filter on its connection that drops what carries data,
// so that its own TCP waits; the same filter on the listening socket shuts the door, as connections
// inherit it. A thread of its own looks, at most every kLookEvery, and sleeps while nobody unproven
// sends: the node's loop may be busy with something long when a flood comes. Included by
// transport/*.cc only.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/steady_clock.h"
#include "transport/byte_counts.h"
#include "transport/zmq/door.h"
#include "transport/zmq/handshake_tally.h"
#include "transport/zmq/zmq_socket.h"

namespace soapstone::transport {

// Threading: the thread that calls the ROUTER makes it, calls it, and destroys it before that.
class DoorWatch {
 public:
  // `router`, of `context`, is about to listen. Errors: ResourceExhausted.
  // `handshake`: as long as one may take.
  static absl::StatusOr<std::unique_ptr<DoorWatch>> Open(void* context, void* router,
                                                         const DoorLimits& limits,
                                                         absl::Duration handshake);
  ~DoorWatch();
  DoorWatch(const DoorWatch&) = delete;
  DoorWatch& operator=(const DoorWatch&) = delete;

  // Something of the session came by the connection `fd`. False: that proves nothing yet; say so
  // again with the next that comes.
  bool Prove(int fd);
  // Something was read, and more may be there.
  void Reads() {
    if (!reading_) round_.store(++rounds_, std::memory_order_release);
    reading_ = true;
  }
  // Connections, by their descriptors, that have ended since the last call, in their order; of very
  // many the last. What has a descriptor now was heard after that.
  std::vector<int> TakeEnded();
  // The connection that had the descriptor has ended, and none has it now. As of the last call of
  // TakeEnded.
  bool HasEnded(int fd) const;
  // There is nothing left to read.
  void AllRead() {
    if (reading_) round_.store(++rounds_, std::memory_order_release);
    reading_ = false;
  }
  // Those that came to nothing, but for those that were refused for their own keys.
  HandshakeFailures handshakes();
  // Connections that were held, or ended.
  uint64_t strangers() const { return strangers_.load(std::memory_order_relaxed); }

 private:
  DoorWatch(void* router, const DoorLimits& limits, absl::Duration handshake)
      : router_(router),
        connections_max_(limits.connections_max),
        door_(limits, std::random_device{}()),
        tally_(handshake) {}
  void Run();
  void TakeEvents(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(uint16_t event, uint32_t value, SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(int fd, SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enter(int fd, int port, SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Look(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(int fd, int copy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShutOrOpen(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Say(SteadyTime now);

  void* const router_;
  const size_t connections_max_;
  int epoll_ = -1;
  int stop_ = -1;
  // Of the node's thread.
  uint64_t rounds_ = 0;
  bool reading_ = false;

  std::atomic<uint64_t> round_ = 0;
  std::atomic<uint64_t> strangers_ = 0;
  std::atomic<uint64_t> came_and_went_ = 0;
  mutable Mutex mutex_;
  ZmqSocket monitor_ ABSL_GUARDED_BY(mutex_);
  Door door_ ABSL_GUARDED_BY(mutex_);
  HandshakeTally tally_ ABSL_GUARDED_BY(mutex_);
  std::map<int, int> copies_ ABSL_GUARDED_BY(mutex_);  // of unproven descriptors
  std::set<int> unwatched_ ABSL_GUARDED_BY(mutex_);    // unproven ones, for want of descriptors
  int listener_ ABSL_GUARDED_BY(mutex_) = -1;          // a duplicate
  std::vector<int> ended_ ABSL_GUARDED_BY(mutex_);
  std::set<int> free_ ABSL_GUARDED_BY(mutex_);  // descriptors of ended ones that nobody has since
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the thread.
  uint64_t said_ = 0;
  uint64_t said_went_ = 0;
  SteadyTime say_next_ = SteadyTime::InfinitePast();
  std::thread thread_;
};

}  // namespace soapstone::transport
