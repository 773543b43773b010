#include "transport/zmq/door_watch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::transport {
namespace {

constexpr char kMonitorAt[] = "inproc://door";  // one in a context
constexpr absl::Duration kLookEvery = absl::Milliseconds(1);
constexpr int kNapMaxMs = 3'600'000;
constexpr int kNapWithHeldMs = 20;
constexpr int kNapToSayMs = 1000;
constexpr int kEventsOfALook = 4096;
constexpr size_t kEndsMax = 4096;  // that nobody has asked for
constexpr absl::Duration kSayEvery = absl::Seconds(1);
constexpr int kSayKeysEveryS = 10;

struct End {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// Whether it is a connection of the listener at `port` still, not what has its descriptor now.
bool IsOf(int fd, int port) {
  End here;
  if (getsockname(fd, here.get(), &here.size) != 0) return false;
  // Both families have it at the same place.
  if (ntohs(reinterpret_cast<const sockaddr_in&>(here.storage).sin_port) != port) return false;
  End there;
  return getpeername(fd, there.get(), &there.size) == 0;
}

// Of how one went: such an event names no connection.
bool IsOfHandshake(uint16_t event) {
  return event != ZMQ_EVENT_LISTENING && event != ZMQ_EVENT_ACCEPTED &&
         event != ZMQ_EVENT_DISCONNECTED;
}

// Of "tcp://HOST:PORT"; -1 where there is none.
int PortOf(const Buffer& address) {
  const absl::string_view text(reinterpret_cast<const char*>(address.data()), address.size());
  int port = -1;
  const size_t colon = text.rfind(':');
  return colon != text.npos && absl::SimpleAtoi(text.substr(colon + 1), &port) ? port : -1;
}

uint64_t ReceivedBy(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return size >= offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received)
             ? info.tcpi_bytes_received
             : 0;
}

// Resets the connection of `fd` and of all its duplicates; libzmq closes its own. What it has not
// read yet is thrown away, while after shutdown(2) it would still be read, and kept.
void EndConnection(int fd) {
  sockaddr nobody = {};
  nobody.sa_family = AF_UNSPEC;
  if (connect(fd, &nobody, sizeof(nobody)) != 0) shutdown(fd, SHUT_RDWR);
}

// Drops the segments that carry data. TCP sends them again, less and less often; what ends a
// connection, and acknowledgements of what we send, come through.
bool TakeNoData(int fd) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 12),  // the TCP header's length in words, upper half
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0), BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2),
      BPF_STMT(BPF_MISC | BPF_TAX, 0),           BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0),    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0xffffffff),     BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0;
}

// Whether a segment came that the filter has dropped.
bool HasDropped(int fd) {
  uint32_t info[SK_MEMINFO_VARS] = {};
  socklen_t size = sizeof(info);
  return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &size) == 0 && info[SK_MEMINFO_DROPS] > 0;
}

void TakeAll(int fd) {
  const int unused = 0;
  setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
}

bool Poll(int epoll, int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DoorWatch>> DoorWatch::Open(void* context, void* router,
                                                           const DoorLimits& limits,
                                                           absl::Duration handshake) {
  std::unique_ptr<DoorWatch> watch(new DoorWatch(router, limits, handshake));
  SOAP_ASSIGN_OR_RETURN(ZmqSocket monitor, ZmqSocket::Open(context, ZMQ_PAIR, {}));
  watch->epoll_ = epoll_create1(EPOLL_CLOEXEC);
  watch->stop_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  int events = -1;
  size_t size = sizeof(events);
  if (watch->epoll_ < 0 || watch->stop_ < 0 ||
      zmq_getsockopt(monitor.handle(), ZMQ_FD, &events, &size) != 0 ||
      !Poll(watch->epoll_, watch->stop_, EPOLLIN) || !Poll(watch->epoll_, events, EPOLLIN)) {
    return absl::ResourceExhaustedError("too many open files");
  }
  const int wanted = ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                     ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  if (zmq_socket_monitor(router, kMonitorAt, wanted) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch who connects: ", zmq_strerror(errno)));
  }
  SOAP_RETURN_IF_ERROR(monitor.Connect(kMonitorAt));
  {
    const MutexLock lock(&watch->mutex_);
    watch->monitor_ = std::move(monitor);
  }
  watch->thread_ = std::thread([door = watch.get()] { door->Run(); });
  return watch;
}

DoorWatch::~DoorWatch() {
  // First no more events: libzmq waits for whoever reads them.
  zmq_socket_monitor(router_, nullptr, 0);
  if (thread_.joinable()) {
    const uint64_t one = 1;
    PCHECK(write(stop_, &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }
  const MutexLock lock(&mutex_);
  monitor_.Close(absl::ZeroDuration());
  for (const auto& [fd, copy] : copies_) close(copy);
  if (listener_ >= 0) close(listener_);
  if (epoll_ >= 0) close(epoll_);
  if (stop_ >= 0) close(stop_);
}

bool DoorWatch::Prove(int fd) {
  const SteadyTime now = SteadyNow();
  const MutexLock lock(&mutex_);
  // libzmq tells of a connection before it reads from it, so all that happened to the descriptor
  // before this message came is known from here on.
  TakeEvents(now);
  door_.Round(round_.load(std::memory_order_acquire), now);
  unwatched_.erase(fd);
  if (!door_.Prove(fd)) return false;
  Forget(fd);
  return true;
}

void DoorWatch::Run() {
  uint64_t stop = 0;
  while (read(stop_, &stop, sizeof(stop)) < 0) {
    const SteadyTime now = SteadyNow();
    int nap_ms = kNapMaxMs;
    {
      const MutexLock lock(&mutex_);
      door_.Round(round_.load(std::memory_order_acquire), now);
      TakeEvents(now);
      Look(now);
      ShutOrOpen(now);
      if (shut_ || door_.held_count() > 0) nap_ms = kNapWithHeldMs;
    }
    Say(now);
    if (strangers_ != said_) nap_ms = std::min(nap_ms, kNapToSayMs);
    absl::SleepFor(kLookEvery);
    // libzmq's descriptor tells of events only once all before them were taken.
    epoll_event events[16];
    const int count = epoll_wait(epoll_, events, 16, nap_ms);
    PCHECK(count >= 0 || errno == EINTR) << "epoll_wait";
  }
}

void DoorWatch::Say(SteadyTime now) {
  const uint64_t strangers = strangers_;
  const uint64_t went = came_and_went_;
  if (strangers == said_ || now < say_next_) return;
  LOG(WARNING) << "sent away or held back " << strangers - said_
               << " connections of strangers, who sent much and nothing of this job's session; "
               << went - said_went_ << " more came and went";
  said_ = strangers;
  said_went_ = went;
  say_next_ = now + kSayEvery;
}

void DoorWatch::TakeEvents(SteadyTime now) {
  struct Event {
    uint16_t what = 0;
    int fd = -1;
    int port = -1;  // of the listener
    bool too_late = false;
  };
  std::vector<Event> events;
  int handshakes = 0;
  Buffers frames;
  int unused = -1;
  while (events.size() < kEventsOfALook && monitor_.Receive(2, &frames, &unused)) {
    uint16_t event = 0;
    uint32_t value = 0;
    if (frames.size() != 2 || frames[0].size() != sizeof(event) + sizeof(value)) continue;
    std::memcpy(&event, frames[0].data(), sizeof(event));
    std::memcpy(&value, frames[0].data() + sizeof(event), sizeof(value));
    Count(event, value, now);
    if (!IsOfHandshake(event)) {
      events.push_back({event, static_cast<int>(value), PortOf(frames[1])});
    } else if (++handshakes >= kEventsOfALook) {
      break;
    }
  }
  std::set<int> ended;  // the descriptor is closed, or another's
  for (size_t i = events.size(); i-- > 0;) {
    events[i].too_late = ended.contains(events[i].fd);
    if (events[i].what == ZMQ_EVENT_DISCONNECTED) ended.insert(events[i].fd);
  }
  for (const Event& event : events) {
    if (event.what == ZMQ_EVENT_LISTENING) {
      if (listener_ < 0) listener_ = fcntl(event.fd, F_DUPFD_CLOEXEC, 0);
    } else if (event.what == ZMQ_EVENT_ACCEPTED) {
      free_.erase(event.fd);
      event.too_late ? door_.EnterUnseen(event.fd, now) : Enter(event.fd, event.port, now);
    } else {
      Leave(event.fd, now);
    }
  }
}

void DoorWatch::Count(uint16_t event, uint32_t value, SteadyTime now) {
  if (event == ZMQ_EVENT_ACCEPTED) tally_.Accepted(now);
  if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) tally_.Succeeded();
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) tally_.WasRefused();
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL || event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    LOG_EVERY_T(WARNING, kSayKeysEveryS)
        << "a handshake failed: who connects has other keys than this process, or one of both none";
  }
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
    const bool unopened = value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC;
    unopened ? tally_.WasUnopened() : tally_.WasForItsWords();
  }
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) tally_.WasCutOff();
}

HandshakeFailures DoorWatch::handshakes() {
  const SteadyTime now = SteadyNow();
  const MutexLock lock(&mutex_);
  TakeEvents(now);
  return {
      .keys = tally_.unopened(), .mechanisms = tally_.mechanisms(now), .cut_off = tally_.cut_off()};
}

std::vector<int> DoorWatch::TakeEnded() {
  const SteadyTime now = SteadyNow();
  const MutexLock lock(&mutex_);
  TakeEvents(now);
  return std::exchange(ended_, {});
}

bool DoorWatch::HasEnded(int fd) const {
  const MutexLock lock(&mutex_);
  return free_.contains(fd);
}

void DoorWatch::Leave(int fd, SteadyTime now) {
  if (ended_.size() >= kEndsMax) ended_.erase(ended_.begin(), ended_.begin() + kEndsMax / 2);
  ended_.push_back(fd);
  free_.insert(fd);
  unwatched_.erase(fd);
  if (const auto copy = copies_.find(fd); copy != copies_.end()) {
    door_.Count(fd, ReceivedBy(copy->second));
  }
  door_.Leave(fd, now);
  Forget(fd);
}

void DoorWatch::Enter(int fd, int port, SteadyTime now) {
  Forget(fd);
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || !IsOf(copy, port) || !Poll(epoll_, copy, EPOLLIN | EPOLLRDHUP | EPOLLET)) {
    // It has ended, or cannot be watched. Where no descriptor is left, and there are as many as may
    // be, it goes at once: libzmq tries without pause to accept who comes next.
    if (copy >= 0) close(copy);
    if (copy < 0 && IsOf(fd, port)) {
      const bool full = door_.unproven() + unwatched_.size() >= connections_max_;
      if (full) {
        EndConnection(fd);
      } else {
        unwatched_.insert(fd);
      }
    }
    door_.EnterUnseen(fd, now);
    return;
  }
  copies_[fd] = copy;
  // The moment when the door was shut or opened may be before or after the one when this came.
  if (shut_ && !TakeNoData(copy)) LOG(WARNING) << "cannot hold a connection";
  if (!shut_) TakeAll(copy);
  door_.Enter(fd, shut_, now);
}

void DoorWatch::Look(SteadyTime now) {
  for (const auto& [fd, copy] : copies_) {
    if (!door_.IsHeld(fd)) {
      door_.Count(fd, ReceivedBy(copy));
    } else if (HasDropped(copy)) {
      door_.Tried(fd);
    }
  }
  const Door::Orders orders = door_.Look(now);
  // Before somebody sees an end.
  strangers_ = door_.strangers();
  came_and_went_ = door_.came_and_went();
  for (const int fd : orders.hold) {
    const auto copy = copies_.find(fd);
    if (copy == copies_.end() || TakeNoData(copy->second)) continue;
    EndConnection(copy->second);  // a system without such filters
  }
  for (const int fd : orders.let_go_on) {
    if (const auto copy = copies_.find(fd); copy != copies_.end()) TakeAll(copy->second);
  }
  for (const int fd : orders.end) {
    if (const auto copy = copies_.find(fd); copy != copies_.end()) EndConnection(copy->second);
    Forget(fd);
  }
}

void DoorWatch::ShutOrOpen(SteadyTime now) {
  const bool shut = door_.shut(now);
  if (shut == shut_ || listener_ < 0) return;
  if (!shut) TakeAll(listener_);
  shut_ = shut && TakeNoData(listener_);
}

// The duplicate keeps the connection, and its place in what is polled.
void DoorWatch::Forget(int fd) {
  const auto copy = copies_.find(fd);
  if (copy == copies_.end()) return;
  TakeAll(copy->second);  // the end of a held one that is proven
  epoll_ctl(epoll_, EPOLL_CTL_DEL, copy->second, nullptr);
  close(copy->second);
  copies_.erase(copy);
}

}  // namespace soapstone::transport
