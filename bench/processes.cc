#include "bench/processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/steady_clock.h"

namespace soapstone::bench {
namespace {

constexpr int kPatienceMillis = 20'000;
constexpr size_t kLineMax = 256;

[[noreturn]] void Die(const std::string& what, const char* why) {
  std::fprintf(stderr, "soapstone-bench: %s: %s\n", what.c_str(), why);
  std::exit(1);
}

struct Pipe {
  explicit Pipe(const std::string& what) {
    if (pipe(ends) != 0) Die(what, "no pipe");
  }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  // False when nothing came in time.
  bool Read(void* to, size_t size) const {
    pollfd wait = {.fd = ends[0], .events = POLLIN};
    return poll(&wait, 1, kPatienceMillis) == 1 &&
           read(ends[0], to, size) == static_cast<ssize_t>(size);
  }
  void Write(const void* from, size_t size) const {
    if (write(ends[1], from, size) != static_cast<ssize_t>(size)) _exit(1);
  }
  int ends[2];
};

// A process that is killed with its parent's object.
class Child {
 public:
  explicit Child(const std::function<void()>& run) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run();
    _exit(0);
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace

Nanos Now() { return SteadyNow().nanos(); }

Nanos CpuTimeOf(pid_t process) {
  clockid_t clock = 0;
  timespec time = {};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return time.tv_sec * kSecond + time.tv_nsec;
}

CpuWatch::CpuWatch(pid_t other) : other_(other), began_(CpuTimeOf(getpid()) + CpuTimeOf(other)) {}

double CpuWatch::Seconds() const {
  return static_cast<double>(CpuTimeOf(getpid()) + CpuTimeOf(other_) - began_) /
         static_cast<double>(kSecond);
}

Sample RoundTrips::Result(uint64_t bytes) const {
  Sample sample = {.seconds = static_cast<double>(Now() - began_) / kSecond,
                   .cpu_seconds = cpu_.Seconds(),
                   .messages = trips_.size(),
                   .bytes = bytes * trips_.size()};
  std::vector<Nanos> sorted(trips_.begin() + static_cast<ptrdiff_t>(trips_.size() / 10),
                            trips_.end());
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double q) {
    const auto index = static_cast<size_t>(q * static_cast<double>(sorted.size()));
    return static_cast<double>(sorted[std::min(index, sorted.size() - 1)]) / 1000;
  };
  if (sorted.empty()) return sample;
  sample.p50_us = at(0.5);
  sample.p99_us = at(0.99);
  return sample;
}

Sample Measure(const std::string& what, const Server& server, const Client& client) {
  const Pipe said(what), found(what);
  const Child serving([&] {
    server([&](const std::string& endpoint) {
      char line[kLineMax] = {};
      endpoint.copy(line, kLineMax - 1);
      said.Write(line, kLineMax);
    });
  });
  char line[kLineMax] = {};
  if (!said.Read(line, kLineMax)) Die(what, "the server does not listen");
  const Child measuring([&] {
    const Sample sample = client(line, serving.pid());
    found.Write(&sample, sizeof(sample));
  });
  Sample sample;
  if (!found.Read(&sample, sizeof(sample))) Die(what, "no result within 20 s");
  return sample;
}

}  // namespace soapstone::bench
