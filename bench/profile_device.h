// ProfileDevice: a device that takes as long for each layer as a profile says, and whose gradients
// are a simple function of its parameters: real values travel and are applied, and a hash of them
// says whether all was as it should be, but nothing is learnt. Who calls: soapstone-schedule-bench,
// on the thread of an apps::DeviceThread. Knows nothing of messages.
//
//     gradient(e) = rate x(e) + shift(clock, micro-batch)
// Time a layer's command should have taken beyond what it took is rested; what it took too long is
// taken off the next ones, so that a step is as long as the profile says, or as long as it takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/memory/buffer.h"
#include "base/parameter.h"
#include "wire/layout.h"
#include "worker/device/device.h"
#include "worker/program/program.h"

namespace soapstone::bench {

// Layers of one parameter each, in forward order.
struct LayerProfile {
  std::vector<ParamSpec> params;
  std::vector<Nanos> forward_ns;  // by layer; the backward pass takes twice as long
  std::vector<worker::OpOutline> Outline() const;
};

// VGG-16 (Simonyan and Zisserman, ICLR 2015, configuration D), weights without biases. `scale`
// divides every layer's elements; a step computes for `compute_ns`, shared out by the layers'
// multiplications at 224 x 224.
LayerProfile Vgg16(uint64_t scale, Nanos compute_ns);

class ProfileDevice {
 public:
  // Where a step stood when its last layer had run backward.
  struct Mark {
    Nanos at = 0;
    Nanos busy = 0;  // since the beginning, loads and rests in it
  };
  ProfileDevice(LayerProfile profile, std::shared_ptr<const wire::Layout> layout);

  // As apps::DeviceThread::Runner.
  template <typename Rest>
  void Run(const worker::DeviceCommand& command, std::vector<worker::DeviceEvent>* events,
           const Rest& rest) {
    const Nanos began = Now();
    const Nanos due = Carry(command, events) - (Now() - began);
    owed_ += due;
    if (owed_ > 0) owed_ -= rest(owed_);
    Note(command, began);
  }

  // One a step. Read them when the thread is gone.
  const std::vector<Mark>& marks() const { return marks_; }
  // Of all parameters in order; empty before the final evaluation.
  const std::string& sha256() const { return sha256_; }

 private:
  static Nanos Now();
  // Does what there is to do; how long it should take.
  Nanos Carry(const worker::DeviceCommand& command, std::vector<worker::DeviceEvent>* events);
  void Note(const worker::DeviceCommand& command, Nanos began);
  void Load(const worker::LoadCommand& load);
  void Backward(const worker::RunBackward& backward, Clock clock);
  void Hash();

  LayerProfile profile_;
  std::shared_ptr<const wire::Layout> layout_;
  std::vector<size_t> offsets_;  // by parameter, in elements; then the total
  std::vector<float> values_;
  BufferPool pool_;
  BufferPool::Block gradients_;
  Nanos owed_ = 0;
  Nanos busy_ = 0;
  std::vector<Mark> marks_;
  std::string sha256_;
};

}  // namespace soapstone::bench
