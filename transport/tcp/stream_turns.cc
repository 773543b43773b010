#include "transport/tcp/stream_turns.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>

namespace soapstone::transport {

void StreamTurns::Remove(TcpLink* link) {
  if (latest_ == link) latest_ = nullptr;
  std::erase(links_, link);
}

TcpLink* StreamTurns::Next() {
  if (next_ >= links_.size()) next_ = 0;
  return links_[next_++];
}

bool StreamTurns::LookAtLatest() {
  if (latest_ == nullptr) return false;
  char byte = 0;
  const ssize_t got = recv(latest_->channel->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return false;
  latest_->channel->SetReadable();
  return true;
}

bool StreamTurns::readable() const {
  return std::any_of(links_.begin(), links_.end(), [](const TcpLink* link) {
    return link->heard_switch && (link->channel->readable() || link->channel->broken());
  });
}

void StreamTurns::Flush() {
  for (TcpLink* link : links_) {
    if (link->channel->unflushed()) link->channel->Flush();
  }
}

void StreamTurns::AddPollItems(std::vector<pollfd>* items) const {
  for (const TcpLink* link : links_) {
    // Not even an end is to be heard of before all that came over ZeroMQ.
    int events = link->heard_switch ? POLLIN : 0;
    if (link->channel->wants_to_write()) events |= POLLOUT;
    if (events == 0) continue;
    link->channel->PrepareToSleep();
    items->push_back({.fd = link->channel->fd(), .events = static_cast<int16_t>(events)});
  }
}

void StreamTurns::Polled(absl::Span<const pollfd> items) {
  auto link = links_.begin();
  for (const pollfd& item : items) {
    while ((*link)->channel->fd() != item.fd) ++link;  // not polled: see AddPollItems
    StreamChannel& channel = *(*link)->channel;
    if ((item.revents & POLLOUT) != 0) channel.Flush();
    if ((item.revents & ~POLLOUT) != 0) channel.SetReadable();
  }
}

}  // namespace soapstone::transport
