// StreamTurns: the streams of a node that have a connection, and whose turn it is to be read. Who
// calls: TcpLinks, which decides what becomes of them.
#pragma once

#include <poll.h>

#include <vector>

#include "absl/types/span.h"
#include "transport/tcp/tcp_link.h"

namespace soapstone::transport {

// Invariant: a link is there at most once, and as long as its channel has a connection. Links
// outlive their stay. One thread calls it.
class StreamTurns {
 public:
  void Add(TcpLink* link) { links_.push_back(link); }
  void Remove(TcpLink* link);
  bool empty() const { return links_.empty(); }
  const std::vector<TcpLink*>& links() const { return links_; }

  // Each in its turn. REQUIRES: not empty.
  TcpLink* Next();
  // It gave the latest message: most often it gives the next one too.
  void NoteGave(TcpLink* link) { latest_ = link; }
  // Something can be read, or may be. Looks only at the stream that was read last.
  bool LookAtLatest();
  bool readable() const;
  // Writes what is queued.
  void Flush();

  void AddPollItems(std::vector<pollfd>* items) const;
  // The items of the latest AddPollItems, with what the system says; nothing else came between.
  void Polled(absl::Span<const pollfd> items);

 private:
  std::vector<TcpLink*> links_;
  size_t next_ = 0;
  TcpLink* latest_ = nullptr;
};

}  // namespace soapstone::transport
