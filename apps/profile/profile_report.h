// What `soapstone profile` says: the table of operators, the JSON object and the timeline. Values
// and their texts; measures nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/profile/roofline.h"
#include "apps/profile/step_profile.h"
#include "apps/report/step_memory.h"
#include "models/graph/graph.h"

namespace soapstone::apps {

// Resident memory around the first steps.
struct MeasuredMemory {
  // What the process had before, and the code that it used since: kernels are generated as they
  // first run.
  uint64_t program_bytes = 0;
  uint64_t peak_bytes = 0;  // the greatest since
  uint64_t grown_bytes() const { return peak_bytes - program_bytes; }
};

// Steps run in one way.
struct ProfiledWay {
  StepMemory planned;
  MeasuredMemory measured;
  StepProfile steps;

  uint64_t predicted_bytes() const { return measured.program_bytes + planned.total(); }
  // Of the peak, 1: as predicted; and of what came beside the program.
  double peak_share() const;
  double growth_share() const;
};

struct ProfileReport {
  std::string model;
  int threads = 1;
  std::string device = "cpu";  // as it was chosen; with a device the two that follow are its own
  std::string precision = "float32";
  std::string convolutions = "guessed";
  bool on_device = false;
  Roofline roofline;
  models::Graph graph;
  ProfiledWay kept;
  std::optional<ProfiledWay> recomputed;
};

// top: operators shown, by time; the rest is one line.
std::string ProfileTable(const ProfileReport& report, size_t top);
std::string ProfileJson(const ProfileReport& report);
// Trace Event Format, for ui.perfetto.dev: a slice an operator, forward and backward, of the
// typical step. Of a device: its queues, a track each, in a step as it runs, and in one whose
// operators are started one by one.
std::string ProfileTrace(const ProfileReport& report);

}  // namespace soapstone::apps
