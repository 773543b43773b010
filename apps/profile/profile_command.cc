#include "apps/profile/profile_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/job_source.h"
#include "apps/cli/named_model.h"
#include "apps/loop/node_loop.h"
#include "apps/node/compute_backend.h"
#include "apps/profile/cost_table.h"
#include "apps/profile/profile_report.h"
#include "apps/profile/replica_profile.h"
#include "apps/report/process_memory.h"
#include "apps/report/report.h"
#include "apps/report/step_memory.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/memory/memory_limit.h"
#include "base/status_macros.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "models/formats/safetensors_writer.h"

namespace soapstone::apps {
namespace {

constexpr char kProfileProgram[] = "soapstone profile";
constexpr int64_t kDefaultBatch = 8;

// One line on a terminal: how far, and how long to go.
class ProfileProgress {
 public:
  ProfileProgress(std::string model, int phases)
      : model_(std::move(model)),
        phases_(phases),
        terminal_(isatty(STDERR_FILENO) != 0),
        began_(NodeLoop::Now()) {}
  ~ProfileProgress() {
    if (terminal_) std::fputs("\r\x1b[K", stderr);
  }
  void NextPhase() { ++phase_; }
  void Show(double of_phase) {
    if (!terminal_) return;
    const double done = std::max((phase_ + of_phase) / phases_, 1e-3);
    const double past =
        static_cast<double>(NodeLoop::Now() - began_) / static_cast<double>(kSecond);
    std::fprintf(stderr, "\r\x1b[Kprofiling %s  %.0f%%  ETA %s", model_.c_str(), 100 * done,
                 DurationText(past * (1 - done) / done).c_str());
  }

 private:
  const std::string model_;
  const int phases_;
  const bool terminal_;
  const Nanos began_;
  int phase_ = 0;
};

class ProfileRun {
 public:
  ProfileRun(const ProfileFlags& flags, models::Graph graph)
      : flags_(flags),
        sizes_(SizesOf(flags)),
        progress_(flags.model, static_cast<int>(sizes_.size()) + (flags.recompute ? 1 : 0)) {
    report_.graph = std::move(graph);
  }

  absl::Status Run() {
    SOAP_RETURN_IF_ERROR(CheckFiles());
    SOAP_ASSIGN_OR_RETURN(backend_, MakeChosenBackend({.device = flags_.device,
                                                       .precision = flags_.precision,
                                                       .convolutions = flags_.convolutions,
                                                       .threads = flags_.threads}));
    report_.device = flags_.device;
    report_.precision = flags_.precision;
    report_.convolutions = flags_.convolutions;
    report_.on_device = backend_->is_device();
    report_.model = flags_.model;
    report_.threads = flags_.threads;
    progress_.Show(0);
    SOAP_RETURN_IF_ERROR(CheckHolds(LeastBytes()));
    // First, as oneDNN takes some memory of its own with the first product.
    SOAP_ASSIGN_OR_RETURN(report_.roofline, MeasureRoofline(backend_.get(), flags_.threads));
    SOAP_RETURN_IF_ERROR(MeasureWay(false, &report_.kept));
    if (flags_.recompute) {
      progress_.NextPhase();
      SOAP_RETURN_IF_ERROR(MeasureWay(true, &report_.recomputed.emplace()));
    }
    return Write();
  }
  const ProfileReport& report() const { return report_; }

 private:
  // The batch itself first; for costs two smaller ones too, so that others can be interpolated.
  static std::vector<int64_t> SizesOf(const ProfileFlags& flags) {
    std::vector<int64_t> sizes = {flags.batch};
    if (flags.costs_path.empty()) return sizes;
    for (const int64_t size : {flags.batch / 2, int64_t{1}}) {
      if (size >= 1 && size < sizes.back()) sizes.push_back(size);
    }
    return sizes;
  }

  absl::Status CheckFiles() const {
    SOAP_RETURN_IF_ERROR(
        CheckApart({{"--trace", flags_.trace_path}, {"--costs", flags_.costs_path}}, {}, {}));
    for (const std::string* path : {&flags_.trace_path, &flags_.costs_path}) {
      if (path->empty()) continue;
      SOAP_RETURN_IF_ERROR(models::CheckWritable(*path));
    }
    return absl::OkStatus();
  }

  // A device says itself what it does not hold.
  absl::Status CheckHolds(uint64_t bytes) const {
    if (report_.on_device) return absl::OkStatus();
    return CheckFits(absl::StrCat(flags_.model, " with batch ", flags_.batch), bytes,
                     AvailableMemory());
  }

  // What no plan is below: kernels for an absurd batch are not to be prepared.
  uint64_t LeastBytes() const {
    uint64_t largest = 0;
    for (const models::Tensor& tensor : report_.graph.tensors()) {
      largest = std::max(largest, static_cast<uint64_t>(tensor.spec(flags_.batch).bytes()));
    }
    return StepMemoryOf(report_.graph, flags_.batch, {.bytes = largest}).total();
  }

  absl::Status MeasureWay(bool recompute, ProfiledWay* way) {
    const models::ReplicaOptions options = {.backend = backend_, .recompute = recompute};
    progress_.Show(0);
    {
      SOAP_ASSIGN_OR_RETURN(const models::StepPlan plan,
                            models::GraphRunner::PlanStep(report_.graph, options, flags_.batch));
      way->planned = StepMemoryOf(report_.graph, flags_.batch, plan.memory);
      SOAP_RETURN_IF_ERROR(CheckHolds(way->planned.total()));
    }
    ResetPeakMemory();
    const ResidentMemory before = ReadResidentMemory();
    SOAP_ASSIGN_OR_RETURN(std::unique_ptr<StepProfiler> profiler,
                          StepProfiler::Create(report_.graph, options));
    SOAP_RETURN_IF_ERROR(profiler->Run(flags_.batch).status());
    SOAP_RETURN_IF_ERROR(profiler->Run(flags_.batch).status());
    const ResidentMemory after = ReadResidentMemory();
    if (!report_.on_device)
      way->measured = {.program_bytes = before.now_bytes - before.code_bytes + after.code_bytes,
                       .peak_bytes = after.peak_bytes};
    SOAP_ASSIGN_OR_RETURN(way->steps, Measure(profiler.get(), flags_.batch));
    if (recompute) return absl::OkStatus();
    for (size_t i = 1; i < sizes_.size(); ++i) {
      progress_.NextPhase();
      SOAP_ASSIGN_OR_RETURN(StepProfile smaller, Measure(profiler.get(), sizes_[i]));
      smaller_.push_back(std::move(smaller));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<StepProfile> Measure(StepProfiler* profiler, int64_t samples) {
    return profiler->Measure(samples, flags_.seconds,
                             [this](double done, size_t) { progress_.Show(done); });
  }

  absl::Status Write() const {
    if (!flags_.trace_path.empty()) {
      SOAP_RETURN_IF_ERROR(WriteWholeFile(flags_.trace_path, ProfileTrace(report_)));
    }
    if (flags_.costs_path.empty()) return absl::OkStatus();
    std::vector<StepProfile> profiles = {report_.kept.steps};
    profiles.insert(profiles.end(), smaller_.begin(), smaller_.end());
    const CostOrigin origin = {.model = flags_.model,
                               .threads = flags_.threads,
                               .precision = flags_.precision,
                               .roofline = report_.roofline};
    return WriteCostTable(flags_.costs_path, MakeCostTable(report_.graph, origin, profiles));
  }

  const ProfileFlags& flags_;
  std::shared_ptr<compute::Backend> backend_;
  const std::vector<int64_t> sizes_;
  ProfileProgress progress_;
  ProfileReport report_;
  std::vector<StepProfile> smaller_;
};

// The graph that is asked for; fills in what a job says of it.
absl::StatusOr<models::Graph> GraphAsked(ProfileFlags* flags) {
  if (flags->config_path.empty()) return GraphOf(flags->model);
  SOAP_ASSIGN_OR_RETURN(wire::JobConfig config, ReadJobFile(flags->config_path));
  config.mutable_cluster()->clear_strategy();
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job,
                        PrepareDenseJob(std::move(config), "soapstone profile"));
  flags->model = job->config.model();
  if (flags->batch == 0) {
    flags->batch = std::max<int64_t>(1, job->config.training().batch() / job->workers);
  }
  return *job->graph;
}

}  // namespace

int Profile(const ProfileFlags& asked) {
  ProfileFlags flags = asked;
  absl::StatusOr<models::Graph> graph = GraphAsked(&flags);
  if (!graph.ok()) return SayConfigError(kProfileProgram, graph.status());
  if (flags.batch == 0) flags.batch = kDefaultBatch;
  if (flags.replicas > 0) {
    const absl::StatusOr<ReplicaProfile> measured = MeasureReplicas(flags);
    if (!measured.ok()) return SayConfigError(kProfileProgram, measured.status());
    std::cout << (flags.json ? ReplicaJson(*measured) : ReplicaText(*measured));
    return kExitOk;
  }
  ProfileReport report;
  {
    ProfileRun run(flags, *std::move(graph));
    const absl::Status done = run.Run();
    if (!done.ok()) return SayConfigError(kProfileProgram, done);
    report = run.report();
  }
  if (flags.json) {
    std::cout << ProfileJson(report);
    return kExitOk;
  }
  std::cout << ProfileTable(report, flags.top);
  if (!flags.trace_path.empty()) {
    std::cout << "timeline written to " << flags.trace_path << " (open it in ui.perfetto.dev)\n";
  }
  if (!flags.costs_path.empty()) {
    std::cout << "costs written to " << flags.costs_path << "\n";
  }
  return kExitOk;
}

}  // namespace soapstone::apps
