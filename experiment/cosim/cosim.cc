#include "experiment/cosim/cosim.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cluster/actor_options.h"
#include "cluster/evaluator.h"
#include "cluster/straggler.h"
#include "compute/cpu/backend.h"
#include "glog/logging.h"
#include "models/data/sampler.h"
#include "models/runtime/graph_runner.h"
#include "server/model/model_gatherer.h"
#include "server/peer/peer_vectors.h"
#include "server/store/snapshot.h"
#include "server/store/store.h"
#include "worker/device/executor.h"
#include "worker/device/seat_executor.h"

namespace soapstone::experiment {
namespace {

absl::Status CheckJob(const cluster::TrainingJob& job) {
  const auto error = [](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (job.graph == nullptr || job.tables != nullptr) {
    return error("co-simulation needs a model of tensors");
  }
  if (job.data == nullptr || job.data->train.size() == 0 || job.data->test.size() == 0) {
    return error("co-simulation needs training and held-out samples");
  }
  if (job.layout == nullptr || WholeParams(job.layout->params()) != job.graph->params()) {
    return error("the layout is not of this graph's parameters");
  }
  if (job.layout->transfer_stages() > 1) {
    return error("co-simulation knows no order of sending: communication must be fifo");
  }
  if (job.precision != "float32") {
    return error("co-simulation computes in float32: cluster.precision must not be ",
                 job.precision);
  }
  if (job.batch < 1) return error("batch: at least 1 is needed");
  const uint32_t micro_batches = job.micro_batches == 0 ? job.workers : job.micro_batches;
  if (micro_batches < job.workers && job.team == nullptr) {
    return error("micro_batches: ", micro_batches, " is less than the ", job.workers,
                 " workers: each needs one at least");
  }
  if (job.batch < micro_batches) {
    return error("batch: ", job.batch, " samples is less than the ", micro_batches,
                 " micro-batches of a batch");
  }
  if (job.total_clocks < 1) return error("total_clocks: at least 1 is needed");
  return absl::OkStatus();
}

// What stands behind the actors: stores and devices of all workers, and the account that is kept of
// them.
class Backing {
 public:
  // Where workers fail, others take over what was theirs in the middle of a step.
  Backing(const cluster::TrainingJob& job, const CosimOptions& options,
          const sim::StragglerModel& stragglers)
      : job_(InVirtualTime(job, stragglers)),
        options_(options),
        own_parameters_(stragglers.fails() || job.specs.policy.keeps_parameters()),
        cuts_(0) {}

  absl::Status Prepare();
  sim::Training Training();
  void ReportProgress(double fraction) const {
    options_.progress(fraction, curve_.empty() ? nullptr : &curve_.back());
  }
  // After the run.
  void Close(CosimResult* result);

 private:
  // A worker's device, and its own parameters while another's are in the shared replica.
  struct Device {
    std::unique_ptr<worker::Executor> executor;
    models::GraphRunner::Parameters parameters;
  };

  // The checkers judge the run, and nobody reads checksums.
  static cluster::TrainingJob InVirtualTime(cluster::TrainingJob job,
                                            const sim::StragglerModel& stragglers) {
    job.specs.stragglers = stragglers;
    job.strict = false;
    return job;
  }
  absl::StatusOr<Device> MakeDevice(WorkerId worker);
  absl::Status PrepareDevices();
  server::Store MakeStore(ShardId shard);
  void Run(Device* device, const worker::DeviceCommand& command,
           std::vector<worker::DeviceEvent>* events);
  void Restart(WorkerId worker);
  HeldOut Evaluate(Device* device);
  std::vector<Buffers> MeanOf(absl::Span<const std::shared_ptr<server::PeerVectors>> peers) const;
  void OnSettled(const sim::TrainingMoment& moment);
  void AddPoint(const sim::TrainingMoment& moment, std::vector<Buffers> slices);
  std::string Sha256() const;

  const cluster::TrainingJob job_;
  const CosimOptions& options_;
  // A device's parameters outlive its turn; else each step loads them anew, into the replica's own.
  const bool own_parameters_;
  std::shared_ptr<models::GraphRunner> replica_;
  std::vector<Device> devices_;  // by worker
  // Likewise, of a model that is split: each has what it needs for itself.
  std::vector<std::unique_ptr<worker::SeatExecutor>> seats_;
  const Device* loaded_ = nullptr;  // whose parameters are the replica's own, of devices that load
  std::vector<server::Store> stores_;  // by shard; they share the shards' tensors
  // Decentralised policies: by worker, what its peer keeps.
  std::vector<std::shared_ptr<server::PeerVectors>> peers_;
  uint64_t next_point_ = 0;  // of theirs: samples trained
  std::unique_ptr<Evaluator> evaluator_;
  // Of shards that have parameters; none: one point, at the end.
  struct Taker {
    ShardId shard{};
    server::SnapshotTaker taker;
  };
  std::vector<Taker> takers_;
  server::CutAssembler cuts_;
  std::vector<CurvePoint> curve_;
  uint64_t samples_ = 0;        // of the whole run
  sim::TrainingMoment point_;   // of the last point
  sim::TrainingMoment latest_;  // of the last settled time
};

// Seats have kernels and activations of their own: a team's devices are in the middle of a step all
// at once.
absl::Status Backing::PrepareDevices() {
  if (job_.team != nullptr) {
    const std::shared_ptr<compute::Backend> backend =
        compute::MakeCpuBackend({.threads = job_.threads});
    for (uint32_t w = 0; w < job_.workers; ++w) {
      worker::SeatExecutorOptions options = cluster::SeatExecutorOptionsOf(job_, WorkerId{w});
      options.backend = backend;
      SOAP_ASSIGN_OR_RETURN(std::unique_ptr<worker::SeatExecutor> seat,
                            worker::SeatExecutor::Create(std::move(options)));
      seats_.push_back(std::move(seat));
    }
    return absl::OkStatus();
  }
  SOAP_ASSIGN_OR_RETURN(replica_, models::GraphRunner::Create(
                                      *job_.graph, {.threads = job_.threads, .seed = job_.seed}));
  devices_.reserve(job_.workers);
  for (uint32_t w = 0; w < job_.workers; ++w) {
    SOAP_ASSIGN_OR_RETURN(Device device, MakeDevice(WorkerId{w}));
    devices_.push_back(std::move(device));
  }
  return absl::OkStatus();
}

absl::Status Backing::Prepare() {
  SOAP_RETURN_IF_ERROR(PrepareDevices());
  SOAP_ASSIGN_OR_RETURN(Evaluator evaluator,
                        Evaluator::Create(*job_.graph, job_.data, job_.layout));
  evaluator_ = std::make_unique<Evaluator>(std::move(evaluator));
  for (uint32_t w = 0; w < job_.workers && job_.specs.policy.decentralised(); ++w) {
    peers_.push_back(cluster::PeerVectorsOf(job_, WorkerId{w}));
  }
  for (uint32_t k = 0; k < job_.layout->shard_count(); ++k) {
    stores_.push_back(MakeStore(ShardId{k}));
    if (options_.samples_per_point > 0 && peers_.empty() && job_.layout->elements(ShardId{k}) > 0) {
      takers_.push_back({ShardId{k}, server::SnapshotTaker(options_.samples_per_point)});
    }
  }
  cuts_ = server::CutAssembler(static_cast<uint32_t>(takers_.size()));
  const models::Sampler sampler(job_.seed, job_.data->train.size(), job_.batch);
  for (Clock c = 0; c < job_.total_clocks; ++c) samples_ += sampler.BatchSamples(c);
  return absl::OkStatus();
}

absl::StatusOr<Backing::Device> Backing::MakeDevice(WorkerId worker) {
  Device device;
  worker::ExecutorOptions options = cluster::ExecutorOptionsOf(job_, worker);
  options.replica = replica_;
  SOAP_ASSIGN_OR_RETURN(device.executor, worker::Executor::Create(std::move(options)));
  if (own_parameters_) device.parameters = replica_->NewParameters();
  return device;
}

server::Store Backing::MakeStore(ShardId shard) {
  const auto buckets = static_cast<uint32_t>(job_.layout->buckets(shard).size());
  return {server::TensorStore(cluster::StoreOptionsOf(job_, shard)), server::CountStore(buckets)};
}

sim::Training Backing::Training() {
  sim::Training training = {.job = job_};
  // Those of a tree's branches hold nothing of the model.
  training.make_store = [this](ShardId shard) {
    return Index(shard) < stores_.size() ? stores_[Index(shard)] : MakeStore(shard);
  };
  training.make_peer_vectors = [this](WorkerId worker) { return peers_[Index(worker)]; };
  training.device = [this](WorkerId worker, const worker::DeviceCommand& command,
                           std::vector<worker::DeviceEvent>* events) {
    if (!seats_.empty()) return seats_[Index(worker)]->Run(command, events);
    Run(&devices_[Index(worker)], command, events);
  };
  training.restart = [this](WorkerId worker) { Restart(worker); };
  training.settled = [this](const sim::TrainingMoment& moment) { OnSettled(moment); };
  return training;
}

void Backing::Run(Device* device, const worker::DeviceCommand& command,
                  std::vector<worker::DeviceEvent>* events) {
  if (!own_parameters_) {
    if (std::holds_alternative<worker::LoadCommand>(command.what)) loaded_ = device;
    CHECK_EQ(loaded_, device) << "a step began without loading its parameters";
    return device->executor->Run(command, events);
  }
  replica_->SwapParameters(&device->parameters);
  device->executor->Run(command, events);
  replica_->SwapParameters(&device->parameters);
}

void Backing::Restart(WorkerId worker) {
  Device& device = devices_[Index(worker)];
  if (loaded_ == &device) loaded_ = nullptr;
  absl::StatusOr<Device> fresh = MakeDevice(worker);
  CHECK(fresh.ok()) << fresh.status();  // its like was made before
  device = *std::move(fresh);
  if (peers_.empty()) return;
  peers_[Index(worker)] = cluster::PeerVectorsOf(job_, worker);
}

HeldOut Backing::Evaluate(Device* device) {
  replica_->SwapParameters(&device->parameters);
  const HeldOut result = HeldOutOf(device->executor->Evaluate());
  replica_->SwapParameters(&device->parameters);
  return result;
}

// The model that `peers` stand for, the mean of their values by weight: a buffer a slice, by shard.
std::vector<Buffers> Backing::MeanOf(
    absl::Span<const std::shared_ptr<server::PeerVectors>> peers) const {
  std::vector<float> mean(peers.front()->elements());
  double weight = 0;
  for (const auto& peer : peers) weight += peer->weight();
  for (const auto& peer : peers) {
    const Buffer values = peer->Values();
    const auto share = static_cast<float>(peer->weight() / weight);
    for (size_t e = 0; e < mean.size(); ++e) mean[e] += share * values.floats()[e];
  }
  const std::vector<uint64_t> offsets = server::ParamOffsets(job_.layout->params());
  const Buffer flat = Buffer::CopyOf(absl::MakeConstSpan(mean));
  std::vector<Buffers> slices;
  for (uint32_t k = 0; k < job_.layout->shard_count(); ++k) {
    slices.push_back(
        server::CutSlices(flat, job_.layout->slices(ShardId{k}), offsets, sizeof(float)));
  }
  return slices;
}

void Backing::OnSettled(const sim::TrainingMoment& moment) {
  latest_ = moment;
  // Peers have the model until they hand it in: there is no store to look at.
  if (!peers_.empty() && options_.samples_per_point > 0 && moment.samples < samples_ &&
      moment.samples >= next_point_ + options_.samples_per_point) {
    next_point_ = moment.samples;
    return AddPoint(moment, MeanOf(peers_));
  }
  for (uint32_t k = 0; k < takers_.size(); ++k) {
    std::optional<server::Snapshot> snapshot =
        takers_[k].taker.Look(moment.now, stores_[Index(takers_[k].shard)]);
    if (snapshot.has_value()) cuts_.Add(ShardId{k}, *std::move(snapshot));
  }
  std::optional<server::Cut> latest;
  while (std::optional<server::Cut> cut = cuts_.Next()) latest = std::move(cut);
  // The last point is made at the end, when no update is on its way any more.
  if (!latest.has_value() || moment.samples >= samples_) return;
  std::vector<Buffers> slices(job_.layout->shard_count());
  for (size_t k = 0; k < takers_.size(); ++k) {
    slices[Index(takers_[k].shard)] = std::move(latest->slices[k]);
  }
  AddPoint(moment, std::move(slices));
}

void Backing::AddPoint(const sim::TrainingMoment& moment, std::vector<Buffers> slices) {
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
  return server::HashOfShards(job_.layout, [&](ShardId shard, BucketId bucket) {
    return stores_[Index(shard)].ReadBucket(bucket);
  });
}

void Backing::Close(CosimResult* result) {
  if (latest_.samples > point_.samples) {
    std::vector<Buffers> slices;
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
  if (!seats_.empty()) return;  // of a replica each has a part
  if (!job_.specs.policy.keeps_parameters() && peers_.empty()) return;
  std::vector<double> accuracies;
  accuracies.reserve(devices_.size());
  for (size_t w = 0; w < devices_.size(); ++w) {
    accuracies.push_back(
        peers_.empty()
            ? Evaluate(&devices_[w]).accuracy
            : evaluator_->Evaluate(MeanOf(absl::MakeConstSpan(peers_).subspan(w, 1))).accuracy);
  }
  std::sort(accuracies.begin(), accuracies.end());
  const size_t half = accuracies.size() / 2;
  const double median =
      accuracies.size() % 2 == 1 ? accuracies[half] : (accuracies[half - 1] + accuracies[half]) / 2;
  result->replica_accuracy = {accuracies.front(), median, accuracies.back()};
}

}  // namespace

absl::StatusOr<CosimResult> Cosimulate(const cluster::TrainingJob& job, const CosimTiming& timing,
                                       const CosimOptions& options) {
  SOAP_RETURN_IF_ERROR(CheckJob(job));
  SOAP_ASSIGN_OR_RETURN(const sim::StragglerModel stragglers,
                        sim::StragglerModel::Parse(timing.stragglers, timing.seed));
  Backing backing(job, options, stragglers);
  SOAP_RETURN_IF_ERROR(backing.Prepare());
  const sim::Training training = backing.Training();
  sim::VirtualOptions run = {.stragglers = timing.stragglers,
                             .seed = timing.seed,
                             .iteration_ns = timing.iteration_ns,
                             .latency_us = timing.latency_us,
                             .bandwidth_mbps = timing.bandwidth_mbps,
                             .timeout_ns = timing.timeout_ns,
                             .training = &training,
                             .seat_costs = timing.seat_costs,
                             .machine = timing.machine,
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
  result.iterations = result.timing.iterations;
  backing.Close(&result);
  if (result.timing.diverged.has_value()) {
    result.diverged = *result.timing.diverged;
  } else if (!std::isfinite(result.test_loss)) {
    result.diverged =
        "diverged: the loss of the trained model on the held-out samples is not finite";
  }
  return result;
}

}  // namespace soapstone::experiment
