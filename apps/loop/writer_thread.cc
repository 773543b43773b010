#include "apps/loop/writer_thread.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/steady_clock.h"

namespace soapstone::apps {
namespace {

// 0, or the number of the error after which nothing more can be written.
int WriteAll(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    // Whoever else has the descriptor may have said that nobody waits at it; this thread may.
    if (wrote < 0 && errno == EAGAIN) {
      pollfd room = {.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&room, 1, -1);
      continue;
    }
    if (wrote <= 0) return wrote < 0 ? errno : EIO;
    done += static_cast<size_t>(wrote);
  }
  return 0;
}

}  // namespace

struct WriterThread::Queue {
  explicit Queue(size_t bytes_max) : bytes_max(bytes_max) {}

  const size_t bytes_max;
  Mutex mutex;
  Signal changed;
  std::deque<std::string> waiting ABSL_GUARDED_BY(mutex);
  size_t bytes ABSL_GUARDED_BY(mutex) = 0;      // of them
  bool writing ABSL_GUARDED_BY(mutex) = false;  // one more is being written
  bool closing ABSL_GUARDED_BY(mutex) = false;
  int error ABSL_GUARDED_BY(mutex) = 0;  // of the first write that failed

  void Put(std::string text) {
    MutexLock lock(&mutex);
    bytes += text.size();
    waiting.push_back(std::move(text));
    while (bytes > bytes_max && waiting.size() > 1) {
      bytes -= waiting.front().size();
      waiting.pop_front();
    }
    changed.NotifyAll();
  }

  // The next to write, once that before it has been, with `failed`; false: there are no more.
  bool Take(int failed, std::string* text) {
    MutexLock lock(&mutex);
    if (error == 0) error = failed;
    writing = false;
    changed.NotifyAll();
    while (waiting.empty() && !closing) changed.Wait(&mutex, SteadyTime::InfiniteFuture());
    if (waiting.empty()) return false;
    *text = std::move(waiting.front());
    waiting.pop_front();
    bytes -= text->size();
    writing = true;
    return true;
  }

  bool written() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return waiting.empty() && !writing; }
};

WriterThread::WriterThread(int fd, std::string name, size_t bytes_max)
    : name_(std::move(name)), queue_(std::make_shared<Queue>(bytes_max)) {
  // A signal is for who watches signals, on another thread.
  sigset_t all;
  sigset_t were;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &were);
  std::thread([queue = queue_, fd] {
    std::string text;
    int failed = 0;
    while (queue->Take(failed, &text)) {
      if (failed == 0) failed = WriteAll(fd, text);
    }
  }).detach();
  pthread_sigmask(SIG_SETMASK, &were, nullptr);
}

void WriterThread::Put(std::string text) { queue_->Put(std::move(text)); }

absl::Status WriterThread::Finish(Nanos linger) {
  const SteadyTime deadline = SteadyNow() + absl::Nanoseconds(linger);
  MutexLock lock(&queue_->mutex);
  queue_->closing = true;
  queue_->changed.NotifyAll();
  while (!queue_->written() && queue_->changed.Wait(&queue_->mutex, deadline)) {
  }
  if (queue_->error != 0 && queue_->error != EPIPE) {
    return absl::UnavailableError(absl::StrCat(name_, ": ", std::strerror(queue_->error)));
  }
  if (queue_->written()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(name_, ": nobody has read the end of it (", queue_->bytes, " bytes more)"));
}

}  // namespace soapstone::apps
