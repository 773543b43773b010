#include "compute/microbatch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// One sum of costs on the way through all that share: the last choice and where it came from.
struct SharedChoice {
  size_t bytes = 0;
  double seconds = 0;
  size_t cost = 0;
  size_t before = 0;  // index into the choices of the one before
};

// Leaves those that no other beats in both: bytes ascending, seconds strictly descending.
template <typename T, typename Bytes>
void KeepUndominated(std::vector<T>* all, Bytes bytes) {
  std::stable_sort(all->begin(), all->end(), [&](const T& a, const T& b) {
    if (bytes(a) != bytes(b)) return bytes(a) < bytes(b);
    return a.seconds < b.seconds;
  });
  double best = kNever;
  std::vector<T> kept;
  for (T& one : *all) {
    if (one.seconds >= best) continue;
    best = one.seconds;
    kept.push_back(std::move(one));
  }
  *all = std::move(kept);
}

}  // namespace

std::vector<int64_t> MicrobatchSizes(int64_t batch) {
  std::vector<int64_t> sizes;
  for (int64_t b = 1; b < batch; b *= 2) sizes.push_back(b);
  if (batch > 0) sizes.push_back(batch);
  return sizes;
}

absl::StatusOr<MicrobatchPlan> FastestMicrobatches(int64_t batch,
                                                   absl::Span<const MicrobatchOption> options,
                                                   size_t limit_bytes) {
  CHECK_GT(batch, 0);
  const size_t end = static_cast<size_t>(batch) + 1;
  std::vector<double> seconds(end, kNever);  // T(b)
  std::vector<int64_t> parts(end, 0);
  std::vector<const MicrobatchOption*> last(end, nullptr);
  seconds[0] = 0;
  for (size_t b = 1; b < end; ++b) {
    for (const MicrobatchOption& option : options) {
      const size_t size = static_cast<size_t>(option.batch);
      if (option.batch <= 0 || size > b || option.workspace_bytes > limit_bytes) continue;
      if (seconds[b - size] == kNever) continue;
      const double sum = seconds[b - size] + option.seconds;
      const int64_t count = parts[b - size] + 1;
      if (sum > seconds[b] || (sum == seconds[b] && count >= parts[b])) continue;
      seconds[b] = sum;
      parts[b] = count;
      last[b] = &option;
    }
  }
  if (seconds[end - 1] == kNever) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no algorithm for a batch of ", batch, " fits into ", limit_bytes,
                     " bytes of workspace, in micro-batches neither; raise the workspace's limit"));
  }
  MicrobatchPlan plan;
  for (size_t b = end - 1; b > 0; b -= static_cast<size_t>(plan.parts.back().batch)) {
    plan.parts.push_back(*last[b]);
    plan.seconds += last[b]->seconds;
    plan.workspace_bytes = std::max(plan.workspace_bytes, last[b]->workspace_bytes);
  }
  std::stable_sort(
      plan.parts.begin(), plan.parts.end(),
      [](const MicrobatchOption& a, const MicrobatchOption& b) { return a.batch > b.batch; });
  return plan;
}

std::vector<MicrobatchPlan> ParetoMicrobatches(int64_t batch,
                                               absl::Span<const MicrobatchOption> options) {
  std::vector<size_t> limits;
  for (const MicrobatchOption& option : options) limits.push_back(option.workspace_bytes);
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  std::vector<MicrobatchPlan> plans;
  for (size_t limit : limits) {
    absl::StatusOr<MicrobatchPlan> plan = FastestMicrobatches(batch, options, limit);
    if (plan.ok()) plans.push_back(*std::move(plan));
  }
  KeepUndominated(&plans, [](const MicrobatchPlan& p) { return p.workspace_bytes; });
  return plans;
}

std::vector<WorkspaceCost> ReuseWorkspace(absl::Span<const std::vector<MicrobatchPlan>> passes,
                                          size_t granule_bytes) {
  CHECK_GT(granule_bytes, 0u);
  const auto rounded = [&](const MicrobatchPlan& plan) {
    return (plan.workspace_bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
  };
  size_t least = 0;  // below it a pass has nothing that fits
  std::vector<size_t> limits;
  for (const std::vector<MicrobatchPlan>& plans : passes) {
    if (plans.empty()) return {};
    least = std::max(least, rounded(plans.front()));
    for (const MicrobatchPlan& plan : plans) limits.push_back(rounded(plan));
  }
  limits.push_back(least);
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  std::vector<WorkspaceCost> costs;
  for (size_t limit : limits) {
    if (limit < least) continue;
    WorkspaceCost cost = {.bytes = limit};
    for (const std::vector<MicrobatchPlan>& plans : passes) {
      // Seconds descend with the bytes: the last that fits.
      const auto beyond = std::partition_point(
          plans.begin(), plans.end(), [&](const auto& plan) { return rounded(plan) <= limit; });
      cost.seconds += std::prev(beyond)->seconds;
    }
    costs.push_back(cost);
  }
  KeepUndominated(&costs, [](const WorkspaceCost& c) { return c.bytes; });
  return costs;
}

absl::StatusOr<std::vector<size_t>> ShareWorkspace(
    absl::Span<const std::vector<WorkspaceCost>> costs, size_t total_bytes) {
  std::vector<std::vector<SharedChoice>> stages = {{SharedChoice{}}};
  for (const std::vector<WorkspaceCost>& of_one : costs) {
    std::vector<SharedChoice> next;
    const std::vector<SharedChoice>& before = stages.back();
    for (size_t i = 0; i < before.size(); ++i) {
      for (size_t c = 0; c < of_one.size(); ++c) {
        const size_t bytes = before[i].bytes + of_one[c].bytes;
        if (bytes > total_bytes) continue;
        next.push_back({bytes, before[i].seconds + of_one[c].seconds, c, i});
      }
    }
    KeepUndominated(&next, [](const SharedChoice& c) { return c.bytes; });
    if (next.empty()) {
      return absl::ResourceExhaustedError(absl::StrCat("the workspaces of ", costs.size(),
                                                       " replicas do not fit into ", total_bytes,
                                                       " bytes together; raise the limit"));
    }
    stages.push_back(std::move(next));
  }
  std::vector<size_t> chosen(costs.size());
  size_t at = stages.back().size() - 1;  // the most bytes, the least seconds
  for (size_t k = costs.size(); k > 0; --k) {
    const SharedChoice& choice = stages[k][at];
    chosen[k - 1] = choice.cost;
    at = choice.before;
  }
  return chosen;
}

}  // namespace soapstone::compute
