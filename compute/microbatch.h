// Cuts the mini-batch of one operator into micro-batches, so that faster algorithms fit into a
// limited workspace (Oyama et al. 2018, "µ-cuDNN"). Called by kernels that can choose between
// algorithms and have their times; knows neither which algorithms nor how they are measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace soapstone::compute {

// One way to run a micro-batch of `batch` samples.
struct MicrobatchOption {
  int64_t batch = 0;
  double seconds = 0;
  size_t workspace_bytes = 0;
  int algorithm = 0;  // the caller's
};

// A mini-batch cut up: which option each micro-batch takes, largest batch first.
struct MicrobatchPlan {
  std::vector<MicrobatchOption> parts;
  double seconds = 0;          // their sum
  size_t workspace_bytes = 0;  // of the largest: parts run one after another
};

// The sizes worth measuring for a batch of B: B and the powers of two below it.
std::vector<int64_t> MicrobatchSizes(int64_t batch);

// The fastest plan with workspace_bytes <= limit: T(B) = min_b t(b) + T(B − b) over the options
// that fit. Of equally fast ones, that with fewer parts. O(B · options). Error: no sum of options
// that fit is B (resource exhausted).
absl::StatusOr<MicrobatchPlan> FastestMicrobatches(int64_t batch,
                                                   absl::Span<const MicrobatchOption> options,
                                                   size_t limit_bytes);

// All plans that no other beats in both time and workspace: workspace ascending, seconds
// descending. Empty where there is none.
std::vector<MicrobatchPlan> ParetoMicrobatches(int64_t batch,
                                               absl::Span<const MicrobatchOption> options);

// What a workspace of `bytes` buys.
struct WorkspaceCost {
  size_t bytes = 0;
  double seconds = 0;
  friend bool operator==(const WorkspaceCost&, const WorkspaceCost&) = default;
};

// Passes that run one after another work in the same bytes again ("WR", section 3.2), so that each
// may have all of them: T(w) = Σ_k T_k(w), T_k(w) the fastest of passes[k] with workspace <= w.
// Where T falls: bytes ascending, rounded up to multiples of `granule`, seconds descending. Empty:
// a pass has no plan. Without passes: nothing, at no cost.
std::vector<WorkspaceCost> ReuseWorkspace(absl::Span<const std::vector<MicrobatchPlan>> passes,
                                          size_t granule_bytes);

// For what runs at the same time and so keeps its workspace apart, out of one total ("WD", section
// 3.3): the choice of one cost each (its index) with Σ bytes <= total and the least Σ seconds.
// Exact: the set of undominated (bytes, seconds) sums is carried from one to the next.
// Error: even the smallest do not fit together (resource exhausted).
absl::StatusOr<std::vector<size_t>> ShareWorkspace(
    absl::Span<const std::vector<WorkspaceCost>> costs, size_t total_bytes);

}  // namespace soapstone::compute
