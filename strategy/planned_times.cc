#include "strategy/planned_times.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::planner {
namespace {

// No step is longer (142 days); sums of two of them are no overflow.
constexpr int64_t kPlannedMax = int64_t{1} << 53;

absl::StatusOr<std::vector<PlannedSpan>> SpansFrom(const wire::SeatOrder& message, size_t halves) {
  std::vector<PlannedSpan> spans;
  const auto count = static_cast<size_t>(message.begin_ns_size());
  if (count != halves || static_cast<size_t>(message.took_ns_size()) != halves) {
    return absl::InvalidArgumentError(absl::StrCat(count, " begin_ns and ", message.took_ns_size(),
                                                   " took_ns of ", halves, " halves"));
  }
  for (int i = 0; i < message.begin_ns_size(); ++i) {
    const int64_t begin = message.begin_ns(i), took = message.took_ns(i);
    if (begin < 0 || begin > kPlannedMax || took < 0 || took > kPlannedMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("half ", i, " begins at ", begin, " ns and takes ", took));
    }
    spans.push_back({.begin = begin, .end = begin + took});
  }
  return spans;
}

}  // namespace

void SetPlannedTimes(const PlannedTimes& times, wire::Strategy* message) {
  CHECK_EQ(times.size(), static_cast<size_t>(message->order_size()));
  for (size_t seat = 0; seat < times.size(); ++seat) {
    wire::SeatOrder* to = message->mutable_order(static_cast<int>(seat));
    CHECK_EQ(times[seat].size(), static_cast<size_t>(to->halves_size()));
    for (const PlannedSpan& span : times[seat]) {
      to->add_begin_ns(span.begin);
      to->add_took_ns(span.end - span.begin);
    }
  }
}

absl::StatusOr<PlannedTimes> PlannedTimesFrom(const wire::Strategy& message,
                                              const std::string& file, const Order& order) {
  bool known = false;
  for (const wire::SeatOrder& seat : message.order()) {
    known = known || !seat.begin_ns().empty() || !seat.took_ns().empty();
  }
  PlannedTimes times;
  if (!known) return times;
  for (size_t seat = 0; seat < order.size(); ++seat) {
    absl::StatusOr<std::vector<PlannedSpan>> spans =
        SpansFrom(message.order(static_cast<int>(seat)), order[seat].size());
    if (!spans.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": order: device ", seat, " has ",
                                                     std::string(spans.status().message())));
    }
    times.push_back(*std::move(spans));
  }
  return times;
}

}  // namespace soapstone::planner
