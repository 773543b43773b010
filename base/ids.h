// Identifiers and units used by every layer. Ids are distinct types, so that a worker is never
// taken for a shard. Knows nothing of what the ids stand for.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace soapstone {

enum class WorkerId : uint32_t {};
enum class ServerId : uint32_t {};
enum class ShardId : uint32_t {};
enum class ParamId : uint32_t {};
enum class BucketId : uint32_t {};

template <typename Id>
constexpr uint32_t Index(Id id) {
  return static_cast<uint32_t>(id);
}

// Completed iterations of a replica.
using Clock = int64_t;
inline constexpr Clock kNoClock = -1;
inline constexpr Clock kClockMax = std::numeric_limits<Clock>::max() / 4;

// Version of the membership and shard map; grows by one at every change.
using Epoch = uint64_t;
inline constexpr Epoch kLastEpoch = std::numeric_limits<Epoch>::max();

// Time as the caller gives it: nanoseconds since an origin of the caller's choice.
using Nanos = int64_t;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

// A half-open range [begin, end) of micro-batch indexes (leaves of the summation tree).
struct MicroBatchRange {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.begin, self.end);
  }
  friend auto operator<=>(const MicroBatchRange&, const MicroBatchRange&) = default;
};

}  // namespace soapstone
