#include "cluster/straggler.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/nearest_name.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "cluster/straggler_trace.h"

namespace soapstone::sim {
namespace {

constexpr double kFactorMin = 1e-3;  // time has to go on
constexpr double kFactorMax = 1e6;
constexpr uint64_t kPartsMax = 16;  // draws of one iteration: part i draws at clock * 16 + i
constexpr uint64_t kGroupStreams = uint64_t{1} << 63;  // of groups; below: of workers,
constexpr int kLifeBits = 32;                          // with the life of a successor above this
constexpr double kWholeMax = 1e6;
constexpr double kDurationMax = 100;  // a stall is looked back for
constexpr double kChangeMin = 1e-3;   // of enter + leave: how far bursts are looked back for

// An argument of a model: a real, or a whole number, and where it goes.
struct Argument {
  const char* key;
  bool needed;
  double low, high;
  std::variant<double*, int64_t*> to;
};
using Arguments = std::vector<Argument>;

Arguments ArgumentsOf(Steady*) { return {}; }
Arguments ArgumentsOf(Jitter* m) { return {{"sigma", true, 0, 3, &m->sigma}}; }
Arguments ArgumentsOf(Exponential* m) { return {{"rate", true, 1e-3, 1e6, &m->rate}}; }
Arguments ArgumentsOf(Pareto* m) {
  return {{"alpha", true, 0.1, 1e3, &m->alpha}, {"scale", true, 0, 1e3, &m->scale}};
}
Arguments ArgumentsOf(Stall* m) {
  return {{"p", true, 0, 1, &m->probability},
          {"factor", true, kFactorMin, kFactorMax, &m->factor},
          {"duration", false, 1, kDurationMax, &m->duration}};
}
Arguments ArgumentsOf(Periodic* m) {
  return {{"every", true, 1, kWholeMax, &m->every},
          {"factor", true, kFactorMin, kFactorMax, &m->factor}};
}
Arguments ArgumentsOf(Slow* m) {
  return {{"workers", false, 0, kWholeMax, &m->workers},
          {"factor", true, kFactorMin, kFactorMax, &m->factor},
          {"from", false, 0, kWholeMax, &m->from}};
}
Arguments ArgumentsOf(Rotating* m) {
  return {{"workers", true, 1, kWholeMax, &m->workers},
          {"every", true, 1, kWholeMax, &m->every},
          {"factor", true, kFactorMin, kFactorMax, &m->factor}};
}
Arguments ArgumentsOf(Bursts* m) {
  return {{"enter", true, 0, 1, &m->enter},
          {"leave", true, 0, 1, &m->leave},
          {"factor", true, kFactorMin, kFactorMax, &m->factor},
          {"group", false, 1, kWholeMax, &m->group}};
}
// Beside its file.
Arguments ArgumentsOf(Recorded* m) { return {{"base_us", false, 1e-3, 1e12, &m->base_us}}; }
Arguments ArgumentsOf(SlowLink* m) {
  return {{"workers", false, 0, kWholeMax, &m->workers},
          {"mbps", true, 1e-3, 1e9, &m->mbps},
          {"every", false, 1, kWholeMax, &m->every},
          {"duration", false, 1, kWholeMax, &m->duration}};
}
Arguments ArgumentsOf(FailStop* m) {
  return {{"p", true, 0, 1, &m->probability}, {"down_ms", false, 0, 3.6e6, &m->down_ms}};
}
Arguments ArgumentsOf(SpoiltGradient* m) {
  return {{"worker", true, 0, kWholeMax, &m->worker}, {"clock", true, 0, kWholeMax, &m->clock}};
}

struct Rule {
  const char* name;
  Straggler model;  // with its defaults
  const char* usage;
  const char* example;
};

const std::vector<Rule>& Rules() {
  static const std::vector<Rule> kRules = {
      // Who computes more slowly, and when.
      {"none", Steady{}, "none", "none"},
      {"jitter", Jitter{}, "jitter:sigma=S", "jitter:sigma=0.2"},
      {"exponential", Exponential{}, "exponential:rate=R", "exponential:rate=2"},
      {"pareto", Pareto{}, "pareto:alpha=A,scale=S", "pareto:alpha=2.5,scale=0.5"},
      {"stall", Stall{}, "stall:p=P,factor=F,duration=D", "stall:p=0.02,factor=6"},
      {"periodic", Periodic{}, "periodic:every=K,factor=F", "periodic:every=50,factor=4"},
      {"slow", Slow{}, "slow:workers=N,factor=F,from=C", "slow:workers=1,factor=2"},
      {"rotating", Rotating{}, "rotating:workers=N,every=K,factor=F",
       "rotating:workers=32,every=100,factor=2"},
      {"bursts", Bursts{}, "bursts:enter=P,leave=Q,factor=F,group=G",
       "bursts:enter=0.01,leave=0.1,factor=3,group=4"},
      // What was measured, links, and faults.
      {"trace", Recorded{}, "trace:file=CSV,base_us=B", "trace:file=trace.csv"},
      {"link", SlowLink{}, "link:workers=N,mbps=B,every=K,duration=D", "link:workers=1,mbps=100"},
      {"failstop", FailStop{}, "failstop:p=P,down_ms=T", "failstop:p=0.001,down_ms=1000"},
      {"nan", SpoiltGradient{}, "nan:worker=W,clock=C", "nan:worker=1,clock=40"},
  };
  return kRules;
}

absl::StatusOr<const Rule*> FindRule(const Spec& spec) {
  std::vector<const char*> usages;
  std::vector<std::string> names;
  for (const Rule& rule : Rules()) {
    if (spec.name == rule.name) return &rule;
    usages.push_back(rule.usage);
    names.emplace_back(rule.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown straggler model '", spec.name, "'", DidYouMean(spec.name, names),
                   "; there are ", absl::StrJoin(usages, ", "), ", and several joined by '+'"));
}

absl::Status NeedArgument(const Rule& rule, const Spec& spec, const char* key) {
  if (spec.arguments.contains(key)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(rule.name, " needs ", key, ", as in ", rule.example));
}

absl::Status ReadArgument(const Spec& spec, const Argument& argument) {
  if (double* const* real = std::get_if<double*>(&argument.to)) {
    SOAP_ASSIGN_OR_RETURN(**real, spec.Real(argument.key, **real, argument.low, argument.high));
    return absl::OkStatus();
  }
  int64_t* const whole = std::get<int64_t*>(argument.to);
  SOAP_ASSIGN_OR_RETURN(*whole, spec.Int(argument.key, *whole, static_cast<int64_t>(argument.low),
                                         static_cast<int64_t>(argument.high)));
  return absl::OkStatus();
}

absl::Status CheckBursts(const Bursts& bursts) {
  const double change = bursts.enter + bursts.leave;
  if (change >= kChangeMin && change <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("bursts: enter + leave = ", change, " is outside [", kChangeMin, ", 1]"));
}

absl::Status CheckLink(const SlowLink& link) {
  if (link.duration <= link.every) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("link: duration=", link.duration, " is more than every=", link.every,
                   "; leave both out for a link that is always slow"));
}

absl::StatusOr<StragglerPart> ParsePart(const Spec& spec) {
  SOAP_ASSIGN_OR_RETURN(const Rule* rule, FindRule(spec));
  StragglerPart part{.model = rule->model, .spec = spec.ToString()};
  auto* const recorded = std::get_if<Recorded>(&part.model);
  const Arguments arguments =
      std::visit([](auto& model) { return ArgumentsOf(&model); }, part.model);
  std::vector<std::string> known;
  if (recorded != nullptr) known.push_back("file");
  for (const Argument& argument : arguments) known.push_back(argument.key);
  SOAP_RETURN_IF_ERROR(spec.AllowOnly(known));
  for (const Argument& argument : arguments) {
    if (argument.needed) SOAP_RETURN_IF_ERROR(NeedArgument(*rule, spec, argument.key));
    SOAP_RETURN_IF_ERROR(ReadArgument(spec, argument));
  }
  if (const auto* link = std::get_if<SlowLink>(&part.model)) SOAP_RETURN_IF_ERROR(CheckLink(*link));
  if (const auto* bursts = std::get_if<Bursts>(&part.model)) {
    SOAP_RETURN_IF_ERROR(CheckBursts(*bursts));
  }
  if (recorded != nullptr) {
    SOAP_RETURN_IF_ERROR(NeedArgument(*rule, spec, "file"));
    SOAP_ASSIGN_OR_RETURN(recorded->factors.Mutable(),
                          ReadStragglerTrace(spec.Text("file", ""), recorded->base_us));
  }
  return part;
}

// The factor of one iteration, by the part with that index.
struct FactorAt {
  double operator()(const Steady&) const { return 1; }
  double operator()(const SlowLink&) const { return 1; }
  double operator()(const FailStop&) const { return 1; }
  double operator()(const SpoiltGradient&) const { return 1; }
  double operator()(const Jitter& m) const {
    return std::exp(m.sigma * random().Normal(at(clock)) - m.sigma * m.sigma / 2);
  }
  double operator()(const Exponential& m) const {
    return 1 - std::log(1 - random().Uniform(at(clock))) / m.rate;
  }
  double operator()(const Pareto& m) const {
    return 1 + m.scale * (std::pow(1 - random().Uniform(at(clock)), -1 / m.alpha) - 1);
  }
  double operator()(const Stall& m) const {
    for (Clock c = clock; c >= 0 && c > clock - m.duration; --c) {
      if (random().Uniform(at(c)) < m.probability) return m.factor;
    }
    return 1;
  }
  double operator()(const Periodic& m) const {
    return (clock + rank()) % m.every == m.every - 1 ? m.factor : 1;
  }
  double operator()(const Slow& m) const {
    return rank() < m.workers && clock >= m.from ? m.factor : 1;
  }
  double operator()(const Rotating& m) const {
    return clock / m.every % m.workers == rank() ? m.factor : 1;
  }
  double operator()(const Bursts& m) const { return IsInBurst(m) ? m.factor : 1; }
  double operator()(const Recorded& m) const {
    const std::vector<double>& factors = m.factors[Index(worker) % m.factors.size()];
    return factors[static_cast<uint64_t>(clock) % factors.size()];
  }

  // At each clock one U decides: on if U < P, off if U >= 1 - Q, else as before. That is the chain
  // with those two probabilities, and the last clock whose U decided tells the state.
  bool IsInBurst(const Bursts& m) const {
    const uint64_t group = Index(worker) / static_cast<uint64_t>(m.group);
    const CounterRandom of_group(seed, RandomUse::kStraggler, kGroupStreams | group);
    for (Clock c = clock; c >= 0; --c) {
      const double u = of_group.Uniform(at(c + 1));
      if (u < m.enter) return true;
      if (u >= 1 - m.leave) return false;
    }
    // Before clock 0: the stationary state, drawn at index 0.
    return of_group.Uniform(index) < m.enter / (m.enter + m.leave);
  }
  CounterRandom random() const { return CounterRandom(seed, RandomUse::kStraggler, Index(worker)); }
  uint64_t at(Clock c) const { return static_cast<uint64_t>(c) * kPartsMax + index; }
  int64_t rank() const { return static_cast<int64_t>(Index(worker)); }

  uint64_t seed;
  size_t index;
  WorkerId worker;
  Clock clock;
};

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
    SOAP_ASSIGN_OR_RETURN(StragglerPart part, ParsePart(spec));
    if (std::holds_alternative<FailStop>(part.model) && model.fails()) {
      return absl::InvalidArgumentError("failstop is given twice");
    }
    model.parts_.push_back(std::move(part));
  }
  return model;
}

double StragglerModel::Factor(WorkerId worker, Clock clock) const {
  double factor = 1;
  for (size_t i = 0; i < parts_.size(); ++i) {
    factor *= std::visit(FactorAt{seed_, i, worker, clock}, parts_[i].model);
  }
  return std::min(factor, kFactorMax);
}

double StragglerModel::LinkMbps(WorkerId worker, Clock clock) const {
  double least = 0;
  for (const StragglerPart& part : parts_) {
    const auto* link = std::get_if<SlowLink>(&part.model);
    if (link == nullptr) continue;
    const bool slow = static_cast<int64_t>(Index(worker)) < link->workers &&
                      clock % link->every >= link->every - link->duration;
    if (slow) least = least == 0 ? link->mbps : std::min(least, link->mbps);
  }
  return least;
}

bool StragglerModel::Fails(WorkerId worker, Clock clock, Epoch life) const {
  if (Index(worker) == 0) return false;
  const uint64_t stream = static_cast<uint64_t>(life) << kLifeBits | Index(worker);
  const CounterRandom random(seed_, RandomUse::kStraggler, stream);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const auto* fails = std::get_if<FailStop>(&parts_[i].model);
    if (fails == nullptr) continue;
    return random.Uniform(static_cast<uint64_t>(clock) * kPartsMax + i) < fails->probability;
  }
  return false;
}

bool StragglerModel::Spoils(WorkerId worker, Clock clock) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const StragglerPart& part) {
    const auto* spoilt = std::get_if<SpoiltGradient>(&part.model);
    return spoilt != nullptr && spoilt->worker == int64_t{Index(worker)} && spoilt->clock == clock;
  });
}

int64_t StragglerModel::spoilt_worker_max() const {
  int64_t most = -1;
  for (const StragglerPart& part : parts_) {
    const auto* spoilt = std::get_if<SpoiltGradient>(&part.model);
    if (spoilt != nullptr) most = std::max(most, spoilt->worker);
  }
  return most;
}

int64_t StragglerModel::workers_max() const {
  int64_t most = 0;
  for (const StragglerPart& part : parts_) {
    if (const auto* m = std::get_if<Slow>(&part.model)) most = std::max(most, m->workers);
    if (const auto* m = std::get_if<Rotating>(&part.model)) most = std::max(most, m->workers);
    if (const auto* m = std::get_if<SlowLink>(&part.model)) most = std::max(most, m->workers);
  }
  return most;
}

Nanos StragglerModel::down_ns() const {
  for (const StragglerPart& part : parts_) {
    const auto* fails = std::get_if<FailStop>(&part.model);
    if (fails != nullptr) return std::llround(fails->down_ms * kMillisecond);
  }
  return 0;
}

std::string StragglerModel::ToString() const {
  if (parts_.empty()) return "none";
  return absl::StrJoin(parts_, "+",
                       [](std::string* out, const StragglerPart& part) { *out += part.spec; });
}

}  // namespace soapstone::sim
