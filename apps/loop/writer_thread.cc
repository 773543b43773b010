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

// 0, or the number of the error before its end. `done`: of its bytes.
int WriteAll(int fd, const std::string& text, size_t* done) {
  for (*done = 0; *done < text.size();) {
    const ssize_t wrote = write(fd, text.data() + *done, text.size() - *done);
    if (wrote < 0 && errno == EINTR) continue;
    // Whoever else has the descriptor may have said that nobody waits at it; this thread may.
    if (wrote < 0 && errno == EAGAIN) {
      pollfd room = {.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&room, 1, -1);
      continue;
    }
    if (wrote <= 0) return wrote < 0 ? errno : EIO;
    *done += static_cast<size_t>(wrote);
  }
  return 0;
}

// Texts to a descriptor that may take none for a while, each as a whole or, torn, with a line's end
// after what there is of it.
class Writer {
 public:
  Writer(int fd, bool notes_loss) : fd_(fd), notes_loss_(notes_loss) {}

  // As WriteAll. `dropped`: texts before this one that nobody gave us.
  int Write(const std::string& text, uint64_t dropped) {
    lost_ += dropped;
    std::string before = torn_ ? "\n" : "";
    if (notes_loss_ && lost_ > 0)
      absl::StrAppend(&before, "(", lost_, " lines are missing here)\n");
    size_t done = 0;
    const int failed = WriteAll(fd_, before + text, &done);
    if (done >= before.size()) lost_ = 0;
    if (failed != 0) ++lost_;
    if (done > 0) torn_ = failed != 0 && (before + text)[done - 1] != '\n';
    return failed;
  }

 private:
  const int fd_;
  const bool notes_loss_;
  uint64_t lost_ = 0;  // since a line last said so
  bool torn_ = false;
};

}  // namespace

struct WriterThread::Queue {
  explicit Queue(size_t bytes_max) : bytes_max(bytes_max) {}

  const size_t bytes_max;
  Mutex mutex;
  Signal changed;
  std::deque<std::string> waiting ABSL_GUARDED_BY(mutex);
  size_t bytes ABSL_GUARDED_BY(mutex) = 0;      // of them
  uint64_t dropped ABSL_GUARDED_BY(mutex) = 0;  // before them
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
      ++dropped;
    }
    changed.NotifyAll();
  }

  // The next to write, once that before it has been, with `failed`; false: there are no more.
  // `missing`: texts between the two that were dropped.
  bool Take(int failed, std::string* text, uint64_t* missing) {
    MutexLock lock(&mutex);
    if (error == 0) error = failed;
    writing = false;
    changed.NotifyAll();
    while (waiting.empty() && !closing) changed.Wait(&mutex, SteadyTime::InfiniteFuture());
    if (waiting.empty()) return false;
    *text = std::move(waiting.front());
    waiting.pop_front();
    bytes -= text->size();
    *missing = std::exchange(dropped, 0);
    writing = true;
    return true;
  }

  bool written() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return waiting.empty() && !writing; }
};

WriterThread::WriterThread(int fd, WriterOptions options)
    : name_(std::move(options.name)), queue_(std::make_shared<Queue>(options.bytes_max)) {
  // A signal is for who watches signals, on another thread.
  sigset_t all;
  sigset_t were;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &were);
  std::thread([queue = queue_, writer = Writer(fd, options.notes_loss)]() mutable {
    std::string text;
    uint64_t missing = 0;
    for (int failed = 0; queue->Take(failed, &text, &missing);) {
      failed = writer.Write(text, missing);
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
