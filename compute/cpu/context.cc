#include "compute/cpu/context.h"

#include <algorithm>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"

// Of the OpenMP runtime that oneDNN is linked with. Declared here, as clang has no omp.h of it.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
}

namespace soapstone::compute {
namespace {

struct ParallelLoop {
  int64_t n;
  const ParallelBody* body;
};

void RunPart(void* data) {
  const ParallelLoop& loop = *static_cast<ParallelLoop*>(data);
  const int64_t parts = omp_get_num_threads();
  const int64_t part = omp_get_thread_num();
  const int64_t begin = loop.n * part / parts;
  const int64_t end = loop.n * (part + 1) / parts;
  if (begin < end) (*loop.body)(begin, end);
}

}  // namespace

CpuContext::CpuContext(const CpuOptions& options)
    : engine(dnnl::engine::kind::cpu, 0),
      stream(engine),
      threads(options.threads),
      precision(options.precision) {
  CHECK_GE(threads, 1);
}

CpuThreads::CpuThreads(int threads) : before_(omp_get_max_threads()) {
  if (threads != before_) omp_set_num_threads(threads);
}
CpuThreads::~CpuThreads() { omp_set_num_threads(before_); }

void ParallelFor(const CpuContext& context, int64_t n, int64_t grain, const ParallelBody& body) {
  const int64_t parts = std::min<int64_t>(context.threads, n / std::max<int64_t>(grain, 1));
  if (parts <= 1) {
    if (n > 0) body(0, n);
    return;
  }
  ParallelLoop loop = {n, &body};
  GOMP_parallel(RunPart, &loop, static_cast<unsigned>(parts), 0);
}

void CpuKernel::Forward(const ForwardArgs& args) {
  const CpuThreads guard(context_.threads);
  try {
    RunForward(args);
  } catch (const dnnl::error& e) {
    LOG(FATAL) << "oneDNN: " << e.what();
  }
}

void CpuKernel::Backward(const BackwardArgs& args) {
  const CpuThreads guard(context_.threads);
  try {
    RunBackward(args);
  } catch (const dnnl::error& e) {
    LOG(FATAL) << "oneDNN: " << e.what();
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> GuardedMake(
    const KernelRequest& request, const CpuContext& context,
    const std::function<std::unique_ptr<Kernel>()>& make) {
  const CpuThreads guard(context.threads);
  const std::string what = absl::StrCat(request.name, ": ", std::string(NameOf(request.op)));
  try {
    return make();
  } catch (const dnnl::error& e) {
    return absl::InternalError(absl::StrCat(what, ": oneDNN cannot prepare it: ", e.what()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  }
}

}  // namespace soapstone::compute
