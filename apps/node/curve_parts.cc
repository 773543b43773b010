#include "apps/node/curve_parts.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "cluster/evaluator.h"
#include "experiment/statistics.h"

namespace soapstone::apps {
namespace {

using server::Snapshot;

constexpr char kReplica[] = "replica";
constexpr char kBegan[] = "began";
constexpr size_t kWhyMax = 200;
constexpr char kNotWritten[] = "not written: ";  // begins a note in the place of a part

// Before the elements of a snapshot.
struct SnapshotHead {
  int64_t at = 0;
  uint64_t steps = 0;
  uint64_t elements = 0;
};

absl::Status CannotWritePart(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("output.curve_path: cannot write ", path, ": ", why));
}

// Says why in the place of a part that is not whole: a full disk has room for that again.
absl::Status LeaveNote(const std::string& path, const std::string& why) {
  std::ofstream(path, std::ios::trunc) << kNotWritten << why << "\n";
  return CannotWritePart(path, why);
}

absl::Status Damaged(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("output.curve_path: ", path, " is damaged, or the disk was full"));
}

absl::StatusOr<std::string> ReadPart(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  if (file) bytes << file.rdbuf();
  if (file) {
    const std::string part = bytes.str();
    absl::string_view why = part;
    if (absl::ConsumePrefix(&why, kNotWritten)) {
      return CannotWritePart(path, why.substr(0, std::min(why.find('\n'), kWhyMax)));
    }
    return part;
  }
  return absl::NotFoundError(absl::StrCat("output.curve_path: ", path, ": ", std::strerror(errno)));
}

// What the workers had done together, at one time.
struct Done {
  uint64_t samples = 0;
  double loss_sum = 0;
  uint64_t bytes = 0;
  void Add(const Done& more) {
    samples += more.samples;
    loss_sum += more.loss_sum;
    bytes += more.bytes;
  }
};

// Everything the workers wrote down.
struct WorkerParts {
  std::multimap<Nanos, Done> fresh;  // by time: since the worker's line before
  Nanos began = 0;                   // of the first that started
  std::vector<double> replicas;      // accuracies

  Done Until(Nanos at) const {
    Done sum;
    for (auto it = fresh.begin(); it != fresh.upper_bound(at); ++it) sum.Add(it->second);
    return sum;
  }
};

bool AddLine(const std::string& line, Done* before, WorkerParts* parts) {
  const std::vector<std::string> fields = absl::StrSplit(line, ',');
  if (fields.size() == 3 && fields[0] == kReplica) {
    uint64_t correct = 0, samples = 0;
    if (!absl::SimpleAtoi(fields[1], &correct) || !absl::SimpleAtoi(fields[2], &samples))
      return false;
    parts->replicas.push_back(static_cast<double>(correct) / static_cast<double>(samples));
    return samples > 0;
  }
  Nanos at = 0;
  Done now;
  // What a process had sent before it began belongs to the run too.
  if (fields.size() == 3 && fields[0] == kBegan) {
    if (!absl::SimpleAtoi(fields[1], &at) || !absl::SimpleAtoi(fields[2], &now.bytes)) return false;
    parts->began = parts->fresh.empty() ? at : std::min(parts->began, at);
    parts->fresh.emplace(at, now);
    *before = now;
    return true;
  }
  if (fields.size() != 4 || !absl::SimpleAtoi(fields[0], &at) ||
      !absl::SimpleAtoi(fields[1], &now.samples) || !absl::SimpleAtod(fields[2], &now.loss_sum) ||
      !absl::SimpleAtoi(fields[3], &now.bytes)) {
    return false;
  }
  parts->fresh.emplace(at, Done{now.samples - before->samples, now.loss_sum - before->loss_sum,
                                now.bytes - before->bytes});
  *before = now;
  return true;
}

absl::StatusOr<WorkerParts> ReadWorkers(const std::string& path, uint32_t workers) {
  WorkerParts parts;
  for (uint32_t w = 0; w < workers; ++w) {
    const std::string part = WorkerCurvePart(path, WorkerId{w});
    SOAP_ASSIGN_OR_RETURN(const std::string text, ReadPart(part));
    Done before;
    for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      if (!AddLine(std::string(line), &before, &parts)) return Damaged(part);
    }
  }
  return parts;
}

absl::StatusOr<std::vector<Snapshot>> ReadShard(const Job& job, ShardId shard) {
  const std::string path = ShardCurvePart(job.config.output().curve_path(), shard);
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadPart(path));
  const Buffer bytes = Buffer::CopyOf(text);
  const uint64_t size = job.layout->elements(shard) * sizeof(float);
  std::vector<Snapshot> snapshots;
  for (size_t at = 0; at < bytes.size();) {
    SnapshotHead head;
    if (bytes.size() - at < sizeof(head) + size) return Damaged(path);
    std::memcpy(&head, bytes.data() + at, sizeof(head));
    at += sizeof(head);
    if (head.elements != job.layout->elements(shard)) return Damaged(path);
    Snapshot snapshot{.at = head.at, .steps = head.steps};
    for (const wire::Slice& slice : job.layout->slices(shard)) {
      snapshot.slices.push_back(bytes.Slice(at, slice.elements() * sizeof(float)));
      at += snapshot.slices.back().size();
    }
    snapshots.push_back(std::move(snapshot));
  }
  if (snapshots.empty()) return Damaged(path);
  return snapshots;
}

// Of a team's shards many have none, and write nothing.
std::vector<ShardId> WithParameters(const wire::Layout& layout) {
  std::vector<ShardId> shards;
  for (uint32_t k = 0; k < layout.shard_count(); ++k) {
    if (layout.elements(ShardId{k}) > 0) shards.push_back(ShardId{k});
  }
  return shards;
}

// A cut of these shards, as one of all.
server::Cut OfAllShards(server::Cut cut, const Job& job, const std::vector<ShardId>& shards) {
  std::vector<Buffers> slices(job.layout->shard_count());
  for (size_t i = 0; i < shards.size(); ++i) slices[Index(shards[i])] = std::move(cut.slices[i]);
  cut.slices = std::move(slices);
  return cut;
}

// The cuts in order, the end last.
absl::StatusOr<std::vector<server::Cut>> ReadCuts(const Job& job) {
  const std::vector<ShardId> shards = WithParameters(*job.layout);
  server::CutAssembler assembler(static_cast<uint32_t>(shards.size()));
  server::Cut end;
  for (size_t i = 0; i < shards.size(); ++i) {
    SOAP_ASSIGN_OR_RETURN(std::vector<Snapshot> snapshots, ReadShard(job, shards[i]));
    end.at = std::max(end.at, snapshots.back().at);
    end.slices.push_back(std::move(snapshots.back().slices));
    snapshots.pop_back();
    for (Snapshot& snapshot : snapshots) {
      assembler.Add(ShardId{static_cast<uint32_t>(i)}, std::move(snapshot));
    }
  }
  std::vector<server::Cut> cuts;
  while (std::optional<server::Cut> cut = assembler.Next()) {
    cuts.push_back(OfAllShards(*std::move(cut), job, shards));
  }
  cuts.push_back(OfAllShards(std::move(end), job, shards));
  return cuts;
}

}  // namespace

std::string ShardCurvePart(const std::string& path, ShardId shard) {
  return absl::StrCat(path, ".shard-", Index(shard));
}

std::string WorkerCurvePart(const std::string& path, WorkerId worker) {
  return absl::StrCat(path, ".worker-", Index(worker));
}

absl::Status WriteShardPart(const std::string& path, ShardId shard,
                            const std::vector<Snapshot>& snapshots) {
  const std::string part = ShardCurvePart(path, shard);
  std::ofstream file(part, std::ios::binary);
  for (const Snapshot& snapshot : snapshots) {
    SnapshotHead head{.at = snapshot.at, .steps = snapshot.steps};
    for (const Buffer& slice : snapshot.slices) head.elements += slice.size() / sizeof(float);
    file.write(reinterpret_cast<const char*>(&head), sizeof(head));
    for (const Buffer& slice : snapshot.slices) {
      file.write(reinterpret_cast<const char*>(slice.data()),
                 static_cast<std::streamsize>(slice.size()));
    }
  }
  file.close();
  return file ? absl::OkStatus() : LeaveNote(part, std::strerror(errno));
}

absl::StatusOr<std::unique_ptr<WorkerCurve>> WorkerCurve::Open(const std::string& path,
                                                               WorkerId worker) {
  const std::string part = WorkerCurvePart(path, worker);
  std::ofstream file(part, std::ios::app);
  if (!file) return CannotWritePart(part, std::strerror(errno));
  return std::unique_ptr<WorkerCurve>(new WorkerCurve(part, std::move(file)));
}

WorkerCurve::~WorkerCurve() {
  file_.close();  // or what it still holds would follow the note
  NoteFailure();
  if (!failure_.empty()) LeaveNote(part_, failure_).IgnoreError();  // who joins the parts reads it
}

void WorkerCurve::NoteFailure() {
  if (!file_ && failure_.empty()) failure_ = std::strerror(errno);
}

void WorkerCurve::Start(Nanos now, uint64_t bytes) {
  file_ << absl::StrFormat("%s,%d,%d\n", kBegan, now, bytes);
  NoteFailure();
}

void WorkerCurve::Take(Nanos now, const wire::Progress& progress, uint64_t bytes) {
  if (progress.samples == samples_ && progress.clock == clock_) return;
  samples_ = progress.samples;
  clock_ = progress.clock;
  file_ << absl::StrFormat("%d,%d,%.17g,%d\n", now, progress.samples, progress.loss_sum, bytes);
  NoteFailure();
}

void WorkerCurve::TakeReplica(const worker::DeviceEvent& evaluation) {
  file_ << absl::StrFormat("%s,%d,%d\n", kReplica, std::llround(evaluation.correct),
                           evaluation.samples);
  NoteFailure();
}

void RemoveCurveParts(const Job& job) {
  const std::string& path = job.config.output().curve_path();
  std::error_code missing;
  for (uint32_t k = 0; k < job.layout->shard_count(); ++k) {
    std::filesystem::remove(ShardCurvePart(path, ShardId{k}), missing);
  }
  for (uint32_t w = 0; w < job.config.cluster().workers(); ++w) {
    std::filesystem::remove(WorkerCurvePart(path, WorkerId{w}), missing);
  }
}

absl::StatusOr<RealCurve> JoinCurve(const Job& job) {
  SOAP_ASSIGN_OR_RETURN(const WorkerParts workers, ReadWorkers(job.config.output().curve_path(),
                                                               job.config.cluster().workers()));
  SOAP_ASSIGN_OR_RETURN(std::vector<server::Cut> cuts, ReadCuts(job));
  SOAP_ASSIGN_OR_RETURN(experiment::Evaluator evaluator,
                        experiment::Evaluator::Create(*job.graph, job.data, job.layout));
  const uint64_t samples = workers.Until(cuts.back().at).samples;
  RealCurve curve;
  Done before;
  for (server::Cut& cut : cuts) {
    const Done done = workers.Until(cut.at);
    const bool end = &cut == &cuts.back();
    // As in co-simulation: when all samples have been trained on, the end is what comes.
    if (!end && (done.samples == samples || done.samples == before.samples)) continue;
    const experiment::HeldOut test = evaluator.Evaluate(std::move(cut.slices));
    const uint64_t fresh = done.samples - before.samples;
    double train_loss = curve.points.empty() ? 0 : curve.points.back().train_loss;
    if (fresh > 0) train_loss = (done.loss_sum - before.loss_sum) / static_cast<double>(fresh);
    curve.points.push_back(
        {.time_s = static_cast<double>(cut.at - workers.began) / static_cast<double>(kSecond),
         .samples = done.samples,
         .train_loss = train_loss,
         .test_loss = test.loss,
         .test_accuracy = test.accuracy,
         .bytes = done.bytes});
    before = done;
  }
  if (!workers.replicas.empty()) {
    const auto [least, greatest] =
        std::minmax_element(workers.replicas.begin(), workers.replicas.end());
    curve.replicas = {*least, experiment::Median(workers.replicas), *greatest};
  }
  RemoveCurveParts(job);
  return curve;
}

}  // namespace soapstone::apps
