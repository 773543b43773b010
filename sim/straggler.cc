#include "sim/straggler.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "base/spec.h"
#include "base/status_macros.h"

namespace soapstone::sim {
namespace {

constexpr double kFactorMax = 1e6;
constexpr uint64_t kPartsMax = 16;  // draws of one iteration: part i draws at clock * 16 + i

absl::Status MustGive(const Spec& spec, const char* key, const char* example) {
  if (spec.arguments.contains(key)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(spec.name, " needs ", key, ", as in ", example));
}

}  // namespace

absl::StatusOr<StragglerModel::Part> StragglerModel::ParsePart(const Spec& spec) {
  Part part{.spec = spec.ToString()};
  if (spec.name == "none") {
    SOAP_RETURN_IF_ERROR(spec.AllowOnly({}));
    return part;
  }
  if (spec.name == "jitter") {
    SOAP_RETURN_IF_ERROR(spec.AllowOnly({"sigma"}));
    SOAP_RETURN_IF_ERROR(MustGive(spec, "sigma", "jitter:sigma=0.2"));
    SOAP_ASSIGN_OR_RETURN(part.sigma, spec.Real("sigma", 0, 0, 3));
    part.kind = Kind::kJitter;
    return part;
  }
  if (spec.name == "stall") {
    SOAP_RETURN_IF_ERROR(spec.AllowOnly({"p", "factor"}));
    SOAP_RETURN_IF_ERROR(MustGive(spec, "p", "stall:p=0.02,factor=6"));
    SOAP_RETURN_IF_ERROR(MustGive(spec, "factor", "stall:p=0.02,factor=6"));
    SOAP_ASSIGN_OR_RETURN(part.probability, spec.Real("p", 0, 0, 1));
    SOAP_ASSIGN_OR_RETURN(part.factor, spec.Real("factor", 1, 0, kFactorMax));
    part.kind = Kind::kStall;
    return part;
  }
  if (spec.name == "slow") {
    SOAP_RETURN_IF_ERROR(spec.AllowOnly({"workers", "factor"}));
    SOAP_RETURN_IF_ERROR(MustGive(spec, "factor", "slow:workers=1,factor=2"));
    SOAP_ASSIGN_OR_RETURN(const int64_t workers, spec.Int("workers", 1, 0, 1'000'000));
    SOAP_ASSIGN_OR_RETURN(part.factor, spec.Real("factor", 1, 0, kFactorMax));
    part.workers = static_cast<uint32_t>(workers);
    part.kind = Kind::kSlow;
    return part;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown straggler model '", spec.name,
                   "'; there are none, jitter:sigma=S, stall:p=P,factor=F, "
                   "slow:workers=N,factor=F, and several joined by '+'"));
}

absl::StatusOr<StragglerModel> StragglerModel::Parse(std::string_view text, uint64_t seed) {
  SOAP_ASSIGN_OR_RETURN(const std::vector<Spec> specs, Spec::ParseList(text));
  if (specs.size() > kPartsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kPartsMax, " straggler models joined by '+'"));
  }
  StragglerModel model;
  model.seed_ = seed;
  for (const Spec& spec : specs) {
    SOAP_ASSIGN_OR_RETURN(Part part, ParsePart(spec));
    model.parts_.push_back(std::move(part));
  }
  return model;
}

double StragglerModel::Factor(WorkerId worker, Clock clock) const {
  const CounterRandom random(seed_, RandomUse::kStraggler, Index(worker));
  double factor = 1;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const uint64_t at = static_cast<uint64_t>(clock) * kPartsMax + i;
    switch (part.kind) {
      case Kind::kNone:
        break;
      case Kind::kJitter:
        factor *= std::exp(part.sigma * random.Normal(at) - part.sigma * part.sigma / 2);
        break;
      case Kind::kStall:
        if (random.Uniform(at) < part.probability) factor *= part.factor;
        break;
      case Kind::kSlow:
        if (Index(worker) < part.workers) factor *= part.factor;
        break;
    }
  }
  return factor;
}

std::string StragglerModel::ToString() const {
  if (parts_.empty()) return "none";
  return absl::StrJoin(parts_, "+", [](std::string* out, const Part& part) { *out += part.spec; });
}

}  // namespace soapstone::sim
