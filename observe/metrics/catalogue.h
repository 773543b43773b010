// The catalogue of metrics: every series that a node may show, with its name, labels and meaning.
// docs/metrics.md has a row for each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"

namespace soapstone::metrics {

enum class Series : uint8_t {
  // Of all nodes.
  kBuildInfo,
  kJobInfo,
  kSecurityInfo,
  kSentBytes,
  kReceivedBytes,
  kSharedBytes,
  kSentMessages,
  kReceivedMessages,
  kRejectedMessages,
  kDroppedMessages,
  kQueuedBytes,
  kStrangers,
  kHandshakeFailures,
  kProofFaults,
  kHeartbeatGap,
  kHeartbeatsLate,
  kLoopTurn,
  kResidentBytes,
  kCpuSeconds,
  kStartTime,
  kOpenFds,
  // Of the scheduler.
  kJobPhase,
  kJobClocks,
  kJobClocksTarget,
  kJobSamples,
  kJobLoss,
  kJobRemaining,
  kJobMembers,
  kJobEndCode,
  kCheckpointClock,
  kCheckpointEvery,
  kReplicasMissing,
  kWorkerClocks,
  kWorkerSamples,
  kWorkerTime,
  kWorkerSlowdown,
  kWorkersOmitted,
  // Of servers.
  kShardUpdates,
  kShardReadLag,
  kShardUpdateStaleness,
  kShardViolations,
  kShardFrontier,
  kShardParkedPulls,
  kShardHeldBytes,
  // Of workers.
  kClocks,
  kSamples,
  kTime,
  kSkippedSteps,
  kLeftOutUpdates,
  kViolations,
};

enum class Kind : uint8_t { kCounter, kGauge, kHistogram };

struct Entry {
  Series series{};
  std::string_view name;
  Kind kind = Kind::kGauge;
  std::array<std::string_view, 4> labels;  // the first label_count()
  std::string_view of;                     // "all", "scheduler", "servers", "workers"
  std::string_view help;

  constexpr size_t label_count() const {
    size_t count = 0;
    while (count < labels.size() && !labels[count].empty()) ++count;
    return count;
  }
};

absl::Span<const Entry> Catalogue();  // in the order of Series
const Entry& EntryOf(Series series);

}  // namespace soapstone::metrics
