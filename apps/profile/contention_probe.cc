#include "apps/profile/contention_probe.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "apps/loop/node_loop.h"
#include "apps/profile/roofline.h"
#include "apps/profile/step_profile.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "glog/logging.h"

namespace soapstone::apps {
namespace {

constexpr int kTurns = 7;
constexpr Nanos kTurnFor = 60 * kMillisecond;  // alone
constexpr size_t kOnceRounds = 20;
constexpr Nanos kRoundsMin = 2;
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

// A training step.
absl::StatusOr<Work> StepWork(const models::Graph& graph, int64_t samples) {
  SOAP_ASSIGN_OR_RETURN(
      const std::shared_ptr<StepProfiler> profiler,
      StepProfiler::Create(graph, {.backend = compute::MakeCpuBackend({.threads = 1})}));
  SOAP_RETURN_IF_ERROR(profiler->Run(samples).status());  // takes all memory: later ones go well
  return [profiler, samples] { CHECK(profiler->Run(samples).ok()); };
}

// The last of `count` threads to arrive lets all go on. (std::barrier turns round in place first,
// which takes the cores from those that still work.)
class Meeting {
 public:
  explicit Meeting(size_t count) : count_(count) {}
  void Arrive() {
    MutexLock lock(&mutex_);
    const uint64_t round = round_;
    if (++arrived_ == count_) {
      arrived_ = 0;
      ++round_;
      changed_.NotifyAll();
      return;
    }
    while (round_ == round) changed_.Wait(&mutex_, SteadyTime::InfiniteFuture());
  }

 private:
  const size_t count_;
  Mutex mutex_;
  Signal changed_;
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Adds `rounds` times from meeting to meeting when each thread does its work `times` times in
// between; the first, in which threads start, is left out.
void AddRounds(absl::Span<const Work> works, uint64_t times, size_t rounds,
               std::vector<Nanos>* took) {
  Meeting meeting(works.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < works.size(); ++i) {
    threads.emplace_back([&, i] {
      Nanos last = 0;
      for (size_t round = 0; round <= rounds; ++round) {
        for (uint64_t n = 0; n < times; ++n) works[i]();
        meeting.Arrive();
        const Nanos now = NodeLoop::Now();
        if (i == 0 && round > 0) took->push_back(now - last);
        last = now;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Nanos MedianOf(std::vector<Nanos> times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return std::max<Nanos>(1, *middle);
}

// Alone and together by turns: a machine that others use as well grows faster and slower meanwhile.
absl::StatusOr<double> SlowdownOf(const std::function<absl::StatusOr<Work>()>& make,
                                  uint32_t processes, Nanos step) {
  std::vector<Work> works(processes);
  for (Work& work : works) {
    SOAP_ASSIGN_OR_RETURN(work, make());
    work();  // touches its memory
  }
  const absl::Span<const Work> one = absl::MakeConstSpan(works).first(1);
  std::vector<Nanos> once;
  AddRounds(one, 1, kOnceRounds, &once);
  const Nanos least = MedianOf(std::move(once));
  const auto times = static_cast<uint64_t>(std::max<Nanos>(1, (step + least / 2) / least));
  const auto rounds = static_cast<size_t>(
      std::max<Nanos>(kRoundsMin, kTurnFor / (static_cast<Nanos>(times) * least)));
  std::vector<Nanos> alone, together;
  for (int turn = 0; turn < kTurns; ++turn) {
    AddRounds(one, times, rounds, &alone);
    AddRounds(works, times, rounds, &together);
  }
  return static_cast<double>(MedianOf(std::move(together))) /
         static_cast<double>(MedianOf(std::move(alone)));
}

}  // namespace

absl::StatusOr<Slowdown> MeasureSlowdownOfSteps(const models::Graph& graph, int64_t samples,
                                                uint32_t processes) {
  if (processes <= 1) return Slowdown{};
  const auto make = [&graph, samples] { return StepWork(graph, samples); };
  SOAP_ASSIGN_OR_RETURN(const double slowdown, SlowdownOf(make, processes, 1));
  return Slowdown{.products = slowdown, .memory = slowdown};
}

absl::StatusOr<Slowdown> MeasureSlowdown(uint32_t processes, Nanos step) {
  Slowdown slowdown;
  if (processes <= 1) return slowdown;
  SOAP_ASSIGN_OR_RETURN(slowdown.products, SlowdownOf(ProductWork, processes, step));
  SOAP_ASSIGN_OR_RETURN(slowdown.memory, SlowdownOf(TriadWork, processes, step));
  return slowdown;
}

}  // namespace soapstone::apps
