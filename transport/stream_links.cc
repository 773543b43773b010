#include "transport/stream_links.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "transport/kernel_queue.h"
#include "transport/tcp_watch.h"

namespace soapstone::transport {
namespace {

constexpr size_t kStreamLinksMax = 16'384;
constexpr absl::Duration kSwitchPatience = absl::Seconds(60);
constexpr absl::Duration kAskAgainAfter = absl::Seconds(1);
constexpr absl::Duration kDeafAfter = absl::Seconds(1);  // without descriptors to accept a guest
constexpr absl::Duration kLookAgainAfter = absl::Milliseconds(1);  // in Close
constexpr uint8_t kTcpClosed = 7;  // TCP_CLOSE, which linux/tcp.h does not have
constexpr int kIdleS = 30, kIntervalS = 10, kProbes = 3;  // keepalive, as ZeroMQ's connections

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  bool SetPort(uint16_t port) {
    if (storage.ss_family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
      return true;
    }
    if (storage.ss_family != AF_INET6) return false;
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
    return true;
  }
  uint16_t port() {
    return ntohs(storage.ss_family == AF_INET6
                     ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                     : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  }
};

// Of "tcp://1.2.3.4:5" or "tcp://[::1]:5".
std::optional<SocketAddress> AddressOf(std::string_view endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  if (endpoint.substr(0, kTcp.size()) != kTcp) return std::nullopt;
  endpoint.remove_prefix(kTcp.size());
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string host(endpoint.substr(0, colon));
  SocketAddress address;
  if (host.size() > 2 && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    in6->sin6_family = AF_INET6;
    address.size = sizeof(*in6);
    if (inet_pton(AF_INET6, host.c_str(), &in6->sin6_addr) != 1) return std::nullopt;
    return address;
  }
  auto* in = reinterpret_cast<sockaddr_in*>(&address.storage);
  in->sin_family = AF_INET;
  address.size = sizeof(*in);
  if (inet_pton(AF_INET, host.c_str(), &in->sin_addr) != 1) return std::nullopt;
  return address;
}

bool SendHello(int fd, const StreamToken& token) {
  const std::string hello = EncodeStreamHello(token);
  return send(fd, hello.data(), hello.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(hello.size());
}

// Reads what is missing of a hello and nothing behind it. False: the other side has ended.
bool ReadHello(int fd, char* hello, size_t* have) {
  const ssize_t got = recv(fd, hello + *have, kStreamHelloBytes - *have, MSG_DONTWAIT);
  if (got > 0) *have += static_cast<size_t>(got);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

// All bytes that were written have reached the other kernel, or nothing will any more.
bool IsTakenOver(int fd) {
  int left = 0;
  tcp_info info = {};
  socklen_t size = sizeof(info);
  return ioctl(fd, TIOCOUTQ, &left) != 0 || left == 0 ||
         getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state == kTcpClosed;
}

}  // namespace

struct StreamLinks::Link {
  enum class State : uint8_t {
    kAsked,       // ours: no answer yet
    kOffered,     // theirs: it has the token
    kConnecting,  // ours
    kGreeting,    // ours: it has been said the token
    kOpen,
    kNone,  // ours: not to be had, until ask_again
  };
  ~Link() {
    if (fd >= 0) close(fd);
  }
  std::string peer;
  std::string name;
  bool ours = false;
  State state = State::kAsked;
  uint64_t session = 0;
  uint64_t number = 0;
  StreamToken token = {};
  int fd = -1;  // before it is the channel's
  absl::Time deadline = absl::InfiniteFuture();
  absl::Time ask_again = absl::InfiniteFuture();
  char answer[kStreamHelloBytes] = {};
  size_t answer_have = 0;
  std::unique_ptr<StreamChannel> channel;
  bool said_switch = false;
  bool heard_switch = false;
};

StreamLinks::StreamLinks(StreamOptions options, Tell tell)
    : options_(options), tell_(std::move(tell)) {}

StreamLinks::~StreamLinks() { Close(absl::InfinitePast()); }

absl::Status StreamLinks::Listen() {
  std::optional<SocketAddress> address = AddressOf(offered_at_);
  if (!address.has_value() || !address->SetPort(options_.port)) {
    return absl::InvalidArgumentError("ZeroMQ does not listen for tcp");
  }
  const int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::ResourceExhaustedError("no socket");
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, address->get(), address->size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, address->get(), &address->size) != 0) {
    const int error = errno;
    close(fd);
    return absl::UnavailableError(absl::StrCat("port ", options_.port, ": ", std::strerror(error)));
  }
  listener_ = fd;
  port_ = address->port();
  return absl::OkStatus();
}

StreamLinks::Link* StreamLinks::Find(const std::string& peer) const {
  if (found_ != nullptr && found_->peer == peer) return found_;
  const auto found = links_.find(peer);
  if (found == links_.end()) return nullptr;
  found_ = found->second.get();
  return found_;
}

void StreamLinks::Ask(const std::string& peer, uint64_t session, const std::string& name) {
  Link* link = Find(peer);
  if (link == nullptr) {
    if (links_.size() >= kStreamLinksMax) return;
    link = links_.emplace(peer, std::make_unique<Link>()).first->second.get();
    link->peer = peer;
    link->ours = true;
    link->state = Link::State::kNone;
    link->ask_again = absl::InfinitePast();
  }
  if (link->state != Link::State::kNone || link->ask_again == absl::InfiniteFuture() ||
      absl::Now() < link->ask_again) {
    return;
  }
  link->name = name;
  link->session = session;
  link->number = ++last_number_;
  const StreamNote note = {
      .word = StreamNote::Word::kAsk, .session = session, .number = link->number};
  if (!tell_(peer, true, note).ok()) return;
  link->state = Link::State::kAsked;
}

void StreamLinks::OnNote(const std::string& peer, const StreamNote& note, int fd) {
  using Word = StreamNote::Word;
  if (note.word == Word::kAsk) {
    Offer(peer, note);
    return;
  }
  Link* link = Find(peer);
  if (link == nullptr || link->number != note.number) return;
  if (note.word == Word::kSwitch) {
    link->heard_switch = true;
    if (link->channel != nullptr) link->channel->SetReadable();
    return;
  }
  if (!link->ours || link->state != Link::State::kAsked) return;
  if (note.word == Word::kOffer) ConnectTo(link, note, fd);
  if (note.word == Word::kRefuse) GiveUp(link, "the other side offers none");
}

void StreamLinks::Offer(const std::string& peer, const StreamNote& ask) {
  if (const Link* before = Find(peer); before != nullptr) {
    if (before->ours) return;
    Erase(peer);
  }
  if (listener_ < 0 && !offered_at_.empty()) {
    const absl::Status listening = Listen();
    if (!listening.ok()) {
      LOG(INFO) << "no streams from other nodes, which reach this one over ZeroMQ alone: "
                << listening.message();
      offered_at_.clear();
    }
  }
  StreamNote note = {
      .word = StreamNote::Word::kRefuse, .session = ask.session, .number = ask.number};
  auto link = std::make_unique<Link>();
  const bool random = getrandom(link->token.data(), link->token.size(), 0) ==
                      static_cast<ssize_t>(link->token.size());
  if (listener_ >= 0 && random && links_.size() < kStreamLinksMax) {
    note.word = StreamNote::Word::kOffer;
    note.port = port_;
    note.token = link->token;
  }
  if (!tell_(peer, false, note).ok() || note.word == StreamNote::Word::kRefuse) return;
  link->peer = peer;
  link->session = ask.session;
  link->number = ask.number;
  link->state = Link::State::kOffered;
  link->deadline = absl::Now() + 2 * options_.half_open_patience;
  links_[peer] = std::move(link);
  unfinished_ = true;
}

// To the machine at the other end of ZeroMQ's connection.
void StreamLinks::ConnectTo(Link* link, const StreamNote& offer, int fd) {
  SocketAddress address;
  if (fd < 0 || getpeername(fd, address.get(), &address.size) != 0 ||
      !address.SetPort(offer.port)) {
    GiveUp(link, "its address is not known");
    return;
  }
  link->token = offer.token;
  link->fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (link->fd < 0 ||
      (connect(link->fd, address.get(), address.size) != 0 && errno != EINPROGRESS)) {
    GiveUp(link, std::strerror(errno));
    return;
  }
  link->state = Link::State::kConnecting;
  link->deadline = absl::Now() + options_.half_open_patience;
  unfinished_ = true;
}

void StreamLinks::SetUp(int fd) const {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleS, sizeof(kIdleS));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalS, sizeof(kIntervalS));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
  DontPaceWithinMachine(fd);
}

void StreamLinks::Accept() {
  while (guests_.size() < kGuestsMax) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        LOG_EVERY_N(WARNING, 100) << "too many open files: no more streams";
        deaf_until_ = absl::Now() + kDeafAfter;
      }
      return;
    }
    guests_.push_back({.fd = fd, .deadline = absl::Now() + options_.half_open_patience});
  }
}

bool StreamLinks::Greet(Guest* guest) {
  const bool there = ReadHello(guest->fd, guest->hello, &guest->have);
  if (guest->have < kStreamHelloBytes) {
    if (there && absl::Now() < guest->deadline) return true;
    close(guest->fd);
    return false;
  }
  const std::optional<StreamToken> token = DecodeStreamHello(guest->hello);
  const auto offered = std::find_if(links_.begin(), links_.end(), [&](const auto& l) {
    return l.second->state == Link::State::kOffered && token.has_value() &&
           l.second->token == *token;
  });
  if (offered == links_.end()) {
    LOG_EVERY_N(WARNING, 100) << "somebody without our token at the port for streams: sent away";
    close(guest->fd);
    return false;
  }
  if (SendHello(guest->fd, {})) {
    Open(offered->second.get(), guest->fd);
  } else {
    close(guest->fd);
    Erase(std::string(offered->first));
  }
  return false;
}

void StreamLinks::Open(Link* link, int fd) {
  SetUp(fd);
  link->fd = -1;
  link->channel = std::make_unique<StreamChannel>(fd, options_.limits, &pool_);
  link->channel->SetReadable();
  link->state = Link::State::kOpen;
  link->deadline = absl::Now() + kSwitchPatience;
  framing_sent_ += kStreamHelloBytes;
  turn_.push_back(link);
  Advance(link);
}

void StreamLinks::ReadAnswer(Link* link) {
  const bool there = ReadHello(link->fd, link->answer, &link->answer_have);
  if (link->answer_have == kStreamHelloBytes) {
    if (DecodeStreamHello(link->answer).has_value()) {
      Open(link, link->fd);
    } else {
      GiveUp(link, "the answer is none of ours");
    }
  } else if (!there) {
    GiveUp(link, "it was closed again");
  }
}

// One step on.
void StreamLinks::Advance(Link* link) {
  switch (link->state) {
    case Link::State::kConnecting: {
      pollfd item = {.fd = link->fd, .events = POLLOUT, .revents = 0};
      if (poll(&item, 1, 0) <= 0) break;
      int error = 0;
      socklen_t size = sizeof(error);
      if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0 ||
          !SendHello(link->fd, link->token)) {
        GiveUp(link, error != 0 ? std::strerror(error) : "it was closed again");
        return;
      }
      link->state = Link::State::kGreeting;
      break;
    }
    case Link::State::kGreeting:
      ReadAnswer(link);
      break;
    case Link::State::kOpen:
      if (!link->said_switch) {
        link->said_switch = tell_(link->peer, link->ours,
                                  {.word = StreamNote::Word::kSwitch,
                                   .session = link->session,
                                   .number = link->number})
                                .ok();
      }
      break;
    default:
      break;
  }
}

void StreamLinks::GiveUp(Link* link, const char* why) {
  LOG(INFO) << link->name << " is reached over ZeroMQ alone: no stream to it (" << why << ")";
  if (link->fd >= 0) close(std::exchange(link->fd, -1));
  link->state = Link::State::kNone;
  link->ask_again = absl::InfiniteFuture();
}

// The stream has ended.
void StreamLinks::Retire(Link* link) {
  StreamChannel& channel = *link->channel;
  channel.Flush();
  VLOG(1) << "a stream ends that carried " << channel.window().bytes_per_s() / 1e6
          << " MB/s when it was full, with a window of " << channel.window().bytes() << " bytes";
  dropped_messages_ += channel.queued_messages();
  framing_sent_ += channel.more_bytes();
  framing_received_ += channel.more_bytes_in();
  if (const std::optional<TcpWatch> watch = TcpWatch::Of(channel.fd())) {
    ++sockets_.connections;
    sockets_.given_bytes += kStreamHelloBytes + channel.given_bytes();
    watch->AddTo(&sockets_);
  }
  if (hot_ == link) hot_ = nullptr;
  if (found_ == link) found_ = nullptr;
  std::erase(turn_, link);
  if (!link->ours) {
    links_.erase(std::string(link->peer));
    return;
  }
  link->channel.reset();
  link->said_switch = link->heard_switch = false;
  link->answer_have = 0;
  link->deadline = absl::InfiniteFuture();
  link->state = Link::State::kNone;
  link->ask_again = absl::Now() + kAskAgainAfter;
}

void StreamLinks::Erase(const std::string& peer) {
  Link* link = Find(peer);
  if (link == nullptr) return;
  if (link->channel != nullptr) Retire(link);
  found_ = nullptr;
  links_.erase(std::string(peer));
}

void StreamLinks::Drop(const std::string& peer) { Erase(peer); }

void StreamLinks::OnMessageBeside(const std::string& peer) {
  Link* link = links_.empty() ? nullptr : Find(peer);
  if (link != nullptr && link->channel != nullptr && link->heard_switch) Retire(link);
}

bool StreamLinks::Carries(const std::string& peer) const {
  const Link* link = Find(peer);
  return link != nullptr && link->said_switch && link->channel->can_send();
}

absl::Status StreamLinks::Send(const std::string& peer, std::string_view header,
                               absl::Span<const Buffer> payload, uint32_t priority) {
  return Find(peer)->channel->Send(header, payload, priority);
}

bool StreamLinks::Receive(std::string* peer, bool* ours, Buffers* frames) {
  for (const bool reads : {false, true}) {
    // What answers what was read goes before more is read.
    if (reads) Flush();
    for (size_t tried = 0; tried < turn_.size(); ++tried) {
      if (next_turn_ >= turn_.size()) next_turn_ = 0;
      Link* link = turn_[next_turn_++];
      StreamChannel& channel = *link->channel;
      if (link->heard_switch && (reads ? channel.Receive(frames) : channel.TakeRead(frames))) {
        hot_ = link;
        *peer = link->peer;
        *ours = link->ours;
        return true;
      }
      if (!channel.broken()) continue;
      LOG_IF(WARNING, channel.broke_rules()) << "a stream broke the rules: closed";
      Retire(link);
    }
  }
  return false;
}

void StreamLinks::Flush() {
  for (Link* link : turn_) {
    if (link->channel->unflushed()) link->channel->Flush();
  }
}

void StreamLinks::Progress() {
  const absl::Time now = absl::Now();
  if (listener_ >= 0 && now >= deaf_until_) Accept();
  std::vector<Guest> kept;
  for (Guest& guest : guests_) {
    if (Greet(&guest)) kept.push_back(guest);
  }
  guests_ = std::move(kept);
  unfinished_ = !guests_.empty();
  std::vector<Link*> late;
  for (auto& [peer, link] : links_) {
    Advance(link.get());
    const bool waits =
        link->state == Link::State::kConnecting || link->state == Link::State::kGreeting ||
        link->state == Link::State::kOffered ||
        (link->state == Link::State::kOpen && (!link->said_switch || !link->heard_switch));
    unfinished_ = unfinished_ || waits;
    if (waits && now >= link->deadline) late.push_back(link.get());
  }
  for (Link* link : late) {
    if (link->channel != nullptr) {
      LOG(WARNING) << "a stream was never switched to: closed";
      Retire(link);
    } else if (link->ours) {
      GiveUp(link, "the other side did not answer in time");
    } else {
      Erase(link->peer);
    }
  }
}

bool StreamLinks::readable() const {
  return std::any_of(turn_.begin(), turn_.end(), [](const Link* link) {
    return link->heard_switch && (link->channel->readable() || link->channel->broken());
  });
}

bool StreamLinks::Glance() {
  if (hot_ == nullptr) return false;
  char byte = 0;
  const ssize_t got = recv(hot_->channel->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return false;
  hot_->channel->SetReadable();
  return true;
}

void StreamLinks::AddPollItems(std::vector<pollfd>* items) {
  const size_t before = items->size();
  if (listener_ >= 0 && guests_.size() < kGuestsMax && absl::Now() >= deaf_until_) {
    items->push_back({.fd = listener_, .events = POLLIN, .revents = 0});
  }
  for (const Guest& guest : guests_) {
    items->push_back({.fd = guest.fd, .events = POLLIN, .revents = 0});
  }
  for (const auto& [peer, link] : links_) {
    if (link->fd < 0) continue;
    const bool connecting = link->state == Link::State::kConnecting;
    items->push_back(
        {.fd = link->fd, .events = static_cast<int16_t>(connecting ? POLLOUT : POLLIN)});
  }
  other_items_ = items->size() - before;
  for (const Link* link : turn_) {
    // Not even an end is to be heard of before all that came over ZeroMQ.
    int events = link->heard_switch ? POLLIN : 0;
    if (link->channel->wants_to_write()) events |= POLLOUT;
    if (events == 0) continue;
    link->channel->PrepareToSleep();
    items->push_back({.fd = link->channel->fd(), .events = static_cast<int16_t>(events)});
  }
}

void StreamLinks::Polled(absl::Span<const pollfd> items) {
  const absl::Span<const pollfd> others = items.subspan(0, other_items_);
  auto link = turn_.begin();
  for (const pollfd& item : items.subspan(others.size())) {
    while ((*link)->channel->fd() != item.fd) ++link;  // not polled: see AddPollItems
    StreamChannel& channel = *(*link)->channel;
    if ((item.revents & POLLOUT) != 0) channel.Flush();
    if ((item.revents & ~POLLOUT) != 0) channel.SetReadable();
  }
  if (std::any_of(others.begin(), others.end(), [](const pollfd& i) { return i.revents != 0; })) {
    Progress();
  }
}

void StreamLinks::Look() {
  if (!any_open() && !unfinished_) return;
  looked_at_.clear();
  AddPollItems(&looked_at_);
  if (poll(looked_at_.data(), looked_at_.size(), 0) > 0) Polled(looked_at_);
  if (unfinished_) Progress();
}

void StreamLinks::Close(absl::Time deadline) {
  std::vector<pollfd> items;
  for (;;) {
    items.clear();
    for (Link* link : turn_) {
      StreamChannel& channel = *link->channel;
      channel.Flush();
      // What the other side sends is not looked at any more, and must not keep it from reading.
      while (recv(channel.fd(), nullptr, size_t{1} << 20, MSG_TRUNC | MSG_DONTWAIT) > 0) {
      }
      if (channel.wants_to_write()) {
        items.push_back({.fd = channel.fd(), .events = POLLOUT, .revents = 0});
      } else if (channel.can_send() && !IsTakenOver(channel.fd())) {
        items.push_back({.fd = channel.fd(), .events = 0, .revents = 0});
      }
    }
    const absl::Duration left = deadline - absl::Now();
    if (items.empty() || left <= absl::ZeroDuration()) break;
    const absl::Duration wait = std::min(left, kLookAgainAfter);
    poll(items.data(), items.size(), static_cast<int>(absl::ToInt64Milliseconds(wait)));
  }
  while (!turn_.empty()) Retire(turn_.back());
  found_ = nullptr;
  links_.clear();
  for (const Guest& guest : guests_) close(guest.fd);
  guests_.clear();
  if (listener_ >= 0) close(std::exchange(listener_, -1));
}

uint64_t StreamLinks::framing_sent() const {
  uint64_t bytes = framing_sent_;
  for (const Link* link : turn_) bytes += link->channel->more_bytes();
  return bytes;
}

uint64_t StreamLinks::framing_received() const {
  uint64_t bytes = framing_received_;
  for (const Link* link : turn_) bytes += link->channel->more_bytes_in();
  return bytes;
}

}  // namespace soapstone::transport
