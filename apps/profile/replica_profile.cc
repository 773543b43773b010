#include "apps/profile/replica_profile.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/cli/named_model.h"
#include "apps/loop/node_loop.h"
#include "apps/node/compute_backend.h"
#include "apps/node/random_batch.h"
#include "apps/report/process_memory.h"
#include "apps/report/report.h"
#include "apps/report/step_memory.h"
#include "base/status_macros.h"
#include "compute/init.h"
#include "models/runtime/model_batch.h"

namespace soapstone::apps {
namespace {

using Json = nlohmann::json;
using models::ModelTurns;

constexpr uint64_t kReplicaSeed = 1;
constexpr uint64_t kMegabyte = 1'000'000;
constexpr uint64_t kReplicaStepsMin = 3;

class ReplicaRun {
 public:
  ReplicaRun(const ProfileFlags& flags, ReplicaProfile* profile)
      : flags_(flags), profile_(*profile) {}

  absl::Status Run() {
    SOAP_ASSIGN_OR_RETURN(graph_, GraphOf(flags_.model));
    SOAP_RETURN_IF_ERROR(MakeBackends());
    const uint64_t free_before = FreeMemory(backends_[0].get());
    const uint64_t resident_before = ReadResidentMemory().now_bytes;
    {
      SOAP_ASSIGN_OR_RETURN(const models::StepPlan plan,
                            models::GraphRunner::PlanStep(graph_, OptionsOf(0), flags_.batch));
      profile_.planned = StepMemoryOf(graph_, flags_.batch, plan.memory);
    }
    SOAP_RETURN_IF_ERROR(CheckFits(absl::StrCat("a step of ", flags_.replicas, " replicas of ",
                                                flags_.model, " with batch ", flags_.batch),
                                   flags_.replicas * profile_.planned.total(), free_before));
    feed_ = RandomBatch(graph_, flags_.batch, kReplicaSeed);
    SOAP_RETURN_IF_ERROR(MakeReplicas());
    SOAP_RETURN_IF_ERROR(StepsOfAll(replicas_.size(), 0).status());  // kernels are made
    const uint64_t resident = ReadResidentMemory().now_bytes;
    const uint64_t free_now = FreeMemory(backends_[0].get());
    profile_.taken_bytes = backends_[0]->is_device()
                               ? free_before - std::min(free_before, free_now)
                               : resident - std::min(resident, resident_before);
    SOAP_ASSIGN_OR_RETURN(profile_.alone, StepsOfAll(1, flags_.seconds));
    SOAP_ASSIGN_OR_RETURN(profile_.together, StepsOfAll(replicas_.size(), flags_.seconds));
    return absl::OkStatus();
  }

 private:
  models::ReplicaOptions OptionsOf(size_t i) const {
    return {.backend = backends_[i], .seed = kReplicaSeed, .recompute = flags_.recompute};
  }

  absl::Status MakeBackends() {
    const BackendChoice choice = {.device = flags_.device,
                                  .precision = flags_.precision,
                                  .convolutions = flags_.convolutions,
                                  .threads = flags_.threads};
    const bool divided = flags_.workspace_mb > 0;
    if (flags_.device == "cpu") {
      if (divided) {
        return absl::InvalidArgumentError(
            "--workspace is of a device's convolutions: --device=cuda");
      }
      for (size_t i = 0; i < flags_.replicas; ++i) {
        SOAP_ASSIGN_OR_RETURN(backends_.emplace_back(), MakeChosenBackend(choice));
      }
      return absl::OkStatus();
    }
    profile_.workspace_bytes = flags_.workspace_mb * kMegabyte;
    SOAP_ASSIGN_OR_RETURN(compute::CudaOptions options, CudaOptionsOf(choice));
    options.workspace_bytes_total = profile_.workspace_bytes;
    options.measure_algorithms |= divided;
    SOAP_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<compute::Backend>> made,
                          compute::MakeCudaBackends(options, flags_.replicas));
    if (divided) {
      const std::vector<std::vector<compute::KernelRequest>> work(
          made.size(), models::PlainRequests(graph_, flags_.batch));
      SOAP_ASSIGN_OR_RETURN(profile_.division, compute::DivideWorkspace(made, work));
    }
    for (auto& backend : made) backends_.push_back(std::move(backend));
    return absl::OkStatus();
  }

  absl::Status MakeReplicas() {
    for (size_t i = 0; i < flags_.replicas; ++i) {
      SOAP_ASSIGN_OR_RETURN(std::unique_ptr<models::GraphRunner> replica,
                            models::GraphRunner::Create(graph_, OptionsOf(i)));
      BufferPool pool = replica->NewPool();
      models::BatchedModel model = {.replica = replica.get(), .feed = &feed_};
      for (size_t p = 0; p < graph_.params().size(); ++p) {
        const auto id = static_cast<ParamId>(p);
        compute::InitSlice(graph_.param(id), kReplicaSeed, id, 0, replica->param(id));
        gradients_.push_back(pool.Take(graph_.param(id).elements() * sizeof(float)));
        model.gradients.push_back(gradients_.back().floats());
      }
      replicas_.push_back(std::move(replica));
      models_.push_back(std::move(model));
    }
    return absl::OkStatus();
  }

  // Of the first `count` at once: samples a second.
  absl::StatusOr<double> StepsOfAll(size_t count, double seconds) {
    std::vector<uint64_t> steps(count);
    const Nanos began = NodeLoop::Now();
    const auto wanted = static_cast<Nanos>(seconds * static_cast<double>(kSecond));
    const auto go_on = [&](size_t model, uint64_t done) {
      steps[model] = done;
      return done < kReplicaStepsMin || NodeLoop::Now() - began < wanted;
    };
    SOAP_RETURN_IF_ERROR(models::RunModelBatch(
        absl::MakeConstSpan(models_).first(count),
        backends_[0]->is_device() ? ModelTurns::kInTurn : ModelTurns::kThreadEach, go_on));
    for (size_t i = 0; i < count; ++i) backends_[i]->Finish();
    const auto took = static_cast<double>(NodeLoop::Now() - began) / static_cast<double>(kSecond);
    uint64_t samples = 0;
    for (uint64_t done : steps) samples += done * static_cast<uint64_t>(flags_.batch);
    return static_cast<double>(samples) / std::max(took, 1e-9);
  }

  const ProfileFlags& flags_;
  ReplicaProfile& profile_;
  models::Graph graph_;
  std::vector<std::shared_ptr<compute::Backend>> backends_;
  models::MiniBatch feed_;
  std::vector<BufferPool::Block> gradients_;  // by replica and parameter
  std::vector<std::unique_ptr<models::GraphRunner>> replicas_;
  std::vector<models::BatchedModel> models_;
};

double StepMs(const ReplicaProfile& profile, size_t replicas, double rate) {
  return 1e3 * static_cast<double>(replicas) * static_cast<double>(profile.batch) / rate;
}

}  // namespace

absl::StatusOr<ReplicaProfile> MeasureReplicas(const ProfileFlags& flags) {
  ReplicaProfile profile = {.model = flags.model,
                            .device = flags.device,
                            .replicas = flags.replicas,
                            .threads = flags.threads,
                            .batch = flags.batch};
  SOAP_RETURN_IF_ERROR(ReplicaRun(flags, &profile).Run());
  return profile;
}

std::string ReplicaText(const ReplicaProfile& profile) {
  const StepMemory& plan = profile.planned;
  const std::string all = absl::StrCat(profile.replicas, " replicas");
  std::string text = absl::StrFormat(
      "%s, batch %d, on %s\n"
      "%-14s %10.1f samples/s, a step takes %.3f ms\n"
      "%-14s %10.1f samples/s, %.2f times as many, a step of each takes %.3f ms\n"
      "memory of each %s planned: parameters %s, gradients %s, batch %s, activations %s; "
      "%s measured\n",
      profile.model, profile.batch, profile.device, "one replica", profile.alone,
      StepMs(profile, 1, profile.alone), all, profile.together, profile.together / profile.alone,
      StepMs(profile, profile.replicas, profile.together), Bytes(plan.total()),
      Bytes(plan.parameter_bytes), Bytes(plan.gradient_bytes), Bytes(plan.batch_bytes),
      Bytes(plan.activation_bytes), Bytes(profile.taken_bytes / profile.replicas));
  if (!profile.division.has_value()) return text;
  const compute::WorkspaceDivision& division = *profile.division;
  absl::StrAppendFormat(
      &text,
      "workspace of all convolutions %s: a step of each is predicted to need %.3f ms in equal "
      "parts, %.3f ms divided as %s\n",
      Bytes(profile.workspace_bytes), 1e3 * division.equal_seconds, 1e3 * division.divided_seconds,
      absl::StrJoin(division.bytes, ", ",
                    [](std::string* out, size_t bytes) { absl::StrAppend(out, Bytes(bytes)); }));
  return text;
}

std::string ReplicaJson(const ReplicaProfile& profile) {
  Json object = {{"version", 1},
                 {"model", profile.model},
                 {"device", profile.device},
                 {"batch", profile.batch},
                 {"threads", profile.threads},
                 {"replicas", profile.replicas},
                 {"samples_per_second_alone", profile.alone},
                 {"samples_per_second", profile.together},
                 {"memory_bytes_planned", profile.planned.total()},
                 {"memory_bytes_measured", profile.taken_bytes / profile.replicas}};
  if (profile.division.has_value()) {
    object["workspace"] = {{"bytes", profile.workspace_bytes},
                           {"parts", profile.division->bytes},
                           {"equal_seconds", profile.division->equal_seconds},
                           {"divided_seconds", profile.division->divided_seconds}};
  }
  return object.dump(1) + "\n";
}

}  // namespace soapstone::apps
