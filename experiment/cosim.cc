#include "experiment/cosim.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "experiment/evaluator.h"
#include "glog/logging.h"
#include "models/replica.h"
#include "models/sampler.h"
#include "server/model_gatherer.h"
#include "server/snapshot.h"
#include "server/store.h"
#include "worker/executor.h"

namespace soapstone::experiment {
namespace {

absl::Status CheckJob(const CosimJob& job) {
  const auto error = [](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (job.data == nullptr || job.data->train.size() == 0 || job.data->test.size() == 0) {
    return error("co-simulation needs training and held-out samples");
  }
  if (job.layout == nullptr || job.layout->params() != job.graph.params()) {
    return error("the layout is not of this graph's parameters");
  }
  if (job.batch < 1) return error("batch: at least 1 is needed");
  const uint32_t leaves = job.micro_batches == 0 ? job.workers : job.micro_batches;
  if (leaves < job.workers) {
    return error("micro_batches: ", leaves, " is less than the ", job.workers,
                 " workers: each needs one at least");
  }
  if (job.batch < leaves) {
    return error("batch: ", job.batch, " samples is less than the ", leaves,
                 " micro-batches of a batch");
  }
  if (job.total_clocks < 1) return error("total_clocks: at least 1 is needed");
  return absl::OkStatus();
}

// What stands behind the actors: stores and devices of all workers, and the account that is kept of
// them.
class Backing {
 public:
  Backing(const CosimJob& job, const CosimOptions& options)
      : job_(job), options_(options), cuts_(job.layout->shard_count()) {}

  absl::Status Prepare();
  sim::Training Training();
  void ReportProgress(double fraction) const {
    options_.progress(fraction, curve_.empty() ? nullptr : &curve_.back());
  }
  // After the run.
  void Close(CosimResult* result);

 private:
  // A worker's device, and its parameters while another's are in the shared replica. Empty: it
  // loads them anew for each step, into the replica's own.
  struct Device {
    std::unique_ptr<worker::Executor> executor;
    models::Replica::Parameters parameters;
  };

  absl::StatusOr<Device> MakeDevice(bool keeps_parameters);
  server::Store MakeStore(ShardId shard);
  void Run(Device* device, const worker::DeviceCommand& command,
           std::vector<worker::DeviceEvent>* events);
  HeldOut Evaluate(Device* device);
  void OnSettled(const sim::TrainingMoment& moment);
  void AddPoint(const sim::TrainingMoment& moment, std::vector<std::vector<Buffer>> slices);
  std::string Sha256() const;

  const CosimJob& job_;
  const CosimOptions& options_;
  std::shared_ptr<models::Replica> replica_;
  std::vector<Device> devices_;     // by worker
  const Device* loaded_ = nullptr;  // whose parameters are the replica's own, of devices that load
  std::vector<server::Store> stores_;  // by shard; they share the shards' tensors
  std::unique_ptr<Evaluator> evaluator_;
  std::vector<server::SnapshotTaker> takers_;  // by shard; none: one point, at the end
  server::CutAssembler cuts_;
  std::vector<CurvePoint> curve_;
  uint64_t samples_ = 0;        // of the whole run
  sim::TrainingMoment point_;   // of the last point
  sim::TrainingMoment latest_;  // of the last settled time
};

absl::Status Backing::Prepare() {
  SOAP_ASSIGN_OR_RETURN(replica_, models::Replica::Create(job_.graph));
  devices_.reserve(job_.workers);
  for (uint32_t w = 0; w < job_.workers; ++w) {
    SOAP_ASSIGN_OR_RETURN(Device device,
                          MakeDevice(job_.policy.exchange != consistency::Exchange::kGradient));
    devices_.push_back(std::move(device));
  }
  SOAP_ASSIGN_OR_RETURN(Evaluator evaluator, Evaluator::Create(job_.graph, job_.data, job_.layout));
  evaluator_ = std::make_unique<Evaluator>(std::move(evaluator));
  for (uint32_t k = 0; k < job_.layout->shard_count(); ++k) {
    stores_.push_back(MakeStore(ShardId{k}));
    if (options_.samples_per_point > 0) takers_.emplace_back(options_.samples_per_point);
  }
  const models::Sampler sampler(job_.seed, job_.data->train.size(), job_.batch);
  for (Clock c = 0; c < job_.total_clocks; ++c) samples_ += sampler.BatchSamples(c);
  return absl::OkStatus();
}

absl::StatusOr<Backing::Device> Backing::MakeDevice(bool keeps_parameters) {
  Device device;
  SOAP_ASSIGN_OR_RETURN(device.executor,
                        worker::Executor::Create({.graph = job_.graph,
                                                  .data = job_.data,
                                                  .layout = job_.layout,
                                                  .seed = job_.seed,
                                                  .batch = job_.batch,
                                                  .optimizer = job_.optimizer,
                                                  .local_momentum = job_.policy.local_momentum,
                                                  .schedule = job_.schedule,
                                                  .total_clocks = job_.total_clocks,
                                                  .now = [] { return Nanos{0}; },
                                                  .replica = replica_}));
  if (keeps_parameters) device.parameters = replica_->NewParameters();
  return device;
}

server::Store Backing::MakeStore(ShardId shard) {
  const auto buckets = static_cast<uint32_t>(job_.layout->buckets(shard).size());
  return server::Store(server::TensorStore({.layout = job_.layout,
                                            .shard = shard,
                                            .optimizer = job_.optimizer,
                                            .schedule = job_.schedule,
                                            .total_clocks = job_.total_clocks,
                                            .seed = job_.seed,
                                            .rule = job_.policy.store,
                                            .fixed_tree = job_.policy.fixed_tree}),
                       server::CountStore(buckets));
}

sim::Training Backing::Training() {
  return {
      .layout = job_.layout,
      .ops = std::make_shared<const std::vector<worker::OpOutline>>(worker::OutlineOf(job_.graph)),
      .train_samples = job_.data->train.size(),
      .batch = job_.batch,
      .make_store = [this](ShardId shard) { return stores_[Index(shard)]; },
      .device =
          [this](WorkerId worker, const worker::DeviceCommand& command,
                 std::vector<worker::DeviceEvent>* events) {
            Run(&devices_[Index(worker)], command, events);
          },
      .settled = [this](const sim::TrainingMoment& moment) { OnSettled(moment); }};
}

void Backing::Run(Device* device, const worker::DeviceCommand& command,
                  std::vector<worker::DeviceEvent>* events) {
  if (device->parameters.empty()) {
    if (command.what.op == worker::Op::kLoad) loaded_ = device;
    CHECK_EQ(loaded_, device) << "a step began without loading its parameters";
    return device->executor->Run(command, events);
  }
  replica_->SwapParameters(&device->parameters);
  device->executor->Run(command, events);
  replica_->SwapParameters(&device->parameters);
}

HeldOut Backing::Evaluate(Device* device) {
  replica_->SwapParameters(&device->parameters);
  const HeldOut result = HeldOutOf(device->executor->Evaluate());
  replica_->SwapParameters(&device->parameters);
  return result;
}

void Backing::OnSettled(const sim::TrainingMoment& moment) {
  latest_ = moment;
  for (uint32_t k = 0; k < takers_.size(); ++k) {
    std::optional<server::Snapshot> snapshot = takers_[k].Look(moment.now, stores_[k]);
    if (snapshot.has_value()) cuts_.Add(ShardId{k}, *std::move(snapshot));
  }
  std::optional<server::Cut> latest;
  while (std::optional<server::Cut> cut = cuts_.Next()) latest = std::move(cut);
  // The last point is made at the end, when no update is on its way any more.
  if (latest.has_value() && moment.samples < samples_) AddPoint(moment, std::move(latest->slices));
}

void Backing::AddPoint(const sim::TrainingMoment& moment, std::vector<std::vector<Buffer>> slices) {
  const HeldOut test = evaluator_->Evaluate(std::move(slices));
  // Samples that no point has yet; else the loss is the latest point's.
  const uint64_t fresh = moment.samples - point_.samples;
  double train_loss = curve_.empty() ? 0 : curve_.back().train_loss;
  if (fresh > 0) train_loss = (moment.loss_sum - point_.loss_sum) / static_cast<double>(fresh);
  curve_.push_back({.time_s = static_cast<double>(moment.now) / static_cast<double>(kSecond),
                    .samples = moment.samples,
                    .train_loss = train_loss,
                    .test_loss = test.loss,
                    .test_accuracy = test.accuracy,
                    .bytes = moment.bytes});
  point_ = moment;
}

std::string Backing::Sha256() const {
  server::ModelGatherer gatherer(job_.layout);
  for (uint32_t k = 0; k < stores_.size(); ++k) {
    wire::Message slices;
    slices.from = wire::Address::Of(ShardId{k});
    slices.payload = stores_[k].Read();
    const absl::StatusOr<bool> taken = gatherer.OnSlices(slices);
    CHECK(taken.ok()) << taken.status();
  }
  return gatherer.Sha256Hex();
}

void Backing::Close(CosimResult* result) {
  if (latest_.samples > point_.samples) {
    std::vector<std::vector<Buffer>> slices;
    slices.reserve(stores_.size());
    for (const server::Store& store : stores_) slices.push_back(store.Read());
    AddPoint(latest_, std::move(slices));
  }
  if (!curve_.empty()) {
    result->test_accuracy = curve_.back().test_accuracy;
    result->test_loss = curve_.back().test_loss;
  }
  result->curve = std::move(curve_);
  result->sha256 = Sha256();
  if (job_.policy.exchange == consistency::Exchange::kGradient) return;
  std::vector<double> accuracies;
  accuracies.reserve(devices_.size());
  for (Device& device : devices_) {
    accuracies.push_back(Evaluate(&device).accuracy);
  }
  std::sort(accuracies.begin(), accuracies.end());
  const size_t half = accuracies.size() / 2;
  const double median =
      accuracies.size() % 2 == 1 ? accuracies[half] : (accuracies[half - 1] + accuracies[half]) / 2;
  result->replica_accuracy = {accuracies.front(), median, accuracies.back()};
}

}  // namespace

absl::StatusOr<CosimResult> Cosimulate(const CosimJob& job, const CosimTiming& timing,
                                       const CosimOptions& options) {
  SOAP_RETURN_IF_ERROR(CheckJob(job));
  Backing backing(job, options);
  SOAP_RETURN_IF_ERROR(backing.Prepare());
  const sim::Training training = backing.Training();
  sim::VirtualOptions run = {.workers = job.workers,
                             .leaf_count = job.micro_batches,
                             .rebalance = job.rebalance,
                             .policy = job.policy.spec,
                             .stragglers = timing.stragglers,
                             .seed = timing.seed,
                             .clocks = job.total_clocks,
                             .iteration_ns = timing.iteration_ns,
                             .latency_us = timing.latency_us,
                             .bandwidth_mbps = timing.bandwidth_mbps,
                             .training = &training,
                             .timeline = options.timeline,
                             .wall_seconds = options.wall_seconds};
  if (options.progress) {
    run.progress = [&](double fraction) { backing.ReportProgress(fraction); };
  }
  CosimResult result;
  SOAP_ASSIGN_OR_RETURN(result.timing, sim::RunVirtual(run));
  const double unit = static_cast<double>(timing.iteration_ns) / static_cast<double>(kSecond);
  result.duration_s = result.timing.duration * unit;
  result.compute_s = result.timing.computing * unit;
  result.wait_s = result.timing.waiting * unit;
  for (const Clock clock : result.timing.clocks) result.iterations += static_cast<uint64_t>(clock);
  backing.Close(&result);
  return result;
}

}  // namespace soapstone::experiment
