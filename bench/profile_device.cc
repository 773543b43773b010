#include "bench/profile_device.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "base/sha256.h"
#include "bench/processes.h"

namespace soapstone::bench {
namespace {

struct VggLayer {
  const char* name;
  uint64_t weights;
  uint64_t positions;  // each weight is multiplied once at each
};

constexpr VggLayer kVgg16[] = {
    {"conv1_1", 1'728, 50'176},   {"conv1_2", 36'864, 50'176}, {"conv2_1", 73'728, 12'544},
    {"conv2_2", 147'456, 12'544}, {"conv3_1", 294'912, 3'136}, {"conv3_2", 589'824, 3'136},
    {"conv3_3", 589'824, 3'136},  {"conv4_1", 1'179'648, 784}, {"conv4_2", 2'359'296, 784},
    {"conv4_3", 2'359'296, 784},  {"conv5_1", 2'359'296, 196}, {"conv5_2", 2'359'296, 196},
    {"conv5_3", 2'359'296, 196},  {"fc6", 102'760'448, 1},     {"fc7", 16'777'216, 1},
    {"fc8", 4'096'000, 1},
};

constexpr float kRate = 0.01f;
constexpr float kShift = 1e-3f;

// Whole multiples, so that it is exact.
float ShiftOf(Clock clock, uint32_t micro_batch) {
  return kShift * static_cast<float>((clock + micro_batch) % 7 - 3);
}

}  // namespace

std::vector<worker::OpOutline> LayerProfile::Outline() const {
  std::vector<worker::OpOutline> outline;
  for (uint32_t p = 0; p < params.size(); ++p) outline.push_back({{ParamId{p}}});
  return outline;
}

LayerProfile Vgg16(uint64_t scale, Nanos compute_ns) {
  double all = 0;
  for (const VggLayer& layer : kVgg16) all += static_cast<double>(layer.weights * layer.positions);
  LayerProfile profile;
  for (const VggLayer& layer : kVgg16) {
    const uint64_t elements = std::max<uint64_t>(layer.weights / scale, 1);
    profile.params.push_back({.name = layer.name, .shape = {static_cast<int64_t>(elements), 1}});
    const double share = static_cast<double>(layer.weights * layer.positions) / all;
    profile.forward_ns.push_back(std::llround(share * static_cast<double>(compute_ns) / 3));
  }
  return profile;
}

ProfileDevice::ProfileDevice(LayerProfile profile, std::shared_ptr<const wire::Layout> layout)
    : profile_(std::move(profile)), layout_(std::move(layout)) {
  offsets_.push_back(0);
  for (const ParamSpec& param : profile_.params) {
    offsets_.push_back(offsets_.back() + param.elements());
  }
  values_.resize(offsets_.back());
}

Nanos ProfileDevice::Now() { return bench::Now(); }

Nanos ProfileDevice::Carry(const worker::DeviceCommand& command,
                           std::vector<worker::DeviceEvent>* events) {
  worker::DeviceEvent event = {.run = command.run, .instruction = command.instruction};
  Nanos due = 0;
  if (const auto* load = std::get_if<worker::LoadCommand>(&command.what)) {
    Load(*load);
  } else if (const auto* forward = std::get_if<worker::RunForward>(&command.what)) {
    due = profile_.forward_ns[forward->op];
  } else if (const auto* backward = std::get_if<worker::RunBackward>(&command.what)) {
    Backward(*backward, command.clock);
    due = 2 * profile_.forward_ns[backward->op];
  } else if (const auto* collect = std::get_if<worker::CollectBucket>(&command.what)) {
    for (const wire::Slice& slice :
         layout_->buckets(collect->shard)[Index(collect->bucket)].slices) {
      const size_t begin = offsets_[Index(slice.param)] + slice.begin;
      event.frames.push_back(
          gradients_.View(begin * sizeof(float), slice.elements() * sizeof(float)));
    }
    event.samples = collect->node.size();
  } else {
    Hash();
  }
  if (command.wants_event) events->push_back(std::move(event));
  return due;
}

void ProfileDevice::Note(const worker::DeviceCommand& command, Nanos began) {
  const Nanos now = Now();
  busy_ += now - began;
  const auto* backward = std::get_if<worker::RunBackward>(&command.what);
  if (backward != nullptr && backward->op == 0) marks_.push_back({now, busy_});
}

void ProfileDevice::Load(const worker::LoadCommand& load) {
  for (uint32_t k = 0; k < load.frames.size(); ++k) {
    const auto& slices = layout_->slices(ShardId{k});
    for (size_t i = 0; i < load.frames[k].size(); ++i) {
      const absl::Span<const float> values = load.frames[k][i].floats();
      std::copy(values.begin(), values.end(),
                values_.begin() +
                    static_cast<ptrdiff_t>(offsets_[Index(slices[i].param)] + slices[i].begin));
    }
  }
}

// A part is a micro-batch (one a worker), and its gradient its node's.
void ProfileDevice::Backward(const worker::RunBackward& backward, Clock clock) {
  const uint32_t layer = backward.op;
  // What is sent is never written again.
  if (layer + 1 == profile_.params.size()) gradients_ = pool_.Take(values_.size() * sizeof(float));
  const float shift = ShiftOf(clock, backward.part.begin);
  const absl::Span<float> gradient = gradients_.floats();
  for (size_t e = offsets_[layer]; e < offsets_[layer + 1]; ++e) {
    gradient[e] = kRate * values_[e] + shift;
  }
}

void ProfileDevice::Hash() {
  Sha256 hash;
  hash.Update(values_.data(), values_.size() * sizeof(float));
  sha256_ = hash.HexDigest();
}

}  // namespace soapstone::bench
