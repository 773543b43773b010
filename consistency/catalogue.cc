#include "consistency/catalogue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace soapstone::consistency {
namespace {

constexpr Clock kBoundMax = 1'000'000'000;
constexpr Clock kDynamicBoundMax = 1'000;
constexpr uint32_t kWorkersMax = 1'000'000;

absl::StatusOr<PolicyTraits> ParseBsp(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({}));
  return PolicyTraits{
      .spec = "bsp",
      .gate = RoundTraits{},
      .fixed_tree = true,
      .guarantee = {
          .read_lag_max = 0, .clock_gap_max = 1, .snapshot_reads = true, .sequential_bits = true}};
}

// The bound s of ssp and essp.
absl::StatusOr<Clock> ParseBound(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"s"}));
  if (!spec.arguments.contains("s")) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.name, " needs its staleness bound, as in ", spec.name, ":s=2"));
  }
  return spec.Int("s", 0, 0, kBoundMax);
}
absl::StatusOr<PolicyTraits> ParseSsp(const Spec& spec) {
  SOAP_ASSIGN_OR_RETURN(const Clock s, ParseBound(spec));
  return PolicyTraits{.spec = absl::StrCat("ssp:s=", s),
                      .gate = BoundedTraits{.bound = s},
                      .guarantee = {.read_lag_max = s, .clock_gap_max = s + 1}};
}
absl::StatusOr<PolicyTraits> ParseEssp(const Spec& spec) {
  SOAP_ASSIGN_OR_RETURN(const Clock s, ParseBound(spec));
  return PolicyTraits{.spec = absl::StrCat("essp:s=", s),
                      .gate = SubscribedTraits{.bound = s},
                      .guarantee = {.read_lag_max = s, .clock_gap_max = s + 1}};
}

absl::StatusOr<PolicyTraits> ParseDssp(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"lower", "upper"}));
  SOAP_ASSIGN_OR_RETURN(const Clock lower, spec.Int("lower", 1, 0, kDynamicBoundMax));
  SOAP_ASSIGN_OR_RETURN(const Clock upper, spec.Int("upper", 8, lower, kDynamicBoundMax));
  return PolicyTraits{.spec = absl::StrCat("dssp:lower=", lower, ",upper=", upper),
                      .gate = DynamicTraits{.lower = lower, .upper = upper},
                      .guarantee = {.read_lag_max = upper, .clock_gap_max = upper + 1}};
}

absl::StatusOr<PolicyTraits> ParsePsp(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"sample", "s", "seed"}));
  SOAP_ASSIGN_OR_RETURN(const int64_t sample, spec.Int("sample", 1, 1, kWorkersMax));
  SOAP_ASSIGN_OR_RETURN(const Clock s, spec.Int("s", 0, 0, kBoundMax));
  SOAP_ASSIGN_OR_RETURN(const int64_t seed, spec.Int("seed", 1, 0, kBoundMax));
  return PolicyTraits{.spec = absl::StrCat("psp:sample=", sample, ",s=", s, ",seed=", seed),
                      .gate = SampledTraits{.bound = s,
                                            .sample = static_cast<uint32_t>(sample),
                                            .seed = static_cast<uint64_t>(seed)}};
}

absl::StatusOr<PolicyTraits> ParsePssp(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"s", "p", "seed"}));
  SOAP_ASSIGN_OR_RETURN(const Clock s, spec.Int("s", 2, 0, kBoundMax));
  SOAP_ASSIGN_OR_RETURN(const double p, spec.Real("p", 0.5, 0, 1));
  SOAP_ASSIGN_OR_RETURN(const int64_t seed, spec.Int("seed", 1, 0, kBoundMax));
  PolicyTraits traits{.spec = absl::StrCat("pssp:s=", s, ",p=", p, ",seed=", seed),
                      .gate = SampledTraits{
                          .bound = s, .block_probability = p, .seed = static_cast<uint64_t>(seed)}};
  if (p == 1) traits.guarantee = {.read_lag_max = s, .clock_gap_max = s + 1};
  return traits;
}

absl::StatusOr<PolicyTraits> ParseAsync(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({}));
  return PolicyTraits{.spec = "async"};
}

absl::StatusOr<PolicyTraits> ParseSoftsync(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"n", "rate"}));
  SOAP_ASSIGN_OR_RETURN(const int64_t n, spec.Int("n", 1, 1, kWorkersMax));
  const std::string rate = spec.Text("rate", "mean");
  if (rate != "mean" && rate != "each") {
    return absl::InvalidArgumentError(
        absl::StrCat("softsync: rate=", rate, " is unknown; it is mean or each"));
  }
  return PolicyTraits{
      .spec = absl::StrCat("softsync:n=", n, ",rate=", rate),
      .gate = BatchTraits{.batches = static_cast<uint32_t>(n), .rate_each = rate == "each"},
      .guarantee = {.own_writes = false}};
}

absl::StatusOr<PolicyTraits> ParseBackup(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"b"}));
  SOAP_ASSIGN_OR_RETURN(const int64_t b, spec.Int("b", 1, 0, kWorkersMax));
  return PolicyTraits{.spec = absl::StrCat("backup:b=", b),
                      .gate = BackupTraits{.spare = static_cast<uint32_t>(b)},
                      .fixed_tree = true,
                      .store = OptimizerRule{.mean = true},
                      .guarantee = {.read_lag_max = 0,
                                    .snapshot_reads = true,
                                    .own_writes = false,
                                    .left_out_max = static_cast<uint32_t>(b)}};
}

absl::StatusOr<PolicyTraits> ParseTree(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"group", "s"}));
  SOAP_ASSIGN_OR_RETURN(const int64_t group, spec.Int("group", 2, 1, kWorkersMax));
  SOAP_ASSIGN_OR_RETURN(const Clock s, spec.Int("s", 1, 0, kBoundMax));
  return PolicyTraits{.spec = absl::StrCat("tree:group=", group, ",s=", s),
                      .gate = BoundedTraits{.bound = s},
                      .exchange = GradientExchange{.group = static_cast<uint32_t>(group)},
                      .fixed_tree = true,
                      .guarantee = {.read_lag_max = s, .clock_gap_max = s + 1}};
}

absl::StatusOr<PolicyTraits> ParseDcasgd(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"lambda", "m"}));
  SOAP_ASSIGN_OR_RETURN(const double lambda, spec.Real("lambda", 0.04, 0, 1e6));
  SOAP_ASSIGN_OR_RETURN(const double m, spec.Real("m", 0, 0, 0.999999));
  return PolicyTraits{.spec = absl::StrCat("dcasgd:lambda=", lambda, ",m=", m),
                      .store = CompensatedRule{.lambda = lambda, .mean_decay = m}};
}

absl::StatusOr<PolicyTraits> ParseValue(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"v0"}));
  SOAP_ASSIGN_OR_RETURN(const double v0, spec.Real("v0", 0.1, 0, 1e9));
  return PolicyTraits{.spec = absl::StrCat("value:v0=", v0),
                      .gate = ValueTraits{.value = v0},
                      .guarantee = {.unseen_max = v0}};
}

// Rounds of replicas that keep their own parameters between exchanges.
void MakeRounds(PolicyTraits* traits) {
  traits->gate = RoundTraits{};
  traits->guarantee.read_lag_max = 0;
  traits->guarantee.clock_gap_max = 1;
  traits->guarantee.snapshot_reads = true;
}

absl::StatusOr<PolicyTraits> ParseElastic(const Spec& spec, double local_momentum) {
  SOAP_ASSIGN_OR_RETURN(const Clock tau, spec.Int("tau", 10, 1, kBoundMax));
  SOAP_ASSIGN_OR_RETURN(const double beta, spec.Real("beta", 0.9, 0, 1));
  const std::string mode = spec.Text("mode", "async");
  if (mode != "sync" && mode != "async") {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.name, ": mode=", mode, " is unknown; it is sync or async"));
  }
  PolicyTraits traits{
      .spec = absl::StrCat(spec.name, ":tau=", tau, ",beta=", beta, ",mode=", mode),
      .exchange = ElasticExchange{.period = tau, .beta = beta, .local_momentum = local_momentum},
      .store = ElasticRule{},
      .guarantee = {.conserves_sum = true}};
  if (mode == "sync") MakeRounds(&traits);
  return traits;
}
absl::StatusOr<PolicyTraits> ParseEasgd(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"tau", "beta", "mode"}));
  return ParseElastic(spec, 0);
}
absl::StatusOr<PolicyTraits> ParseEamsgd(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"tau", "beta", "mode", "delta"}));
  SOAP_ASSIGN_OR_RETURN(const double delta, spec.Real("delta", 0.99, 0, 0.999999));
  SOAP_ASSIGN_OR_RETURN(PolicyTraits traits, ParseElastic(spec, delta));
  absl::StrAppend(&traits.spec, ",delta=", delta);
  return traits;
}

absl::StatusOr<PolicyTraits> ParseLocalSgd(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"h"}));
  SOAP_ASSIGN_OR_RETURN(const Clock h, spec.Int("h", 8, 1, kBoundMax));
  PolicyTraits traits{.spec = absl::StrCat("localsgd:h=", h),
                      .exchange = DeltaExchange{.period = h},
                      .store = AverageRule{}};
  MakeRounds(&traits);
  return traits;
}

absl::StatusOr<PolicyTraits> ParseBmuf(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"h", "eta", "zeta", "nesterov"}));
  SOAP_ASSIGN_OR_RETURN(const Clock h, spec.Int("h", 8, 1, kBoundMax));
  SOAP_ASSIGN_OR_RETURN(const double eta, spec.Real("eta", -1, 0, 0.999999));
  SOAP_ASSIGN_OR_RETURN(const double zeta, spec.Real("zeta", 1, 0, 100));
  SOAP_ASSIGN_OR_RETURN(const int64_t nesterov, spec.Int("nesterov", 1, 0, 1));
  PolicyTraits traits{
      .spec = absl::StrCat("bmuf:h=", h, ",zeta=", zeta, ",nesterov=", nesterov),
      .exchange = DeltaExchange{.period = h, .fresh_momentum = true},
      .store = BlockMomentumRule{.momentum = eta, .rate = zeta, .nesterov = nesterov == 1}};
  if (eta >= 0) absl::StrAppend(&traits.spec, ",eta=", eta);
  MakeRounds(&traits);
  return traits;
}

absl::StatusOr<Graph> ParseGraph(const Spec& spec, const char* standard) {
  const std::string graph = spec.Text("graph", standard);
  if (graph == "ring") return Graph::kRing;
  if (graph == "exponential") return Graph::kExponential;
  if (graph == "complete") return Graph::kComplete;
  return absl::InvalidArgumentError(absl::StrCat(
      spec.name, ": graph=", graph, " is unknown; it is ring, exponential or complete"));
}

// Workers keep the parameters; the shards take one hand-in from each.
PolicyTraits Decentralised(std::string spec, PeerTraits peers) {
  return {.spec = std::move(spec),
          .gate = RoundTraits{},
          .exchange = PeerExchange{peers},
          .store = MeanRule{}};
}

absl::StatusOr<PolicyTraits> ParseAllReduce(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"group"}));
  SOAP_ASSIGN_OR_RETURN(const int64_t group, spec.Int("group", 0, 0, kWorkersMax));
  std::string text = group == 0 ? "allreduce" : absl::StrCat("allreduce:group=", group);
  PolicyTraits traits =
      Decentralised(std::move(text), CollectiveTraits{.group = static_cast<uint32_t>(group)});
  traits.guarantee = {
      .read_lag_max = 0, .clock_gap_max = 1, .snapshot_reads = true, .same_replicas = true};
  return traits;
}

absl::StatusOr<PolicyTraits> ParseEager(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"mode", "seed"}));
  SOAP_ASSIGN_OR_RETURN(const int64_t seed, spec.Int("seed", 1, 0, kBoundMax));
  const std::string mode = spec.Text("mode", "majority");
  if (mode != "solo" && mode != "majority") {
    return absl::InvalidArgumentError(
        absl::StrCat("eager: mode=", mode, " is unknown; it is solo or majority"));
  }
  PolicyTraits traits = Decentralised(
      absl::StrCat("eager:mode=", mode, ",seed=", seed),
      CollectiveTraits{.partial = mode == "solo" ? Partial::kSolo : Partial::kMajority,
                       .seed = static_cast<uint64_t>(seed)});
  traits.guarantee = {.same_replicas = true, .own_writes = false};
  return traits;
}

absl::StatusOr<PolicyTraits> ParseGossip(const Spec& spec) {
  SOAP_RETURN_IF_ERROR(spec.AllowOnly({"mode", "graph", "seed"}));
  SOAP_ASSIGN_OR_RETURN(const int64_t seed, spec.Int("seed", 1, 0, kBoundMax));
  const std::string mode = spec.Text("mode", "pushsum");
  if (mode == "gossipgrad" && spec.arguments.contains("graph")) {
    return absl::InvalidArgumentError("gossip:mode=gossipgrad has partners of its own: no graph");
  }
  if (mode != "pushsum" && mode != "adpsgd" && mode != "gossipgrad" && mode != "dpsgd") {
    return absl::InvalidArgumentError(absl::StrCat(
        "gossip: mode=", mode, " is unknown; it is dpsgd, gossipgrad, adpsgd or pushsum"));
  }
  Graph graph = Graph::kRotating;
  std::string text = absl::StrCat("gossip:mode=", mode);
  if (mode != "gossipgrad") {
    const char* standard = mode == "pushsum"  ? "exponential"
                           : mode == "adpsgd" ? "complete"
                                              : "ring";
    SOAP_ASSIGN_OR_RETURN(graph, ParseGraph(spec, standard));
    absl::StrAppend(&text, ",graph=", spec.Text("graph", standard));
  }
  const bool draws = mode == "gossipgrad" || mode == "adpsgd";
  if (!draws && spec.arguments.contains("seed")) {
    return absl::InvalidArgumentError(
        absl::StrCat("gossip:mode=", mode, " draws nothing: it takes no seed"));
  }
  if (draws) absl::StrAppend(&text, ",seed=", seed);
  PeerTraits peers = MixingTraits{.graph = graph, .seed = static_cast<uint64_t>(seed)};
  if (mode == "pushsum") peers = PushSumTraits{.graph = graph};
  if (mode == "adpsgd") {
    peers = PairwiseTraits{.graph = graph, .seed = static_cast<uint64_t>(seed)};
  }
  PolicyTraits traits = Decentralised(std::move(text), peers);
  traits.guarantee = {.conserves_sum = true};
  return traits;
}

constexpr char kGatedChecks[] =
    "S1 lag, S2 own writes, S3 gap, S4 monotone, S5 live, S6 exactly once";
constexpr char kLiveChecks[] = "S2 own writes, S4 monotone, S5 live, S6 exactly once";
constexpr char kRoundChecks[] = "B1 one version, S5 live, S6 exactly once";

constexpr PolicyEntry kEntries[] = {
    {"bsp", "bsp", &ParseBsp,
     "all read version t; update t is the sum over micro-batches along a fixed tree",
     "x <- x - lr (1/B) tree sum of g", "2M", "1", "B1 one version, B2 bits, B3 order, S6", "bsp"},
    {"ssp", "ssp:s=N", &ParseSsp,
     "a read at clock c waits on each shard until min applied >= c - s",
     "x <- x - lr (1/B) g_i on arrival", "2M", "1", kGatedChecks, "ssp:s=0 ssp:s=1 ssp:s=2"},
    {"essp", "essp:s=N", &ParseEssp,
     "ssp, and shards send fresh values at each advance of the least clock",
     "x <- x - lr (1/B) g_i on arrival", "2M to 3M", "1/2", kGatedChecks, "essp:s=0 essp:s=1"},
    {"dssp", "dssp:lower=N,upper=N", &ParseDssp,
     "ssp with a bound in [lower, upper] that a controller picks from intervals between clocks",
     "x <- x - lr (1/B) g_i on arrival", "2M", "1", kGatedChecks,
     "dssp:lower=0,upper=2 dssp:lower=1,upper=1"},
    {"psp", "psp:sample=N,s=N", &ParsePsp,
     "a read at clock c waits until N sampled peers have applied >= c - s",
     "x <- x - lr (1/B) g_i on arrival", "2M", "1", "passes as hypergeometric, S2, S4, S5, S6",
     "psp:sample=1,s=0 psp:sample=1,s=1"},
    {"pssp", "pssp:s=N,p=Q", &ParsePssp, "where ssp would block, blocks with probability p",
     "x <- x - lr (1/B) g_i on arrival", "2M", "1", "blocks as Bernoulli(p), S2, S4, S5, S6",
     "pssp:s=1,p=0.5 pssp:s=1,p=1"},
    {"async", "async", &ParseAsync, "no gate; staleness is recorded",
     "x <- x - lr (1/B) g_i on arrival", "2M", "1", kLiveChecks, "async"},
    {"softsync", "softsync:n=N,rate=mean|each", &ParseSoftsync,
     "each floor(P/n) arrivals are one update; the rate is divided by their staleness",
     "x <- x - (lr / staleness) mean of the arrivals", "2M", "1",
     "R1 arrivals an update, R2 staleness, S5, S6",
     "softsync:n=1,rate=mean softsync:n=2,rate=each"},
    {"backup", "backup:b=N", &ParseBackup,
     "a round closes without its last b workers, with the same updates on all shards",
     "x <- x - lr (1/n) tree sum of g over the set", "2M", "1, and 2 between shards",
     "K1 one set of P - b, B1 one version, S4, S5, S6", "backup:b=1 backup:b=0"},
    {"tree", "tree:group=G,s=N", &ParseTree,
     "groups of G workers have servers of their own: bsp within a group, ssp between groups",
     "x <- x - lr (1/B) tree sum of the group's g", "2M; at the root 2M / G", "2",
     "at the root as ssp, at a branch B1 one version, S6", "tree:group=2,s=1 tree:group=3,s=0"},
    {"dcasgd", "dcasgd:lambda=L,m=M", &ParseDcasgd,
     "async; each gradient is corrected for the parameters' change since its read",
     "x <- x - lr (g + lambda g*g*(x - x_read))", "2M", "1", kLiveChecks, "dcasgd:lambda=0.04,m=0"},
    {"value", "value:v0=V", &ParseValue,
     "an update waits while its worker's unseen updates would exceed v0 / sqrt(t + 1)",
     "x <- x - lr (1/B) g_i when it fits", "2M", "1", "V1 unseen mass, S2, S4, S5, S6",
     "value:v0=1 value:v0=4"},
    {"easgd", "easgd:tau=N,beta=B,mode=sync|async", &ParseEasgd,
     "every tau steps a replica and the centre pull each other by alpha = beta / P",
     "d = alpha (x_i - x); x_i <- x_i - d; x <- x + d", "2M / tau", "1 / tau",
     "EA1 conservation, S5, S6", "easgd:tau=1,beta=0.9,mode=sync easgd:tau=1,beta=0.9,mode=async"},
    {"eamsgd", "eamsgd:tau=N,beta=B,delta=D,mode=sync|async", &ParseEamsgd,
     "easgd whose local steps have Nesterov momentum delta",
     "v <- delta v - lr g(x_i + delta v); x_i <- x_i + v; then as easgd", "2M / tau", "1 / tau",
     "EA1 conservation, S5, S6", "eamsgd:tau=1,beta=0.9,mode=async,delta=0.9"},
    {"localsgd", "localsgd:h=N", &ParseLocalSgd,
     "h local steps, then the mean of the replicas, weighted by samples",
     "x <- x + sum_i (n_i / n) (x_i - x)", "2M / h", "1 / h", kRoundChecks, "localsgd:h=1"},
    {"bmuf", "bmuf:h=N,eta=E,zeta=Z,nesterov=0|1", &ParseBmuf,
     "localsgd with a momentum over blocks of h steps",
     "D <- eta D + zeta (mean - x); x <- x + D (+ eta D)", "2M / h", "1 / h", kRoundChecks,
     "bmuf:h=1,zeta=1,nesterov=1,eta=0.5"},
    {"allreduce", "allreduce:group=G", &ParseAllReduce,
     "workers sum their gradients around a ring (of rings, in groups of G) and apply the sum alike",
     "x <- x - lr (1/n) ring sum of g", "2M (P-1)/P", "2 (P-1)", "D1 same bits, D2 each once, S5",
     "allreduce allreduce:group=2"},
    {"eager", "eager:mode=solo|majority", &ParseEager,
     "allreduce that the first (or a drawn) worker begins; late gradients go with a later round",
     "x <- x - lr (1/n) ring sum of what is there", "2M (P-1)/P", "2 (P-1)",
     "D1 same bits, D2 each once, S5", "eager:mode=solo,seed=1 eager:mode=majority,seed=1"},
    {"gossip", "gossip:mode=dpsgd|gossipgrad|adpsgd|pushsum,graph=ring|exponential|complete",
     &ParseGossip,
     "workers average with neighbours: in lock step (dpsgd, gossipgrad), in pairs (adpsgd), or "
     "without waiting (pushsum)",
     "x_i <- sum_j W_ij x_j - lr g_i, W doubly stochastic; pushsum: column stochastic, z = x / w",
     "M to 2M, times neighbours", "1 (pushsum: 0)", "D3 sum conserved with parcels in flight, S5",
     "gossip:mode=dpsgd,graph=ring gossip:mode=gossipgrad,seed=1 "
     "gossip:mode=adpsgd,graph=complete,seed=1 gossip:mode=pushsum,graph=exponential"},
};

}  // namespace

absl::Span<const PolicyEntry> PolicyCatalogue() { return kEntries; }

absl::StatusOr<PolicyTraits> ParsePolicy(std::string_view text) {
  SOAP_ASSIGN_OR_RETURN(const Spec spec, Spec::Parse(text));
  std::vector<std::string> names, usages;
  for (const PolicyEntry& entry : kEntries) {
    if (spec.name == entry.name) return entry.parse(spec);
    names.emplace_back(entry.name);
    usages.emplace_back(entry.usage);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown policy '", spec.name, "'",
                                                 DidYouMean(spec.name, names), "; there are ",
                                                 absl::StrJoin(usages, " ")));
}

absl::Status CheckWorkers(const PolicyTraits& traits, uint32_t workers) {
  const uint32_t spare = traits.spare();
  if (spare == 0 || spare < workers || workers == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(traits.spec, " leaves out ", spare, " workers of ",
                                                 workers, ": each round would be one worker's"));
}

std::vector<std::string> PolicyEntry::Examples() const { return absl::StrSplit(examples, ' '); }

namespace {

std::vector<std::string> ExamplesThat(bool decentralised) {
  std::vector<std::string> examples;
  for (const PolicyEntry& entry : kEntries) {
    for (std::string& example : entry.Examples()) {
      if (ParsePolicy(example)->decentralised() == decentralised) {
        examples.push_back(std::move(example));
      }
    }
  }
  return examples;
}

}  // namespace

std::vector<std::string> ExamplePolicies() { return ExamplesThat(false); }
std::vector<std::string> ExamplePeerPolicies() { return ExamplesThat(true); }

std::string Guarantee::ToString() const {
  std::vector<std::string> parts;
  parts.push_back(snapshot_reads ? "snapshot reads" : "live reads");
  parts.push_back(read_lag_max ? absl::StrCat("lag <= ", *read_lag_max) : "lag unbounded");
  if (left_out_max) parts.push_back(absl::StrCat("rounds of all but ", *left_out_max));
  if (clock_gap_max) parts.push_back(absl::StrCat("gap <= ", *clock_gap_max));
  if (unseen_max) parts.push_back(absl::StrCat("unseen mass <= ", *unseen_max, " / sqrt(t + 1)"));
  if (!own_writes) parts.push_back("own updates may be pending");
  if (sequential_bits) parts.push_back("bits of sequential SGD");
  if (conserves_sum) parts.push_back("exchanges conserve the sum of replicas and centre");
  if (same_replicas) parts.push_back("replicas have the same bits after the same round");
  return absl::StrJoin(parts, ", ");
}

}  // namespace soapstone::consistency
