#include "experiment/report/claims.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/fair_comparison.h"

namespace soapstone::experiment {
namespace {

constexpr double kAccuracyDropMax = 0.003;  // of rule 1

std::string Describe(const Results& results, const ResolvedClaim& claim) {
  const Experiment& experiment = *results.experiment;
  const std::string& faster = experiment.policies[claim.faster].name;
  const std::string& than = experiment.policies[claim.than].name;
  const std::string number =
      absl::StrFormat("%.3g", claim.at_most > 0 ? claim.at_most : claim.at_least);
  const char* measure = claim.of == Claim::bytes ? "bytes" : "time";
  std::string text;
  if (claim.of == Claim::ideal_rate) {
    text = absl::StrCat(faster, " has at least ", number, " of the ideal update rate");
  } else if (claim.of == Claim::rate) {
    const std::string by = claim.at_most > 0    ? absl::StrCat("at most ", number, "x")
                           : claim.at_least > 0 ? absl::StrCat("at least ", number, "x")
                                                : "more than";
    text = absl::StrCat(faster, " has ", by, " the update rate of ", than);
  } else if (claim.at_most > 0) {
    text = absl::StrCat(faster, " gains at most ", number, "x in ", measure, " to the target over ",
                        than);
  } else if (claim.at_least > 0) {
    text = absl::StrCat(faster, " needs at least ", number, "x less ", measure,
                        " to the target than ", than);
  } else {
    text = absl::StrCat(faster, claim.of == Claim::bytes ? " needs fewer " : " needs less ",
                        measure, " to the target than ", than);
  }
  return absl::StrCat(text, ", under ", experiment.stragglers[claim.straggler].name(), ", ",
                      experiment.subjects[claim.subject].name, ", ",
                      experiment.workers[claim.workers], " workers");
}

// By how much each pair is beyond what is claimed, as a logarithm, by the worst its ratio can be:
//   at_most a:            log(a / most)
//   at_least a, or a = 1: log(least / a)
std::vector<double> Beyond(const RatioEstimate& ratio, const ResolvedClaim& claim) {
  std::vector<double> beyond;
  const double least = claim.at_least > 0 ? claim.at_least : 1;
  for (size_t i = 0; i < ratio.least.size(); ++i) {
    beyond.push_back(claim.at_most > 0 ? std::log(claim.at_most / ratio.most[i])
                                       : std::log(ratio.least[i] / least));
  }
  return beyond;
}

// 1 where the pairs lean the other way.
double PValue(const RatioEstimate& ratio, const ResolvedClaim& claim) {
  const std::vector<double> beyond = Beyond(ratio, claim);
  const double sum = std::accumulate(beyond.begin(), beyond.end(), 0.0);
  return sum > 0 ? SignFlipP(beyond) : 1;
}

bool SaidBy(const RatioEstimate& ratio, const ResolvedClaim& claim) {
  if (claim.at_most > 0) return ratio.high() <= claim.at_most;
  return claim.at_least > 0 ? ratio.low() >= claim.at_least : ratio.low() > 1;
}

std::string Evidence(const ResolvedClaim& claim, const Comparison& comparison,
                     const CellResult& faster, const CellResult& than, const std::string& chance) {
  const RatioText ratio = TextOf(comparison.ratio, 3);
  std::string text = absl::StrCat("ratio ", ratio.ratio, ", 95% interval ", ratio.range, " over ",
                                  comparison.pairs,
                                  claim.of == Claim::ideal_rate ? " runs; " : " pairs; ", chance);
  if (claim.of == Claim::ideal_rate) {
    return absl::StrCat(text,
                        absl::StrFormat("; final test accuracy %.4f", faster.accuracy.median));
  }
  if (claim.of != Claim::rate) {
    absl::StrAppendFormat(&text, "; reached by %d of %d and %d of %d", faster.reached,
                          faster.finished.size(), than.reached, than.finished.size());
  }
  absl::StrAppendFormat(&text, "; final test accuracy %.4f and %.4f", faster.accuracy.median,
                        than.accuracy.median);
  return text;
}

// Rule 1: a gain that is paid for with accuracy is marked, and one over a side that ends lower.
void MarkAccuracy(double drop, JudgedClaim* judged) {
  if (!(std::abs(drop) > kAccuracyDropMax)) return;
  judged->reasons.insert(
      judged->reasons.begin(),
      {.rule = 1,
       .standing = Standing::kMarked,
       .why = absl::StrFormat(
           "%s final test accuracy, seed by seed, is lower by %.2f points at the median",
           drop > 0 ? "its" : "the other's", 100 * std::abs(drop))});
}

// Text, and the rules that withhold it or mark it.
JudgedClaim Admit(const Results& results, const ResolvedClaim& claim) {
  JudgedClaim judged{.text = Describe(results, claim)};
  std::vector<Finding> marks;
  for (Finding& finding : CheckRules(results, {.subject = claim.subject,
                                              .workers = results.experiment->workers[claim.workers],
                                              .policies = {claim.faster, claim.than},
                                              .comparisons = {claim}})) {
    if (finding.standing == Standing::kFails)
      judged.reasons.push_back(std::move(finding));
    else if (finding.standing == Standing::kMarked)
      marks.push_back(std::move(finding));
  }
  if (!judged.reasons.empty()) return judged;
  judged.verdict = Verdict::kUnsupported;
  judged.reasons = std::move(marks);
  return judged;
}

Comparison ComparisonOf(const Results& results, const ResolvedClaim& claim) {
  const CellResult& faster = SideOf(results, claim, claim.faster);
  if (claim.of == Claim::ideal_rate) return CompareWithIdeal(results, faster);
  return Compare(results, faster, SideOf(results, claim, claim.than), claim.of);
}

// In place of a bound that is none.
std::string End(double value, int digits) {
  if (value == 0 || std::isinf(value)) return "unbounded";
  return absl::StrFormat("%.*f", digits, value);
}

}  // namespace

const char* VerdictText(Verdict verdict) {
  constexpr const char* kTexts[] = {"supported", "not supported", "not printed"};
  return kTexts[static_cast<size_t>(verdict)];
}

std::vector<JudgedClaim> JudgeClaims(const Results& results) {
  const std::vector<ResolvedClaim>& claims = results.experiment->claims;
  std::vector<JudgedClaim> judged;
  std::vector<double> chances;
  for (const ResolvedClaim& claim : claims) {
    judged.push_back(Admit(results, claim));
    JudgedClaim& one = judged.back();
    if (one.verdict != Verdict::kWithheld)
      one.p = PValue(ComparisonOf(results, claim).ratio, claim);
    chances.push_back(one.p);
  }
  const std::vector<double> corrected = Holm(chances);
  for (size_t i = 0; i < claims.size(); ++i) {
    JudgedClaim& one = judged[i];
    one.corrected_p = corrected[i];
    if (one.verdict == Verdict::kWithheld) continue;
    const Comparison comparison = ComparisonOf(results, claims[i]);
    const bool said = SaidBy(comparison.ratio, claims[i]) && corrected[i] <= kLevel;
    if (said) one.verdict = Verdict::kSupported;
    const std::string chance =
        absl::StrFormat("p %.3g, corrected for %d claim%s: %.3g", one.p, claims.size(),
                        claims.size() == 1 ? "" : "s", one.corrected_p);
    one.evidence = Evidence(claims[i], comparison, SideOf(results, claims[i], claims[i].faster),
                            SideOf(results, claims[i], claims[i].than), chance);
    MarkAccuracy(comparison.accuracy_drop, &one);
  }
  return judged;
}

std::vector<std::string> MissingForClaims(const Experiment& experiment) {
  constexpr size_t kStragglerKinds = 3;
  std::vector<std::string> missing;
  const size_t claims = experiment.claims.size();
  if (claims == 0) return missing;
  for (const char* name : {"bsp", "async", "ssp"}) {
    const bool any_bound = std::string_view(name) == "ssp";
    const bool there = std::ranges::any_of(experiment.policies, [&](const ResolvedPolicy& policy) {
      return any_bound ? policy.name.starts_with(name) : policy.name == name;
    });
    if (!there) missing.push_back(absl::StrCat(name, " among the policies (rule 12)"));
  }
  if (!experiment.spec.one_worker()) missing.push_back("one_worker: true (rule 12)");
  // One that no claim is about may be without.
  const auto all_claims = [&](const auto& of_subject) {
    return std::ranges::all_of(experiment.claims, [&](const ResolvedClaim& claim) {
      return of_subject(experiment.subjects[claim.subject]);
    });
  };
  const bool untuned = all_claims([](const ResolvedSubject& subject) {
    return std::ranges::any_of(subject.grids, [](const Grid& grid) { return grid.budget() == 0; });
  });
  if (untuned) missing.push_back("tuning with several candidates (rule 12)");
  if (all_claims([](const ResolvedSubject& subject) { return subject.target_accuracy <= 0; })) {
    missing.push_back("target_accuracy (rule 7)");
  }
  const size_t seeds = SeedsNeeded(claims);
  if (experiment.seeds.size() < seeds) {
    missing.push_back(absl::StrCat(seeds, " seeds for ", claims, claims == 1 ? " claim" : " claims",
                                   ", there are ", experiment.seeds.size(), " (rule 13)"));
  }
  if (experiment.stragglers.size() < kStragglerKinds) {
    missing.push_back("stragglers of three kinds: none, transient, persistent (rule 17)");
  }
  return missing;
}

RatioText TextOf(const RatioEstimate& ratio, int digits) {
  const double least = ratio.at_least.median, most = ratio.at_most.median;
  RatioText text{.range =
                     absl::StrCat(End(ratio.low(), digits), " to ", End(ratio.high(), digits))};
  if (std::isnan(least) || (least == 0 && std::isinf(most))) {
    text.ratio = "not known";
  } else if (std::isinf(most)) {
    text.ratio = absl::StrCat("above ", End(least, digits));
  } else if (least == 0) {
    text.ratio = absl::StrCat("below ", End(most, digits));
  } else if (least == most) {
    text.ratio = End(least, digits);
  } else {
    text.ratio = absl::StrCat(End(least, digits), " to ", End(most, digits));
  }
  return text;
}

}  // namespace soapstone::experiment
