// soapstone-bench: see docs/performance.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/profile/roofline.h"
#include "base/exit_codes.h"
#include "bench/cluster_link.h"
#include "bench/engine_cost.h"
#include "bench/event_cost.h"
#include "bench/gloo.h"
#include "bench/memory.h"
#include "bench/planner.h"
#include "bench/processes.h"
#include "bench/raw_links.h"
#include "bench/results.h"
#include "bench/sparse_core.h"
#include "bench/unlike_devices.h"

namespace soapstone::bench {
namespace {

constexpr uint64_t kKb = 1024, kMb = 1024 * kKb;
constexpr uint64_t kApplyBytes = 64 * kMb;
constexpr uint64_t kTripBytes = 4 * kKb;
constexpr uint64_t kTrips = 5000;
constexpr char kSparse[] = "sparse", kGloo[] = "gloo", kPlanner[] = "planner", kUnlike[] = "unlike",
               kEngine[] = "engine", kEvents[] = "events";
constexpr uint64_t kStepLengths[] = {2'000, 20'000, 200'000};
constexpr char kPairFile[] = "examples/machines/heterogeneous_pair.machine.textproto";
constexpr uint64_t kPairProposals = 200'000;

struct Flags {
  uint32_t repeats = 5;
  bool pin = false;
  double seconds = 0.5;  // of one measurement, or so
  std::string json_path;
  std::string key;
  std::string only;  // part of what the row is called; "": all
  uint64_t rows = 10'000'000;
  std::string gloo_script = "bench/scripts/gloo_all_reduce.py";
  std::vector<uint32_t> devices = {4, 8, 16, 64};
  std::vector<uint64_t> sizes = {64, 4 * kKb, 64 * kKb, kMb, 16 * kMb, 64 * kMb};
};

// As many messages as take about so long, at rates that are about right.
uint64_t MessagesFor(uint64_t bytes, double seconds) {
  const double each_s = 5e-6 + static_cast<double>(bytes) / 3e9;
  return std::max<uint64_t>(8, static_cast<uint64_t>(seconds / each_s));
}

// Small values come as they do in a model: several of them a step.
uint32_t BucketsOf(uint64_t bytes) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(kMb / bytes, 1, 64));
}

class Run {
 public:
  explicit Run(const Flags& flags) : flags_(flags) {
    if (flags.key.empty()) return;
    ours_.push_back({ClusterLink::kProvedSharedMemory, "shared+key"});
    ours_.push_back({ClusterLink::kSealedTcp, "sealed"});
  }

  void All() {
    if (flags_.only == kSparse) return Sparse();
    if (flags_.only == kGloo) return Gloo();
    Links();
    if (flags_.only.empty()) {
      Sparse();
      Gloo();
    }
  }

  // Whether `only` is the name of something.
  bool HasRows() {
    looking_ = true;
    Links();
    looking_ = false;
    return found_ || flags_.only == kSparse || flags_.only == kGloo;
  }

  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<SparseRow>& sparse() const { return sparse_; }

 private:
  struct NamedRaw {
    RawLink link;
    const char* name;
  };
  struct NamedLink {
    ClusterLink link;
    const char* name;
  };
  static constexpr NamedRaw kRaw[] = {
      {RawLink::kTcp, "TCP"}, {RawLink::kZmqTcp, "ZeroMQ tcp"}, {RawLink::kZmqIpc, "ZeroMQ ipc"}};

  // One thing that is measured.
  struct Measurement {
    std::string what, link;  // link: "" of memory
    uint64_t bytes = 0;
    std::function<Sample()> measure;
  };
  using Group = std::vector<Measurement>;

  void Links() {
    for (const uint64_t bytes : {kMb, kApplyBytes}) {
      Group group = {Memory("stream triad", bytes, [=] { return apps::TriadRate(bytes); })};
      for (const char* name : {"sgd", "momentum", "adagrad", "adam"}) {
        const auto optimizer = compute::ParseOptimizer(name);
        group.push_back(Memory(absl::StrCat("apply ", name), bytes,
                               [=] { return ApplyRate(*optimizer, bytes); }));
      }
      group.push_back(Memory("look for NaN", bytes, [=] { return LookRate(bytes); }));
      InTurn(group);
    }
    for (const uint64_t bytes : flags_.sizes) {
      const uint64_t messages = MessagesFor(bytes, flags_.seconds);
      Group group = {
          Memory("memcpy", bytes, [=] { return MemcpyRate(bytes); }),
          Memory("float add", bytes, [=] { return FloatAddRate(bytes, BucketsOf(bytes)); })};
      for (const NamedRaw& raw : kRaw) {
        group.push_back(
            {"raw push", raw.name, bytes, [=] { return RawPush(raw.link, bytes, messages); }});
      }
      for (const NamedLink& ours : ours_) AddOurs(ours, bytes, messages, &group);
      InTurn(group);
    }
    Group trips;
    for (const NamedRaw& raw : kRaw) {
      if (raw.link == RawLink::kTcp) continue;
      trips.push_back({"raw round trip", raw.name, kTripBytes,
                       [=] { return RawRoundTrips(raw.link, kTripBytes, kTrips); }});
    }
    for (const NamedLink& ours : ours_) {
      trips.push_back({"push and pull, in turn", ours.name, kTripBytes, [=, this] {
                         return RunOurs({.link = ours.link,
                                         .value_bytes = kTripBytes,
                                         .steps = kTrips,
                                         .pull = true,
                                         .round_trips = true});
                       }});
    }
    InTurn(trips);
  }

  // An all-reduce between two sends and receives as much as a worker that pushes and pulls all
  // values, and adds as much.
  void Gloo() {
    const std::vector<uint64_t> sizes = {kMb, 16 * kMb, 64 * kMb};
    if (flags_.only == kGloo) {
      for (const uint64_t bytes : sizes) {
        for (const NamedLink& ours : ours_) InTurn({PushAndPull(ours, bytes)});
      }
    }
    auto rows = GlooAllReduce({.script = flags_.gloo_script,
                               .sizes = sizes,
                               .seconds = flags_.seconds,
                               .repeats = flags_.repeats});
    if (!rows.ok()) {
      std::fprintf(stderr, "gloo: %s\n", std::string(rows.status().message()).c_str());
      return;
    }
    for (Row& row : *rows) Add(std::move(row));
  }

  // The table of one shard alone, then what reaches it.
  void Sparse() {
    SparseLoad load;
    load.table_rows = flags_.rows;
    const auto batches = SparseBatches(load, flags_.repeats);
    for (const char* name : {"sgd", "adagrad", "ftrl", "adam"}) {
      SparseCore core(load, *compute::ParseOptimizer(name), batches);
      SparseRow apply = Rows(absl::StrCat("apply ", name), load,
                             [&](uint32_t repeat) { return core.Apply(repeat); });
      const RowMemory memory = core.Memory();
      apply.bytes_per_row = memory.counted;
      apply.resident_per_row = memory.resident;
      apply.floats_per_row = memory.floats;
      sparse_.push_back(std::move(apply));
      sparse_.push_back(Rows(absl::StrCat("read, ", name), load,
                             [&](uint32_t repeat) { return core.Read(repeat); }));
      sparse_.push_back(SparseRowOf(absl::StrCat("create ", name), "", load.dim, {core.Create()}));
    }
    for (const NamedLink& ours : ours_) {
      const ClusterLoad push = {
          .link = ours.link,
          .value_bytes = uint64_t{load.batch} * (sizeof(uint64_t) + load.dim * sizeof(float)),
          .steps = static_cast<uint64_t>(flags_.seconds * 1000) + 1,
          .table_rows = load.table_rows,
          .batch_rows = load.batch,
          .dim = load.dim,
          .exponent = load.exponent};
      std::vector<Sample> samples;
      for (uint32_t i = 0; i < flags_.repeats; ++i) samples.push_back(RunOurs(push));
      sparse_.push_back(SparseRowOf("push, sgd", ours.name, load.dim, std::move(samples)));
    }
  }

  SparseRow Rows(const std::string& what, const SparseLoad& load,
                 const std::function<Sample(uint32_t repeat)>& measure) const {
    std::vector<Sample> samples;
    for (uint32_t i = 0; i < flags_.repeats; ++i) samples.push_back(measure(i));
    std::fprintf(stderr, "sparse %s: done\n", what.c_str());
    return SparseRowOf(what, "", load.dim, std::move(samples));
  }

  void AddOurs(const NamedLink& ours, uint64_t bytes, uint64_t messages, Group* group) const {
    const ClusterLoad push = {.link = ours.link,
                              .value_bytes = bytes,
                              .buckets = BucketsOf(bytes),
                              .steps = std::max<uint64_t>(4, messages / BucketsOf(bytes))};
    ClusterLoad pull = push;
    pull.buckets = 1;
    pull.steps = std::max<uint64_t>(8, messages / 2);
    pull.push = false;
    pull.pull = true;
    group->push_back({"push", ours.name, bytes, [=, this] { return RunOurs(push); }});
    group->push_back({"pull", ours.name, bytes, [=, this] { return RunOurs(pull); }});
    group->push_back(PushAndPull(ours, bytes));
  }

  Measurement PushAndPull(const NamedLink& ours, uint64_t bytes) const {
    const uint64_t messages = MessagesFor(bytes, flags_.seconds);
    return {"push, pulling as much", ours.name, bytes, [=, this] {
              return RunOurs({.link = ours.link,
                              .value_bytes = bytes,
                              .steps = std::max<uint64_t>(8, messages / 2),
                              .pull = true});
            }};
  }

  Sample RunOurs(ClusterLoad load) const {
    load.pinned = flags_.pin;
    load.key = flags_.key;
    return RunCluster(load);
  }

  bool Wanted(const std::string& name) const {
    return flags_.only.empty() || name.find(flags_.only) != std::string::npos;
  }

  static Measurement Memory(const std::string& what, uint64_t bytes,
                            const std::function<double()>& rate) {
    return {what, "", bytes,
            [=] { return Sample{.seconds = 1, .bytes = static_cast<uint64_t>(1e9 * rate())}; }};
  }

  // Those that are wanted, repeat by repeat: what is compared is measured within seconds, since a
  // machine that others share is another one a minute later.
  void InTurn(const Group& group) {
    const auto is_wanted = [&](const Measurement& row) {
      return flags_.only == kGloo || Wanted(absl::StrCat(row.what, " ", row.link));
    };
    if (looking_) {
      found_ = found_ || std::ranges::any_of(group, [&](const Measurement& row) {
                 return !row.link.empty() && is_wanted(row);
               });
      return;
    }
    std::vector<std::vector<Sample>> samples(group.size());
    for (uint32_t i = 0; i < flags_.repeats; ++i) {
      for (size_t k = 0; k < group.size(); ++k) {
        if (group[k].link.empty() || is_wanted(group[k])) samples[k].push_back(group[k].measure());
      }
    }
    for (size_t k = 0; k < group.size(); ++k) {
      if (samples[k].empty()) continue;
      Add(RowOf(group[k].what, group[k].link, group[k].bytes, std::move(samples[k])));
    }
  }

  void Add(Row row) {
    std::fprintf(stderr, "%s %s %llu bytes: done\n", row.what.c_str(), row.link.c_str(),
                 static_cast<unsigned long long>(row.bytes));  // NOLINT: printf's
    rows_.push_back(std::move(row));
  }

  const Flags flags_;
  std::vector<NamedLink> ours_ = {{ClusterLink::kSharedMemory, "shared"},
                                  {ClusterLink::kTcp, "tcp"},
                                  {ClusterLink::kIpc, "ipc"}};
  std::vector<Row> rows_;
  std::vector<SparseRow> sparse_;
  bool looking_ = false;  // for rows that are wanted; nothing is measured
  bool found_ = false;
};

std::string EngineCosts(const Flags& flags) {
  std::vector<EngineCost> costs;
  for (const uint64_t instructions : kStepLengths) {
    costs.push_back(MeasureEngine(instructions, flags.repeats, flags.seconds));
  }
  return EngineTable(costs);
}

int Planner(const Flags& flags) {
  std::vector<PlannerRow> rows;
  for (const char* model : {"gnmt", "inception_v3"}) {
    for (const uint32_t devices : flags.devices) {
      const uint64_t proposals = std::max<uint64_t>(5000, 400'000 / devices);
      rows.push_back(MeasurePlanner({.model = model, .devices = devices, .proposals = proposals}));
      std::fprintf(stderr, "%s\n", rows.back().decided.c_str());
    }
  }
  std::cout << PlannerTable(rows);
  return kExitOk;
}

void AddFlags(CLI::App* app, Flags* flags) {
  app->add_option("--repeats", flags->repeats, "Each measurement so often; the median is shown [5]")
      ->check(CLI::Range(1, 101));
  app->add_option("--seconds", flags->seconds, "Of one measurement, about [0.5]")
      ->check(CLI::Range(0.01, 60.0));
  app->add_flag(
      "--pin", flags->pin,
      "Our server and worker on processors 1 and 0, as --cpus of the daemons would [where "
      "the system puts them]");
  app->add_option("--json", flags->json_path, "Write the rows to this file")->type_name("FILE");
  app->add_option(
         "--key", flags->key,
         "Measure with keys too, those of this folder (soapstone keygen): `shared+key`, shared "
         "memory whose other end proved its key, and `sealed` streams")
      ->type_name("FOLDER");
  app->add_option(
         "--only", flags->only,
         "Links' rows whose name has this in it, such as tcp; sparse: sparse tables and nothing "
         "else; engine: what a worker's engine costs an instruction; events: what an event of a "
         "timeline costs; planner: simulations and proposals a second; unlike: plans for the "
         "unlike pair of examples/machines, from the root of the "
         "source")
      ->type_name("TEXT");
  app->add_option("--rows", flags->rows, "Of a sparse table [10,000,000]")
      ->check(CLI::Range(uint64_t{100'000}, uint64_t{1} << 31));
  app->add_option("--gloo-script", flags->gloo_script, "[bench/scripts/gloo_all_reduce.py]")
      ->type_name("FILE");
  app->add_option("--sizes", flags->sizes,
                  "Bytes of a value [64 B, 4 KB, 64 KB, 1 MB, 16 MB, 64 MB]")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t{64}, uint64_t{1} << 30));
  app->add_option("--devices", flags->devices, "That are planned for, in nodes of 4 [4, 8, 16, 64]")
      ->delimiter(',')
      ->check(CLI::Range(4, 1024));
  app->footer("Example:\n  soapstone-bench --json=bench.json\nExit codes: 0 done, 78 bad flags.");
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Measures what the data plane moves and applies, and on the same machine in the same run "
      "what memory, sockets and raw ZeroMQ do: a table, ratios, and JSON.",
      "soapstone-bench");
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "soapstone-bench: " << error.what() << " (--help lists the flags)\n";
    return kExitConfig;
  }
  const auto say = [](const absl::Status& status) {
    if (status.ok()) return kExitOk;
    std::cerr << "soapstone-bench: " << status.message() << '\n';
    return kExitConfig;
  };
  if (flags.only == kPlanner) return Planner(flags);
  if (flags.only == kEngine) {
    std::cout << EngineCosts(flags);
    return kExitOk;
  }
  if (flags.only == kEvents) {
    std::cout << EventTable(flags.repeats, flags.seconds);
    return kExitOk;
  }
  if (flags.only == kUnlike) {
    const absl::StatusOr<std::string> table = UnlikeDevicesTable(kPairFile, kPairProposals);
    if (table.ok()) std::cout << *table;
    return say(table.status());
  }
  if (!flags.json_path.empty()) {
    if (const int code = say(CheckWritable(flags.json_path)); code != kExitOk) return code;
  }
  Run run(flags);
  if (!run.HasRows()) {
    return say(absl::NotFoundError(
        absl::StrCat("--only=", flags.only,
                     ": no row has this in its name; such as push, pull, shared, tcp, ipc, "
                     "ZeroMQ and, with --key, shared+key, sealed (--help lists the others)")));
  }
  run.All();
  if (flags.only.empty()) std::cout << EngineCosts(flags) << '\n';
  if (!run.rows().empty()) {
    std::cout << Table(run.rows()) << "\nThe same run's ratios\n" << RatioTable(run.rows());
  }
  if (!run.sparse().empty()) std::cout << '\n' << SparseReport(run.sparse());
  if (flags.json_path.empty()) return kExitOk;
  return say(WriteJson(flags.json_path, run.rows(), run.sparse()));
}

}  // namespace
}  // namespace soapstone::bench

// NOLINTNEXTLINE(bugprone-exception-escape): CLI11's errors are caught, and others end the program.
int main(int argc, char** argv) { return soapstone::bench::Main(argc, argv); }
