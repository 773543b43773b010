#include "cluster/straggler.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "cluster/straggler_trace.h"

namespace soapstone::sim {
namespace {

using Part = StragglerPart;

constexpr double kFactorMax = 1e6;
constexpr uint64_t kPartsMax = 16;  // draws of one iteration: part i draws at clock * 16 + i
constexpr uint64_t kGroupStreams = uint64_t{1} << 63;  // of groups; below: of workers,
constexpr int kLifeBits = 32;                          // with the life of a successor above this
constexpr double kWholeMax = 1e6;
constexpr double kDurationMax = 100;  // a stall is looked back for
constexpr double kChangeMin = 1e-3;   // of enter + leave: how far bursts are looked back for

// An argument of a model: a real, or a whole number.
struct Argument {
  const char* key;
  bool needed;
  double low, high;
  double Part::*real = nullptr;
  int64_t Part::*whole = nullptr;
};

struct Rule {
  const char* name;
  StragglerKind kind;
  const char* usage;
  const char* example;
  std::vector<Argument> arguments;
};

// Who computes more slowly, and when.
std::vector<Rule> RulesOfSpeed() {
  const Argument factor = {"factor", true, 0, kFactorMax, &Part::factor};
  const Argument every = {"every", true, 1, kWholeMax, nullptr, &Part::every};
  return {
      {"none", StragglerKind::kNone, "none", "none", {}},
      {"jitter",
       StragglerKind::kJitter,
       "jitter:sigma=S",
       "jitter:sigma=0.2",
       {{"sigma", true, 0, 3, &Part::sigma}}},
      {"exponential",
       StragglerKind::kExponential,
       "exponential:rate=R",
       "exponential:rate=2",
       {{"rate", true, 1e-3, 1e6, &Part::rate}}},
      {"pareto",
       StragglerKind::kPareto,
       "pareto:alpha=A,scale=S",
       "pareto:alpha=2.5,scale=0.5",
       {{"alpha", true, 0.1, 1e3, &Part::alpha}, {"scale", true, 0, 1e3, &Part::scale}}},
      {"stall",
       StragglerKind::kStall,
       "stall:p=P,factor=F,duration=D",
       "stall:p=0.02,factor=6",
       {{"p", true, 0, 1, &Part::probability},
        factor,
        {"duration", false, 1, kDurationMax, nullptr, &Part::duration}}},
      {"periodic",
       StragglerKind::kPeriodic,
       "periodic:every=K,factor=F",
       "periodic:every=50,factor=4",
       {every, factor}},
      {"slow",
       StragglerKind::kSlow,
       "slow:workers=N,factor=F",
       "slow:workers=1,factor=2",
       {{"workers", false, 0, kWholeMax, nullptr, &Part::workers}, factor}},
      {"rotating",
       StragglerKind::kRotating,
       "rotating:workers=N,every=K,factor=F",
       "rotating:workers=32,every=100,factor=2",
       {{"workers", true, 1, kWholeMax, nullptr, &Part::workers}, every, factor}},
      {"bursts",
       StragglerKind::kBursts,
       "bursts:enter=P,leave=Q,factor=F,group=G",
       "bursts:enter=0.01,leave=0.1,factor=3,group=4",
       {{"enter", true, 0, 1, &Part::probability},
        {"leave", true, 0, 1, &Part::leave},
        factor,
        {"group", false, 1, kWholeMax, nullptr, &Part::group}}},
  };
}

// What was measured, links, and faults.
std::vector<Rule> OtherRules() {
  return {
      {"trace",
       StragglerKind::kTrace,
       "trace:file=CSV,base_us=B",
       "trace:file=trace.csv",
       {{"base_us", false, 1e-3, 1e12, &Part::base_us}}},
      {"link",
       StragglerKind::kLink,
       "link:workers=N,mbps=B,every=K,duration=D",
       "link:workers=1,mbps=100",
       {{"workers", false, 0, kWholeMax, nullptr, &Part::workers},
        {"mbps", true, 1e-3, 1e9, &Part::mbps},
        {"every", false, 1, kWholeMax, nullptr, &Part::every},
        {"duration", false, 1, kWholeMax, nullptr, &Part::duration}}},
      {"failstop",
       StragglerKind::kFailStop,
       "failstop:p=P,down_ms=T",
       "failstop:p=0.001,down_ms=1000",
       {{"p", true, 0, 1, &Part::probability}, {"down_ms", false, 0, 3.6e6, &Part::down_ms}}},
      {"nan",
       StragglerKind::kNan,
       "nan:worker=W,clock=C",
       "nan:worker=1,clock=40",
       {{"worker", true, 0, kWholeMax, nullptr, &Part::worker},
        {"clock", true, 0, kWholeMax, nullptr, &Part::clock}}},
  };
}

const std::vector<Rule>& Rules() {
  static const std::vector<Rule> kRules = [] {
    std::vector<Rule> rules = RulesOfSpeed();
    for (Rule& rule : OtherRules()) rules.push_back(std::move(rule));
    return rules;
  }();
  return kRules;
}

absl::StatusOr<const Rule*> FindRule(const Spec& spec) {
  std::vector<const char*> usages;
  for (const Rule& rule : Rules()) {
    if (spec.name == rule.name) return &rule;
    usages.push_back(rule.usage);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown straggler model '", spec.name,
                                                 "'; there are ", absl::StrJoin(usages, ", "),
                                                 ", and several joined by '+'"));
}

absl::Status NeedArgument(const Rule& rule, const Spec& spec, const char* key) {
  if (spec.arguments.contains(key)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(rule.name, " needs ", key, ", as in ", rule.example));
}

absl::Status ReadArgument(const Spec& spec, const Argument& argument, Part* part) {
  if (argument.real != nullptr) {
    SOAP_ASSIGN_OR_RETURN(part->*argument.real, spec.Real(argument.key, part->*argument.real,
                                                          argument.low, argument.high));
  } else {
    SOAP_ASSIGN_OR_RETURN(part->*argument.whole, spec.Int(argument.key, part->*argument.whole,
                                                          static_cast<int64_t>(argument.low),
                                                          static_cast<int64_t>(argument.high)));
  }
  return absl::OkStatus();
}

absl::Status CheckBursts(const Part& part) {
  const double change = part.probability + part.leave;
  if (change >= kChangeMin && change <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("bursts: enter + leave = ", change, " is outside [", kChangeMin, ", 1]"));
}

absl::StatusOr<Part> ParsePart(const Spec& spec) {
  SOAP_ASSIGN_OR_RETURN(const Rule* rule, FindRule(spec));
  std::vector<std::string> known;
  if (rule->kind == StragglerKind::kTrace) known.push_back("file");
  for (const Argument& argument : rule->arguments) known.push_back(argument.key);
  SOAP_RETURN_IF_ERROR(spec.AllowOnly(known));
  Part part{.kind = rule->kind, .spec = spec.ToString()};
  for (const Argument& argument : rule->arguments) {
    if (argument.needed) SOAP_RETURN_IF_ERROR(NeedArgument(*rule, spec, argument.key));
    SOAP_RETURN_IF_ERROR(ReadArgument(spec, argument, &part));
  }
  if (part.kind == StragglerKind::kLink && part.duration > part.every) {
    return absl::InvalidArgumentError(
        absl::StrCat("link: duration=", part.duration, " is more than every=", part.every,
                     "; leave both out for a link that is always slow"));
  }
  if (part.kind == StragglerKind::kBursts) SOAP_RETURN_IF_ERROR(CheckBursts(part));
  if (part.kind == StragglerKind::kTrace) {
    SOAP_RETURN_IF_ERROR(NeedArgument(*rule, spec, "file"));
    SOAP_ASSIGN_OR_RETURN(part.trace.Mutable(),
                          ReadStragglerTrace(spec.Text("file", ""), part.base_us));
  }
  return part;
}

}  // namespace

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
    if (part.kind == StragglerKind::kFailStop && model.fails()) {
      return absl::InvalidArgumentError("failstop is given twice");
    }
    model.parts_.push_back(std::move(part));
  }
  return model;
}

double StragglerModel::Factor(WorkerId worker, Clock clock) const {
  double factor = 1;
  for (size_t i = 0; i < parts_.size(); ++i) factor *= FactorOf(i, worker, clock);
  return std::min(factor, kFactorMax);
}

double StragglerModel::FactorOf(size_t index, WorkerId worker, Clock clock) const {
  const Part& part = parts_[index];
  const CounterRandom random(seed_, RandomUse::kStraggler, Index(worker));
  const uint64_t at = static_cast<uint64_t>(clock) * kPartsMax + index;
  const auto rank = static_cast<int64_t>(Index(worker));
  const auto when = [&part](bool hit) { return hit ? part.factor : 1; };
  switch (part.kind) {
    case StragglerKind::kNone:
    case StragglerKind::kLink:
    case StragglerKind::kFailStop:
    case StragglerKind::kNan:
      return 1;
    case StragglerKind::kJitter:
      return std::exp(part.sigma * random.Normal(at) - part.sigma * part.sigma / 2);
    case StragglerKind::kExponential:
      return 1 - std::log(1 - random.Uniform(at)) / part.rate;
    case StragglerKind::kPareto:
      return 1 + part.scale * (std::pow(1 - random.Uniform(at), -1 / part.alpha) - 1);
    case StragglerKind::kStall:
      return when(IsStalled(index, worker, clock));
    case StragglerKind::kPeriodic:
      return when((clock + rank) % part.every == part.every - 1);
    case StragglerKind::kSlow:
      return when(rank < part.workers);
    case StragglerKind::kRotating:
      return when(clock / part.every % part.workers == rank);
    case StragglerKind::kBursts:
      return when(IsInBurst(index, worker, clock));
    case StragglerKind::kTrace: {
      const std::vector<double>& factors = part.trace[Index(worker) % part.trace.size()];
      return factors[static_cast<uint64_t>(clock) % factors.size()];
    }
  }
  return 1;
}

bool StragglerModel::IsStalled(size_t index, WorkerId worker, Clock clock) const {
  const Part& part = parts_[index];
  const CounterRandom random(seed_, RandomUse::kStraggler, Index(worker));
  for (Clock c = clock; c >= 0 && c > clock - part.duration; --c) {
    if (random.Uniform(static_cast<uint64_t>(c) * kPartsMax + index) < part.probability)
      return true;
  }
  return false;
}

// At each clock one U decides: on if U < P, off if U >= 1 - Q, else as before. That is the chain
// with those two probabilities, and the last clock whose U decided tells the state.
bool StragglerModel::IsInBurst(size_t index, WorkerId worker, Clock clock) const {
  const Part& part = parts_[index];
  const uint64_t group = Index(worker) / static_cast<uint64_t>(part.group);
  const CounterRandom random(seed_, RandomUse::kStraggler, kGroupStreams | group);
  for (Clock c = clock; c >= 0; --c) {
    const double u = random.Uniform((static_cast<uint64_t>(c) + 1) * kPartsMax + index);
    if (u < part.probability) return true;
    if (u >= 1 - part.leave) return false;
  }
  // Before clock 0: the stationary state, drawn at index 0.
  return random.Uniform(index) < part.probability / (part.probability + part.leave);
}

double StragglerModel::LinkMbps(WorkerId worker, Clock clock) const {
  double least = 0;
  for (const Part& part : parts_) {
    if (part.kind != StragglerKind::kLink) continue;
    const bool slow = static_cast<int64_t>(Index(worker)) < part.workers &&
                      clock % part.every >= part.every - part.duration;
    if (slow) least = least == 0 ? part.mbps : std::min(least, part.mbps);
  }
  return least;
}

bool StragglerModel::Fails(WorkerId worker, Clock clock, Epoch life) const {
  if (Index(worker) == 0) return false;
  const uint64_t stream = static_cast<uint64_t>(life) << kLifeBits | Index(worker);
  const CounterRandom random(seed_, RandomUse::kStraggler, stream);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (part.kind != StragglerKind::kFailStop) continue;
    return random.Uniform(static_cast<uint64_t>(clock) * kPartsMax + i) < part.probability;
  }
  return false;
}

bool StragglerModel::Spoils(WorkerId worker, Clock clock) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.kind == StragglerKind::kNan && part.worker == int64_t{Index(worker)} &&
           part.clock == clock;
  });
}

Nanos StragglerModel::down_ns() const {
  for (const Part& part : parts_) {
    if (part.kind == StragglerKind::kFailStop) return std::llround(part.down_ms * kMillisecond);
  }
  return 0;
}

bool StragglerModel::Has(StragglerKind kind) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [kind](const Part& part) { return part.kind == kind; });
}

std::string StragglerModel::ToString() const {
  if (parts_.empty()) return "none";
  return absl::StrJoin(parts_, "+", [](std::string* out, const Part& part) { *out += part.spec; });
}

}  // namespace soapstone::sim
