// Console: what `soapstone train` shows: lines, and below them one progress line that is refreshed
// in place on a terminal, or plain progress lines every few seconds where there is none.
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "base/ids.h"

namespace soapstone::apps {

class Console {
 public:
  // `out` outlives it. `terminal`: whether it understands carriage returns.
  Console(std::ostream* out, bool terminal) : out_(out), terminal_(terminal) {}

  void Line(const std::string& text);
  // The latest progress, at time `now`.
  void Progress(Nanos now, const std::string& text);
  // Removes the refreshed line, for good.
  void EndProgress();

 private:
  std::ostream* out_;
  bool terminal_;
  std::string shown_;  // on a terminal
  std::optional<Nanos> last_plain_;
};

// The form in which a child's line of standard error is shown: "worker-1: text", without the
// prefix that glog gives it. Empty when it is not to be shown: information, unless `info` says so.
std::optional<std::string> ForwardedLine(const std::string& name, const std::string& line,
                                         bool info);

}  // namespace soapstone::apps
