// ShmLinks: links through shared memory to processes of the same machine. A node that listens at
// an endpoint also listens at a Unix socket named after it (in the abstract namespace: nothing is
// left in a file system); who connects to that endpoint finds the socket only on the same machine,
// and hands over the memory of a link by it. The socket then carries descriptors of segments, and
// its end says that the other process has ended. Who calls: the ZeroMQ transport, which takes tcp
// where there is no such link.
//
// The socket may break while both processes live. What is in the memory is there all the same: who
// made the link makes another socket, says the link's token, and both go on.
//
// With keys both sides prove first which process of the job they are (transport/shm/link_proof.h).
// Of a process that is not awaited yet the claim is left unanswered until it is.
//
// Invariants
//  1. Messages of a link arrive in the order sent, each once, whatever becomes of its socket; those
//     that were sent before a process ended are given out before the link is.
//  2. Only processes of the same user are taken; with keys those alone that have proved theirs, and
//     nobody is handed memory, or says a token, before the other side has.
//  3. Nothing outlives the processes: memory and sockets are descriptors, not names.
// One thread calls it, but for what channels say of leases.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "base/pause_watch.h"
#include "base/steady_clock.h"
#include "security/process_keys.h"
#include "transport/shm/link_proof.h"
#include "transport/shm/shared_channel.h"

namespace soapstone::transport {

using LinkId = uint32_t;  // from 1; never used again

// A link of which one could not hear any more, though nobody said that the process had ended.
struct LostLocalLink {
  LinkId link = 0;
  std::string why;
};

struct LocalOptions {
  // A link without a socket, or without a segment that a message mentions, for so long is lost.
  absl::Duration link_timeout = absl::Seconds(5);
  // Lent by a link and not read by the other side, or one message; more has to wait.
  uint64_t unread_bytes_max = SharedChannel::kUnreadBytesMax;
  // Null: whoever is of the same user is taken.
  std::shared_ptr<const security::ProcessKeys> keys = nullptr;
  // With keys: whether the process with this one may have a link now. Empty: each may.
  std::function<bool(const security::PublicKey&)> admits = nullptr;
};

class ShmLinks {
 public:
  explicit ShmLinks(LocalOptions options = {});
  ~ShmLinks();
  ShmLinks(const ShmLinks&) = delete;
  ShmLinks& operator=(const ShmLinks&) = delete;

  // Links to `endpoint` are taken from now on. Error: the socket cannot be had.
  absl::Status Listen(const std::string& endpoint);

  // A link to the node at `endpoint`, which can be sent to at once; once the other side has taken
  // it, it is kOpen. Empty: nobody of this machine listens there, or not for links. With keys: the
  // other side is to be `listener`.
  std::optional<LinkId> Connect(const std::string& endpoint, const LinkEnd& listener = {});
  // What the other side has proved to be; null: no key is asked for, or it is not known yet.
  const LinkEnd* Proven(LinkId link) const;
  // Those that did not prove a key, since construction.
  uint64_t unproven() const { return unproven_; }

  enum class State : uint8_t { kOpening, kOpen, kGone };
  State state(LinkId link) const;
  void Drop(LinkId link);

  // Errors as SharedChannel::Send; NotFound: the process at the other end has ended.
  absl::Status Send(LinkId link, std::string_view header, absl::Span<const Buffer> payload);

  // The next message of some link, each in its turn: frames[0] is its header, which lasts until the
  // next call. False: none.
  bool Receive(LinkId* link, Buffers* frames);
  // From now on nothing is taken of links that others made, or all is again: it waits in their
  // memory.
  void LetGuestsWait(bool wait) { guests_wait_ = wait; }

  // Takes what sockets have for us: new links, segments, ends. Call it when one of the descriptors
  // of AddPollItems can be read, and now and then.
  void Progress();

  // True: something can be received already. Else whoever sends rings a bell, until Woke().
  bool PrepareToSleep();
  void Woke();
  void AddPollItems(std::vector<pollfd>* items) const;
  bool any_open() const { return open_ > 0; }
  // A socket is to be made again, or a segment to come: call Progress within tens of milliseconds.
  bool mending() const { return mending_; }
  std::vector<LostLocalLink> TakeLost() { return std::exchange(lost_, {}); }
  // Links whose socket has broken or whose other process has ended, all of whose words are read
  // then, since the last call, those of TakeLost among them, some twice; of very
  // many the last.
  std::vector<LinkId> TakeEnded() { return std::exchange(ended_, {}); }
  bool readable() const;
  // A message may come any moment: some other side runs elsewhere, as far as is known. One that
  // shares our processor runs only when we sleep, and the system then wakes it, or us, where a
  // processor is idle.
  bool may_be_readable() const;

  void Close();

 private:
  struct Link;
  static std::function<bool(const SharedArena::Segment&)> ShowBy(Link* link);
  bool Waits(const Link& link) const;
  bool MayBeShown(Link* link);
  void GiveUp(Link* link, std::string why);
  void Accept();
  void Open(Link* link);  // the other side has its memory
  bool ReadSocket(Link* link);
  bool ReadNote(Link* link);
  bool ReadProof(Link* link);
  bool Proved(Link* link);
  bool Answer(Link* link);
  bool Admits(const Link& link) const;
  void NoteEnd(const Link& link);
  void Break(Link* link);
  void Mend(Link* link, SteadyTime now);
  void Lose(Link* link, std::string why);
  bool Dial(Link* link);
  bool GoOn(Link* guest, uint64_t token);
  bool TakeOver(Link* link, absl::Span<const int> fds);
  // `ended`: the other side reads no more. Else what is lent to it stays as it is for good.
  void Retire(Link* link, bool ended);
  static void Ring(const Link& link);
  static void Silence(const Link& link);

  const LocalOptions options_;
  bool guests_wait_ = false;
  bool mending_ = false;
  PauseWatch pauses_;
  std::vector<LostLocalLink> lost_;
  std::vector<LinkId> ended_;
  uint64_t unproven_ = 0;
  std::string endpoint_;  // links to which are taken
  int listener_ = -1;
  SteadyTime deaf_until_ = SteadyTime::InfinitePast();
  std::map<LinkId, std::unique_ptr<Link>> links_;
  std::vector<Link*> turn_;  // those with a channel
  size_t next_turn_ = 0;
  LinkId last_id_ = 0;
  size_t open_ = 0;
};

}  // namespace soapstone::transport
