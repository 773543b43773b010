#include "experiment/seeds.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "base/spec.h"
#include "cluster/job_config.h"
#include "compute/optimizer.h"
#include "wire/config/text_config.h"

namespace soapstone::experiment {
namespace {

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Arguments in order, numbers in one spelling (0.10 and 1e-1 are 0.1), files by their own names.
std::string Spelled(std::string_view text) {
  absl::StatusOr<std::vector<Spec>> parts = Spec::ParseList(text);
  if (!parts.ok()) return std::string(text);
  std::vector<std::string> spelled;
  for (Spec& part : *parts) {
    for (auto& [name, value] : part.arguments) {
      const absl::StatusOr<double> number = part.Real(name, 0, -1e300, 1e300);
      value = number.ok() ? absl::StrFormat("%.9g", *number) : FileName(value);
    }
    spelled.push_back(part.ToString());
  }
  return absl::StrJoin(spelled, "+");
}

std::vector<uint64_t> Draw(const std::string& digest, const char* purpose, size_t count,
                           std::set<uint64_t>* taken) {
  std::vector<uint64_t> seeds;
  for (uint64_t i = 0; seeds.size() < count; ++i) {
    Sha256 sha;
    const std::string text = absl::StrCat(digest, " ", purpose, " ", i);
    sha.Update(text.data(), text.size());
    const uint64_t seed = std::stoull(sha.HexDigest().substr(0, 8), nullptr, 16);
    if (taken->insert(seed).second) seeds.push_back(seed);
  }
  return seeds;
}

// What virtual time does not look at, as where nobody says it. `counts_out`: the models of
// stragglers have processes fail, and the heartbeats' timeout is how long the others wait for them.
void LikeUsual(bool counts_out, wire::Cluster* cluster) {
  wire::JobConfig usual;
  apps::FillDefaults(&usual);
  cluster->set_grace_s(usual.cluster().grace_s());
  cluster->set_security(usual.cluster().security());
  cluster->set_isa(usual.cluster().isa());
  cluster->set_link_bytes(usual.cluster().link_bytes());
  cluster->set_link_timeout_s(usual.cluster().link_timeout_s());
  if (!counts_out) cluster->set_heartbeat_timeout_s(usual.cluster().heartbeat_timeout_s());
}

}  // namespace

std::string KindOfRun(wire::JobConfig filled, const std::string& stragglers,
                      const ExperimentSpec& spec, double iteration_ms) {
  const bool real = spec.mode() == ExperimentSpec::real;
  filled.clear_output();
  filled.clear_strict();
  wire::Data* data = filled.mutable_data();
  data->set_path(FileName(data->path()));
  data->set_labels_path(FileName(data->labels_path()));
  data->set_test_path(FileName(data->test_path()));
  data->set_test_labels_path(FileName(data->test_labels_path()));
  const std::string onnx = apps::OnnxPathOf(filled.model());
  if (!onnx.empty()) filled.set_model(absl::StrCat("onnx:", FileName(onnx)));
  wire::Training* training = filled.mutable_training();
  training->clear_seed();
  training->set_initial_weights(FileName(training->initial_weights()));
  const auto optimizer = compute::ParseOptimizer(training->optimizer());
  if (optimizer.ok()) training->set_optimizer(optimizer->ToString());
  training->set_schedule(Spelled(training->schedule()));
  wire::Cluster* cluster = filled.mutable_cluster();
  cluster->clear_scheduler();
  cluster->clear_heartbeat_s();
  cluster->clear_start_timeout_s();
  cluster->clear_table_rows_max();  // no model of tables is taken
  if (!real) {
    cluster->clear_transport();
    cluster->clear_device();
    cluster->clear_threads();
    LikeUsual(stragglers.find("failstop") != std::string::npos, cluster);
  }
  return absl::StrCat(
      real ? "real" : "cosim", " ", Spelled(stragglers), " ",
      absl::StrFormat("%.9g %.9g %.9g ", iteration_ms, spec.latency_us(), spec.bandwidth_mbps()),
      wire::TextOf(filled));
}

void DrawSeeds(const std::set<std::string>& kinds, Experiment* experiment) {
  Sha256 digest;
  for (const std::string& kind : kinds) {
    const std::string line = absl::StrCat(kind.size(), ":", kind);
    digest.Update(line.data(), line.size());
  }
  experiment->runs_digest = digest.HexDigest();
  std::set<uint64_t> taken;
  if (!experiment->seeds_drawn) taken.insert(experiment->seeds.begin(), experiment->seeds.end());
  size_t most = 0;  // of tuning
  for (const ResolvedSubject& subject : experiment->subjects) {
    for (const Grid& grid : subject.grids) {
      if (grid.drawn) most = std::max(most, grid.seeds.size());
      if (!grid.drawn) taken.insert(grid.seeds.begin(), grid.seeds.end());
    }
  }
  if (experiment->seeds_drawn) {
    experiment->seeds = Draw(experiment->runs_digest, "measured", experiment->seeds.size(), &taken);
  }
  const std::vector<uint64_t> tuning = Draw(experiment->runs_digest, "tuning", most, &taken);
  for (ResolvedSubject& subject : experiment->subjects) {
    for (Grid& grid : subject.grids) {
      if (grid.drawn) std::copy_n(tuning.begin(), grid.seeds.size(), grid.seeds.begin());
    }
  }
}

}  // namespace soapstone::experiment
