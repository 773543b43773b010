// What a job says while it runs and when it ends, as values; their form as JSON lines (between the
// scheduler and the launcher) and as text (for people). No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "consistency/violation_log.h"
#include "transport/byte_counts.h"

namespace soapstone::apps {

// The scheduler's endpoint, once it listens.
struct Listening {
  std::string endpoint;
  std::string http;  // "127.0.0.1:9400", where its pages are; empty: nowhere
  friend bool operator==(const Listening&, const Listening&) = default;
};

// A line for the user: who joined, who was lost.
struct News {
  std::string text;
  friend bool operator==(const News&, const News&) = default;
};

struct ProgressReport {
  uint32_t epoch = 0;  // 1-based, of the slowest worker
  uint32_t epochs = 0;
  Clock clock = 0;  // completed, of the slowest worker
  Clock clocks = 0;
  uint64_t samples = 0;
  double samples_per_s = 0;  // of late
  double loss = 0;           // mean of the samples trained of late
  double perplexity = 0;     // exp(loss), of language models; of others 0
  uint64_t lag_max = 0;      // read lag, of late
  double lag_mean = 0;
  double eta_s = 0;  // negative: not known yet
  uint32_t workers = 0;
  friend bool operator==(const ProgressReport&, const ProgressReport&) = default;
};

// Where a worker's time went, in seconds. What is missing of the run's is neither computing nor
// waiting: beginning, sending, the others' end.
struct WorkerTimes {
  uint32_t worker = 0;
  double compute = 0;
  double injected = 0;  // rested, as training.stragglers and base_ms asked
  double policy = 0;    // waiting: a pull was parked
  double shard = 0;     // waiting: a pull was queued for its shard
  double network = 0;   // waiting: the rest
  double waiting() const { return policy + shard + network; }
  friend bool operator==(const WorkerTimes&, const WorkerTimes&) = default;
};

// Updates of a worker that it left out because they were not finite, by the tensor found so.
struct LeftOutRow {
  uint32_t worker = 0;
  std::string tensor;
  uint64_t updates = 0;
  Clock first_clock = 0;
  friend bool operator==(const LeftOutRow&, const LeftOutRow&) = default;
};

// A stretch of the training loss.
struct LossPoint {
  uint64_t samples = 0;  // trained when it ended
  double loss = 0;       // finite: mean of those trained in it
  friend bool operator==(const LossPoint&, const LossPoint&) = default;
};

// The best checkpoint, of a job that keeps it.
struct BestReport {
  Clock clock = 0;  // 0: there is none
  bool by_loss = false;
  uint64_t samples = 0;  // held-out ones
  double accuracy = 0;
  double loss = 0;
  std::string path;  // "DIR/best"
  friend bool operator==(const BestReport&, const BestReport&) = default;
};

struct ResultReport {
  int code = 0;
  std::string reason;
  std::string job;  // "lenet5 on digits, ssp:s=2, 2 servers x 1 shard, 3 workers"
  std::string guarantee;
  uint64_t test_samples = 0;  // 0: not evaluated
  double test_accuracy = 0;
  double test_loss = 0;
  double test_perplexity = 0;  // exp(test_loss), of language models; of others 0
  // Of classifiers: held-out samples by label, by the class that they were taken for
  // (models/runtime/confusion.h), and the classes' names where labels stand for some.
  std::vector<std::vector<uint32_t>> confusion;
  std::vector<std::string> class_names;
  double balanced_accuracy = 0;
  double seconds = 0;  // of training, from the start barrier to the last worker's end
  uint64_t samples = 0;
  double samples_per_s = 0;
  double train_loss = 0;  // of late, at the end
  double train_perplexity = 0;
  std::vector<LossPoint> losses;  // in order, from the first sample to the last
  uint64_t pushed_bytes = 0;
  uint64_t pulled_bytes = 0;
  std::vector<uint64_t> read_lags;  // reads by lag, as in wire::Progress
  std::vector<WorkerTimes> times;   // by worker
  std::vector<LeftOutRow> left_out;
  std::vector<uint32_t> leaving;  // where the job stopped for who had to: the workers among those
  uint64_t violations = 0;        // that workers told of while it ran
  uint64_t rejects = 0;           // data messages that shards refused
  uint64_t malformed = 0;         // messages that transports refused
  uint64_t strangers = 0;         // connections that the scheduler held back or ended (door.h)
  std::string sha256;
  std::string model_path;
  BestReport best;
  bool stopped_early = false;  // what is said of held-out samples, and the model, are of the best
  friend bool operator==(const ResultReport&, const ResultReport&) = default;
};

// What a shard's ledger (server/shard/ledger.h) has of one worker.
struct LedgerRow {
  uint32_t worker = 0;
  uint32_t shard = 0;
  Histogram read_lags;
  Histogram stalenesses;
  uint64_t violations = 0;
  friend bool operator==(const LedgerRow&, const LedgerRow&) = default;
};

// Violations of one kind, and the ledger that found them: "shard 1", "worker 0", "peer 2".
struct ViolationRow : consistency::ViolationRow {
  std::string by;
  friend bool operator==(const ViolationRow&, const ViolationRow&) = default;
};

// Closing counters of one node.
struct NodeReport {
  std::string name;  // "server-1"
  transport::BytesByCause sent;
  transport::BytesByCause received;
  transport::SocketCounts sockets;
  uint64_t shared_bytes = 0;  // of `sent`: through shared memory
  uint64_t malformed = 0;   // messages that the transport refused (the scheduler's: in the result)
  uint64_t strangers = 0;   // connections that it held back or ended (the same)
  uint64_t rejects = 0;     // shards: refused data messages
  uint64_t duplicates = 0;  // shards
  uint64_t left_out = 0;    // shards: updates that came too late for their round (backup)
  double heartbeat_gap_s = 0;        // the longest silence of its loop
  uint64_t resident_peak_bytes = 0;  // of the process
  uint64_t answers = 0;              // workers: answers to their reads that they looked at
  std::vector<LedgerRow> ledger;
  std::vector<ViolationRow> violations;
  friend bool operator==(const NodeReport&, const NodeReport&) = default;
};

// That some workers' own work has taken other times for a while than when the run began.
struct SlownessReport {
  Clock clock = 0;
  std::vector<double> slowness;  // by worker: times as long; 1: about as long as then
  friend bool operator==(const SlownessReport&, const SlownessReport&) = default;
};

using Report =
    std::variant<Listening, News, ProgressReport, ResultReport, NodeReport, SlownessReport>;

// The sum over all workers.
WorkerTimes TotalOf(const std::vector<WorkerTimes>& times);
// The sum over all workers and shards.
LedgerRow TotalOf(const std::vector<NodeReport>& nodes);
// What a ledger has found, put into its node's report.
void AddViolations(const consistency::ViolationLog& found, const std::string& by,
                   NodeReport* report);
// Those of all nodes: of shards, workers and peers.
std::vector<ViolationRow> ViolationsOf(const std::vector<NodeReport>& nodes);
uint64_t CountOf(const std::vector<ViolationRow>& violations);

// One line without its newline: an object whose "event" names the kind.
std::string ToJson(const Report& report);
// Error: InvalidArgument when the line is no such object. JSON has no numbers that are not finite:
// they are null there, and come back as NaN.
absl::StatusOr<Report> FromJson(const std::string& line);

// All of what a job's end reported, as one JSON object: {"result": {...}, "nodes": [...]}.
std::string LedgerJson(const ResultReport& result, const std::vector<NodeReport>& nodes);

// "epoch 3/10  samples/s 5,120  loss 0.213  lag 0.8 (max 2)  ETA 0:12".
std::string ToLine(const ProgressReport& progress);

// What the closing table names beside the result. Paths: of what was written; empty: nothing was.
struct TableOptions {
  std::string ledger_path;     // LedgerJson
  std::string losses_path;     // LossesCsv
  std::string confusion_path;  // ConfusionCsv
  bool utf8 = false;           // what it is shown on has Unicode's blocks
};

// The closing table. `nodes`: what nodes reported at their end; may be empty.
std::string ToTable(const ResultReport& result, const std::vector<NodeReport>& nodes,
                    const TableOptions& options = {});

// Its rows about held-out samples: accuracy, loss, confusion; none where there are no such samples.
std::string TestRows(const ResultReport& result, const TableOptions& options = {});

// "3:12", "1:02:03".
std::string DurationText(double seconds);

// "3 updates that were not finite".
std::string LeftOutText(uint64_t updates);

// 12,345,678.
std::string WithCommas(uint64_t n);
// "338.0 MB".
std::string Bytes(uint64_t bytes);
// Of reads by lag: "0: 61.2%  1: 30.0%  2: 8.8%"; lags from 8 on in ranges that double, as
// "16-31: 2.0%", from 32 on together; lags that never occurred are left out.
std::string LagHistogram(std::vector<uint64_t> reads);
// The same of a ledger's, whose ranges double up to 32768-65535.
std::string HistogramText(const Histogram& histogram);

// Receives reports as they arise. One thread.
class ReportSink {
 public:
  virtual ~ReportSink() = default;
  virtual void Take(const Report& report) = 0;
};

// Writes reports to standard output as JSON lines.
class JsonReports : public ReportSink {
 public:
  void Take(const Report& report) override;
};

}  // namespace soapstone::apps
