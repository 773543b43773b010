#include "tests/golden/direct_cluster.h"

#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/leaf_tree.h"
#include "base/random.h"
#include "base/sha256.h"
#include "cluster/actor_options.h"
#include "compute/init.h"
#include "glog/logging.h"
#include "models/zoo/zoo.h"

namespace soapstone::golden {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

constexpr int64_t kPicksMax = 5'000'000;

models::Graph GraphOf(const TrainingSetup& setup) {
  return *models::BuildModel(setup.model, Digits()->train.shape, 10);
}

class DirectCluster {
 public:
  explicit DirectCluster(const TrainingSetup& setup) : setup_(setup), job_(JobOf(setup)) {
    const uint32_t copies = consistency::ServerCopies(job_.specs.policy, setup.workers);
    for (uint32_t k = 0; k < setup.shards * copies; ++k) AddShard(ShardId{k});
    for (uint32_t w = 0; w < setup.workers; ++w) AddWorker(WorkerId{w});
    roster_.worker_count = setup.workers;
    for (uint32_t w = 0; w < setup.workers; ++w) {
      roster_.workers.push_back({.worker = WorkerId{w}, .admitted = 1});
    }
  }

  TrainingResult Run() {
    SendRoster(1);
    while (!channels_.empty()) Pick(0);  // as the coordinator: nobody starts before all know
    for (uint32_t w = 0; w < setup_.workers; ++w) {
      Message start;
      start.type = MessageType::kStart;
      start.from = Address::Scheduler();
      start.to = Address::Of(WorkerId{w});
      start.clock = 0;
      channels_[{start.from, start.to}].push_back(start);
    }
    const CounterRandom random(setup_.order_seed, RandomUse::kTest);
    TrainingResult result;
    for (int64_t pick = 0; pick < kPicksMax; ++pick) {
      // Silence is noticed in time, even when all others wait for the lost one.
      if (noticed_at_ == pick || (noticed_at_ > pick && channels_.empty() && devices_.empty())) {
        noticed_at_ = -1;
        Notice();
      }
      const size_t choices = channels_.size() + devices_.size();
      if (choices == 0) break;
      Pick(random.Below(static_cast<uint64_t>(pick), choices));
      CheckKill(pick);
    }
    for (uint32_t w = 0; w < engines_.size(); ++w) {
      if (dead_ && w == setup_.killed_worker) continue;
      if (!engines_[w].done()) {
        absl::StrAppend(&result.failure, "worker ", w, " stopped at clock ", engines_[w].clock(),
                        engines_[w].failure().value_or(""), "; ");
      }
    }
    Close(&result);
    return result;
  }

 private:
  void AddShard(ShardId id) {
    shards_.emplace_back(cluster::ShardOptionsOf(job_, id),
                         server::Store(cluster::StoreOptionsOf(job_, id)));
  }

  void AddWorker(WorkerId id) {
    executors_.push_back(*worker::Executor::Create(cluster::ExecutorOptionsOf(job_, id)));
    engines_.emplace_back(cluster::EngineOptionsOf(job_, id));
  }

  void SendRoster(Epoch epoch) {
    const auto send = [&](Address to) {
      Message message;
      message.type = MessageType::kRoster;
      message.from = Address::Scheduler();
      message.to = to;
      message.epoch = epoch;
      message.body = roster_;
      channels_[{message.from, to}].push_back(message);
    };
    for (uint32_t k = 0; k < shards_.size(); ++k) send(Address::Of(ShardId{k}));
    for (const wire::Member& member : roster_.workers) send(Address::Of(member.worker));
  }

  void Pick(uint64_t choice) {
    if (choice < devices_.size()) {
      auto it = std::next(devices_.begin(), static_cast<ptrdiff_t>(choice));
      const uint32_t w = it->first;
      worker::DeviceCommand command = std::move(it->second.front());
      it->second.pop_front();
      if (it->second.empty()) devices_.erase(it);
      std::vector<worker::DeviceEvent> events;
      executors_[w]->Run(command, &events);
      for (worker::DeviceEvent& event : events) {
        Collect(w,
                [&](worker::EngineOutput out) { engines_[w].OnDevice(0, std::move(event), out); });
      }
      return;
    }
    auto it = std::next(channels_.begin(), static_cast<ptrdiff_t>(choice - devices_.size()));
    Message message = std::move(it->second.front());
    it->second.pop_front();
    if (it->second.empty()) channels_.erase(it);
    Deliver(std::move(message));
  }

  void Deliver(Message message) {
    if (message.to.role == wire::Role::kShard) {
      wire::Outbox outbox;
      server::Shard& shard = shards_[message.to.index];
      shard.OnMessage(0, std::move(message), &outbox);
      Post(std::move(outbox));
    } else if (message.to.role == wire::Role::kWorker) {
      const uint32_t w = message.to.index;
      if (dead_ && w == setup_.killed_worker) return;
      Collect(w, [&](worker::EngineOutput out) { engines_[w].OnMessage(0, message, out); });
    }
  }

  void Collect(uint32_t w, const std::function<void(worker::EngineOutput)>& call) {
    wire::Outbox outbox;
    std::vector<worker::DeviceCommand> commands;
    call({&outbox, &commands});
    for (worker::DeviceCommand& command : commands) devices_[w].push_back(std::move(command));
    Post(std::move(outbox));
  }

  void Post(wire::Outbox outbox) {
    for (Message& message : outbox.messages) {
      channels_[{message.from, message.to}].push_back(std::move(message));
    }
  }

  void CheckKill(int64_t pick) {
    if (dead_ || setup_.killed_at == kNoClock) return;
    if (engines_[setup_.killed_worker].clock() < setup_.killed_at) return;
    dead_ = true;
    noticed_at_ = pick + setup_.notice_after;
    devices_.erase(setup_.killed_worker);
    // What it had sent is lost on one shard only: the steps must still agree.
    channels_.erase(
        {Address::Of(WorkerId{setup_.killed_worker}), Address::Of(ShardId{setup_.lost_on})});
  }

  void Notice() {
    std::erase_if(roster_.workers.Mutable(), [&](const wire::Member& member) {
      return Index(member.worker) == setup_.killed_worker;
    });
    SendRoster(2);
  }

  void Close(TrainingResult* result) {
    for (server::Shard& shard : shards_) {
      result->violations += shard.ledger().Total().violations;
      result->duplicates += shard.stats().duplicates;
      if (Index(shard.id()) >= setup_.shards) continue;  // a branch's
      for (const Buffer& slice : shard.store().Read()) {
        const absl::Span<const float> values = slice.floats();
        result->parameters.insert(result->parameters.end(), values.begin(), values.end());
      }
    }
    result->sha256 = server::HashOfShards(job_.layout, [this](ShardId shard, BucketId bucket) {
      Message save;
      save.type = MessageType::kSave;
      save.from = Address::Of(ServerId{0});
      save.body = wire::Save{.bucket = bucket};
      wire::Outbox outbox;
      shards_[Index(shard)].OnMessage(0, save, &outbox);
      return outbox.messages.at(0).payload;
    });
    auto executor = *worker::Executor::Create(cluster::ExecutorOptionsOf(job_, WorkerId{0}));
    worker::LoadCommand load;
    for (uint32_t k = 0; k < setup_.shards; ++k) load.frames.push_back(shards_[k].store().Read());
    std::vector<worker::DeviceEvent> events;
    executor->Run({.what = std::move(load)}, &events);
    const worker::DeviceEvent event = executor->Evaluate();
    result->test_accuracy = static_cast<double>(event.correct) / static_cast<double>(event.samples);
  }

  TrainingSetup setup_;
  cluster::TrainingJob job_;
  wire::Roster roster_;
  std::vector<server::Shard> shards_;
  std::vector<worker::Engine> engines_;
  std::vector<std::unique_ptr<worker::Executor>> executors_;
  std::map<std::pair<Address, Address>, std::deque<Message>> channels_;
  std::map<uint32_t, std::deque<worker::DeviceCommand>> devices_;
  bool dead_ = false;
  int64_t noticed_at_ = -1;
};

}  // namespace

std::shared_ptr<const models::TrainTest> Digits(uint64_t split_seed) {
  static auto* const loaded = new std::map<uint64_t, std::shared_ptr<const models::TrainTest>>();
  std::shared_ptr<const models::TrainTest>& data = (*loaded)[split_seed];
  if (data == nullptr) {
    data = std::make_shared<models::TrainTest>(
        *models::LoadData({.format = "digits",
                           .path = std::string(SOAPSTONE_SOURCE_DIR) + "/data/digits/digits.csv.gz",
                           .seed = split_seed}));
  }
  return data;
}

cluster::TrainingJob JobOf(const TrainingSetup& setup) {
  auto graph = std::make_shared<const models::Graph>(GraphOf(setup));
  auto layout = std::make_shared<const wire::Layout>(*wire::Layout::Build(
      graph->params(), {.shard_count = setup.shards, .transfer_stages = setup.transfer_stages}));
  cluster::TrainingJob job = {.specs = {.policy = *consistency::ParsePolicy(setup.policy),
                                        .optimizer = *compute::ParseOptimizer(setup.optimizer),
                                        .schedule = *compute::ParseSchedule(setup.schedule)},
                              .graph = std::move(graph),
                              .data = Digits(setup.split_seed),
                              .layout = std::move(layout),
                              .seed = setup.seed,
                              .batch = setup.batch,
                              .micro_batches = setup.micro_batches,
                              .total_clocks = setup.steps,
                              .workers = setup.workers};
  cluster::Complete(&job);
  return job;
}

TrainingResult TrainByCluster(const TrainingSetup& setup) { return DirectCluster(setup).Run(); }

TrainingResult TrainSequentially(const TrainingSetup& setup) {
  const models::Graph graph = GraphOf(setup);
  const models::TrainTest& data = *Digits(setup.split_seed);
  auto replica = *models::GraphRunner::Create(graph, {.seed = setup.seed});
  models::Sampler sampler(setup.seed, data.train.size(), setup.batch);
  const auto optimizer = *compute::ParseOptimizer(setup.optimizer);
  const auto schedule = *compute::ParseSchedule(setup.schedule);
  const size_t count = graph.params().size();
  std::vector<compute::SliceState> states(count);
  for (uint32_t p = 0; p < count; ++p) {
    compute::InitSlice(graph.params()[p], setup.seed, ParamId{p}, 0, replica->param(ParamId{p}));
  }
  using Gradients = std::vector<std::vector<float>>;
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (Clock step = 0; step < setup.steps; ++step) {
    const uint64_t batch = sampler.BatchSamples(step);
    // T(lo, hi) of base/leaf_tree.h, by recursion.
    const std::function<Gradients(uint32_t, uint32_t)> sum = [&](uint32_t lo, uint32_t hi) {
      Gradients gradients;
      for (const ParamSpec& param : graph.params()) gradients.emplace_back(param.elements());
      if (hi - lo == 1) {
        const SampleRange range = SamplesOfLeaves({lo, hi}, setup.micro_batches, batch);
        if (range.size() == 0) return gradients;
        data.train.Gather(sampler.Samples(step, range.begin, range.end), &inputs, &labels);
        replica->Begin(inputs, labels);
        for (size_t op = 0; op < graph.ops().size(); ++op) replica->ForwardOp(op);
        for (size_t op = graph.ops().size(); op-- > 0;) {
          std::vector<absl::Span<float>> out;
          for (ParamId id : graph.ops()[op].params) {
            out.push_back(absl::MakeSpan(gradients[Index(id)]));
          }
          replica->BackwardOp(op, out);
        }
        return gradients;
      }
      const uint32_t mid = LeafSplit(lo, hi);
      gradients = sum(lo, mid);
      const Gradients right = sum(mid, hi);
      for (size_t p = 0; p < count; ++p) {
        for (size_t i = 0; i < right[p].size(); ++i) gradients[p][i] += right[p][i];
      }
      return gradients;
    };
    const Gradients gradients = sum(0, setup.micro_batches);
    for (uint32_t p = 0; p < count; ++p) {
      compute::ApplyGradient(optimizer,
                             {.lr = compute::LearningRate(optimizer, schedule, step, setup.steps),
                              .scale = 1.0 / static_cast<double>(batch),
                              .average_rate = graph.params()[p].average_rate},
                             gradients[p], replica->param(ParamId{p}), &states[p]);
    }
  }
  Sha256 hash;
  for (uint32_t p = 0; p < count; ++p) {
    const auto values = replica->param(ParamId{p});
    hash.Update(values.data(), values.size() * sizeof(float));
  }
  return {.sha256 = hash.HexDigest()};
}

}  // namespace soapstone::golden
