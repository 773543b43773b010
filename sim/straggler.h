// StragglerModel: how much longer than usual an iteration takes, as a function of (worker, clock).
// Counter-based: no state, so every policy and every order of events meets the same delays (paired
// experiments). Who calls: the virtual cluster's device cost model. Knows nothing of policies.
//
//   none                    1
//   jitter:sigma=S          exp(S Z - S^2 / 2), Z standard normal: lognormal with mean 1
//   stall:p=P,factor=F      F with probability P, else 1: transient, each iteration drawn anew
//   slow:workers=N,factor=F F for workers [0, N), else 1: persistent
// Models joined by '+' multiply.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/spec.h"

namespace soapstone::sim {

class StragglerModel {
 public:
  StragglerModel() = default;
  // Errors: InvalidArgument that names the unknown model or argument and lists what there is.
  static absl::StatusOr<StragglerModel> Parse(std::string_view text, uint64_t seed);

  // Time of iteration `clock` (0-based) of `worker`, in units of the base iteration time.
  double Factor(WorkerId worker, Clock clock) const;

  std::string ToString() const;
  friend bool operator==(const StragglerModel&, const StragglerModel&) = default;

 private:
  enum class Kind : uint8_t { kNone, kJitter, kStall, kSlow };
  struct Part {
    Kind kind = Kind::kNone;
    std::string spec;  // canonical text
    double sigma = 0;
    double probability = 0;
    double factor = 1;
    uint32_t workers = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  static absl::StatusOr<Part> ParsePart(const Spec& spec);

  uint64_t seed_ = 0;
  std::vector<Part> parts_;
};

}  // namespace soapstone::sim
