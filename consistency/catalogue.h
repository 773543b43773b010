// The one list of policies: their specs, what they mean, and what is said of them. A policy that
// stands here is parsed, explored, fuzzed, trained and documented; there is no second list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/spec.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

struct PolicyEntry {
  const char* name;
  const char* usage;  // "ssp:s=N"
  absl::StatusOr<PolicyTraits> (*parse)(const Spec& spec);
  const char* rule;
  const char* formula;         // of the update
  const char* bytes_per_step;  // a worker's, M the bytes of the parameters
  const char* round_trips;     // a worker's wait for the network, per step
  const char* checker;         // what holds it to its guarantee
  // Specs that the test suites run, separated by blanks: small bounds, so that small state spaces
  // reach them.
  const char* examples;

  std::vector<std::string> Examples() const;
};
absl::Span<const PolicyEntry> PolicyCatalogue();

// Errors: InvalidArgument naming the unknown policy or argument and what there is instead.
absl::StatusOr<PolicyTraits> ParsePolicy(std::string_view spec);

// Whether the policy makes sense with so many workers. Error: InvalidArgument where backup would
// leave out all of several.
absl::Status CheckWorkers(const PolicyTraits& traits, uint32_t workers);

// All examples of the catalogue: of policies whose parameters servers keep, or workers.
std::vector<std::string> ExamplePolicies();
std::vector<std::string> ExamplePeerPolicies();

}  // namespace soapstone::consistency
