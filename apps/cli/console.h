// Console: what `soapstone train` shows: lines, and below them one progress line that is refreshed
// in place on a terminal, or now and then a plain progress line where there is none.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "base/ids.h"

namespace soapstone::apps {

struct ConsoleOptions {
  bool terminal = false;             // it understands carriage returns
  std::function<size_t()> columns;   // of a terminal, as it is now; 0: not known. Null: the same
  Nanos plain_every = 10 * kSecond;  // elsewhere, from a progress line to the next
};

// Of this process's standard output.
ConsoleOptions StdoutConsole();

// Whether text is shown as UTF-8, by the first of LC_ALL, LC_CTYPE and LANG that is set.
bool SpeaksUtf8(const std::function<const char*(const char*)>& environment);

class Console {
 public:
  // `out` outlives it.
  Console(std::ostream* out, ConsoleOptions options) : out_(out), options_(std::move(options)) {}
  Console(std::ostream* out, bool terminal) : Console(out, ConsoleOptions{.terminal = terminal}) {}

  // A line, or some; made harmless, as most are of other nodes.
  void Line(const std::string& text);
  // The latest progress, at time `now`. On a terminal it is cut to its width: of what goes on in a
  // second line only that one would be refreshed.
  void Progress(Nanos now, const std::string& text);
  // Removes the refreshed line, for good.
  void EndProgress();

 private:
  std::ostream* out_;
  ConsoleOptions options_;
  std::string shown_;  // on a terminal
  std::optional<Nanos> last_plain_;
};

// The form in which a child's line of standard error is shown: "worker-1: text", without the
// prefix that glog gives it. Empty when it is not to be shown: information, unless `info` says so.
std::optional<std::string> ForwardedLine(const std::string& name, const std::string& line,
                                         bool info);

}  // namespace soapstone::apps
