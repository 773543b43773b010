#include "compute/cuda/emulated/emulator.h"

#include <ucontext.h>

#include <memory>
#include <utility>
#include <vector>

#include "glog/logging.h"

namespace soapstone::compute::emulated {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr int kThreadsMax = 1024;

// One host thread at a time uses the emulator: tests do.
struct Fibers {
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<ucontext_t> contexts;
  ucontext_t scheduler = {};
  std::vector<bool> ended;
  const std::function<void()>* body = nullptr;
  int now = 0;
};
Fibers& TheFibers() {
  static Fibers& fibers = *new Fibers;
  return fibers;
}

void FiberMain() {
  Fibers& f = TheFibers();
  (*f.body)();
  f.ended[static_cast<size_t>(f.now)] = true;
  swapcontext(&f.contexts[static_cast<size_t>(f.now)], &f.scheduler);
}

}  // namespace

int ThreadNow() { return TheFibers().now; }

void BarrierNow() {
  Fibers& f = TheFibers();
  swapcontext(&f.contexts[static_cast<size_t>(f.now)], &f.scheduler);
}

void RunBlock(int threads, const std::function<void()>& body) {
  CHECK_LE(threads, kThreadsMax);
  Fibers& f = TheFibers();
  const size_t count = static_cast<size_t>(threads);
  while (f.stacks.size() < count) f.stacks.push_back(std::make_unique<char[]>(kStackBytes));
  f.contexts.resize(count);
  f.ended.assign(count, false);
  f.body = &body;
  for (size_t i = 0; i < count; ++i) {
    getcontext(&f.contexts[i]);
    f.contexts[i].uc_stack.ss_sp = f.stacks[i].get();
    f.contexts[i].uc_stack.ss_size = kStackBytes;
    f.contexts[i].uc_link = nullptr;
    makecontext(&f.contexts[i], FiberMain, 0);
  }
  for (size_t left = count; left > 0;) {
    size_t ended = 0;
    for (size_t i = 0; i < count; ++i) {
      if (f.ended[i]) continue;
      f.now = static_cast<int>(i);
      swapcontext(&f.scheduler, &f.contexts[i]);
      if (f.ended[i]) ++ended;
    }
    // All threads of a block meet at the same barriers: they end in the same turn.
    CHECK(ended == 0 || ended == left) << "some threads of a block ended before a barrier";
    left -= ended;
  }
}

}  // namespace soapstone::compute::emulated
