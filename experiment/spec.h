// Experiment: a checked experiment file, with its lists filled in and its grids resolved. Who
// calls: `soapstone experiment`, the agenda and the report. Reads no file. Job configurations are
// checked by a function of the caller's, as their rules belong to the programs that run them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consistency/traits.h"
#include "experiment/spec.pb.h"

namespace soapstone::experiment {

// Settings that tuning tries.
struct Settings {
  std::string optimizer;
  std::string schedule;
  friend bool operator==(const Settings&, const Settings&) = default;
};

struct Grid {
  std::vector<Settings> candidates;  // at least one; with one nothing is tuned
  std::vector<uint64_t> seeds;       // empty with one candidate
  bool drawn = false;                // the seeds are: nobody has chosen them
  size_t budget() const { return candidates.size() > 1 ? candidates.size() * seeds.size() : 0; }
};

struct ResolvedSubject {
  std::string name;
  wire::JobConfig written;     // base with the subject's fields
  wire::JobConfig config;      // the same, its paths relative to the working folder
  double target_accuracy = 0;  // 0: none
  std::vector<Grid> grids;     // by policy
};

struct ResolvedPolicy {
  std::string name;  // its canonical spec, with "+rebalance" where it re-balances
  consistency::PolicyTraits traits;
  bool rebalance = false;
};

struct ResolvedClaim {
  size_t faster = 0, than = 0;  // policies; of ideal_rate both the same
  size_t straggler = 0, subject = 0, workers = 0;
  Claim::Measure of = Claim::time;
  double at_least = 0;  // 0: not given
  double at_most = 0;
  friend bool operator==(const ResolvedClaim&, const ResolvedClaim&) = default;
};

struct Experiment {
  ExperimentSpec spec;  // as written
  std::string digest;   // SHA-256 of all it says, claims included; not of its comments
  // Of what its runs depend on: not of titles, claims, names, and order. Seeds are drawn from it.
  std::string runs_digest;
  std::vector<uint64_t> seeds;  // of the measured runs
  bool seeds_drawn = false;     // from runs_digest; else the author has chosen them
  std::vector<ResolvedSubject> subjects;
  std::vector<ResolvedPolicy> policies;
  std::vector<Straggler> stragglers;  // named; their paths are relative to the working folder
  std::vector<uint32_t> workers;
  std::vector<ResolvedClaim> claims;
};

// The job with its defaults filled in, or what is wrong with it.
using JobCheck = std::function<absl::StatusOr<wire::JobConfig>(const wire::JobConfig&)>;

// `name` is the file's path: paths in `text` are relative to its folder. Errors: InvalidArgument,
// "name:line:column: what" in one line: an unknown field, a policy or a
// straggler model that is none, settings that do not go together, unequal tuning budgets, no
// held-out samples, co-simulation in another precision than float32, a claim about what is not in
// the lists; what `check` says of a job.
absl::StatusOr<Experiment> ParseExperiment(const std::string& text, const std::string& name,
                                           const JobCheck& check);

// The configuration of a run of `workers` workers, but for its seed.
wire::JobConfig JobOf(const Experiment& experiment, size_t subject, size_t policy,
                      const Settings& settings, uint32_t workers);
// The time of a worker's iteration without a straggler, of so many workers.
double IterationMs(const Experiment& experiment, uint32_t workers);

}  // namespace soapstone::experiment
