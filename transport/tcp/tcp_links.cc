#include "transport/tcp/tcp_links.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "glog/logging.h"
#include "transport/tcp/stream_dial.h"
#include "transport/tcp_watch.h"

namespace soapstone::transport {
namespace {

constexpr size_t kStreamLinksMax = 16'384;
constexpr absl::Duration kDialAgainAfter = absl::Milliseconds(20);  // doubled up to
constexpr absl::Duration kDialAgainMax = absl::Milliseconds(250);
constexpr absl::Duration kDialPatience = absl::Seconds(1);       // before TCP tries it again
constexpr absl::Duration kCheckEvery = absl::Milliseconds(250);  // for stalls
// Nothing moves on a connection for this long: another way may be better than waiting on, as TCP
// itself tries again less and less often.
constexpr absl::Duration kStallMax = absl::Milliseconds(1500);
constexpr absl::Duration kDeafAfter = absl::Seconds(1);  // without descriptors to accept a guest
constexpr absl::Duration kLookAgainAfter = absl::Milliseconds(1);  // in Close

}  // namespace

struct TcpLinks::Link {
  enum class State : uint8_t {
    kAsked,       // ours: no answer yet
    kOffered,     // theirs: it has the token
    kConnecting,  // ours
    kGreeting,    // ours: it has been said the token
    kOpen,
    kBroken,  // ours: to be connected again at `dial_at`; theirs: will it connect again?
    kNone,    // ours: not to be had
    kEnded,   // lost, or the other side has ended: to be dropped
  };
  ~Link() {
    if (fd >= 0) close(fd);
  }
  bool began() const { return said_switch || heard_switch; }
  std::string peer;
  std::string name;
  bool ours = false;
  State state = State::kNone;
  uint64_t session = 0;
  uint64_t number = 0;
  StreamToken token = {};
  SocketAddress address;    // ours: of the other side
  uint32_t connection = 0;  // the latest
  int fd = -1;              // before it is the channel's
  SteadyTime deadline = SteadyTime::InfiniteFuture();
  SteadyTime broken_since = SteadyTime::InfiniteFuture();
  SteadyTime dial_at = SteadyTime::InfiniteFuture();
  absl::Duration dial_again = kDialAgainAfter;
  StreamPulse pulse;
  SteadyTime pulse_at = SteadyTime::InfiniteFuture();  // when it was as it is first
  char answer[kStreamHelloBytes] = {};
  size_t answer_have = 0;
  std::unique_ptr<StreamChannel> channel;
  bool asked = false;
  bool said_switch = false;
  bool heard_switch = false;
};

TcpLinks::TcpLinks(StreamOptions options, Tell tell) : options_(options), tell_(std::move(tell)) {
  while (self_ == 0) PCHECK(getrandom(&self_, sizeof(self_), 0) == sizeof(self_));
}

TcpLinks::~TcpLinks() { End(); }

absl::Status TcpLinks::Listen() {
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

TcpLinks::Link* TcpLinks::Find(const std::string& peer) const {
  if (found_ != nullptr && found_->peer == peer) return found_;
  const auto found = links_.find(peer);
  if (found == links_.end()) return nullptr;
  found_ = found->second.get();
  return found_;
}

void TcpLinks::Ask(const std::string& peer, uint64_t session, const std::string& name) {
  Link* link = Find(peer);
  if (link == nullptr) {
    if (links_.size() >= kStreamLinksMax) return;
    link = links_.emplace(peer, std::make_unique<Link>()).first->second.get();
    link->peer = peer;
    link->ours = true;
  }
  if (link->asked) return;
  link->name = name;
  link->session = session;
  link->number = ++last_number_;
  const Handshake note = {
      .word = Handshake::Word::kAsk, .session = session, .number = link->number};
  if (!tell_(peer, true, note).ok()) return;
  link->asked = true;
  link->state = Link::State::kAsked;
}

void TcpLinks::OnNote(const std::string& peer, const Handshake& note, int fd) {
  using Word = Handshake::Word;
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

void TcpLinks::Offer(const std::string& peer, const Handshake& ask) {
  if (Link* before = Find(peer); before != nullptr) {
    if (before->ours || ask.number <= before->number) return;
    // Who asks anew has given the stream up that was there.
    if (before->began()) lost_.push_back({peer, "the other side has given the stream up"});
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
  Handshake note = {.word = Handshake::Word::kRefuse, .session = ask.session, .number = ask.number};
  auto link = std::make_unique<Link>();
  const bool random = getrandom(link->token.data(), link->token.size(), 0) ==
                      static_cast<ssize_t>(link->token.size());
  if (listener_ >= 0 && random && links_.size() < kStreamLinksMax) {
    note.word = Handshake::Word::kOffer;
    note.port = port_;
    note.token = link->token;
  }
  if (!tell_(peer, false, note).ok() || note.word == Handshake::Word::kRefuse) return;
  link->peer = peer;
  link->session = ask.session;
  link->number = ask.number;
  link->channel = std::make_unique<StreamChannel>(self_, options_.limits, &pool_);
  link->state = Link::State::kOffered;
  link->deadline = SteadyNow() + 2 * options_.half_open_patience;
  links_[peer] = std::move(link);
  unfinished_ = true;
}

// To the machine at the other end of ZeroMQ's connection.
void TcpLinks::ConnectTo(Link* link, const Handshake& offer, int fd) {
  if (fd < 0 || getpeername(fd, link->address.get(), &link->address.size) != 0 ||
      !link->address.SetPort(offer.port)) {
    GiveUp(link, "its address is not known");
    return;
  }
  link->token = offer.token;
  link->channel = std::make_unique<StreamChannel>(self_, options_.limits, &pool_);
  Dial(link, SteadyNow());
}

void TcpLinks::Dial(Link* link, SteadyTime now) {
  unfinished_ = true;
  link->answer_have = 0;
  ++link->connection;
  link->fd = socket(link->address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (link->fd < 0 ||
      (connect(link->fd, link->address.get(), link->address.size) != 0 && errno != EINPROGRESS)) {
    Fail(link, now, std::strerror(errno));
    return;
  }
  link->state = Link::State::kConnecting;
  // A way that swallows bytes is tried anew before TCP tries it.
  link->deadline = now + (link->began() ? kDialPatience : options_.half_open_patience);
}

// A connection did not come about. The first one need not.
void TcpLinks::Fail(Link* link, SteadyTime now, const char* why) {
  const bool may_be_open = link->began() || link->state == Link::State::kGreeting;
  if (!may_be_open) return GiveUp(link, why);
  if (link->fd >= 0) close(std::exchange(link->fd, -1));
  link->state = Link::State::kBroken;
  link->broken_since = std::min(link->broken_since, now);
  link->dial_at = now + link->dial_again;
  link->dial_again = std::min(2 * link->dial_again, kDialAgainMax);
  link->deadline = SteadyTime::InfiniteFuture();
  unfinished_ = true;
}

// Who has our token speaks at once; who says nothing makes room for the next.
void TcpLinks::Accept() {
  for (size_t taken = 0; taken < kGuestsMax; ++taken) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        LOG_EVERY_N(WARNING, 100) << "too many open files: no more streams";
        deaf_until_ = SteadyNow() + kDeafAfter;
      }
      return;
    }
    if (guests_.size() >= kGuestsMax) {
      close(guests_.front().fd);
      guests_.erase(guests_.begin());
    }
    guests_.push_back({.fd = fd, .deadline = SteadyNow() + options_.half_open_patience});
  }
}

bool TcpLinks::Greet(PendingConnection* guest) {
  const bool there = ReadHello(guest->fd, guest->hello, &guest->have);
  if (guest->have < kStreamHelloBytes) {
    if (there && SteadyNow() < guest->deadline) return true;
    close(guest->fd);
    return false;
  }
  const std::optional<StreamHello> hello = DecodeStreamHello(guest->hello);
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& l) {
    return !l.second->ours && hello.has_value() && l.second->token == hello->token;
  });
  Link* link = found == links_.end() ? nullptr : found->second.get();
  if (link == nullptr || hello->connection <= link->connection) {
    // Somebody without our token; or an old connection that speaks after a new one.
    LOG_EVERY_N(WARNING, 100) << "somebody without our token at the port for streams: sent away";
    if (link == nullptr) SendHello(guest->fd, {.verdict = StreamHello::Verdict::kUnknown});
    close(guest->fd);
    return false;
  }
  link->connection = hello->connection;
  if (link->state == Link::State::kOpen) Break(link, SteadyNow());
  const StreamHello answer = {.connection = hello->connection,
                              .greeting = link->channel->greeting()};
  if (!SendHello(guest->fd, answer)) {
    close(guest->fd);
  } else if (link->channel->Attach(guest->fd, hello->greeting)) {
    Open(link, guest->fd);
  } else {
    close(guest->fd);
    Lose(link, "the other side is out of step");
  }
  return false;
}

// REQUIRES: the channel has taken `fd` over.
void TcpLinks::Open(Link* link, int fd) {
  SetUpStream(fd);
  link->fd = -1;
  LOG_IF(INFO, link->broken_since != SteadyTime::InfiniteFuture())
      << "a stream's connection was made again after " << SteadyNow() - link->broken_since;
  link->state = Link::State::kOpen;
  link->deadline = link->broken_since = link->dial_at = link->pulse_at =
      SteadyTime::InfiniteFuture();
  link->dial_again = kDialAgainAfter;
  framing_sent_ += static_cast<int64_t>(kStreamHelloBytes);
  turn_.push_back(link);
  Advance(link, SteadyNow());
  link->channel->Flush();
}

void TcpLinks::ReadAnswer(Link* link, SteadyTime now) {
  const bool there = ReadHello(link->fd, link->answer, &link->answer_have);
  if (link->answer_have < kStreamHelloBytes) {
    if (!there) Fail(link, now, "it was closed again");
    return;
  }
  const std::optional<StreamHello> answer = DecodeStreamHello(link->answer);
  const bool known = answer.has_value() && answer->verdict == StreamHello::Verdict::kGoOn;
  if (known && link->channel->Attach(link->fd, answer->greeting)) {
    Open(link, link->fd);
  } else if (link->began()) {
    Lose(link, "another process is there now, or it is out of step");
  } else {
    GiveUp(link, "the answer is none of ours");
  }
}

// One step on.
void TcpLinks::Advance(Link* link, SteadyTime now) {
  switch (link->state) {
    case Link::State::kConnecting: {
      pollfd item = {.fd = link->fd, .events = POLLOUT, .revents = 0};
      if (poll(&item, 1, 0) <= 0) break;
      int error = 0;
      socklen_t size = sizeof(error);
      if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0 ||
          !SendHello(link->fd, {.connection = link->connection,
                                .token = link->token,
                                .greeting = link->channel->greeting()})) {
        Fail(link, now, error != 0 ? std::strerror(error) : "it was closed again");
        return;
      }
      link->state = Link::State::kGreeting;
      break;
    }
    case Link::State::kGreeting:
      ReadAnswer(link, now);
      break;
    case Link::State::kBroken:
      if (link->ours && now >= link->dial_at) Dial(link, now);
      break;
    case Link::State::kOpen:
      if (!link->said_switch) {
        link->said_switch = tell_(link->peer, link->ours,
                                  {.word = Handshake::Word::kSwitch,
                                   .session = link->session,
                                   .number = link->number})
                                .ok();
      }
      break;
    default:
      break;
  }
}

void TcpLinks::GiveUp(Link* link, const char* why) {
  LOG(INFO) << link->name << " is reached over ZeroMQ alone: no stream to it (" << why << ")";
  if (link->fd >= 0) close(std::exchange(link->fd, -1));
  link->channel.reset();
  link->state = Link::State::kNone;
  link->deadline = SteadyTime::InfiniteFuture();
}

// What went over a connection that ends.
void TcpLinks::Account(const Link& link, uint64_t given_bytes) {
  const StreamChannel& channel = *link.channel;
  VLOG(1) << "a connection ends that carried " << channel.window().bytes_per_s() / 1e6
          << " MB/s when it was full, with a window of " << channel.window().bytes() << " bytes";
  if (const std::optional<TcpWatch> watch = TcpWatch::Of(channel.fd())) {
    ++sockets_.connections;
    sockets_.given_bytes += kStreamHelloBytes + given_bytes;
    watch->AddTo(&sockets_);
  }
}

// The connection has ended, or is not worth waiting for; the stream goes on by the next one.
void TcpLinks::Break(Link* link, SteadyTime since) {
  Account(*link, link->channel->taken_bytes());
  link->channel->Detach();
  if (hot_ == link) hot_ = nullptr;
  std::erase(turn_, link);
  link->state = Link::State::kBroken;
  link->broken_since = std::min(link->broken_since, since);
  link->dial_at = SteadyTime::InfinitePast();
  unfinished_ = true;
}

void TcpLinks::Lose(Link* link, std::string why) {
  LOG(WARNING) << "a stream is lost, with " << link->channel->queued_messages()
               << " messages: " << why;
  lost_.push_back({link->peer, std::move(why)});
  End(link);
}

// Nothing comes of it any more. Progress erases it, when nobody looks at it.
void TcpLinks::End(Link* link) {
  if (link->fd >= 0) close(std::exchange(link->fd, -1));
  if (link->channel->attached()) Break(link, SteadyNow());
  link->state = Link::State::kEnded;
  unfinished_ = true;
}

void TcpLinks::Erase(const std::string& peer) {
  Link* link = Find(peer);
  if (link == nullptr) return;
  if (link->channel != nullptr) {
    StreamChannel& channel = *link->channel;
    channel.Flush();
    if (channel.attached()) Account(*link, channel.connection_bytes());
    dropped_messages_ += channel.unsent_messages();
    framing_sent_ += channel.more_bytes();
    framing_received_ += channel.more_bytes_in();
  }
  if (hot_ == link) hot_ = nullptr;
  std::erase(turn_, link);
  found_ = nullptr;
  links_.erase(std::string(peer));
}

void TcpLinks::Drop(const std::string& peer) { Erase(peer); }

bool TcpLinks::Carries(const std::string& peer) const {
  const Link* link = Find(peer);
  return link != nullptr && link->said_switch && link->state != Link::State::kEnded;
}

absl::Status TcpLinks::Send(const std::string& peer, std::string_view header,
                            absl::Span<const Buffer> payload, uint32_t priority) {
  return Find(peer)->channel->Send(header, payload, priority);
}

bool TcpLinks::Receive(std::string* peer, bool* ours, Buffers* frames) {
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
      if (channel.ended()) {
        End(link);
        continue;
      }
      if (!channel.broken()) continue;
      LOG_IF(WARNING, channel.broke_rules()) << "a stream broke the rules: closed";
      Break(link, SteadyNow());
    }
  }
  return false;
}

void TcpLinks::Flush() {
  for (Link* link : turn_) {
    if (link->channel->unflushed()) link->channel->Flush();
  }
}

void TcpLinks::Progress() {
  const SteadyTime now = SteadyNow();
  pauses_.Look(now);
  if (listener_ >= 0 && now >= deaf_until_) Accept();
  std::vector<PendingConnection> kept;
  for (PendingConnection& guest : guests_) {
    if (Greet(&guest)) kept.push_back(guest);
  }
  guests_ = std::move(kept);
  unfinished_ = !guests_.empty();
  std::vector<Link*> late;
  const bool checks = now >= next_check_;
  if (checks) next_check_ = now + kCheckEvery;
  for (auto& [peer, link] : links_) {
    pauses_.Forgive(&link->broken_since);
    pauses_.Forgive(&link->pulse_at);
    Advance(link.get(), now);
    if (checks && link->state == Link::State::kOpen) BreakIfStalled(link.get(), now);
    if (link->state == Link::State::kOpen) {
      unfinished_ = unfinished_ || !link->said_switch;
    } else if (link->state != Link::State::kNone && link->state != Link::State::kAsked) {
      unfinished_ = true;
    }
    if (IsLate(*link, now)) late.push_back(link.get());
  }
  for (Link* link : late) {
    if (link->state == Link::State::kEnded) {
      Erase(link->peer);
    } else if (now - link->broken_since >= options_.link_timeout && link->began()) {
      Lose(link, absl::StrCat("no connection for ",
                              absl::FormatDuration(
                                  absl::Floor(now - link->broken_since, absl::Milliseconds(1)))));
    } else if (link->began()) {
      Fail(link, now, "no answer in time");
    } else if (link->ours) {
      GiveUp(link, "the other side did not answer in time");
    } else {
      Erase(link->peer);
    }
  }
}

bool TcpLinks::IsLate(const Link& link, SteadyTime now) const {
  switch (link.state) {
    case Link::State::kConnecting:
    case Link::State::kGreeting:
    case Link::State::kOffered:
    case Link::State::kBroken:
      return now >= link.deadline || now - link.broken_since >= options_.link_timeout;
    case Link::State::kEnded:
      return true;
    default:
      return false;
  }
}

// Bytes are on their way for long and nothing is heard of the other kernel. One whose process does
// not read says so, and is waited for.
void TcpLinks::BreakIfStalled(Link* link, SteadyTime now) {
  const std::optional<StreamPulse> pulse = PulseOf(link->channel->fd());
  if (!pulse.has_value()) return;
  const bool moves = !link->pulse.awaits || pulse->acknowledged != link->pulse.acknowledged;
  link->pulse = *pulse;
  if (!pulse->awaits || moves || link->pulse_at == SteadyTime::InfiniteFuture()) {
    link->pulse_at = pulse->awaits ? now : SteadyTime::InfiniteFuture();
    return;
  }
  const absl::Duration silent = std::min(now - link->pulse_at, pulse->silent);
  if (silent >= kStallMax) Break(link, now - silent);
}

bool TcpLinks::readable() const {
  return std::any_of(turn_.begin(), turn_.end(), [](const Link* link) {
    return link->heard_switch && (link->channel->readable() || link->channel->broken());
  });
}

bool TcpLinks::Glance() {
  if (hot_ == nullptr) return false;
  char byte = 0;
  const ssize_t got = recv(hot_->channel->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return false;
  hot_->channel->SetReadable();
  return true;
}

void TcpLinks::AddPollItems(std::vector<pollfd>* items) {
  const size_t before = items->size();
  if (listener_ >= 0 && SteadyNow() >= deaf_until_) {
    items->push_back({.fd = listener_, .events = POLLIN, .revents = 0});
  }
  for (const PendingConnection& guest : guests_) {
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

void TcpLinks::Polled(absl::Span<const pollfd> items) {
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

void TcpLinks::Tend() {
  if (unfinished_ || (any_open() && SteadyNow() >= next_check_)) Progress();
}

void TcpLinks::Look() {
  if (!any_open() && !unfinished_) return;
  looked_at_.clear();
  AddPollItems(&looked_at_);
  if (poll(looked_at_.data(), looked_at_.size(), 0) > 0) Polled(looked_at_);
  Tend();
}

// Until the other sides have in hand what was sent: a connection may still break.
void TcpLinks::Close(SteadyTime deadline) {
  std::vector<pollfd> items;
  for (Link* link : turn_) {
    link->channel->Acknowledge();
    if (!link->channel->all_acknowledged()) link->channel->AskForAcknowledgement();
  }
  for (;;) {
    bool left_any = false;
    Buffers frames;
    for (Link* link : std::vector<Link*>(turn_)) {
      StreamChannel& channel = *link->channel;
      channel.Flush();
      // What the other side sends is not given out any more, and must not keep it from reading.
      channel.SetReadable();
      while (channel.Receive(&frames)) {
      }
      if (channel.ended()) {
        End(link);
      } else if (channel.broken()) {
        Break(link, SteadyNow());
      }
    }
    for (const auto& [peer, link] : links_) {
      if (link->state == Link::State::kEnded) continue;
      left_any = left_any || (link->began() && !link->channel->all_acknowledged()) ||
                 (link->state == Link::State::kOpen &&
                  (link->channel->wants_to_write() || !IsTakenOver(link->channel->fd())));
    }
    const absl::Duration left = deadline - SteadyNow();
    if (!left_any || left <= absl::ZeroDuration()) break;
    items.clear();
    AddPollItems(&items);
    const absl::Duration wait = std::min(left, kLookAgainAfter);
    if (poll(items.data(), items.size(), static_cast<int>(absl::ToInt64Milliseconds(wait))) > 0) {
      Polled(items);
    }
    if (unfinished_) Progress();
  }
  for (Link* link : turn_) link->channel->SayBye();
  End();
}

void TcpLinks::End() {
  while (!links_.empty()) Erase(std::string(links_.begin()->first));
  for (const PendingConnection& guest : guests_) close(guest.fd);
  guests_.clear();
  if (listener_ >= 0) close(std::exchange(listener_, -1));
}

uint64_t TcpLinks::framing_sent() const {
  int64_t bytes = framing_sent_;
  for (const auto& [peer, link] : links_) {
    if (link->channel != nullptr) bytes += link->channel->more_bytes();
  }
  return static_cast<uint64_t>(bytes);
}

uint64_t TcpLinks::framing_received() const {
  int64_t bytes = framing_received_;
  for (const auto& [peer, link] : links_) {
    if (link->channel != nullptr) bytes += link->channel->more_bytes_in();
  }
  return static_cast<uint64_t>(bytes);
}

}  // namespace soapstone::transport
