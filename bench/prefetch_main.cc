// soapstone-prefetch-bench: steps of a worker's device on a folder of images, with batches made
// when they are needed and with batches made ahead by a thread; both in turn. Run by
// bench/scripts/prefetching.py.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/exit_codes.h"
#include "models/data/batches.h"
#include "models/data/dataset.h"
#include "models/zoo/zoo.h"
#include "worker/device/executor.h"

namespace soapstone::bench {
namespace {

constexpr uint64_t kSeed = 1;

struct Flags {
  std::string images;
  std::string model = "lenet5";
  uint64_t batch = 64;
  uint32_t micro_batches = 4;
  Clock steps = 100;
  int rounds = 5;
  std::string augment = "crop:pad=2+flip";
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Samples a second of `steps` steps, all micro-batches one after another.
double Rate(const Flags& flags, const std::shared_ptr<const models::TrainTest>& data,
            const models::Graph& graph, bool prefetch) {
  const auto layout =
      std::make_shared<const wire::Layout>(*wire::Layout::Build(graph.params(), {}));
  const auto executor = *worker::Executor::Create({.graph = graph,
                                                   .data = data,
                                                   .layout = layout,
                                                   .seed = kSeed,
                                                   .batch = flags.batch,
                                                   .total_clocks = flags.steps,
                                                   .now = [] { return Nanos{0}; },
                                                   .prefetch = prefetch});
  std::vector<worker::DeviceEvent> events;
  const auto run = [&](auto pass, uint32_t op, uint32_t micro_batch, Clock clock) {
    pass.op = op;
    pass.part = {micro_batch, micro_batch + 1};
    pass.begins_node = true;
    executor->Run({.what = pass, .clock = clock, .micro_batch_count = flags.micro_batches},
                  &events);
  };
  const models::Batches batches(&data->train, kSeed, flags.batch);
  const auto ops = static_cast<uint32_t>(graph.ops().size());
  uint64_t samples = 0;
  double began = 0;
  for (Clock clock = 0; clock < flags.steps; ++clock) {
    if (clock == 2) began = Seconds();  // after what is compiled once
    for (uint32_t micro_batch = 0; micro_batch < flags.micro_batches; ++micro_batch) {
      for (uint32_t op = 0; op < ops; ++op) run(worker::RunForward{}, op, micro_batch, clock);
      for (uint32_t op = ops; op-- > 0;) run(worker::RunBackward{}, op, micro_batch, clock);
    }
    if (clock >= 2) samples += batches.BatchSamples(clock);
  }
  return static_cast<double>(samples) / (Seconds() - began);
}

// Samples a second of making batches, and nothing else.
double MakingRate(const Flags& flags, const models::TrainTest& data) {
  models::Batches batches(&data.train, kSeed, flags.batch);
  models::MiniBatch feed;
  uint64_t samples = 0;
  const double began = Seconds();
  for (Clock clock = 0; clock < flags.steps; ++clock) {
    batches.Fill({.clock = clock, .end = batches.BatchSamples(clock)}, &feed);
    samples += batches.BatchSamples(clock);
  }
  return static_cast<double>(samples) / (Seconds() - began);
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Run(const Flags& flags) {
  auto loaded = models::LoadData(
      {.format = "images", .path = flags.images, .augment = flags.augment, .seed = kSeed});
  if (!loaded.ok()) {
    std::cerr << "soapstone-prefetch-bench: " << loaded.status().message() << "\n";
    return kExitConfig;
  }
  const auto data = std::make_shared<const models::TrainTest>(*std::move(loaded));
  const auto graph = models::BuildModel(flags.model, data->train.shape, data->train.classes);
  if (!graph.ok()) {
    std::cerr << "soapstone-prefetch-bench: " << graph.status().message() << "\n";
    return kExitConfig;
  }
  std::vector<double> making;
  std::vector<double> direct;
  std::vector<double> ahead;
  std::vector<double> gains;  // of runs beside each other
  for (int round = 0; round < flags.rounds; ++round) {
    making.push_back(MakingRate(flags, *data));
    direct.push_back(Rate(flags, data, *graph, false));
    ahead.push_back(Rate(flags, data, *graph, true));
    gains.push_back(ahead.back() / direct.back());
  }
  std::printf(
      "%s on %lldx%lldx%lld: %.0f samples/s made, %.0f trained, %.0f with prefetching "
      "(x%.2f)\n",
      flags.model.c_str(), static_cast<long long>(data->train.shape.channels),
      static_cast<long long>(data->train.shape.height),
      static_cast<long long>(data->train.shape.width), MedianOf(making), MedianOf(direct),
      MedianOf(ahead), MedianOf(gains));
  return kExitOk;
}

}  // namespace
}  // namespace soapstone::bench

// NOLINTNEXTLINE(bugprone-exception-escape): it ends the program.
int main(int argc, char** argv) {
  soapstone::bench::Flags flags;
  CLI::App app("Steps of a device on a folder of images, with and without prefetching");
  app.add_option("--images", flags.images, "Folder, one sub-folder a class")->required();
  app.add_option("--model", flags.model, "Model of the zoo");
  app.add_option("--batch", flags.batch, "Samples of a batch")->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", flags.micro_batches, "Parts of a batch")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", flags.steps, "Steps of a run")->check(CLI::Range(3, 1'000'000));
  app.add_option("--rounds", flags.rounds, "Runs of each kind")->check(CLI::PositiveNumber);
  app.add_option("--augment", flags.augment, "Augmentation");
  CLI11_PARSE(app, argc, argv);
  return soapstone::bench::Run(flags);
}
