#include "apps/experiment/experiment_runs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "apps/cli/console.h"
#include "apps/cli/launcher.h"
#include "apps/experiment/cosim_command.h"
#include "apps/loop/node_loop.h"
#include "apps/node/curve_parts.h"
#include "base/exit_codes.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "experiment/cosim/cosim.h"

namespace soapstone::apps {
namespace {

double WallSeconds() { return static_cast<double>(NodeLoop::Now()) / static_cast<double>(kSecond); }

// Of each sample, with its label.
std::set<std::string> HashesOf(const models::Dataset& data) {
  std::set<std::string> hashes;
  for (size_t i = 0; i < data.size(); ++i) {
    Sha256 digest;
    data.HashSample(i, &digest);
    hashes.insert(digest.HexDigest());
  }
  return hashes;
}

uint64_t CountShared(const models::TrainTest& data) {
  const std::set<std::string> train = HashesOf(data.train);
  const std::set<std::string> test = HashesOf(data.test);
  return static_cast<uint64_t>(std::count_if(
      test.begin(), test.end(), [&](const auto& hash) { return train.contains(hash); }));
}

// The share of the labels that are the most frequent one: what guessing it comes to.
double MostFrequentLabel(const models::Dataset& data) {
  const models::Column& labels = *data.columns.back();
  std::vector<int32_t> words(labels.elements());
  std::map<int32_t, uint64_t> counts;
  uint64_t most = 0;
  for (uint64_t i = 0; i < data.size(); ++i) {
    labels.Read(i, reinterpret_cast<std::byte*>(words.data()));
    for (const int32_t label : words) most = std::max(most, ++counts[label]);
  }
  return static_cast<double>(most) / static_cast<double>(data.size() * labels.elements());
}

// Of what is in the files; empty: there are none. Of a folder of images the samples' digests tell.
std::string FilesDigest(const std::vector<std::string>& paths) {
  Sha256 digest;
  uint64_t files = 0;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> block(size_t{1} << 16);
    uint64_t bytes = 0;
    while (file.read(block.data(), static_cast<std::streamsize>(block.size())) ||
           file.gcount() > 0) {
      digest.Update(block.data(), static_cast<size_t>(file.gcount()));
      bytes += static_cast<uint64_t>(file.gcount());
    }
    digest.Update(&bytes, sizeof(bytes));
    if (bytes > 0) ++files;
  }
  return files == 0 ? "" : digest.HexDigest();
}

experiment::Provenance ProvenanceOf(const Job& job, const experiment::RunPlan& plan,
                                    const MachineFacts& machine) {
  return {.hardware = machine.hardware,
          .build = machine.build,
          .train_sha256 = job.data->train.Digest(),
          .test_sha256 = job.data->test.Digest(),
          .files_sha256 = FilesDigest(FilesRead(job.config)),
          .traces_sha256 = FilesDigest(FilesOfStragglers(plan.stragglers)),
          .train_samples = job.data->train.size(),
          .test_samples = job.data->test.size(),
          .test_in_train = CountShared(*job.data),
          .parameters = job.graph->parameter_count(),
          .chance = MostFrequentLabel(job.data->test),
          .precision = job.config.cluster().precision(),
          .communication = job.config.cluster().communication(),
          .codec = "none"};  // no job has one to choose
}

// The version in the name of a library's file: libdnnl.so.2.7 is what libdnnl.so.2 points to.
std::string LibrariesLoaded() {
  std::set<std::string> names;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::string name = line.substr(line.rfind('/') + 1);
    for (const char* library : {"libdnnl", "libgomp", "libzmq", "libstdc++"}) {
      if (absl::StartsWith(name, library)) names.insert(name);
    }
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

MachineFacts ReadMachineFacts() {
  std::string processor = "unknown processor";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    processor = line.substr(line.find(':') + 2);
    break;
  }
  std::ifstream program("/proc/self/exe", std::ios::binary);
  std::stringstream bytes;
  bytes << program.rdbuf();
  const std::string text = bytes.str();
  Sha256 digest;
  digest.Update(text.data(), text.size());
  return {
      .hardware = absl::StrCat(processor, ", ", std::thread::hardware_concurrency(), " cores"),
      .build = absl::StrCat("program ", digest.HexDigest().substr(0, 12), ", ", LibrariesLoaded())};
}

absl::StatusOr<experiment::RunOutcome> RunInVirtualTime(const experiment::RunPlan& plan,
                                                        const MachineFacts& machine,
                                                        const experiment::RunProgress& progress) {
  const double began_s = WallSeconds();
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job,
                        PrepareDenseJob(plan.config, "an experiment"));
  experiment::CosimOptions options{.samples_per_point = job->curve_step};
  options.progress = [&](double fraction, const experiment::CurvePoint*) { progress(fraction); };
  SOAP_ASSIGN_OR_RETURN(
      experiment::CosimResult result,
      experiment::Cosimulate(
          *job,
          {.stragglers = plan.stragglers,
           .seed = plan.config.training().seed(),
           .iteration_ns = std::llround(plan.iteration_ms * static_cast<double>(kMillisecond)),
           .latency_us = plan.latency_us,
           .bandwidth_mbps = plan.bandwidth_mbps,
           .timeout_ns = NanosOf(job->config.cluster().heartbeat_timeout_s())},
          options));
  experiment::RunOutcome outcome{.curve = std::move(result.curve),
                                 .test_accuracy = result.test_accuracy,
                                 .duration_s = result.duration_s,
                                 .bytes = result.timing.bytes,
                                 .read_lags = std::move(result.timing.read_lags),
                                 .compute_s = result.compute_s,
                                 .waiting_s = result.wait_s,
                                 .violations = result.timing.violations,
                                 .diverged = !result.diverged.empty(),
                                 .parameters_sha256 = std::move(result.sha256),
                                 .provenance = ProvenanceOf(*job, plan, machine)};
  if (outcome.curve.empty()) return absl::InternalError("co-simulation ended without a point");
  outcome.train_loss = outcome.diverged ? std::nan("") : outcome.curve.back().train_loss;
  outcome.samples = outcome.curve.back().samples;
  // The last updates arrive after the last worker's last iteration.
  outcome.duration_s = std::max(outcome.duration_s, outcome.curve.back().time_s);
  if (result.replica_accuracy.has_value()) {
    const auto& spread = *result.replica_accuracy;
    outcome.replicas = experiment::ReplicaAccuracy{spread.min, spread.median, spread.max};
  }
  outcome.spent_s = WallSeconds() - began_s;
  return outcome;
}

absl::StatusOr<experiment::RunOutcome> RunProcesses(const experiment::RunPlan& plan,
                                                    const MachineFacts& machine,
                                                    const std::string& log_dir,
                                                    std::atomic<int>* signalled) {
  const double began_s = WallSeconds();
  std::error_code failed;  // which PrepareLaunch finds out
  std::filesystem::create_directories(log_dir, failed);
  wire::JobConfig config = plan.config;
  config.mutable_training()->set_stragglers(plan.stragglers);
  config.mutable_training()->set_base_ms(plan.iteration_ms);
  config.mutable_output()->set_log_dir(log_dir);
  config.mutable_output()->set_curve_path(absl::StrCat(log_dir, "/curve.csv"));
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job,
                        PrepareDenseJob(std::move(config), "an experiment"));
  SOAP_ASSIGN_OR_RETURN(LauncherOptions options, PrepareLaunch(job->config));
  std::ostringstream said;
  Console console(&said, false);
  Launcher launcher(std::move(options), &console);
  const int code = launcher.Run();
  if (code == kExitInterrupted || code == kExitTerminated) {
    *signalled = code;
    return absl::CancelledError("");
  }
  const bool diverged = code == kExitNotFinite;
  if ((code != kExitOk && !diverged) || !launcher.result().has_value()) {
    return absl::InternalError(absl::StrCat("ended with exit code ", code, ", logs in ", log_dir));
  }
  const ResultReport& result = *launcher.result();
  RealCurve curve;
  if (diverged) {
    // Its processes wrote no curve: one point that reaches nothing.
    const double nan = std::nan("");
    curve.points = {
        {.time_s = result.seconds, .samples = result.samples, .train_loss = nan, .test_loss = nan}};
  } else {
    SOAP_ASSIGN_OR_RETURN(curve, JoinCurve(*job));
  }
  const WorkerTimes times = TotalOf(result.times);
  experiment::RunOutcome outcome{.curve = std::move(curve.points),
                                 .test_accuracy = result.test_accuracy,
                                 .train_loss = diverged ? std::nan("") : result.train_loss,
                                 .duration_s = result.seconds,
                                 .samples = result.samples,
                                 .read_lags = result.read_lags,
                                 .compute_s = times.compute,
                                 .waiting_s = times.waiting(),
                                 .diverged = diverged,
                                 .parameters_sha256 = result.sha256,
                                 .replicas = curve.replicas,
                                 .provenance = ProvenanceOf(*job, plan, machine)};
  for (const NodeReport& node : launcher.nodes()) {
    outcome.bytes += node.sent.total();
  }
  outcome.violations = TotalOf(launcher.nodes()).violations;
  // The last updates arrive after the last worker has said that it is done.
  outcome.duration_s = std::max(outcome.duration_s, outcome.curve.back().time_s);
  outcome.spent_s = WallSeconds() - began_s;
  return outcome;
}

}  // namespace soapstone::apps
