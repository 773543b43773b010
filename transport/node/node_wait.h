// NodeWait: how a node's transport waits for what may come. What comes within a moment is not worth
// a sleep, for waking costs both sides; so it first looks at links and streams, and then sleeps in
// one poll over all that can wake it. Who calls: NodeTransport. It knows no message.
#pragma once

#include <poll.h>
#include <zmq.h>

#include <atomic>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "transport/shm/shm_links.h"
#include "transport/tcp/tcp_links.h"
#include "transport/zmq/zmq_sockets.h"

namespace soapstone::transport {

// Invariants
//  1. A Wake ends the wait that it meets, or the next one: sleeps_ stands before wake_ is looked
//  at.
//  2. The processor is given up while it only looks at streams; for a link it is not: the other
//     side is known to run elsewhere, and whoever else wants this one might keep it for
//     milliseconds.
// One thread waits; Wake may be called by any, and in a signal handler.
class NodeWait {
 public:
  // Keeps the pointers, which outlive it.
  NodeWait(ShmLinks* links, TcpLinks* streams, ZmqSockets* sockets)
      : links_(links), streams_(streams), sockets_(sockets) {}
  ~NodeWait();
  NodeWait(const NodeWait&) = delete;
  NodeWait& operator=(const NodeWait&) = delete;

  // Error: ResourceExhausted (too many open files).
  absl::Status Open();

  void Wake();
  // There was a Wake since the last call.
  bool TakeWake() { return wake_ && wake_.exchange(false); }

  struct Waited {
    SteadyTime ended;
    bool of_links = false;  // sockets of links have something (ShmLinks::Progress)
  };
  // A wait begins: looks for a moment, until the deadline at most. True: something came on a link
  // or a stream, or a Wake. now: the time, before and after.
  bool Spin(SteadyTime deadline, SteadyTime* now);
  // It goes on, where that has found nothing: until something may have come, or for `sleep_max` and
  // a moment; not at all where that is not above 0. What came on streams is taken note of.
  Waited Sleep(absl::Duration sleep_max);

 private:
  bool SpinUntil(SteadyTime began, SteadyTime until, bool yields);
  void NoteWait(absl::Duration waited);
  size_t ListPollItems();
  bool Dispatch(size_t link_count);

  ShmLinks* const links_;
  TcpLinks* const streams_;
  ZmqSockets* const sockets_;
  int wake_fd_ = -1;
  std::atomic<bool> wake_ = false;
  std::atomic<bool> sleeps_ = false;   // or is about to
  std::vector<pollfd> fds_;            // scratch of Sleep: of links, then of streams
  std::vector<zmq_pollitem_t> items_;  // likewise: wake_fd_, then fds_, then ZeroMQ's
  SteadyTime began_;                   // the wait under way
  absl::Duration usual_wait_;          // of late
};

}  // namespace soapstone::transport
