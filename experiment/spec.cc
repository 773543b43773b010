#include "experiment/spec.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "base/spec.h"
#include "base/status_macros.h"
#include "cluster/job_paths.h"
#include "cluster/straggler.h"
#include "consistency/catalogue.h"
#include "experiment/grids.h"
#include "experiment/seeds.h"
#include "wire/config/text_config.h"

namespace soapstone::experiment {
namespace {

using Places = wire::TextPlaces;

constexpr uint32_t kWorkersMax = 100'000;
constexpr size_t kRunsMax = 100'000;
constexpr uint32_t kSeedsMax = 1000;
constexpr char kRebalance[] = "+rebalance";

absl::Status At(const std::string& place, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", what));
}

// One pass over a file: spec_ and places_ in, experiment_ out.
class Resolver {
 public:
  Resolver(const Places& places, std::string folder, Experiment* experiment)
      : places_(places),
        folder_(std::move(folder)),
        experiment_(*experiment),
        spec_(experiment->spec) {}

  absl::Status Run(const JobCheck& check) {
    SOAP_RETURN_IF_ERROR(Numbers());
    SOAP_RETURN_IF_ERROR(Policies());
    SOAP_RETURN_IF_ERROR(Stragglers());
    SOAP_RETURN_IF_ERROR(Workers());
    SOAP_RETURN_IF_ERROR(Seeds());
    SOAP_RETURN_IF_ERROR(Subjects());
    SOAP_RETURN_IF_ERROR(Jobs(check));
    DrawSeeds(meanings_, &experiment_);
    return Claims();
  }

 private:
  absl::Status Numbers();
  absl::Status Policies();
  absl::Status Stragglers();
  absl::Status Workers();
  absl::Status Seeds();
  absl::Status Subjects();
  absl::Status HeldOut(int subject, const wire::JobConfig& config);
  absl::Status Delays(int subject, const wire::JobConfig& config) const;
  absl::Status Budgets(int subject);
  absl::StatusOr<Grid> GridOf(const Tuning& tuning, const std::string& place,
                              const wire::JobConfig& config);
  absl::Status Jobs(const JobCheck& check);
  absl::Status OneJob(size_t subject, size_t policy, const Settings& settings, uint32_t workers,
                      const JobCheck& check);
  absl::Status Claims();
  absl::Status OneClaim(int i);
  absl::StatusOr<size_t> PolicyOf(int claim, const char* field, const std::string& text) const;
  // Where `wanted` is in a list, which a claim's field speaks of.
  template <typename Items, typename NameOf>
  absl::StatusOr<size_t> Find(int claim, const char* field, const std::string& wanted,
                              const Items& items, const NameOf& name_of) const {
    const auto found = std::find_if(items.begin(), items.end(),
                                    [&](const auto& item) { return name_of(item) == wanted; });
    if (found != items.end()) return static_cast<size_t>(found - items.begin());
    return At(places_.Of({{"claims", claim}, {field}}),
              absl::StrCat("claims.", field, ": \"", wanted, "\" is not in this experiment"));
  }
  std::string PlaceOfSubject(int subject) const {
    return spec_.subjects().empty() ? places_.Of({{"base"}}) : places_.Of({{"subjects", subject}});
  }
  std::string PlaceOfTuning(int subject, int policy) const;

  const Places& places_;
  const std::string folder_;  // of the file
  Experiment& experiment_;
  const ExperimentSpec& spec_;
  std::set<std::string> meanings_;  // of all kinds of runs, for their digest
};

absl::Status Resolver::Numbers() {
  if (spec_.title().empty()) return At(places_.Of({}), "title: the experiment needs one");
  const auto within = [&](double value, const char* field, double low, double high) {
    if (value >= low && value <= high) return absl::OkStatus();
    return At(places_.Of({{field}}),
              absl::StrCat(field, ": ", value, " is not within ", low, " and ", high));
  };
  SOAP_RETURN_IF_ERROR(within(spec_.target_accuracy(), "target_accuracy", 0, 1));
  if (spec_.iteration_ms() != 0) {
    SOAP_RETURN_IF_ERROR(within(spec_.iteration_ms(), "iteration_ms", 1e-3, 1e6));
  }
  SOAP_RETURN_IF_ERROR(within(spec_.latency_us(), "latency_us", 0, 1e9));
  if (spec_.bandwidth_mbps() != 0) {  // 0: no limit
    SOAP_RETURN_IF_ERROR(within(spec_.bandwidth_mbps(), "bandwidth_mbps", 0.001, 1e9));
  }
  if (spec_.mode() == ExperimentSpec::cosim && spec_.iteration_ms() == 0) {
    return At(places_.Of({}), "iteration_ms: co-simulation needs the time of an iteration");
  }
  if (spec_.mode() == ExperimentSpec::real) {
    for (const char* field : {"latency_us", "bandwidth_mbps"}) {
      if (!places_.Has({{field}})) continue;
      return At(places_.Of({{field}}), absl::StrCat(field, ": only for mode: cosim"));
    }
  }
  return absl::OkStatus();
}

absl::Status Resolver::Policies() {
  if (spec_.policies().empty()) return At(places_.Of({}), "policies: at least one is needed");
  std::set<std::string> seen;
  for (int i = 0; i < spec_.policies_size(); ++i) {
    const std::string place = places_.Of({{"policies", i}, {"spec"}});
    absl::StatusOr<consistency::PolicyTraits> traits =
        consistency::ParsePolicy(spec_.policies(i).spec());
    if (!traits.ok()) {
      return At(place, absl::StrCat("policies.spec: ", traits.status().message()));
    }
    const bool rebalance = spec_.policies(i).rebalance();
    const std::string name = absl::StrCat(traits->spec, rebalance ? kRebalance : "");
    if (!seen.insert(name).second) {
      return At(place, absl::StrCat("policies: ", name, " is listed twice"));
    }
    experiment_.policies.push_back({name, *std::move(traits), rebalance});
  }
  if (spec_.one_worker() && !seen.contains("bsp")) {
    return At(places_.Of({{"one_worker"}}), "one_worker: it runs bsp, which is not among policies");
  }
  return absl::OkStatus();
}

absl::Status Resolver::Stragglers() {
  std::set<std::string> names;
  std::map<std::string, std::string> models;  // as text, and who has it
  for (int i = 0; i < spec_.stragglers_size(); ++i) {
    Straggler straggler = spec_.stragglers(i);
    if (straggler.name().empty()) straggler.set_name(straggler.model());
    straggler.set_model(apps::StragglersFromFolder(folder_, straggler.model()));
    const auto model = sim::StragglerModel::Parse(straggler.model(), 0);
    if (!model.ok()) {
      return At(places_.Of({{"stragglers", i}, {"model"}}),
                absl::StrCat("stragglers.model: ", model.status().message()));
    }
    if (model->fails() && spec_.mode() == ExperimentSpec::real) {
      return At(places_.Of({{"stragglers", i}, {"model"}}),
                "stragglers.model: failstop goes with co-simulated runs: a real worker that fails "
                "takes its part of the learning curve along");
    }
    if (const auto [same, fresh] = models.try_emplace(model->ToString(), straggler.name());
        !fresh) {
      return At(places_.Of({{"stragglers", i}}),
                absl::StrCat("stragglers: ", straggler.name(), " is the model of ", same->second));
    }
    if (!names.insert(straggler.name()).second) {
      return At(places_.Of({{"stragglers", i}}),
                absl::StrCat("stragglers: two are named ", straggler.name()));
    }
    experiment_.stragglers.push_back(std::move(straggler));
  }
  if (experiment_.stragglers.empty()) {
    experiment_.stragglers.emplace_back().set_name("none");
    experiment_.stragglers.back().set_model("none");
  }
  return absl::OkStatus();
}

absl::Status Resolver::Workers() {
  experiment_.workers.assign(spec_.workers().begin(), spec_.workers().end());
  if (experiment_.workers.empty()) {
    experiment_.workers.push_back(spec_.base().cluster().workers());
  }
  std::set<uint32_t> seen;
  for (size_t i = 0; i < experiment_.workers.size(); ++i) {
    const uint32_t workers = experiment_.workers[i];
    const std::string place = places_.Of({{"workers", static_cast<int>(i)}});
    if (workers < 1 || workers > kWorkersMax) {
      return At(place, absl::StrCat("workers: ", workers, " is not within 1 and ", kWorkersMax));
    }
    if (!seen.insert(workers).second) {
      return At(place, absl::StrCat("workers: ", workers, " is listed twice"));
    }
  }
  if (experiment_.workers.size() > 1 && spec_.scaling() == ExperimentSpec::unnamed) {
    return At(places_.Of({{"workers", 1}}),
              "workers: several need scaling: strong (the same global batch) or weak (it grows) "
              "(rule 11)");
  }
  return absl::OkStatus();
}

absl::Status Resolver::Seeds() {
  if (spec_.seed_count() > 0) {
    if (!spec_.seeds().empty() || spec_.seed_count() > kSeedsMax) {
      return At(places_.Of({{"seed_count"}}),
                absl::StrCat("seed_count: it goes without seeds, and is ", kSeedsMax, " at most"));
    }
    experiment_.seeds_drawn = true;
    experiment_.seeds.resize(spec_.seed_count());  // drawn when all runs are known
    return absl::OkStatus();
  }
  if (spec_.seeds().empty()) {
    return At(places_.Of({}), "seed_count: at least one seed is needed");
  }
  experiment_.seeds.assign(spec_.seeds().begin(), spec_.seeds().end());
  std::set<uint64_t> measured;
  for (int i = 0; i < spec_.seeds_size(); ++i) {
    if (measured.insert(spec_.seeds(i)).second) continue;
    return At(places_.Of({{"seeds", i}}),
              absl::StrCat("seeds: ", spec_.seeds(i), " is listed twice"));
  }
  return absl::OkStatus();
}

// Rule 2 of honesty.h, as far as the file tells.
absl::Status Resolver::HeldOut(int subject, const wire::JobConfig& config) {
  const bool own = !spec_.subjects().empty() &&
                   places_.Has({{"subjects", subject}, {"job"}, {"data"}, {"test_fraction"}});
  const bool given = own || places_.Has({{"base"}, {"data"}, {"test_fraction"}});
  const std::string place =
      own ? places_.Of({{"subjects", subject}, {"job"}, {"data"}, {"test_fraction"}})
          : places_.Of({{"base"}, {"data"}, {"test_fraction"}});
  const wire::Data& data = config.data();
  if (given && data.test_path().empty() && data.test_fraction() == 0) {
    return At(place,
              "test_fraction: 0 leaves no held-out samples; accuracy is of held-out "
              "samples only (rule 2)");
  }
  if (!data.test_path().empty() && data.test_path() == data.path()) {
    return At(PlaceOfSubject(subject),
              "data.test_path: the training data themselves; accuracy is of held-out samples "
              "only (rule 2)");
  }
  return absl::OkStatus();
}

// Each has one place: the same file means the same in both modes.
absl::Status Resolver::Delays(int subject, const wire::JobConfig& config) const {
  const auto error = [&](const char* what) { return At(PlaceOfSubject(subject), what); };
  const wire::Training& training = config.training();
  if (!training.stragglers().empty()) {
    return error("training.stragglers: in an experiment they are the list `stragglers`");
  }
  if (training.base_ms() != 0) {
    return error("training.base_ms: in an experiment it is iteration_ms");
  }
  const std::string& precision = config.cluster().precision();
  if (spec_.mode() == ExperimentSpec::cosim && !precision.empty() && precision != "float32") {
    return error("cluster.precision: co-simulation computes in float32; take mode: real (rule 7)");
  }
  if (config.cluster().rebalance()) {
    return error("cluster.rebalance: in an experiment it is a policy's: policies { rebalance }");
  }
  return absl::OkStatus();
}

absl::StatusOr<Grid> Resolver::GridOf(const Tuning& tuning, const std::string& place,
                                      const wire::JobConfig& config) {
  Grid grid;
  absl::StatusOr<std::vector<Settings>> candidates = CandidatesOf(tuning, config.training());
  if (!candidates.ok()) return At(place, std::string(candidates.status().message()));
  grid.candidates = *std::move(candidates);
  if (grid.candidates.size() == 1) return grid;
  const bool own = !tuning.seeds().empty() || tuning.seed_count() > 0;
  const Tuning& chosen = own ? tuning : spec_.tuning();
  if (chosen.seed_count() > 0) {
    if (!chosen.seeds().empty() || chosen.seed_count() > kSeedsMax) {
      return At(place, absl::StrCat("tuning.seed_count: it goes without seeds, and is ", kSeedsMax,
                                    " at most"));
    }
    grid.drawn = true;
    grid.seeds.resize(chosen.seed_count());
    return grid;
  }
  if (chosen.seeds().empty()) return At(place, "tuning.seed_count: at least one seed is needed");
  for (const uint64_t seed : chosen.seeds()) {
    if (std::count(spec_.seeds().begin(), spec_.seeds().end(), seed) > 0) {
      return At(place, absl::StrCat("tuning.seeds: ", seed, " is a measured seed too"));
    }
    grid.seeds.push_back(seed);
  }
  return grid;
}

std::string Resolver::PlaceOfTuning(int subject, int policy) const {
  if (spec_.policies(policy).has_tuning()) return places_.Of({{"policies", policy}, {"tuning"}});
  if (!spec_.subjects().empty() && spec_.subjects(subject).has_tuning()) {
    return places_.Of({{"subjects", subject}, {"tuning"}});
  }
  return places_.Of({{"tuning"}});
}

// Rule 14: a policy that is tried with more settings wins by that.
absl::Status Resolver::Budgets(int subject) {
  const std::vector<Grid>& grids = experiment_.subjects[static_cast<size_t>(subject)].grids;
  for (size_t i = 1; i < grids.size(); ++i) {
    if (grids[i].budget() == grids[0].budget()) continue;
    return At(PlaceOfTuning(subject, static_cast<int>(i)),
              absl::StrCat("tuning: ", experiment_.policies[i].name, " has ", grids[i].budget(),
                           " tuning runs, ", experiment_.policies[0].name, " has ",
                           grids[0].budget(), "; the budgets must be equal (rule 14)"));
  }
  return absl::OkStatus();
}

absl::Status Resolver::Subjects() {
  std::set<std::string> names;
  const int count = std::max(1, spec_.subjects_size());
  for (int i = 0; i < count; ++i) {
    const Subject entry = spec_.subjects().empty() ? Subject() : spec_.subjects(i);
    ResolvedSubject subject{.written = spec_.base(), .target_accuracy = spec_.target_accuracy()};
    subject.written.MergeFrom(entry.job());
    subject.config = subject.written;
    apps::FromFolder(folder_, &subject.config);
    subject.name = entry.name().empty() ? subject.written.model() : entry.name();
    if (entry.target_accuracy() != 0) subject.target_accuracy = entry.target_accuracy();
    if (!(subject.target_accuracy >= 0 && subject.target_accuracy < 1)) {
      return At(PlaceOfSubject(i), "target_accuracy: not between 0 and 1");
    }
    if (!names.insert(subject.name).second) {
      return At(PlaceOfSubject(i), absl::StrCat("subjects: two are named ", subject.name));
    }
    SOAP_RETURN_IF_ERROR(HeldOut(i, subject.config));
    SOAP_RETURN_IF_ERROR(Delays(i, subject.config));
    for (int p = 0; p < spec_.policies_size(); ++p) {
      const Tuning& tuning = spec_.policies(p).has_tuning() ? spec_.policies(p).tuning()
                             : entry.has_tuning()           ? entry.tuning()
                                                            : spec_.tuning();
      SOAP_ASSIGN_OR_RETURN(Grid grid, GridOf(tuning, PlaceOfTuning(i, p), subject.config));
      subject.grids.push_back(std::move(grid));
    }
    experiment_.subjects.push_back(std::move(subject));
    SOAP_RETURN_IF_ERROR(Budgets(i));
  }
  return absl::OkStatus();
}

absl::Status Resolver::OneJob(size_t subject, size_t policy, const Settings& settings,
                              uint32_t workers, const JobCheck& check) {
  const absl::StatusOr<wire::JobConfig> filled =
      check(JobOf(experiment_, subject, policy, settings, workers));
  if (!filled.ok()) {
    return At(
        PlaceOfSubject(static_cast<int>(subject)),
        absl::StrCat(experiment_.subjects[subject].name, ", ", experiment_.policies[policy].name,
                     ", ", workers, " workers: ", filled.status().message()));
  }
  for (const Straggler& straggler : experiment_.stragglers) {
    const bool fresh =
        meanings_
            .insert(KindOfRun(*filled, straggler.model(), spec_, IterationMs(experiment_, workers)))
            .second;
    if (fresh) continue;
    // They would be one run, and claims would compare it with itself.
    return At(PlaceOfSubject(static_cast<int>(subject)),
              absl::StrCat("the runs of ", experiment_.subjects[subject].name, ", ",
                           experiment_.policies[policy].name, ", ", workers,
                           " workers are those of another row: leave one of them out"));
  }
  return absl::OkStatus();
}

absl::Status Resolver::Jobs(const JobCheck& check) {
  size_t runs = 0;
  for (size_t s = 0; s < experiment_.subjects.size(); ++s) {
    for (size_t p = 0; p < experiment_.policies.size(); ++p) {
      const Grid& grid = experiment_.subjects[s].grids[p];
      runs += experiment_.stragglers.size() * experiment_.workers.size() *
              (grid.budget() + experiment_.seeds.size());
      std::vector<uint32_t> counts = experiment_.workers;
      if (spec_.one_worker() && !std::ranges::count(counts, 1u)) counts.push_back(1);
      for (const Settings& settings : grid.candidates) {
        for (const uint32_t workers : counts) {
          SOAP_RETURN_IF_ERROR(OneJob(s, p, settings, workers, check));
        }
      }
    }
  }
  if (runs <= kRunsMax) return absl::OkStatus();
  return At(places_.Of({}), absl::StrCat(runs, " runs are more than ", kRunsMax));
}

absl::StatusOr<size_t> Resolver::PolicyOf(int claim, const char* field,
                                          const std::string& text) const {
  const std::string spec(absl::StripSuffix(text, kRebalance));
  const auto traits = consistency::ParsePolicy(spec);
  const std::string name =
      absl::StrCat(traits.ok() ? traits->spec : spec, text == spec ? "" : kRebalance);
  return Find(claim, field, name, experiment_.policies,
              [](const ResolvedPolicy& policy) { return policy.name; });
}

absl::Status Resolver::OneClaim(int i) {
  const Claim& claim = spec_.claims(i);
  ResolvedClaim resolved{
      .of = claim.of(), .at_least = claim.at_least(), .at_most = claim.at_most()};
  const auto error = [&](const char* what) {
    return At(places_.Of({{"claims", i}}), absl::StrCat("claims: ", what));
  };
  SOAP_ASSIGN_OR_RETURN(resolved.faster, PolicyOf(i, "faster", claim.faster()));
  resolved.than = resolved.faster;
  if (claim.of() != Claim::ideal_rate) {
    SOAP_ASSIGN_OR_RETURN(resolved.than, PolicyOf(i, "than", claim.than()));
    if (resolved.than == resolved.faster) return error("faster and than are one policy");
  } else if (!claim.than().empty() || claim.at_least() == 0 || spec_.iteration_ms() == 0) {
    return error("of: ideal_rate goes without than, with at_least, and with iteration_ms");
  }
  const auto named = [](const auto& item) { return std::string(item.name()); };
  if (!claim.under().empty()) {
    SOAP_ASSIGN_OR_RETURN(resolved.straggler,
                          Find(i, "under", claim.under(), experiment_.stragglers, named));
  }
  if (claim.of() == Claim::ideal_rate) {
    const std::string& text = experiment_.stragglers[resolved.straggler].model();
    const auto model = sim::StragglerModel::Parse(text, 0);
    if (model.ok() && (model->fails() || model->limits_links())) {
      return error("of: ideal_rate is of models that slow computing, not of link or failstop");
    }
  }
  if (!claim.subject().empty()) {
    SOAP_ASSIGN_OR_RETURN(resolved.subject,
                          Find(i, "subject", claim.subject(), experiment_.subjects,
                               [](const ResolvedSubject& subject) { return subject.name; }));
  }
  if (claim.workers() != 0) {
    SOAP_ASSIGN_OR_RETURN(resolved.workers,
                          Find(i, "workers", absl::StrCat(claim.workers()), experiment_.workers,
                               [](uint32_t workers) { return absl::StrCat(workers); }));
  }
  const double least = claim.at_least(), most = claim.at_most(), factor = std::max(least, most);
  const bool slower = claim.of() != Claim::ideal_rate && factor > 0 && factor < 1;
  if (slower || !std::isfinite(least + most) || least < 0 || most < 0 || least * most > 0) {
    return error("give one of at_least and at_most, or neither; a ratio of 1 or more");
  }
  if (std::ranges::count(experiment_.claims, resolved)) return error("one is listed twice");
  experiment_.claims.push_back(resolved);
  return absl::OkStatus();
}

absl::Status Resolver::Claims() {
  for (int i = 0; i < spec_.claims_size(); ++i) SOAP_RETURN_IF_ERROR(OneClaim(i));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Experiment> ParseExperiment(const std::string& text, const std::string& name,
                                           const JobCheck& check) {
  Experiment experiment;
  Places places;
  SOAP_RETURN_IF_ERROR(wire::ParseTextConfig(text, name, &experiment.spec, &places));
  const std::string folder = std::filesystem::path(name).parent_path().string();
  SOAP_RETURN_IF_ERROR(Resolver(places, folder, &experiment).Run(check));
  const std::string canonical = wire::TextOf(experiment.spec);
  Sha256 digest;
  digest.Update(canonical.data(), canonical.size());
  experiment.digest = digest.HexDigest();
  return experiment;
}

wire::JobConfig JobOf(const Experiment& experiment, size_t subject, size_t policy,
                      const Settings& settings, uint32_t workers) {
  wire::JobConfig config = experiment.subjects[subject].config;
  config.set_policy(experiment.policies[policy].traits.spec);
  config.clear_output();
  wire::Training* training = config.mutable_training();
  if (!settings.optimizer.empty()) training->set_optimizer(settings.optimizer);
  if (!settings.schedule.empty()) training->set_schedule(settings.schedule);
  if (experiment.spec.scaling() == ExperimentSpec::weak) {
    const uint64_t batch = uint64_t{training->batch()} * workers / experiment.workers.front();
    training->set_batch(static_cast<uint32_t>(batch));
  }
  config.mutable_cluster()->set_workers(workers);
  if (experiment.policies[policy].rebalance) config.mutable_cluster()->set_rebalance(true);
  return config;
}

// An iteration takes as long as its samples: with strong scaling, more workers have fewer each.
double IterationMs(const Experiment& experiment, uint32_t workers) {
  const ExperimentSpec& spec = experiment.spec;
  if (spec.scaling() == ExperimentSpec::weak) return spec.iteration_ms();
  return spec.iteration_ms() * experiment.workers.front() / workers;
}

}  // namespace soapstone::experiment
