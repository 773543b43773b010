#include "transport/node/node_wait.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "absl/types/span.h"
#include "glog/logging.h"

namespace soapstone::transport {
namespace {

// Before it sleeps, with links or streams open: waking a sleeper costs both sides some 10 us. Where
// waits have been short of late, kUsualMax or less, it looks for kSpinMax. Where only streams are
// looked at others have the processor after kSpin.
constexpr absl::Duration kSpin = absl::Microseconds(20);
constexpr absl::Duration kSpinMax = absl::Microseconds(100);
constexpr absl::Duration kUsualMax = absl::Microseconds(200);  // with what waking takes

}  // namespace

NodeWait::~NodeWait() {
  if (wake_fd_ >= 0) close(wake_fd_);
}

absl::Status NodeWait::Open() {
  usual_wait_ = kSpinMax;
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return absl::ResourceExhaustedError("too many open files");
  return absl::OkStatus();
}

void NodeWait::Wake() {
  wake_ = true;
  if (!sleeps_) return;
  const uint64_t one = 1;
  // Fails only when the counter is at its maximum: then the reader has been woken already.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

bool NodeWait::SpinUntil(SteadyTime began, SteadyTime until, bool yields) {
  SteadyTime now = began;
  do {
    if (yields && now - began > kSpin) sched_yield();
    for (int i = 0; i < 32; ++i) {
      if (wake_ || links_->readable()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    if (streams_->LookAtLatest()) return true;
    now = SteadyNow();
  } while (now < until);
  return false;
}

// A moving average, in which no wait counts for more than a few of the short ones.
void NodeWait::NoteWait(absl::Duration waited) {
  usual_wait_ += (std::min(waited, 4 * kSpinMax) - usual_wait_) / 8;
}

bool NodeWait::Spin(SteadyTime deadline, SteadyTime* now) {
  began_ = *now;
  const bool links = links_->may_be_readable();
  if (!links && !streams_->any_open()) return false;
  const absl::Duration spin = usual_wait_ < kUsualMax ? kSpinMax : kSpin;
  const bool came = SpinUntil(began_, std::min(deadline, began_ + spin), !links);
  *now = SteadyNow();
  if (came) NoteWait(*now - began_);
  return came;
}

NodeWait::Waited NodeWait::Sleep(absl::Duration sleep_max) {
  sleeps_ = true;
  if (wake_ || links_->PrepareToSleep()) {
    sleeps_ = false;
    return {.ended = SteadyNow()};
  }
  const size_t link_count = ListPollItems();
  // What is below 0 would be for ever.
  const absl::Duration wait = std::clamp(absl::Ceil(sleep_max, absl::Milliseconds(1)),
                                         absl::ZeroDuration(), absl::Hours(1));
  const int rc = zmq_poll(items_.data(), static_cast<int>(items_.size()),
                          static_cast<long>(absl::ToInt64Milliseconds(wait)));  // NOLINT: zmq's
  PCHECK(rc >= 0 || errno == EINTR) << "zmq_poll";
  sleeps_ = false;
  const SteadyTime ended = SteadyNow();
  if (rc > 0) NoteWait(ended - began_);
  links_->Woke();
  return {.ended = ended, .of_links = rc > 0 && Dispatch(link_count)};
}

// Returns how many of fds_ are of links.
size_t NodeWait::ListPollItems() {
  fds_.clear();
  links_->AddPollItems(&fds_);
  const size_t link_count = fds_.size();
  streams_->AddPollItems(&fds_);
  items_.clear();
  items_.push_back({nullptr, wake_fd_, ZMQ_POLLIN, 0});
  for (const pollfd& item : fds_) {
    const bool in = (item.events & POLLIN) != 0;
    const bool out = (item.events & POLLOUT) != 0;
    items_.push_back({nullptr, item.fd,
                      static_cast<int16_t>((in ? ZMQ_POLLIN : 0) | (out ? ZMQ_POLLOUT : 0)), 0});
  }
  sockets_->AddPollItems(&items_);
  return link_count;
}

// What is ready, of what Wait waited for.
bool NodeWait::Dispatch(size_t link_count) {
  if (items_[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof(count));
  }
  bool of_links = false;
  for (size_t i = 0; i < fds_.size(); ++i) {
    const int16_t ready = items_[1 + i].revents;
    if (i < link_count) of_links = of_links || ready != 0;
    fds_[i].revents = static_cast<int16_t>(((ready & ZMQ_POLLIN) != 0 ? POLLIN : 0) |
                                           ((ready & ZMQ_POLLOUT) != 0 ? POLLOUT : 0) |
                                           ((ready & ZMQ_POLLERR) != 0 ? POLLERR : 0));
  }
  streams_->Polled(absl::MakeConstSpan(fds_).subspan(link_count));
  return of_links;
}

}  // namespace soapstone::transport
