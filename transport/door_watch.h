// DoorWatch: ends the connections of those who are not of the job (transport/door.h says whom), at
// the ROUTER of a node that listens over tcp. libzmq tells who was accepted and who has ended (a
// socket monitor), the kernel how much each has sent (TCP_INFO of a duplicate of the descriptor,
// which is closed with the proof). A thread of its own looks, at most every kLookEvery, and sleeps
// while nobody unproven sends: the node's loop may be busy with something long when a flood comes.
// Included by transport/*.cc only.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "transport/door.h"
#include "transport/zmq_socket.h"

namespace soapstone::transport {

// Threading: the thread that calls the ROUTER makes it, calls it, and destroys it before that.
class DoorWatch {
 public:
  // `router`, of `context`, is about to listen. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<DoorWatch>> Open(void* context, void* router,
                                                         const DoorLimits& limits);
  ~DoorWatch();
  DoorWatch(const DoorWatch&) = delete;
  DoorWatch& operator=(const DoorWatch&) = delete;

  // A message of the session came by the connection `fd`.
  void Prove(int fd);
  // There is nothing left to read.
  // Something was read, and more may be there.
  void Reads() {
    if (all_read_.load(std::memory_order_relaxed)) all_read_ = false;
  }
  void AllRead() {
    if (!all_read_.load(std::memory_order_relaxed)) all_read_ = true;
  }
  // Somebody is unproven, as far as is known.
  bool anybody() const { return unproven_.load(std::memory_order_relaxed) > 0; }
  // Connections that were ended.
  uint64_t sent_away() const { return sent_away_.load(std::memory_order_relaxed); }

 private:
  DoorWatch(void* router, const DoorLimits& limits) : router_(router), door_(limits) {}
  void Run();
  void TakeEvents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enter(int fd, int port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Say(uint64_t sent_away);

  void* const router_;
  ZmqSocket monitor_;  // of the thread, once it runs
  int epoll_ = -1;
  int stop_ = -1;
  std::atomic<bool> all_read_ = false;
  std::atomic<uint64_t> unproven_ = 0;
  std::atomic<uint64_t> sent_away_ = 0;
  Mutex mutex_;
  Door door_ ABSL_GUARDED_BY(mutex_);
  std::map<int, int> copies_ ABSL_GUARDED_BY(mutex_);  // of unproven descriptors
  uint64_t said_ = 0;
  absl::Time say_next_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace soapstone::transport
