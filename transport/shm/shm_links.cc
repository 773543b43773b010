#include "transport/shm/shm_links.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
#include "glog/logging.h"
#include "transport/shm/link_socket.h"
#include "transport/shm/shm_link.h"

namespace soapstone::transport {
namespace {

constexpr size_t kShmLinksMax = 4096;
constexpr size_t kOpeningMax = 256;      // that have not said what they are
constexpr size_t kEndedLinksMax = 4096;  // that nobody has asked for
constexpr absl::Duration kOpeningPatience = absl::Seconds(5);
constexpr absl::Duration kDeafFor = absl::Seconds(1);  // without descriptors to accept a link
constexpr absl::Duration kDialEvery = absl::Milliseconds(20);  // another socket

using Word = LinkNote::Word;

std::string MeetingAt(const std::string& endpoint) {
  return absl::StrCat(endpoint, " ", WhereNamesAre());
}

bool HasEnded(pid_t process) { return process > 0 && kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

// By whatever socket the link has then. What is to be proved first, all is shown after.
std::function<bool(const SharedArena::Segment&)> ShmLinks::ShowBy(Link* link) {
  return [link](const SharedArena::Segment& segment) {
    if (link->socket >= 0 && link->proof.has_value()) return true;
    return link->socket >= 0 &&
           SendLinkNote(link->socket,
                        {.word = Word::kSegment, .id = segment.id, .size = segment.size},
                        {segment.fd});
  };
}

ShmLinks::ShmLinks(LocalOptions options) : options_(std::move(options)) {}
ShmLinks::~ShmLinks() { Close(); }

absl::Status ShmLinks::Listen(const std::string& endpoint) {
  if (options_.keys != nullptr && WhereNamesAre().empty()) {
    return absl::UnavailableError("/proc does not say which machine and network this is");
  }
  SOAP_ASSIGN_OR_RETURN(listener_, ListenForLinks(endpoint));
  endpoint_ = endpoint;
  return absl::OkStatus();
}

std::optional<LinkId> ShmLinks::Connect(const std::string& endpoint, const LinkEnd& listener) {
  if (links_.size() >= kShmLinksMax) return std::nullopt;
  if (options_.keys != nullptr && WhereNamesAre().empty()) return std::nullopt;
  auto link = std::make_unique<Link>();
  link->ours = true;
  link->endpoint = endpoint;
  link->socket = DialLink(endpoint);
  if (link->socket < 0 || getrandom(&link->token, sizeof(link->token), 0) < 0) return std::nullopt;
  link->process = ProcessBehind(link->socket);
  link->bell_in = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  link->bell_out = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  link->memory = SharedChannel::MakeMemory();
  if (link->memory < 0 || link->bell_in < 0 || link->bell_out < 0) return std::nullopt;
  auto channel =
      SharedChannel::Map(link->memory, true, ShowBy(link.get()), options_.unread_bytes_max);
  if (!channel.ok()) return std::nullopt;
  link->channel = *std::move(channel);
  if (options_.keys != nullptr) {
    link->other = listener;
    link->proof.emplace(options_.keys, MeetingAt(endpoint), listener);
  } else if (!Proved(link.get())) {
    return std::nullopt;
  }
  link->id = ++last_id_;
  turn_.push_back(link.get());
  const LinkId id = link->id;
  links_.emplace(id, std::move(link));
  return id;
}

// Nothing is left to prove by a socket of ours: the link is handed over, or goes on by it. False:
// the socket has broken.
bool ShmLinks::Proved(Link* link) {
  if (link->memory < 0) {
    return SendLinkNote(link->socket, {.word = Word::kGoOn, .id = link->token}) &&
           link->channel->ShowAgain();
  }
  const bool told = SendLinkNote(
      link->socket, {.word = Word::kHello, .id = link->token, .size = SharedChannel::MemoryBytes()},
      {link->memory, link->bell_out, link->bell_in});
  close(std::exchange(link->memory, -1));
  return told && link->channel->ShowAgain();
}

const LinkEnd* ShmLinks::Proven(LinkId link) const {
  const auto found = links_.find(link);
  // Also while a new socket is to be proved: what comes is from who has had the memory all along.
  if (found == links_.end() || !found->second->proved) return nullptr;
  return &found->second->other;
}

ShmLinks::State ShmLinks::state(LinkId link) const {
  const auto found = links_.find(link);
  return found == links_.end() ? State::kGone : found->second->seen();
}

void ShmLinks::Drop(LinkId link) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  if (found->second->socket >= 0 && !found->second->proof.has_value()) {
    SendLinkNote(found->second->socket, {.word = Word::kBye});
  }
  Retire(found->second.get(), false);
}

void ShmLinks::Ring(const Link& link) {
  const uint64_t one = 1;
  // Fails only when the counter is at its maximum: then the other side has been rung already.
  [[maybe_unused]] const ssize_t written = write(link.bell_out, &one, sizeof(one));
}

absl::Status ShmLinks::Send(LinkId link, std::string_view header,
                            absl::Span<const Buffer> payload) {
  const auto found = links_.find(link);
  if (found == links_.end() || found->second->ended) {
    return absl::NotFoundError("the process at the other end has ended");
  }
  bool ring = false;
  Link& at = *found->second;
  absl::Status sent = at.channel->Send(header, payload, &ring);
  if (ring) Ring(at);
  if (at.LooksWhetherItStarves()) mending_ = true;
  return sent;
}

bool ShmLinks::Waits(const Link& link) const { return guests_wait_ && !link.ours; }

bool ShmLinks::Receive(LinkId* link, Buffers* frames) {
  for (size_t tried = 0; tried < turn_.size(); ++tried) {
    if (next_turn_ >= turn_.size()) next_turn_ = 0;
    Link* candidate = turn_[next_turn_++];
    if (Waits(*candidate)) continue;
    SharedChannel& channel = *candidate->channel;
    bool got = channel.Receive(frames);
    if (!got && channel.wants_segment() && !candidate->ended) {
      if (candidate->socket >= 0) ReadSocket(candidate);
      got = channel.Receive(frames);
    }
    const bool waits = candidate->broken_since != SteadyTime::InfiniteFuture();
    if (got) {
      candidate->wants_since = SteadyTime::InfiniteFuture();
      *link = candidate->id;
      if (waits || candidate->ended) NoteEnd(*candidate);  // it was under way
      return true;
    }
    const bool stuck = channel.wants_segment() && !MayBeShown(candidate);
    if (candidate->ended) {
      Retire(candidate, true);
    } else if (channel.broken() || stuck) {
      GiveUp(candidate, stuck ? "a message mentions a segment that was never shown"
                              : "the other side broke the rules of shared memory");
    }
  }
  return false;
}

// The other side lives, and may read what it was lent for as long as it likes.
void ShmLinks::GiveUp(Link* link, std::string why) {
  NoteEnd(*link);
  lost_.push_back({link->id, std::move(why)});
  Drop(link->id);
}

// Whether the segment that a message mentions may still come. Mostly it was handed over before the
// message was written. Where the message is older than the socket, segments are shown right after
// its first word, which may have been read before they were there.
bool ShmLinks::MayBeShown(Link* link) {
  mending_ = true;  // look again soon
  const SteadyTime now = SteadyNow();
  link->wants_since = std::min(link->wants_since, now);
  return now - link->wants_since < options_.link_timeout;
}

void ShmLinks::Accept() {
  const auto opening = static_cast<size_t>(std::count_if(
      links_.begin(), links_.end(), [](const auto& l) { return l.second->channel == nullptr; }));
  for (size_t i = opening; i < kOpeningMax && links_.size() < kShmLinksMax; ++i) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // Without a descriptor to spare whoever waits is not taken, and cannot be sent away either.
      if (errno == EMFILE || errno == ENFILE) {
        LOG_EVERY_N(WARNING, 100) << "too many open files: no more links through shared memory";
        deaf_until_ = SteadyNow() + kDeafFor;
      }
      return;
    }
    auto link = std::make_unique<Link>();
    link->socket = fd;
    link->id = ++last_id_;
    if (!IsOwnUser(fd)) continue;
    if (options_.keys != nullptr) {
      link->proof.emplace(options_.keys, MeetingAt(endpoint_));
      const std::optional<ProofNote> first = link->proof->First();
      if (!first.has_value() || !SendProofNote(fd, *first)) continue;
    }
    links_.emplace(link->id, std::move(link));
  }
}

void ShmLinks::Open(Link* link) {
  link->state = State::kOpen;
  ++open_;
}

// The other side's Hello: its memory, our bell, its bell.
bool ShmLinks::TakeOver(Link* link, absl::Span<const int> fds) {
  if (fds.size() != kLinkFdsMax || link->channel != nullptr) return false;
  auto channel = SharedChannel::Map(fds[0], false, ShowBy(link), options_.unread_bytes_max);
  if (!channel.ok()) return false;
  link->bell_in = fcntl(fds[1], F_DUPFD_CLOEXEC, 0);
  link->bell_out = fcntl(fds[2], F_DUPFD_CLOEXEC, 0);
  if (link->bell_in < 0 || link->bell_out < 0 || !(*channel)->Claim()) return false;
  for (const int bell : {link->bell_in, link->bell_out}) fcntl(bell, F_SETFL, O_NONBLOCK);
  // Where it has ended meanwhile, what it had sent is there all the same.
  SendLinkNote(link->socket, {.word = Word::kTaken});
  link->process = ProcessBehind(link->socket);
  link->channel = *std::move(channel);
  Open(link);
  turn_.push_back(link);
  return true;
}

// Reads what is there. Where the socket has broken, or says what it may not, there is none then.
// REQUIRES: there is one.
bool ShmLinks::ReadSocket(Link* link) {
  while (link->socket >= 0 && !link->ended) {
    if (!ReadNote(link)) return true;
  }
  return false;
}

bool ShmLinks::Admits(const Link& link) const {
  return link.ours || !options_.admits || options_.admits(link.other.key);
}

// Nothing is left to prove by the socket. False: it has broken.
bool ShmLinks::Answer(Link* link) {
  const bool said = !link->answer.has_value() || SendProofNote(link->socket, *link->answer);
  link->answer.reset();
  link->proof.reset();
  link->proved = true;
  return said && (!link->ours || Proved(link));
}

// As ReadNote, of what comes before notes.
bool ShmLinks::ReadProof(Link* link) {
  if (link->answer.has_value()) {
    if (!Admits(*link)) return false;
    if (!Answer(link)) Break(link);
    return true;
  }
  ProofNote note;
  const LinkNoteCame came = ReceiveProofNote(link->socket, &note);
  if (came == LinkNoteCame::kNothing) return false;
  std::optional<ProofNote> answer;
  bool good = came == LinkNoteCame::kNote && link->proof->Take(note, &answer);
  if (!good && came == LinkNoteCame::kNote) {
    ++unproven_;
    LOG_EVERY_N(WARNING, 100) << "somebody without a key of the job asks for shared memory, or "
                              << "answers in a member's place: sent away";
  }
  if (good && link->proof->proven()) {
    link->other = {.role = link->proof->other(), .key = link->proof->other_key()};
    link->answer = answer;
    if (!Admits(*link)) return false;
    good = Answer(link);
  } else if (good && answer.has_value()) {
    good = SendProofNote(link->socket, *answer);
  }
  if (!good && link->socket >= 0) Break(link);
  return true;
}

// False: nothing is there.
bool ShmLinks::ReadNote(Link* link) {
  if (link->proof.has_value()) return ReadProof(link);
  LinkNote note;
  LinkFds came;
  const LinkNoteCame got = ReceiveLinkNote(link->socket, &note, &came);
  if (got == LinkNoteCame::kNothing) return false;
  bool good = got == LinkNoteCame::kNote;
  if (got == LinkNoteCame::kCut) link->cut_since = std::min(link->cut_since, SteadyNow());
  switch (good ? note.word : Word::kUnknown) {
    case Word::kHello:
      good = TakeOver(link, came.fds);
      link->token = note.id;
      break;
    case Word::kTaken:
      good = link->ours;
      if (!good) break;
      if (link->state == State::kOpening) Open(link);
      link->broken_since = SteadyTime::InfiniteFuture();
      break;
    case Word::kSegment:
      good = came.fds.size() == 1 && link->channel != nullptr &&
             link->channel->AddSegment(note.id, note.size, came.fds[0]);
      if (good) link->cut_since = SteadyTime::InfiniteFuture();
      break;
    case Word::kGoOn:
      good = link->channel == nullptr && GoOn(link, note.id);
      break;
    case Word::kBye:
      link->ended = true;
      break;
    case Word::kUnknown:
      if (good) Lose(link, "the other side has given it up, or another process is there now");
      break;
    default:
      good = false;
  }
  if (!good && link->socket >= 0) Break(link);
  return true;
}

// The socket is no good any more.
void ShmLinks::Break(Link* link) {
  if (link->socket >= 0) close(std::exchange(link->socket, -1));
  if (link->channel == nullptr || (link->state == State::kOpening && link->channel->Claim())) {
    link->ended = true;  // nobody has its memory, nor will: what was to go by it goes another way
    return;
  }
  if (link->state == State::kOpening) Open(link);
  // Of a process that is not reaped yet, or of another container, nobody knows more for long.
  NoteEnd(*link);
  link->broken_since = std::min(link->broken_since, SteadyNow());
  mending_ = true;
}

void ShmLinks::NoteEnd(const Link& link) {
  if (ended_.size() >= kEndedLinksMax) {
    ended_.erase(ended_.begin(), ended_.begin() + kEndedLinksMax / 2);
  }
  ended_.push_back(link.id);
}

// A link without a socket, or of whose new socket nothing was heard yet.
void ShmLinks::Mend(Link* link, SteadyTime now) {
  mending_ = true;
  if (HasEnded(link->process)) {
    link->ended = true;
  } else if (now - link->broken_since >= options_.link_timeout) {
    Lose(link, absl::StrCat("no socket for ", absl::FormatDuration(options_.link_timeout)));
  } else if (link->ours && link->socket < 0 && now >= link->dial_at) {
    link->dial_at = now + kDialEvery;
    Dial(link);
  }
}

void ShmLinks::Lose(Link* link, std::string why) {
  link->ended = true;
  lost_.push_back({link->id, std::move(why)});
}

bool ShmLinks::Dial(Link* link) {
  link->socket = DialLink(link->endpoint);
  if (link->socket < 0) return false;
  if (options_.keys != nullptr) {
    link->proof.emplace(options_.keys, MeetingAt(link->endpoint), link->other);
    return true;
  }
  if (Proved(link)) return true;
  close(std::exchange(link->socket, -1));
  return false;
}

// The guest's socket becomes that of the link with the token. The guest has none then.
bool ShmLinks::GoOn(Link* guest, uint64_t token) {
  const int socket = std::exchange(guest->socket, -1);
  guest->ended = true;
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& l) {
    return !l.second->ours && l.second->channel != nullptr && l.second->token == token &&
           l.second->other == guest->other && !l.second->ended;
  });
  if (found == links_.end()) {
    SendLinkNote(socket, {.word = Word::kUnknown});
    close(socket);
    return true;
  }
  Link* link = found->second.get();
  if (link->socket >= 0) close(link->socket);
  link->socket = socket;
  link->broken_since = SteadyTime::InfiniteFuture();
  if (!SendLinkNote(socket, {.word = Word::kTaken}) || !link->channel->ShowAgain()) Break(link);
  return true;
}

void ShmLinks::Progress() {
  const SteadyTime now = SteadyNow();
  pauses_.Look(now);
  mending_ = false;
  if (listener_ >= 0 && now >= deaf_until_) Accept();
  std::vector<Link*> retired;
  for (auto& [id, link] : links_) {
    if (link->bell_in >= 0) Silence(*link);
    if (link->ended && link->channel != nullptr) continue;
    if (link->socket >= 0) ReadSocket(link.get());
    link->Forgive(pauses_);
    mending_ = mending_ || link->starves();
    if (const char* what = link->Lacks(now, options_.link_timeout)) Lose(link.get(), what);
    if (link->broken_since != SteadyTime::InfiniteFuture() && !link->ended) Mend(link.get(), now);
    const bool late = now - link->opened > kOpeningPatience;
    if (late && link->ours && link->seen() == State::kOpening) Break(link.get());
    if (link->channel == nullptr && (link->ended || late)) retired.push_back(link.get());
  }
  for (Link* link : retired) Retire(link, link->ended);
}

void ShmLinks::Retire(Link* link, bool ended) {
  if (!ended && link->channel != nullptr) link->channel->Abandon();
  if (ended && link->channel != nullptr) NoteEnd(*link);
  if (link->state == State::kOpen) --open_;
  std::erase(turn_, link);
  links_.erase(link->id);
}

bool ShmLinks::readable() const {
  return std::any_of(turn_.begin(), turn_.end(), [this](const Link* link) {
    return !Waits(*link) && (link->readable() || link->ended);
  });
}

bool ShmLinks::may_be_readable() const {
  const int here = sched_getcpu();
  return std::any_of(turn_.begin(), turn_.end(), [&](const Link* link) {
    return link->state == State::kOpen && !Waits(*link) && link->channel->other_cpu() != here;
  });
}

bool ShmLinks::PrepareToSleep() {
  for (Link* link : turn_) {
    if (Waits(*link)) continue;
    if ((!link->channel->wants_segment() && link->channel->PrepareToSleep()) || link->ended) {
      Woke();
      return true;
    }
  }
  return false;
}

void ShmLinks::Woke() {
  for (Link* link : turn_) {
    link->channel->Woke();
  }
}

void ShmLinks::Silence(const Link& link) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(link.bell_in, &count, sizeof(count));
}

void ShmLinks::AddPollItems(std::vector<pollfd>* items) const {
  if (listener_ >= 0 && SteadyNow() >= deaf_until_) {
    items->push_back({.fd = listener_, .events = POLLIN});
  }
  for (const auto& [id, link] : links_) {
    // Of who has to wait nothing more is read.
    if (!link->ended && link->socket >= 0 && !link->answer.has_value()) {
      items->push_back({.fd = link->socket, .events = POLLIN});
    }
    if (link->bell_in >= 0) items->push_back({.fd = link->bell_in, .events = POLLIN});
  }
}

void ShmLinks::Close() {
  if (listener_ >= 0) close(std::exchange(listener_, -1));
  for (auto& [id, link] : links_) {
    if (link->socket >= 0 && !link->proof.has_value()) {
      SendLinkNote(link->socket, {.word = Word::kBye});
    }
  }
  while (!links_.empty()) Retire(links_.begin()->second.get(), false);
  open_ = 0;
}

}  // namespace soapstone::transport
