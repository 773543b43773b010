#include "apps/node/warm_replica.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/loop/node_loop.h"
#include "apps/node/compute_backend.h"
#include "apps/node/random_batch.h"
#include "apps/report/report.h"
#include "apps/report/step_memory.h"
#include "base/leaf_tree.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/runtime/model_input.h"

namespace soapstone::apps {
namespace {

constexpr size_t kSizesMax = 8;  // others are compiled when they come

// Numbers of samples that a worker computes together: a micro-batch where sums are along the fixed
// tree, else its share.
std::set<uint64_t> PartSizes(const Job& job) {
  const wire::Training& training = job.config.training();
  const uint32_t micro_batch_count = training.micro_batches();
  const uint32_t ranks =
      job.specs.policy.fixed_tree ? micro_batch_count : job.config.cluster().workers();
  const uint64_t full = std::min<uint64_t>(training.batch(), job.train_samples);
  std::set<uint64_t> sizes;
  for (const uint64_t batch : {full, job.train_samples % full}) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const MicroBatchRange part = LeavesOfRank(rank, ranks, micro_batch_count);
      sizes.insert(SamplesOfLeaves(part, micro_batch_count, batch).size());
    }
  }
  sizes.erase(0);
  return sizes;
}

// Says now and then how far a step is that takes long: nobody hears from a worker before it has
// registered.
class SlowStep {
 public:
  SlowStep(uint64_t samples, size_t passes) : samples_(samples), passes_(passes) {}
  void Passed() {
    ++passed_;
    const Nanos now = NodeLoop::Now();
    if (now < say_next_) return;
    say_next_ = now + kSayEvery;
    LOG(WARNING) << "tries a step of " << samples_ << " samples before it registers: " << passed_
                 << " of " << passes_ << " operators, "
                 << DurationText(static_cast<double>(now - began_) / kSecond)
                 << " so far; the scheduler waits for cluster.start_timeout_s";
  }

 private:
  static constexpr Nanos kSayEvery = 5 * kSecond;
  const uint64_t samples_;
  const size_t passes_;  // of operators, forward and backward
  const Nanos began_ = NodeLoop::Now();
  Nanos say_next_ = began_ + kSayEvery;
  size_t passed_ = 0;
};

absl::Status RunOnce(uint64_t samples, models::GraphRunner* replica) {
  const models::MiniBatch feed = RandomBatch(replica->graph(), static_cast<int64_t>(samples), 0);
  SOAP_RETURN_IF_ERROR(replica->Begin(feed.samples, models::FieldsOf(feed)));
  const models::Graph& graph = replica->graph();
  SlowStep slow(samples, 2 * graph.ops().size());
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    replica->ForwardOp(op);
    slow.Passed();
  }
  BufferPool pool = replica->NewPool();
  std::vector<BufferPool::Block> blocks;
  for (size_t op = graph.ops().size(); op-- > 0;) {
    std::vector<absl::Span<float>> gradients;
    for (const ParamId param : graph.ops()[op].params) {
      blocks.push_back(pool.Take(graph.param(param).elements() * sizeof(float)));
      gradients.push_back(blocks.back().floats());
    }
    replica->BackwardOp(op, gradients);
    if (!replica->on_device()) blocks.clear();  // else they are still to come
    slow.Passed();
  }
  replica->WaitForGradients(0);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<models::GraphRunner>> WarmReplica(const Job& job, uint32_t rank) {
  if (job.graph == nullptr) return nullptr;
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<compute::Backend> backend,
                        MakeBackend(job.config.cluster(), rank));
  const uint64_t available = FreeMemory(backend.get());
  models::ReplicaOptions options = {.backend = backend, .seed = job.config.training().seed()};
  if (job.tables != nullptr) options.input_gradients = {job.tables->rows_input()};
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<models::GraphRunner> replica,
                        models::GraphRunner::Create(*job.graph, std::move(options)));
  const std::set<uint64_t> part_sizes = PartSizes(job);
  if (!part_sizes.empty()) {
    const auto largest = static_cast<int64_t>(*part_sizes.rbegin());
    SOAP_ASSIGN_OR_RETURN(const models::MemoryPlan plan, replica->Plan(largest));
    SOAP_RETURN_IF_ERROR(
        CheckFits(absl::StrCat("a step of ", largest, " samples of ", job.config.model()),
                  StepMemoryOf(*job.graph, largest, plan).total(), available));
  }
  size_t compiled = 0;
  for (const uint64_t samples : part_sizes) {
    if (compiled++ == kSizesMax) break;
    SOAP_RETURN_IF_ERROR(RunOnce(samples, replica.get()));
  }
  return std::shared_ptr<models::GraphRunner>(std::move(replica));
}

}  // namespace soapstone::apps
