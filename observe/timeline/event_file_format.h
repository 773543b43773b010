// The file of a thread's events: a header, the names of operators, then the slots of a ring
// (ring.h). event_file.h writes it, read_events.h reads it, also while it is written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "observe/timeline/ring.h"

namespace soapstone::timeline {

inline constexpr char kEventsSuffix[] = ".events";
inline constexpr std::array<char, 8> kMagic = {'s', 'o', 'a', 'p', 'e', 'v', 't', '1'};

// kPlanned is no thread: what a seat's device is to do in one iteration by the plan, halves whose
// times count from its first, and one kStep of [0, an iteration), `with` the seat's team; of no
// clock.
enum class ThreadKind : uint32_t { kWorkerLoop = 0, kWorkerDevice = 1, kShard = 2, kPlanned = 3 };
inline constexpr uint32_t kThreadKinds = 4;

inline constexpr uint64_t kCapacity = 32'768;          // events of a thread
inline constexpr uint64_t kCapacityMax = 1 << 20;      // that a reader takes
inline constexpr uint64_t kNamesBytesMax = 256 << 10;  // what is longer is cut

struct FileHeader {
  std::array<char, 8> magic{};
  uint32_t event_bytes = sizeof(Event);
  ThreadKind kind{};
  uint32_t index = 0;  // rank of the worker, or number of the shard
  uint32_t names_bytes = 0;
  uint64_t capacity = 0;
  uint64_t session = 0;
  uint64_t machine = 0;  // those of one number have one steady clock
  std::array<char, 64> host{};
  uint64_t written = 0;
};
static_assert(sizeof(FileHeader) == 120);

inline constexpr size_t kNamesAt = 128;
inline size_t SlotsAt(uint32_t names_bytes) { return kNamesAt + (names_bytes + 63) / 64 * 64; }
inline size_t FileBytes(uint32_t names_bytes, uint64_t capacity) {
  return SlotsAt(names_bytes) + capacity * sizeof(Event);
}

}  // namespace soapstone::timeline
