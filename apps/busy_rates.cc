#include "apps/busy_rates.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "apps/node_loop.h"
#include "apps/roofline.h"
#include "base/status_macros.h"
#include "compute/cpu/backend.h"

namespace soapstone::apps {
namespace {

constexpr Nanos kRoundsFor = 500 * kMillisecond;
constexpr size_t kRoundsMin = 9;
constexpr int64_t kProductSide = 512;
constexpr size_t kArrayFloats = size_t{4} << 20;  // three of them: 48 MiB

// A piece of work, done again and again by one thread.
using Work = std::function<void()>;

// Y = X W^T of 512 x 512 x 512.
absl::StatusOr<Work> ProductWork() {
  const std::shared_ptr<compute::Backend> backend = compute::MakeCpuBackend({.threads = 1});
  const compute::TensorSpec square = {.shape = {kProductSide, kProductSide}};
  SOAP_ASSIGN_OR_RETURN(
      std::shared_ptr<compute::Kernel> kernel,
      backend->Prepare({.op = compute::Linear{.outputs = kProductSide, .bias = false},
                        .name = "products",
                        .inputs = {compute::PlainFormat(square)},
                        .params = {square},
                        .outputs = {square},
                        .training = false}));
  const compute::Format format = compute::PlainFormat(square);
  const std::vector<float> ones(format.bytes / sizeof(float), 1.0f);
  std::vector<std::shared_ptr<void>> memory;
  for (const size_t bytes :
       {format.bytes, format.bytes, std::max(format.bytes, kernel->plan().outputs[0].bytes),
        kernel->plan().forward_scratch_bytes}) {
    SOAP_ASSIGN_OR_RETURN(memory.emplace_back(), backend->Allocate(bytes));
  }
  for (size_t i = 0; i < 2; ++i) backend->Import(ones.data(), format, memory[i].get());
  return [backend, kernel, memory] {
    const void* const inputs[] = {memory[0].get()};
    const float* const params[] = {static_cast<const float*>(memory[1].get())};
    void* const outputs[] = {memory[2].get()};
    kernel->Forward(
        {.inputs = inputs, .params = params, .outputs = outputs, .scratch = memory[3].get()});
  };
}

absl::StatusOr<Work> TriadWork() {
  struct Arrays {
    std::vector<float> a, b, c;
  };
  const auto arrays = std::make_shared<Arrays>();
  arrays->a.resize(kArrayFloats);
  arrays->b.resize(kArrayFloats, 1.0f);
  arrays->c.resize(kArrayFloats, 2.0f);
  return [arrays] { TriadPass(arrays->b, arrays->c, absl::MakeSpan(arrays->a)); };
}

// The last of `count` threads to arrive lets all go on. (std::barrier turns round in place first,
// which takes the cores from those that still work.)
class Meeting {
 public:
  explicit Meeting(size_t count) : count_(count) {}
  void Arrive() {
    absl::MutexLock lock(&mutex_);
    const uint64_t round = round_;
    if (++arrived_ == count_) {
      arrived_ = 0;
      ++round_;
      return;
    }
    const auto over = [this, round]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return round_ != round; };
    mutex_.Await(absl::Condition(&over));
  }

 private:
  const size_t count_;
  absl::Mutex mutex_;
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Median time from meeting to meeting when each thread does its work `times` times in between.
Nanos RoundOf(const std::vector<Work>& works, uint64_t times, size_t rounds) {
  Meeting meeting(works.size());
  std::vector<Nanos> ends;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < works.size(); ++i) {
    threads.emplace_back([&, i] {
      for (size_t round = 0; round <= rounds; ++round) {
        for (uint64_t n = 0; n < times; ++n) works[i]();
        meeting.Arrive();
        if (i == 0) ends.push_back(NodeLoop::Now());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = ends.size() - 1; i > 0; --i) ends[i] -= ends[i - 1];
  const auto middle = ends.begin() + 1 + static_cast<ptrdiff_t>(rounds / 2);
  std::nth_element(ends.begin() + 1, middle, ends.end());
  return *middle;
}

absl::StatusOr<double> SlowdownOf(const std::function<absl::StatusOr<Work>()>& make,
                                  uint32_t processes, Nanos step) {
  std::vector<Work> works(processes);
  for (Work& work : works) {
    SOAP_ASSIGN_OR_RETURN(work, make());
    work();  // touches its memory
  }
  const std::vector<Work> one = {works[0]};
  const Nanos once = std::max<Nanos>(1, RoundOf(one, 1, 100));
  const auto times = static_cast<uint64_t>(std::max<Nanos>(1, (step + once / 2) / once));
  const Nanos round = static_cast<Nanos>(times) * once;
  const size_t rounds = std::max(kRoundsMin, static_cast<size_t>(kRoundsFor / round));
  const Nanos alone = RoundOf(one, times, rounds);
  const Nanos together = RoundOf(works, times, std::max(kRoundsMin, 2 * rounds / (1 + processes)));
  return static_cast<double>(together) / static_cast<double>(std::max<Nanos>(1, alone));
}

}  // namespace

absl::StatusOr<Slowdown> MeasureSlowdown(uint32_t processes, Nanos step) {
  Slowdown slowdown;
  if (processes <= 1) return slowdown;
  SOAP_ASSIGN_OR_RETURN(slowdown.products, SlowdownOf(ProductWork, processes, step));
  SOAP_ASSIGN_OR_RETURN(slowdown.memory, SlowdownOf(TriadWork, processes, step));
  return slowdown;
}

}  // namespace soapstone::apps
