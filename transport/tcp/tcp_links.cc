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

namespace soapstone::transport {
namespace {

constexpr size_t kTcpLinksMax = 16'384;
constexpr absl::Duration kDialPatience = absl::Seconds(1);         // before TCP tries it again
constexpr absl::Duration kCheckEvery = absl::Milliseconds(250);    // for stalls
constexpr int kBreaksToALine = 20;                                 // of the log
constexpr absl::Duration kLookAgainAfter = absl::Milliseconds(1);  // in Close

}  // namespace

TcpLinks::TcpLinks(StreamOptions options, Tell tell)
    : options_(options), tell_(std::move(tell)), port_(options.half_open_patience) {
  while (self_ == 0) PCHECK(getrandom(&self_, sizeof(self_), 0) == sizeof(self_));
}

TcpLinks::~TcpLinks() { End(); }

TcpLink* TcpLinks::Find(const std::string& peer) const {
  if (found_ != nullptr && found_->peer == peer) return found_;
  const auto found = links_.find(peer);
  if (found == links_.end()) return nullptr;
  found_ = found->second.get();
  return found_;
}

void TcpLinks::Ask(const std::string& peer, uint64_t session, const std::string& name) {
  TcpLink* link = Find(peer);
  if (link == nullptr) {
    if (links_.size() >= kTcpLinksMax) return;
    link = links_.emplace(peer, std::make_unique<TcpLink>()).first->second.get();
    link->peer = peer;
    link->ours = true;
  }
  if (link->asked) return;
  link->name = name;
  link->session = session;
  link->number = ++last_number_;
  const Handshake note = {.word = Handshake::Word::kAsk,
                          .session = session,
                          .number = link->number,
                          .ciphers = options_.ciphers};
  if (!tell_(peer, true, note).ok()) return;
  link->asked = true;
  link->state = TcpLink::State::kAsked;
}

void TcpLinks::OnNote(const std::string& peer, const Handshake& note, int fd, wire::Role role) {
  using Word = Handshake::Word;
  if (note.word == Word::kAsk) {
    Offer(peer, note, role);
    return;
  }
  TcpLink* link = Find(peer);
  if (link == nullptr || link->number != note.number) return;
  if (note.word == Word::kSwitch && link->channel != nullptr) {
    link->heard_switch = true;
    link->channel->SetReadable();
    return;
  }
  if (note.word == Word::kRefuse && link->state == TcpLink::State::kOffered) {
    link->why_none = absl::StrCat("the other side does not reach port ", port_.port(),
                                  " of this node; open it, or set another by --stream_port");
    return Shut(link);
  }
  if (!link->ours || link->state != TcpLink::State::kAsked) return;
  link->role = role;
  if (note.word == Word::kOffer) ConnectTo(link, note, fd);
  if (note.word == Word::kRefuse) GiveUp(link, "the other side offers none");
}

void TcpLinks::Offer(const std::string& peer, const Handshake& ask, wire::Role role) {
  if (TcpLink* before = Find(peer); before != nullptr) {
    if (before->ours || ask.number <= before->number) return;
    // Who asks anew has given the stream up that was there.
    if (before->began()) lost_.push_back({peer, "the other side has given the stream up"});
    Drop(peer);
  }
  if (!port_.open() && !offered_at_.empty()) {
    const absl::Status listening = port_.Open(offered_at_, options_.port);
    if (!listening.ok()) {
      LOG(INFO) << "no streams from other nodes, which reach this one over ZeroMQ alone: "
                << listening.message();
      offered_at_.clear();
    }
  }
  Handshake note = {.word = Handshake::Word::kRefuse, .session = ask.session, .number = ask.number};
  auto link = std::make_unique<TcpLink>();
  const bool random =
      getrandom(note.token.data(), note.token.size(), 0) == static_cast<ssize_t>(note.token.size());
  const auto keys = StreamSeal::MakeKeys(options_.ciphers, ask.ciphers);
  if (port_.open() && random && keys.has_value() && links_.size() < kTcpLinksMax) {
    note.word = Handshake::Word::kOffer;
    note.port = port_.port();
    note.keys = *keys;
    link->seal = StreamSeal(note.token, *keys, /*asked=*/false);
  }
  if (!tell_(peer, false, note).ok() || note.word == Handshake::Word::kRefuse) return;
  link->peer = peer;
  link->role = role;
  link->session = ask.session;
  link->number = ask.number;
  link->channel = std::make_unique<StreamChannel>(self_, options_.limits, &pool_);
  link->state = TcpLink::State::kOffered;
  link->deadline = SteadyNow() + 2 * options_.half_open_patience;
  links_[peer] = std::move(link);
  unfinished_ = true;
}

// To the machine at the other end of ZeroMQ's connection.
void TcpLinks::ConnectTo(TcpLink* link, const Handshake& offer, int fd) {
  if ((offer.keys.cipher != security::Cipher::kNone) != sealed()) {
    ++ended_.faults.offers;
    GiveUp(link, sealed() ? "it is offered without keys" : "it is offered with keys");
    return;
  }
  if (fd < 0 || getpeername(fd, link->address.get(), &link->address.size) != 0 ||
      !link->address.SetPort(offer.port)) {
    GiveUp(link, "its address is not known");
    return;
  }
  link->seal = StreamSeal(offer.token, offer.keys, /*asked=*/true);
  link->channel = std::make_unique<StreamChannel>(self_, options_.limits, &pool_);
  Dial(link, SteadyNow());
}

void TcpLinks::Dial(TcpLink* link, SteadyTime now) {
  unfinished_ = true;
  if (!link->BeginConnection()) {
    Fail(link, now, std::strerror(errno));
    return;
  }
  link->state = TcpLink::State::kConnecting;
  // A way that swallows bytes is tried anew before TCP tries it.
  link->deadline = now + (link->began() ? kDialPatience : options_.half_open_patience);
}

// A connection did not come about. The first one need not.
void TcpLinks::Fail(TcpLink* link, SteadyTime now, const char* why) {
  const bool may_be_open = link->began() || link->state == TcpLink::State::kGreeting;
  if (!may_be_open) return GiveUp(link, why);
  link->CloseDialled();
  link->state = TcpLink::State::kBroken;
  link->broken_since = std::min(link->broken_since, now);
  link->dial_at = now + link->dial_again;
  link->dial_again = std::min(2 * link->dial_again, TcpLink::kDialAgainMax);
  link->deadline = SteadyTime::InfiniteFuture();
  unfinished_ = true;
}

// A connection to our port has said what it is.
void TcpLinks::Greet(int fd, const std::optional<StreamHello>& hello) {
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& l) {
    return l.second->may_be_greeted() && hello.has_value() && l.second->seal.Proves(*hello, false);
  });
  TcpLink* link = found == links_.end() ? nullptr : found->second.get();
  if (link == nullptr || hello->connection <= link->connection) {
    // Somebody without our token; or an old connection that speaks after a new one.
    LOG_EVERY_N(WARNING, 100) << "somebody without our token at the port for streams: sent away";
    if (link == nullptr) {
      ++ended_.faults.hellos;
      SendHello(fd, {.verdict = StreamHello::Verdict::kUnknown});
    }
    close(fd);
    return;
  }
  link->connection = hello->connection;
  if (link->state == TcpLink::State::kOpen) Break(link, SteadyNow());
  StreamHello answer = {.connection = hello->connection, .greeting = link->channel->greeting()};
  link->seal.Prove(&answer, /*answer=*/true);
  if (!SendHello(fd, answer)) {
    close(fd);
  } else if (link->channel->Attach(fd, hello->greeting, link->seal.Of(hello->connection))) {
    Open(link, fd);
  } else {
    close(fd);
    Lose(link, "the other side is out of step");
  }
}

// REQUIRES: the channel has taken `fd` over.
void TcpLinks::Open(TcpLink* link, int fd) {
  SetUpStream(fd);
  LOG_IF(INFO, link->broken_since != SteadyTime::InfiniteFuture())
      << "a stream's connection was made again after " << SteadyNow() - link->broken_since;
  link->Opened();
  ended_.framing_sent += static_cast<int64_t>(kStreamHelloBytes);
  turns_.Add(link);
  Advance(link, SteadyNow());
  link->channel->Flush();
}

void TcpLinks::ReadAnswer(TcpLink* link, SteadyTime now) {
  const bool there = ReadHello(link->fd, link->answer, &link->answer_have);
  if (link->answer_have < kStreamHelloBytes) {
    if (!there) Fail(link, now, "it was closed again");
    return;
  }
  const std::optional<StreamHello> answer = DecodeStreamHello(link->answer);
  const bool proved = answer.has_value() && link->seal.Proves(*answer, true);
  if (sealed() && !(proved && answer->connection == link->connection)) {
    // A process that has taken the other's place cannot prove that it does not know the stream.
    if (!answer.has_value() || answer->verdict == StreamHello::Verdict::kGoOn) {
      ++ended_.faults.hellos;
    }
    return Fail(link, now, "the answer is not the other side's");  // who it is may be there too
  }
  const bool known = answer.has_value() && answer->verdict == StreamHello::Verdict::kGoOn;
  if (known && link->channel->Attach(link->fd, answer->greeting, link->seal.Of(link->connection))) {
    Open(link, link->fd);
  } else if (link->began()) {
    Lose(link, "another process is there now, or it is out of step");
  } else {
    GiveUp(link, "the answer is none of ours");
  }
}

// One step on.
void TcpLinks::Advance(TcpLink* link, SteadyTime now) {
  switch (link->state) {
    case TcpLink::State::kConnecting: {
      const int error = link->ConnectError();
      if (error == EINPROGRESS) break;
      if (error != 0 || !link->SayHello()) {
        Fail(link, now, error != 0 ? std::strerror(error) : "it was closed again");
        return;
      }
      link->state = TcpLink::State::kGreeting;
      break;
    }
    case TcpLink::State::kGreeting:
      ReadAnswer(link, now);
      break;
    case TcpLink::State::kBroken:
      if (link->ours && now >= link->dial_at) Dial(link, now);
      break;
    case TcpLink::State::kOpen:
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

void TcpLinks::GiveUp(TcpLink* link, const char* why) {
  const char* slow = sealed() ? ", which is slow with keys" : "";
  google::LogMessage(__FILE__, __LINE__, sealed() ? google::GLOG_WARNING : google::GLOG_INFO)
          .stream()
      << link->name << " is reached over ZeroMQ alone" << slow << ": no stream to it (" << why
      << ")";
  // Who offered it would wait, and may have something that goes by streams alone.
  if (sealed() && link->channel != nullptr) {
    const Handshake note = {
        .word = Handshake::Word::kRefuse, .session = link->session, .number = link->number};
    tell_(link->peer, true, note).IgnoreError();
  }
  link->why_none = why;
  Shut(link);
}

// No stream comes of it.
void TcpLinks::Shut(TcpLink* link) {
  link->CloseDialled();
  link->channel.reset();
  link->state = TcpLink::State::kNone;
  link->deadline = SteadyTime::InfiniteFuture();
}

// The connection has ended, or is not worth waiting for; the stream goes on by the next one.
void TcpLinks::Break(TcpLink* link, SteadyTime since) {
  ended_.AddConnection(*link->channel, link->channel->taken_bytes());
  link->channel->Detach();
  turns_.Remove(link);
  link->state = TcpLink::State::kBroken;
  link->broken_since = std::min(link->broken_since, since);
  link->dial_at = SteadyTime::InfinitePast();
  unfinished_ = true;
}

void TcpLinks::Lose(TcpLink* link, std::string why) {
  LOG(WARNING) << "a stream is lost, with " << link->channel->queued_messages()
               << " messages: " << why;
  lost_.push_back({link->peer, std::move(why)});
  End(link);
}

// Nothing comes of it any more. Progress drops it, when nobody looks at it.
void TcpLinks::End(TcpLink* link) {
  link->CloseDialled();
  if (link->channel->attached()) Break(link, SteadyNow());
  link->state = TcpLink::State::kEnded;
  unfinished_ = true;
}

void TcpLinks::Drop(const std::string& peer) {
  TcpLink* link = Find(peer);
  if (link == nullptr) return;
  if (link->channel != nullptr) {
    StreamChannel& channel = *link->channel;
    channel.Flush();
    if (channel.attached()) ended_.AddConnection(channel, channel.connection_bytes());
    ended_.dropped_messages += channel.unsent_messages();
    ended_.AddFraming(channel);
  }
  turns_.Remove(link);
  found_ = nullptr;
  links_.erase(std::string(peer));
}

bool TcpLinks::Carries(const std::string& peer) const {
  const TcpLink* link = Find(peer);
  return link != nullptr && link->said_switch && link->state != TcpLink::State::kEnded;
}

absl::Status TcpLinks::Send(const std::string& peer, std::string_view header,
                            absl::Span<const Buffer> payload, uint32_t priority) {
  return Find(peer)->channel->Send(header, payload, priority);
}

bool TcpLinks::Receive(std::string* peer, bool* ours, Buffers* frames) {
  for (const bool reads : {false, true}) {
    // What answers what was read goes before more is read.
    if (reads) Flush();
    for (size_t tried = 0; tried < turns_.links().size(); ++tried) {
      TcpLink* link = turns_.Next();
      StreamChannel& channel = *link->channel;
      if (link->heard_switch && (reads ? channel.Receive(frames) : channel.TakeRead(frames))) {
        turns_.NoteGave(link);
        *peer = link->peer;
        *ours = link->ours;
        return true;
      }
      if (channel.ended()) {
        End(link);
        continue;
      }
      if (!channel.broken()) continue;
      LOG_IF_EVERY_N(WARNING, channel.broke_rules(), kBreaksToALine)
          << (channel.seal_fault() == SealFault::kNone
                  ? "a stream broke the rules: closed"
                  : "a stream's bytes were changed on the way: its connection is made again");
      Break(link, SteadyNow());
    }
  }
  return false;
}

void TcpLinks::Progress() {
  const SteadyTime now = SteadyNow();
  pauses_.Look(now);
  port_.Progress([this](int fd, const std::optional<StreamHello>& hello) { Greet(fd, hello); });
  unfinished_ = port_.expects_hello(now);
  ended_.faults.hellos += port_.TakeSilent();
  std::vector<TcpLink*> late;
  const bool checks = now >= next_check_;
  if (checks) next_check_ = now + kCheckEvery;
  for (auto& [peer, link] : links_) {
    pauses_.Forgive(&link->broken_since);
    pauses_.Forgive(&link->pulse_at);
    Advance(link.get(), now);
    if (checks && link->state == TcpLink::State::kOpen) {
      const std::optional<SteadyTime> since = link->StalledSince(now);
      if (since.has_value()) Break(link.get(), *since);
    }
    if (link->state == TcpLink::State::kOpen) {
      unfinished_ = unfinished_ || !link->said_switch;
    } else if (link->state != TcpLink::State::kNone && link->state != TcpLink::State::kAsked) {
      unfinished_ = true;
    }
    if (link->IsLate(now, options_.link_timeout)) late.push_back(link.get());
  }
  for (TcpLink* link : late) {
    const bool ended = link->state == TcpLink::State::kEnded;
    if (ended || !(link->began() || link->ours)) {
      Drop(link->peer);
    } else if (!link->began()) {
      GiveUp(link, "the other side did not answer in time");
    } else if (now - link->broken_since >= options_.link_timeout) {
      const auto gone = absl::Floor(now - link->broken_since, absl::Milliseconds(1));
      Lose(link, absl::StrCat("no connection for ", absl::FormatDuration(gone)));
    } else {
      Fail(link, now, "no answer in time");
    }
  }
}

void TcpLinks::AddPollItems(std::vector<pollfd>* items) {
  const size_t before = items->size();
  port_.AddPollItems(items);
  for (const auto& [peer, link] : links_) {
    if (link->fd < 0) continue;
    const bool connecting = link->state == TcpLink::State::kConnecting;
    items->push_back(
        {.fd = link->fd, .events = static_cast<int16_t>(connecting ? POLLOUT : POLLIN)});
  }
  other_items_ = items->size() - before;
  turns_.AddPollItems(items);
}

void TcpLinks::Polled(absl::Span<const pollfd> items) {
  const absl::Span<const pollfd> others = items.subspan(0, other_items_);
  turns_.Polled(items.subspan(others.size()));
  if (std::any_of(others.begin(), others.end(), [](const pollfd& i) { return i.revents != 0; })) {
    Progress();
  }
}

void TcpLinks::Tend() {
  const SteadyTime next = any_open() ? next_check_ : SteadyTime::InfiniteFuture();
  if (unfinished_ || SteadyNow() >= std::min(next, port_.next_end())) Progress();
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
  for (TcpLink* link : turns_.links()) {
    link->channel->Acknowledge();
    if (!link->channel->all_acknowledged()) link->channel->AskForAcknowledgement();
  }
  for (;;) {
    bool left_any = false;
    Buffers frames;
    for (TcpLink* link : std::vector<TcpLink*>(turns_.links())) {
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
      if (link->state == TcpLink::State::kEnded) continue;
      left_any = left_any || (link->began() && !link->channel->all_acknowledged()) ||
                 (link->state == TcpLink::State::kOpen &&
                  (link->channel->wants_to_write() || !IsTakenOver(link->channel->fd())));
    }
    const absl::Duration left = deadline - SteadyNow();
    if (!left_any || left <= absl::ZeroDuration()) break;
    looked_at_.clear();
    AddPollItems(&looked_at_);
    const absl::Duration wait = std::min(left, kLookAgainAfter);
    if (poll(looked_at_.data(), looked_at_.size(),
             static_cast<int>(absl::ToInt64Milliseconds(wait))) > 0) {
      Polled(looked_at_);
    }
    if (unfinished_) Progress();
  }
  for (TcpLink* link : turns_.links()) link->channel->SayBye();
  End();
}

void TcpLinks::End() {
  while (!links_.empty()) Drop(std::string(links_.begin()->first));
  port_.Close();
}

StreamCounts TcpLinks::counts() const {
  StreamCounts counts = ended_;
  for (const auto& [peer, link] : links_) {
    if (link->channel != nullptr) counts.AddFraming(*link->channel);
  }
  return counts;
}

}  // namespace soapstone::transport
