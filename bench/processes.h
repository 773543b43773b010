// Processes of a measurement: each runs in two fresh ones, so that neither threads, nor memory, nor
// caches of the one before are in its way, and processor time is counted for both.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace soapstone::bench {

Nanos Now();

// Processor time of the process so far; 0 when it is gone.
Nanos CpuTimeOf(pid_t process);

// What one measurement of a link found.
struct Sample {
  double seconds = 0;
  double cpu_seconds = 0;  // of both processes, while it was measured
  uint64_t messages = 0;
  uint64_t bytes = 0;  // of payloads
  double p50_us = 0;   // of round trips, where they are measured
  double p99_us = 0;
};

// The server says one line through `ready` (where it listens) and serves until it is killed.
using Server = std::function<void(const std::function<void(const std::string&)>& ready)>;
// The client measures; `server` is the process whose time counts as well.
using Client = std::function<Sample(const std::string& endpoint, pid_t server)>;

// Runs both in processes of their own; the parent must have one thread. A client that takes longer
// than 20 s, or ends without a sample, ends the program with a line that names `what`.
Sample Measure(const std::string& what, const Server& server, const Client& client);

// Counts the processor time of this process and `other` from its construction.
class CpuWatch {
 public:
  explicit CpuWatch(pid_t other);
  double Seconds() const;

 private:
  pid_t other_;
  Nanos began_;
};

// Times round trips, one after another. The first tenth warms up and is not counted.
class RoundTrips {
 public:
  explicit RoundTrips(pid_t other) : cpu_(other), began_(Now()) {}
  void Begin() { trip_ = Now(); }
  void End() { trips_.push_back(Now() - trip_); }
  Sample Result(uint64_t bytes) const;

 private:
  CpuWatch cpu_;
  Nanos began_;
  Nanos trip_ = 0;
  std::vector<Nanos> trips_;
};

}  // namespace soapstone::bench
