#include "bench/engine_cost.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cluster/actor_options.h"
#include "consistency/policy.h"
#include "glog/logging.h"
#include "worker/engine.h"

namespace soapstone::bench {
namespace {

using Steady = std::chrono::steady_clock;

constexpr uint32_t kLayers = 12, kLayerElements = 2600;
constexpr uint64_t kEngineBucketBytes = 2048;
constexpr Clock kEndless = 1'000'000'000;

// One engine, and the least of a shard and of a device: both answer at once.
class Loop {
 public:
  explicit Loop(uint32_t micro_batch_count)
      : engine_(cluster::EngineOptionsOf(JobOf(micro_batch_count), WorkerId{0})) {
    wire::Message roster;
    roster.type = wire::MessageType::kRoster;
    roster.epoch = 2;
    // A replacement pushes micro-batch by micro-batch.
    roster.body = wire::Roster{
        .workers = {{.worker = WorkerId{0}, .admitted = 1, .original = false}}, .worker_count = 1};
    engine_.OnMessage(0, roster, {&out_, &commands_});
    wire::Message start;
    start.type = wire::MessageType::kStart;
    start.clock = 0;
    engine_.OnMessage(0, start, {&out_, &commands_});
  }

  void Step() {
    const Clock before = engine_.clock();
    while (engine_.clock() == before) {
      CHECK(!out_.messages.empty() || !commands_.empty()) << "the engine waits for nothing";
      messages_.clear();
      messages_.swap(out_.messages);
      for (const wire::Message& message : messages_) Answer(message);
      taken_.clear();
      taken_.swap(commands_);
      for (const worker::DeviceCommand& command : taken_) Answer(command);
    }
  }

  uint64_t instructions() const { return instructions_; }
  uint64_t events() const { return events_; }

 private:
  static std::shared_ptr<const wire::Layout> MakeLayout() {
    std::vector<ParamSpec> params;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      params.push_back({.name = absl::StrCat("layer", layer), .shape = {kLayerElements}});
    }
    return std::make_shared<const wire::Layout>(*wire::Layout::Build(
        std::move(params), {.shard_count = 1, .bucket_bytes = kEngineBucketBytes}));
  }
  static std::shared_ptr<const std::vector<worker::OpOutline>> MakeOps() {
    std::vector<worker::OpOutline> ops;
    for (uint32_t layer = 0; layer < kLayers; ++layer) ops.push_back({{ParamId{layer}}});
    return std::make_shared<const std::vector<worker::OpOutline>>(std::move(ops));
  }

  // A sample a micro-batch.
  static cluster::TrainingJob JobOf(uint32_t micro_batch_count) {
    cluster::TrainingJob job = {.specs = {.policy = *consistency::ParsePolicy("backup:b=0")},
                                .layout = MakeLayout(),
                                .batch = micro_batch_count,
                                .micro_batches = micro_batch_count,
                                .total_clocks = kEndless,
                                .train_samples = micro_batch_count,
                                .ops = MakeOps()};
    cluster::Complete(&job);
    return job;
  }

  void Answer(const wire::Message& message) {
    ++instructions_;
    if (message.type != wire::MessageType::kPull) return;
    wire::Message reply;
    reply.type = wire::MessageType::kPullReply;
    reply.from = message.to;
    reply.clock = message.clock;
    reply.body = wire::PullReply{.oldest = message.clock};
    engine_.OnMessage(0, reply, {&out_, &commands_});
  }
  void Answer(const worker::DeviceCommand& command) {
    ++instructions_;
    if (!command.wants_event) return;
    ++events_;
    engine_.OnDevice(0, {.run = command.run, .instruction = command.instruction, .samples = 1},
                     {&out_, &commands_});
  }

  worker::Engine engine_;
  wire::Outbox out_;
  std::vector<worker::DeviceCommand> commands_, taken_;
  std::vector<wire::Message> messages_;
  uint64_t instructions_ = 0, events_ = 0;
};

}  // namespace

double EngineCost::median() const {
  std::vector<double> sorted = each;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? 0 : sorted[sorted.size() / 2];
}

EngineCost MeasureEngine(uint64_t instructions, uint32_t repeats, double seconds) {
  // Found by what a step of few micro-batches has.
  Loop small(16);
  small.Step();
  const uint64_t a_micro_batch = std::max<uint64_t>(small.instructions() / 16, 1);
  Loop loop(static_cast<uint32_t>(std::max<uint64_t>(2, instructions / a_micro_batch)));
  loop.Step();
  EngineCost cost = {.instructions = loop.instructions(), .events = loop.events()};
  for (uint32_t repeat = 0; repeat < repeats; ++repeat) {
    const uint64_t before = loop.instructions();
    const Steady::time_point began = Steady::now();
    double passed = 0;
    while (passed < seconds) {
      loop.Step();
      passed = std::chrono::duration<double>(Steady::now() - began).count();
    }
    cost.each.push_back(passed * 1e9 / static_cast<double>(loop.instructions() - before));
  }
  return cost;
}

std::string EngineTable(const std::vector<EngineCost>& costs) {
  std::string text =
      "The engine of a worker\n  instructions a step   events a step   "
      "us an instruction (least to greatest)\n";
  for (const EngineCost& cost : costs) {
    const auto [least, greatest] = std::minmax_element(cost.each.begin(), cost.each.end());
    absl::StrAppendFormat(&text, "  %19d   %13d   %7.3f (%.3f to %.3f)\n", cost.instructions,
                          cost.events, cost.median() / 1e3, *least / 1e3, *greatest / 1e3);
  }
  return text;
}

}  // namespace soapstone::bench
