// Loaded before a program (LD_PRELOAD), moves the date that it sees: by as many nanoseconds as the
// eight bytes of the file SOAPSTONE_DATE_SHIFT say at that moment. The steady clock stays. Waits
// upon the date see its jumps, as those of a kernel whose date is set do.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kSliceNs = 10'000'000;  // how late a wait sees a jump

using Shift = std::atomic<int64_t>;
Shift* shift = nullptr;

__attribute__((constructor)) void MapShift() {
  const char* const path = std::getenv("SOAPSTONE_DATE_SHIFT");
  const int fd = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) std::abort();
  void* const mapped = mmap(nullptr, sizeof(Shift), PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) std::abort();
  close(fd);
  shift = static_cast<Shift*>(mapped);
}

template <typename F>
F* Next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

int RealClock(clockid_t clock, timespec* at) {
  static auto* const next = Next<int(clockid_t, timespec*)>("clock_gettime");
  return next(clock, at);
}

int64_t Nanos(const timespec& t) { return t.tv_sec * kSecondNs + t.tv_nsec; }
timespec Spec(int64_t ns) { return {.tv_sec = ns / kSecondNs, .tv_nsec = ns % kSecondNs}; }

int64_t RealDate() {
  timespec real{};
  RealClock(CLOCK_REALTIME, &real);
  return Nanos(real);
}

int64_t Date() { return RealDate() + (shift != nullptr ? shift->load() : 0); }

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* at) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return RealClock(clock, at);
  *at = Spec(Date());
  return 0;
}

extern "C" int gettimeofday(timeval* at, void* /*zone*/) {
  const timespec date = Spec(Date());
  *at = {.tv_sec = date.tv_sec, .tv_usec = date.tv_nsec / 1000};
  return 0;
}

extern "C" time_t time(time_t* at) {
  const time_t seconds = Date() / kSecondNs;
  if (at != nullptr) *at = seconds;
  return seconds;
}

extern "C" int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                      const timespec* until) {
  using Wait = int(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  static auto* const next = Next<Wait>("pthread_cond_timedwait");
  while (true) {
    const int64_t left = Nanos(*until) - Date();
    const timespec slice = Spec(RealDate() + (left < kSliceNs ? left : kSliceNs));
    const int rc = next(condition, mutex, &slice);
    if (rc != ETIMEDOUT || Date() >= Nanos(*until)) return rc;
  }
}
