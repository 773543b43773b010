#include "transport/local_links.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "glog/logging.h"

namespace soapstone::transport {
namespace {

constexpr uint32_t kMagic = 0x4B4E4C53;  // "SLNK"
constexpr uint32_t kVersion = 1;
constexpr size_t kLocalLinksMax = 4096;
constexpr size_t kOpeningMax = 256;  // that have not said what they are
constexpr absl::Duration kOpeningPatience = absl::Seconds(5);
constexpr size_t kFdsMax = 3;
constexpr absl::Duration kDeafFor = absl::Seconds(1);  // without descriptors to accept a link

enum class Word : uint32_t { kHello = 1, kTaken = 2, kSegment = 3 };

// What travels by the socket; descriptors come along.
struct Note {
  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  Word word = Word::kHello;
  uint32_t spare = 0;
  uint64_t id = 0;
  uint64_t size = 0;
};

bool SendNote(int socket, const Note& note, absl::Span<const int> fds) {
  iovec part = {const_cast<Note*>(&note), sizeof(note)};
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(note);
}

// Descriptors that came along, closed unless taken.
struct Fds {
  ~Fds() {
    for (const int fd : fds) close(fd);
  }
  std::vector<int> fds;
};

enum class Got { kNothing, kNote, kEnd };

Got ReceiveNote(int socket, Note* note, Fds* fds) {
  iovec part = {note, sizeof(*note)};
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Got::kNothing;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); got > 0 && head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    fds->fds.resize(count);
    std::memcpy(fds->fds.data(), CMSG_DATA(head), count * sizeof(int));
  }
  const bool good = got == sizeof(*note) && note->magic == kMagic && note->version == kVersion &&
                    (message.msg_flags & MSG_CTRUNC) == 0;
  return good ? Got::kNote : Got::kEnd;
}

// "\0soapstone/ENDPOINT". False: it does not fit.
bool NameOf(const std::string& endpoint, sockaddr_un* address, socklen_t* size) {
  const std::string name = absl::StrCat("soapstone/", endpoint);
  *address = {};
  address->sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address->sun_path)) return false;
  name.copy(address->sun_path + 1, name.size());
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return true;
}

bool IsOwnUser(int socket) {
  ucred who = {};
  socklen_t size = sizeof(who);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

}  // namespace

struct LocalLinks::Link {
  ~Link() {
    for (const int fd : {socket, bell_in, bell_out}) {
      if (fd >= 0) close(fd);
    }
  }
  LinkId id = 0;
  State state = State::kOpening;
  int socket = -1;
  int bell_in = -1;    // the other side rings it, when we sleep
  int bell_out = -1;   // and we the other's
  bool ended = false;  // the other side has closed the socket: what it sent before is still there
  absl::Time opened = absl::Now();
  std::unique_ptr<SharedChannel> channel;  // null: it has not said Hello
};

LocalLinks::LocalLinks() = default;
LocalLinks::~LocalLinks() { Close(); }

absl::Status LocalLinks::Listen(const std::string& endpoint) {
  sockaddr_un address;
  socklen_t size = 0;
  if (!NameOf(endpoint, &address, &size)) return absl::InvalidArgumentError("the name is too long");
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return absl::ResourceExhaustedError("no Unix socket");
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    const int error = errno;
    close(listener);
    return absl::UnavailableError(absl::StrCat("a Unix socket: ", std::strerror(error)));
  }
  listener_ = listener;
  return absl::OkStatus();
}

std::optional<LinkId> LocalLinks::Connect(const std::string& endpoint) {
  sockaddr_un address;
  socklen_t size = 0;
  if (!NameOf(endpoint, &address, &size) || links_.size() >= kLocalLinksMax) return std::nullopt;
  auto link = std::make_unique<Link>();
  link->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (link->socket < 0 || connect(link->socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      !IsOwnUser(link->socket)) {
    return std::nullopt;
  }
  link->bell_in = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  link->bell_out = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  const int memory = SharedChannel::MakeMemory();
  if (memory < 0 || link->bell_in < 0 || link->bell_out < 0) {
    if (memory >= 0) close(memory);
    return std::nullopt;
  }
  const int socket = link->socket;
  auto channel = SharedChannel::Map(memory, true, [socket](const SharedArena::Segment& segment) {
    return SendNote(socket, {.word = Word::kSegment, .id = segment.id, .size = segment.size},
                    {segment.fd});
  });
  const bool told =
      channel.ok() && SendNote(socket, {.word = Word::kHello, .size = SharedChannel::MemoryBytes()},
                               {memory, link->bell_out, link->bell_in});
  close(memory);
  if (!told) return std::nullopt;
  link->channel = *std::move(channel);
  link->id = ++last_id_;
  turn_.push_back(link.get());
  const LinkId id = link->id;
  links_.emplace(id, std::move(link));
  return id;
}

LocalLinks::State LocalLinks::state(LinkId link) const {
  const auto found = links_.find(link);
  return found == links_.end() ? State::kGone : found->second->state;
}

void LocalLinks::Drop(LinkId link) {
  const auto found = links_.find(link);
  if (found != links_.end()) Retire(found->second.get(), false);
}

void LocalLinks::Ring(const Link& link) {
  const uint64_t one = 1;
  // Fails only when the counter is at its maximum: then the other side has been rung already.
  [[maybe_unused]] const ssize_t written = write(link.bell_out, &one, sizeof(one));
}

absl::Status LocalLinks::Send(LinkId link, std::string_view header,
                              absl::Span<const Buffer> payload) {
  const auto found = links_.find(link);
  if (found == links_.end() || found->second->ended) {
    return absl::NotFoundError("the process at the other end has ended");
  }
  bool ring = false;
  absl::Status sent = found->second->channel->Send(header, payload, &ring);
  if (ring) Ring(*found->second);
  return sent;
}

bool LocalLinks::Receive(LinkId* link, Buffers* frames) {
  for (size_t tried = 0; tried < turn_.size(); ++tried) {
    if (next_turn_ >= turn_.size()) next_turn_ = 0;
    Link* candidate = turn_[next_turn_++];
    SharedChannel& channel = *candidate->channel;
    bool got = channel.Receive(frames);
    if (!got && channel.wants_segment() && !candidate->ended) {
      // It was handed over before the message was written.
      if (!ReadSocket(candidate)) candidate->ended = true;
      got = channel.Receive(frames);
    }
    if (got) {
      *link = candidate->id;
      return true;
    }
    if (channel.broken() || channel.wants_segment() || candidate->ended) {
      LOG_IF(WARNING, !candidate->ended) << "a link through shared memory broke the rules: closed";
      Retire(candidate, candidate->ended);
    }
  }
  return false;
}

void LocalLinks::Accept() {
  const auto opening = static_cast<size_t>(std::count_if(
      links_.begin(), links_.end(), [](const auto& l) { return l.second->channel == nullptr; }));
  for (size_t i = opening; i < kOpeningMax && links_.size() < kLocalLinksMax; ++i) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // Without a descriptor to spare whoever waits is not taken, and cannot be sent away either.
      if (errno == EMFILE || errno == ENFILE) {
        LOG_EVERY_N(WARNING, 100) << "too many open files: no more links through shared memory";
        deaf_until_ = absl::Now() + kDeafFor;
      }
      return;
    }
    auto link = std::make_unique<Link>();
    link->socket = fd;
    link->id = ++last_id_;
    if (IsOwnUser(fd)) links_.emplace(link->id, std::move(link));
  }
}

// The other side's Hello: its memory, our bell, its bell.
bool LocalLinks::TakeOver(Link* link, absl::Span<const int> fds) {
  if (fds.size() != kFdsMax || link->channel != nullptr) return false;
  const int socket = link->socket;
  auto channel = SharedChannel::Map(fds[0], false, [socket](const SharedArena::Segment& segment) {
    return SendNote(socket, {.word = Word::kSegment, .id = segment.id, .size = segment.size},
                    {segment.fd});
  });
  if (!channel.ok()) return false;
  // Where it has ended meanwhile, what it had sent is there all the same.
  SendNote(socket, {.word = Word::kTaken}, {});
  link->channel = *std::move(channel);
  link->bell_in = fcntl(fds[1], F_DUPFD_CLOEXEC, 0);
  link->bell_out = fcntl(fds[2], F_DUPFD_CLOEXEC, 0);
  for (const int bell : {link->bell_in, link->bell_out}) fcntl(bell, F_SETFL, O_NONBLOCK);
  link->state = State::kOpen;
  ++open_;
  turn_.push_back(link);
  return link->bell_in >= 0 && link->bell_out >= 0;
}

// False: the other side has ended, or said what it may not.
bool LocalLinks::ReadSocket(Link* link) {
  for (;;) {
    Note note;
    Fds came;
    const Got got = ReceiveNote(link->socket, &note, &came);
    if (got != Got::kNote) return got == Got::kNothing;
    switch (note.word) {
      case Word::kHello:
        if (!TakeOver(link, came.fds)) return false;
        break;
      case Word::kTaken:
        if (link->state != State::kOpening || link->channel == nullptr) return false;
        link->state = State::kOpen;
        ++open_;
        break;
      case Word::kSegment:
        if (came.fds.size() != 1 || link->channel == nullptr ||
            !link->channel->AddSegment(note.id, note.size, came.fds[0])) {
          return false;
        }
        break;
      default:
        return false;
    }
  }
}

void LocalLinks::Progress() {
  const absl::Time now = absl::Now();
  if (listener_ >= 0 && now >= deaf_until_) Accept();
  std::vector<Link*> retired;
  for (auto& [id, link] : links_) {
    if (link->bell_in >= 0) Silence(*link);
    if (link->ended) continue;
    if (!ReadSocket(link.get())) link->ended = true;
    const bool late = now - link->opened > kOpeningPatience;
    if (link->channel == nullptr && (link->ended || late)) retired.push_back(link.get());
  }
  for (Link* link : retired) Retire(link, link->ended);
}

void LocalLinks::Retire(Link* link, bool ended) {
  if (!ended && link->channel != nullptr) link->channel->Abandon();
  if (link->state == State::kOpen) --open_;
  std::erase(turn_, link);
  links_.erase(link->id);
}

bool LocalLinks::readable() const {
  return std::any_of(turn_.begin(), turn_.end(),
                     [](const Link* link) { return link->channel->readable() || link->ended; });
}

bool LocalLinks::worth_a_look() const {
  const int here = sched_getcpu();
  return std::any_of(turn_.begin(), turn_.end(), [here](const Link* link) {
    return link->state == State::kOpen && link->channel->other_cpu() != here;
  });
}

bool LocalLinks::PrepareToSleep() {
  for (Link* link : turn_) {
    if (link->channel->PrepareToSleep() || link->ended) {
      Woke();
      return true;
    }
  }
  return false;
}

void LocalLinks::Woke() {
  for (Link* link : turn_) {
    link->channel->Woke();
  }
}

void LocalLinks::Silence(const Link& link) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(link.bell_in, &count, sizeof(count));
}

void LocalLinks::AddPollItems(std::vector<pollfd>* items) const {
  if (listener_ >= 0 && absl::Now() >= deaf_until_) {
    items->push_back({.fd = listener_, .events = POLLIN});
  }
  for (const auto& [id, link] : links_) {
    if (!link->ended) items->push_back({.fd = link->socket, .events = POLLIN});
    if (link->bell_in >= 0) items->push_back({.fd = link->bell_in, .events = POLLIN});
  }
}

void LocalLinks::Close() {
  if (listener_ >= 0) close(std::exchange(listener_, -1));
  while (!links_.empty()) Retire(links_.begin()->second.get(), false);
  open_ = 0;
}

}  // namespace soapstone::transport
