// One link of ShmLinks, and what is known of it. Included by transport/shm/*.cc only.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/steady_clock.h"
#include "transport/shm/link_proof.h"
#include "transport/shm/shared_channel.h"
#include "transport/shm/shm_links.h"

namespace soapstone::transport {

struct ShmLinks::Link {
  ~Link() {
    for (const int fd : {socket, bell_in, bell_out, memory}) {
      if (fd >= 0) close(fd);
    }
  }
  // Without the segment that it mentions, which comes by the socket, the next message cannot be.
  bool readable() const { return channel->readable() && !channel->wants_segment(); }

  void Forgive(const PauseWatch& pauses) {
    for (SteadyTime* since : {&broken_since, &wants_since, &cut_since, &starved_since}) {
      pauses.Forgive(since);
    }
  }
  // Of one that is withdrawn, and not retired yet, nobody has the memory.
  State seen() const { return ended && state == State::kOpening ? State::kGone : state; }
  bool starves() const { return starved_since != SteadyTime::InfiniteFuture(); }
  // After a Send. True: it does, and did not before.
  bool LooksWhetherItStarves() {
    if (channel->starved() == starves()) return false;
    starved_since = channel->starved() ? SteadyNow() : SteadyTime::InfiniteFuture();
    return starves();
  }
  // What a process has not had for so long, though each time it is tried again; null: nothing.
  const char* Lacks(SteadyTime now, absl::Duration timeout) const {
    if (now - cut_since >= timeout) return "too many open files";
    return now - starved_since >= timeout ? "no shared memory, or too many open files" : nullptr;
  }

  LinkId id = 0;
  State state = State::kOpening;
  bool ours = false;
  uint64_t token = 0;
  std::string endpoint;  // ours: of the other side
  pid_t process = 0;     // at the other end; 0: not to be known
  SteadyTime broken_since = SteadyTime::InfiniteFuture();
  SteadyTime dial_at = SteadyTime::InfinitePast();
  SteadyTime wants_since = SteadyTime::InfiniteFuture();    // a message, a segment not shown yet
  SteadyTime cut_since = SteadyTime::InfiniteFuture();      // segments came without a descriptor
  SteadyTime starved_since = SteadyTime::InfiniteFuture();  // SharedChannel::starved()
  int socket = -1;                                          // -1: broken, unless the link has ended
  int bell_in = -1;   // the other side rings it, when we sleep
  int bell_out = -1;  // and we the other's
  int memory = -1;    // ours: to be handed over
  // What is proved before anything else is said by the socket; nothing: it has been, or need not.
  std::optional<LinkProof> proof;
  std::optional<ProofNote> answer;  // to be said once the other side is admitted
  LinkEnd other;                    // what it has proved to be, or is to be
  bool proved = false;              // once: whoever has the link's memory since is that one
  bool ended = false;  // the other side takes nothing: what it sent before is still there
  SteadyTime opened = SteadyNow();
  std::unique_ptr<SharedChannel> channel;  // null: it has not said Hello
};

}  // namespace soapstone::transport
