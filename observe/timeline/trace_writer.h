// TraceWriter: the one writer of the Trace Event Format, which ui.perfetto.dev and Chrome read.
// Timelines of jobs, planned steps and profiles are written by it. A text from values; no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace soapstone::timeline {

// A track is a line of the picture: (process, track).
struct TrackId {
  int64_t process = 0;
  int64_t track = 0;
};

struct Slice {
  TrackId on;
  std::string_view name;
  std::string_view category;  // "": none
  Nanos begin = 0;            // on the picture's clock
  Nanos end = 0;
};

// Invariants
//  1. What Finish returns is whole JSON, whatever was added: numbers that JSON does not have become
//     null, bytes that are no UTF-8 are replaced.
//  2. It has at most `bytes_max`; what went beyond is left out, and counted in it.
class TraceWriter {
 public:
  static constexpr size_t kBytesMax = size_t{64} << 20;
  static constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();

  // REQUIRES: bytes_max >= 64 KiB.
  explicit TraceWriter(size_t bytes_max = kBytesMax) : bytes_max_(bytes_max) {}

  void NameProcess(int64_t process, std::string_view name);
  void NameTrack(TrackId track, std::string_view name);
  // Tracks of a process stand in the order of their places, least first.
  void PlaceTrack(TrackId track, int64_t place);
  // `args`: an object, or null. False: left out.
  bool Add(const Slice& slice, nlohmann::json args = nullptr);
  // An arrow from a slice that covers `from_ns` to one that covers `to_ns`. False: left out.
  bool AddFlow(uint64_t id, TrackId from, Nanos from_ns, TrackId to, Nanos to_ns);

  uint64_t left_out() const { return left_out_; }

  // The text, with a line's end. `about`: an object of what else is to be known, or null; dropped
  // where it is longer than 32 KiB. Nothing may be added afterwards.
  std::string Finish(nlohmann::json about = nullptr);

 private:
  bool Append(const std::string& events);

  size_t bytes_max_;
  std::string events_;  // separated by commas
  uint64_t left_out_ = 0;
};

}  // namespace soapstone::timeline
