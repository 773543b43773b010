// What a worker's engine costs an instruction of its step program: no device, no network, a step
// after the other. Its steps are those of a replacement under backup, which pushes every bucket of
// every micro-batch by itself: half of the instructions are pushes, and wait for the device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace soapstone::bench {

struct EngineCost {
  uint64_t instructions = 0;  // of a step
  uint64_t events = 0;        // of a step: what the device answers
  std::vector<double> each;   // ns an instruction, by repeat
  double median() const;
};

// A step of about so many instructions, `repeats` times for about so long.
EngineCost MeasureEngine(uint64_t instructions, uint32_t repeats, double seconds);

// For people: by length of the step.
std::string EngineTable(const std::vector<EngineCost>& costs);

}  // namespace soapstone::bench
