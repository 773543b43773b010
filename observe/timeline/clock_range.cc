#include "observe/timeline/clock_range.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace soapstone::timeline {

absl::StatusOr<ClockRange> ParseClockRange(const std::string& text) {
  ClockRange range;
  if (text.empty()) return range;
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const bool numbers =
      absl::SimpleAtoi(parts.first, &range.begin) && absl::SimpleAtoi(parts.second, &range.end);
  if (!numbers || range.begin < 0 || range.end <= range.begin || range.end > kClockMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is no range of clocks, such as 100:120"));
  }
  return range;
}

std::string ToString(const ClockRange& range) {
  if (!range.bounded()) return range.begin == 0 ? "all" : absl::StrCat("from ", range.begin);
  return absl::StrCat(range.begin, " to ", range.end - 1);
}

}  // namespace soapstone::timeline
