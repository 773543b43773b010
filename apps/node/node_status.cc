#include "apps/node/node_status.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/report/process_memory.h"
#include "base/version.h"

namespace soapstone::apps {
namespace {

using metrics::Families;
using metrics::Series;

constexpr const char* kPhases[] = {"registering", "installing", "running",
                                   "evaluating",  "saving",     "closing"};

double SecondsOf(Nanos duration) { return static_cast<double>(duration) / kSecond; }

void AddBytes(Series series, const transport::BytesByCause& bytes, Families* families) {
  const std::pair<const char*, uint64_t> causes[] = {
      {"push", bytes.push},       {"pull", bytes.pull},      {"parcels", bytes.parcels},
      {"blocks", bytes.blocks},   {"model", bytes.model},    {"header", bytes.header},
      {"control", bytes.control}, {"framing", bytes.framing}};
  for (const auto& [cause, count] : causes) {
    families->Add(series, static_cast<double>(count), {cause});
  }
}

void AddTransport(const NodeStatus& status, Families* families) {
  const transport::TransportStats& moved = status.moved;
  AddBytes(Series::kSentBytes, moved.sent, families);
  AddBytes(Series::kReceivedBytes, moved.received, families);
  const std::pair<Series, uint64_t> counts[] = {
      {Series::kSharedBytes, moved.shared_bytes},
      {Series::kSentMessages, moved.sent_messages},
      {Series::kReceivedMessages, moved.received_messages},
      {Series::kRejectedMessages, moved.rejected_messages},
      {Series::kDroppedMessages, moved.dropped_messages},
      {Series::kQueuedBytes, status.queued_bytes},
      {Series::kStrangers, moved.strangers}};
  for (const auto& [series, count] : counts) families->Add(series, static_cast<double>(count));
  const transport::HandshakeFailures& handshakes = moved.handshakes;
  const std::pair<const char*, uint64_t> failures[] = {{"key", handshakes.keys},
                                                       {"role", handshakes.roles},
                                                       {"mechanism", handshakes.mechanisms},
                                                       {"cut", handshakes.cut_off}};
  for (const auto& [cause, count] : failures) {
    families->Add(Series::kHandshakeFailures, static_cast<double>(count), {cause});
  }
  const transport::ProofFaults& faults = moved.proof_faults;
  const std::pair<const char*, uint64_t> causes[] = {
      {"hello", faults.hellos},   {"offer", faults.offers}, {"record", faults.records},
      {"length", faults.lengths}, {"link", faults.links},   {"name", faults.names}};
  for (const auto& [cause, count] : causes) {
    families->Add(Series::kProofFaults, static_cast<double>(count), {cause});
  }
  families->Add(Series::kHeartbeatGap, status.heartbeat_gap_s);
  families->Add(Series::kHeartbeatsLate, static_cast<double>(status.heartbeats_late));
  families->AddDurations(Series::kLoopTurn, status.turns.milliseconds, status.turns.sum);
}

void AddTimes(Series series, const WorkerTimes& times, const std::vector<std::string>& worker,
              Families* families) {
  const std::pair<const char*, double> causes[] = {{"compute", times.compute},
                                                   {"injected", times.injected},
                                                   {"policy", times.policy},
                                                   {"shard", times.shard},
                                                   {"network", times.network}};
  for (const auto& [cause, seconds] : causes) {
    std::vector<std::string> labels = worker;
    labels.emplace_back(cause);
    families->Add(series, seconds, std::move(labels));
  }
}

void AddJob(const JobStatus& job, Families* families) {
  for (const char* phase : kPhases) {
    families->Add(Series::kJobPhase, job.phase == phase ? 1 : 0, {phase});
  }
  const ProgressReport& progress = job.progress;
  families->Add(Series::kJobClocks, static_cast<double>(progress.clock));
  families->Add(Series::kJobClocksTarget, static_cast<double>(progress.clocks));
  families->Add(Series::kJobSamples, static_cast<double>(progress.samples));
  if (progress.samples > 0) families->Add(Series::kJobLoss, progress.loss);
  if (progress.samples > 0 && progress.eta_s >= 0) {
    families->Add(Series::kJobRemaining, progress.eta_s);
  }
  families->Add(Series::kJobMembers, job.servers_there, {"server"});
  families->Add(Series::kJobMembers, progress.workers, {"worker"});
  if (job.ended.has_value()) families->Add(Series::kJobEndCode, job.ended->code);
  size_t shown = 0;
  for (const WorkerStatus& worker : job.workers) {
    if (++shown > kMetricsWorkersMax) break;
    const std::vector<std::string> label = {absl::StrCat(worker.worker)};
    families->Add(Series::kWorkerClocks, static_cast<double>(worker.clock), label);
    families->Add(Series::kWorkerSamples, static_cast<double>(worker.samples), label);
    AddTimes(Series::kWorkerTime, worker.times, label, families);
    if (worker.slowdown > 0) families->Add(Series::kWorkerSlowdown, worker.slowdown, label);
  }
  const size_t all = job.workers.size();
  families->Add(Series::kWorkersOmitted,
                all > kMetricsWorkersMax ? static_cast<double>(all - kMetricsWorkersMax) : 0);
}

void AddShard(const ShardStatus& shard, Families* families) {
  const std::string name = absl::StrCat(Index(shard.reads.shard));
  const std::pair<const char*, uint64_t> outcomes[] = {{"applied", shard.stats.pushes_applied},
                                                       {"duplicate", shard.stats.duplicates},
                                                       {"late", shard.stats.left_out},
                                                       {"refused", shard.stats.rejects}};
  for (const auto& [outcome, count] : outcomes) {
    families->Add(Series::kShardUpdates, static_cast<double>(count), {name, outcome});
  }
  families->AddHistogram(Series::kShardReadLag, shard.read_lags, {name});
  families->AddHistogram(Series::kShardUpdateStaleness, shard.stalenesses, {name});
  families->Add(Series::kShardViolations, static_cast<double>(shard.violations), {name});
  families->Add(Series::kShardFrontier, static_cast<double>(shard.reads.frontier), {name});
  families->Add(Series::kShardParkedPulls, static_cast<double>(shard.reads.parked_count), {name});
  families->Add(Series::kShardHeldBytes, static_cast<double>(shard.held_bytes), {name});
}

void AddWorker(const NodeStatus& status, Families* families) {
  const wire::Progress& p = *status.progress;
  families->Add(Series::kClocks, static_cast<double>(p.clock));
  families->Add(Series::kSamples, static_cast<double>(p.samples));
  AddTimes(Series::kTime,
           {.compute = SecondsOf(p.compute_ns),
            .injected = SecondsOf(p.injected_ns),
            .policy = SecondsOf(p.parked_ns),
            .shard = SecondsOf(p.queued_ns),
            .network = SecondsOf(p.blocked_ns - p.parked_ns - p.queued_ns)},
           {}, families);
  families->Add(Series::kSkippedSteps, static_cast<double>(p.skipped));
  uint64_t left_out = 0;
  for (const wire::LeftOut& tensor : p.left_out) left_out += tensor.updates;
  families->Add(Series::kLeftOutUpdates, static_cast<double>(left_out));
  families->Add(Series::kViolations, static_cast<double>(status.violations));
}

// Fields of /proc/self/stat behind the name of the program, which may have blanks; 0: the state.
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name = text.rfind(')');
  if (name == text.npos) return {};
  std::istringstream rest(text.substr(name + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

double BootSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double value = 0;
    if (key == "btime" && file >> value) return value;
    std::getline(file, key);
  }
  return 0;
}

std::optional<double> OpenDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return std::nullopt;  // none is left to look with
  double count = -3;                           // ".", "..", and this folder's own
  while (readdir(folder.get()) != nullptr) ++count;
  return count;
}

}  // namespace

WorkerStatus StatusOfWorker(WorkerId worker, const wire::Progress& progress, WorkerTimes times,
                            const wire::Roster& roster) {
  WorkerStatus status = {.worker = Index(worker),
                         .clock = progress.clock,
                         .samples = progress.samples,
                         .times = times};
  const auto member = std::lower_bound(  // a roster is ascending
      roster.workers.begin(), roster.workers.end(), worker,
      [](const wire::Member& m, WorkerId wanted) { return m.worker < wanted; });
  status.member = member != roster.workers.end() && member->worker == worker;
  if (progress.samples > 0) {
    status.loss = progress.loss_sum / static_cast<double>(progress.samples);
  }
  uint64_t reads = 0;
  uint64_t weighted = 0;
  for (size_t lag = 0; lag < progress.read_lags.size(); ++lag) {
    if (progress.read_lags[lag] == 0) continue;
    reads += progress.read_lags[lag];
    weighted += lag * progress.read_lags[lag];
    status.lag_max = lag;
  }
  if (reads > 0) status.lag_mean = static_cast<double>(weighted) / static_cast<double>(reads);
  if (progress.waiting.has_value()) status.waits = wire::ToString(*progress.waiting);
  return status;
}

NodeStatus StatusOf(const Job& job, const NodeLoop& loop, const char* role, int64_t rank, Nanos now,
                    Nanos began) {
  NodeStatus status;
  status.job = {.role = role,
                .rank = rank,
                .version = kVersion,
                .job = job.summary,
                .policy = job.specs.policy.spec,
                .phase = "registering",
                .up_s = SecondsOf(now - began)};
  status.model = job.config.model();
  status.secured = !loop.transport().process_key().empty();
  status.moved = loop.transport().stats();
  status.queued_bytes = loop.router().waiting_bytes();
  status.heartbeat_gap_s = loop.heartbeat_gap_s();
  status.heartbeats_late = loop.heartbeats_late();
  return status;
}

NodeReport ReportOf(std::string name, const NodeLoop& loop) {
  const transport::TransportStats moved = loop.transport().stats();
  return {.name = std::move(name),
          .sent = moved.sent,
          .received = moved.received,
          .sockets = moved.sockets,
          .shared_bytes = moved.shared_bytes,
          .malformed = moved.rejected_messages,
          .strangers = moved.strangers,
          .heartbeat_gap_s = loop.heartbeat_gap_s(),
          .resident_peak_bytes = ReadResidentMemory().peak_bytes};
}

void AddDurability(const Job& job, const CheckpointKeeper* keeper, const wire::Roster& roster,
                   NodeStatus* status) {
  if (keeper != nullptr) {
    status->checkpoints = {std::max(keeper->newest(), job.first_clock),
                           static_cast<Clock>(job.checkpoint_every)};
  }
  if (job.replicas < 2) return;
  uint32_t missing = 0;
  for (const wire::Chain& chain : roster.chains) {
    missing += job.replicas - std::min<uint32_t>(job.replicas, chain.links.size());
  }
  status->replicas_missing = missing;
}

Families FamiliesOf(const NodeStatus& status) {
  Families families;
  const JobStatus& job = status.job;
  families.Add(Series::kBuildInfo, 1, {job.version});
  families.Add(Series::kJobInfo, 1,
               {status.model, job.policy, job.role, job.rank < 0 ? "" : absl::StrCat(job.rank)});
  families.Add(Series::kSecurityInfo, 1,
               {status.secured ? "curve" : "none", status.secured ? "keys" : "none"});
  AddTransport(status, &families);
  if (job.role == "scheduler") AddJob(job, &families);
  if (const auto& checkpoints = status.checkpoints; checkpoints.has_value()) {
    families.Add(Series::kCheckpointClock, static_cast<double>(checkpoints->newest));
    families.Add(Series::kCheckpointEvery, static_cast<double>(checkpoints->every));
  }
  if (status.replicas_missing.has_value()) {
    families.Add(Series::kReplicasMissing, *status.replicas_missing);
  }
  for (const ShardStatus& shard : status.shards) AddShard(shard, &families);
  if (status.progress.has_value()) AddWorker(status, &families);
  return families;
}

Families ProcessFamilies() {
  Families families;
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  families.Add(Series::kCpuSeconds, seconds(used.ru_utime) + seconds(used.ru_stime));
  const std::vector<std::string> fields = StatFields();
  constexpr size_t kStart = 19;  // in ticks since the machine's start
  constexpr size_t kPages = 21;
  if (fields.size() > kPages) {
    families.Add(Series::kStartTime, BootSeconds() + std::stod(fields[kStart]) /
                                                         static_cast<double>(sysconf(_SC_CLK_TCK)));
    families.Add(Series::kResidentBytes,
                 std::stod(fields[kPages]) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  }
  if (const auto open = OpenDescriptors(); open.has_value()) families.Add(Series::kOpenFds, *open);
  return families;
}

}  // namespace soapstone::apps
