#include "transport/door_watch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <set>
#include <string_view>
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
constexpr int kEventsOfALook = 4096;
constexpr absl::Duration kSayEvery = absl::Seconds(1);

struct End {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

std::string HostOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  }
  return text;
}

// Empty: no connection of the listener at `port` any more, but perhaps what has its descriptor now.
std::string PeerOf(int fd, int port) {
  End here;
  if (getsockname(fd, here.get(), &here.size) != 0) return "";
  // Both families have it at the same place.
  if (ntohs(reinterpret_cast<const sockaddr_in&>(here.storage).sin_port) != port) return "";
  End there;
  return getpeername(fd, there.get(), &there.size) == 0 ? HostOf(there.storage) : "";
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

bool Poll(int epoll, int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DoorWatch>> DoorWatch::Open(void* context, void* router,
                                                           const DoorLimits& limits) {
  std::unique_ptr<DoorWatch> watch(new DoorWatch(router, limits));
  SOAP_ASSIGN_OR_RETURN(watch->monitor_, ZmqSocket::Open(context, ZMQ_PAIR, {}));
  watch->epoll_ = epoll_create1(EPOLL_CLOEXEC);
  watch->stop_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  int events = -1;
  size_t size = sizeof(events);
  if (watch->epoll_ < 0 || watch->stop_ < 0 ||
      zmq_getsockopt(watch->monitor_.handle(), ZMQ_FD, &events, &size) != 0 ||
      !Poll(watch->epoll_, watch->stop_, EPOLLIN) || !Poll(watch->epoll_, events, EPOLLIN)) {
    return absl::ResourceExhaustedError("too many open files");
  }
  const int wanted = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
  if (zmq_socket_monitor(router, kMonitorAt, wanted) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch who connects: ", zmq_strerror(errno)));
  }
  SOAP_RETURN_IF_ERROR(watch->monitor_.Connect(kMonitorAt));
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
  monitor_.Close(absl::ZeroDuration());
  for (const auto& [fd, copy] : copies_) close(copy);
  if (epoll_ >= 0) close(epoll_);
  if (stop_ >= 0) close(stop_);
}

void DoorWatch::Prove(int fd) {
  const MutexLock lock(&mutex_);
  if (all_read_) door_.AllRead();
  door_.Prove(fd);
  if (!door_.IsUnproven(fd)) Forget(fd);
  unproven_ = door_.unproven_count();
}

void DoorWatch::Run() {
  uint64_t stop = 0;
  while (read(stop_, &stop, sizeof(stop)) < 0) {
    {
      const MutexLock lock(&mutex_);
      // Before what has happened since.
      if (all_read_) door_.AllRead();
      TakeEvents();
      Look();
      unproven_ = door_.unproven_count();
    }
    const uint64_t sent_away = sent_away_;
    if (sent_away > said_ && absl::Now() >= say_next_) Say(sent_away);
    absl::SleepFor(kLookEvery);
    // libzmq's descriptor tells of events only once all before them were taken.
    epoll_event events[16];
    const int count = epoll_wait(epoll_, events, 16, kNapMaxMs);
    PCHECK(count >= 0 || errno == EINTR) << "epoll_wait";
  }
}

void DoorWatch::Say(uint64_t sent_away) {
  LOG(WARNING) << "sent away " << sent_away - said_
               << " connections of strangers: much was sent, and nothing of this job's session";
  said_ = sent_away;
  say_next_ = absl::Now() + kSayEvery;
}

void DoorWatch::TakeEvents() {
  struct Event {
    uint16_t what = 0;
    int fd = -1;
    int port = -1;  // of the listener
    bool too_late = false;
  };
  std::vector<Event> events;
  Buffers frames;
  int unused = -1;
  while (events.size() < kEventsOfALook && monitor_.Receive(2, &frames, &unused)) {
    uint16_t event = 0;
    uint32_t value = 0;
    if (frames.size() != 2 || frames[0].size() != sizeof(event) + sizeof(value)) continue;
    std::memcpy(&event, frames[0].data(), sizeof(event));
    std::memcpy(&value, frames[0].data() + sizeof(event), sizeof(value));
    events.push_back({event, static_cast<int>(value), PortOf(frames[1])});
  }
  std::set<int> ended;  // the descriptor is closed, or another's
  for (size_t i = events.size(); i-- > 0;) {
    events[i].too_late = ended.contains(events[i].fd);
    if (events[i].what == ZMQ_EVENT_DISCONNECTED) ended.insert(events[i].fd);
  }
  for (const Event& event : events) {
    if (event.what == ZMQ_EVENT_ACCEPTED && event.too_late) {
      door_.EnterUnseen(event.fd);
    } else if (event.what == ZMQ_EVENT_ACCEPTED) {
      Enter(event.fd, event.port);
    } else {
      Leave(event.fd);
    }
  }
}

void DoorWatch::Leave(int fd) {
  if (const auto copy = copies_.find(fd); copy != copies_.end()) {
    door_.Count(fd, ReceivedBy(copy->second));
  }
  door_.Leave(fd, absl::Now());
  Forget(fd);
}

void DoorWatch::Enter(int fd, int port) {
  Forget(fd);
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  const std::string host = copy >= 0 ? PeerOf(copy, port) : "";
  if (host.empty() || !Poll(epoll_, copy, EPOLLIN | EPOLLRDHUP | EPOLLET)) {
    // It has ended, or cannot be watched.
    if (copy >= 0) close(copy);
    door_.EnterUnseen(fd);
    return;
  }
  copies_[fd] = copy;
  if (!door_.Enter(fd, host, absl::Now())) Forget(fd);
}

void DoorWatch::Look() {
  for (const auto& [fd, copy] : copies_) door_.Count(fd, ReceivedBy(copy));
  for (const int fd : door_.TakeUnwelcome()) {
    ++sent_away_;
    if (const auto copy = copies_.find(fd); copy != copies_.end()) EndConnection(copy->second);
    Forget(fd);
  }
}

// The duplicate keeps the connection, and its place in what is polled.
void DoorWatch::Forget(int fd) {
  const auto copy = copies_.find(fd);
  if (copy == copies_.end()) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, copy->second, nullptr);
  close(copy->second);
  copies_.erase(copy);
}

}  // namespace soapstone::transport
