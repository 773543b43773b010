#include "apps/cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/plain_text.h"

namespace soapstone::apps {
namespace {

constexpr char kEraseLine[] = "\r\x1b[K";

// Where the text of a glog line begins: after "I20260101 12:00:00.123456 4711 file.cc:12] ". npos:
// not one.
size_t TextOfGlogLine(const std::string& line) {
  constexpr size_t kDigits = 8;  // of the date
  if (line.size() < kDigits + 2 || std::string("IWEF").find(line[0]) == std::string::npos) {
    return std::string::npos;
  }
  for (size_t i = 1; i <= kDigits; ++i) {
    if (std::isdigit(static_cast<unsigned char>(line[i])) == 0) return std::string::npos;
  }
  const size_t end = line.find("] ");
  return end == std::string::npos ? std::string::npos : end + 2;
}

}  // namespace

ConsoleOptions StdoutConsole() {
  return {.terminal = isatty(STDOUT_FILENO) != 0, .columns = [] {
            winsize size = {};
            return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size_t{size.ws_col} : 0;
          }};
}

bool SpeaksUtf8(const std::function<const char*(const char*)>& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = environment(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = absl::AsciiStrToLower(value);
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return false;
}

void Console::Line(const std::string& text) {
  if (!shown_.empty()) *out_ << kEraseLine;
  *out_ << PlainLines(text) << "\n" << shown_ << std::flush;
}

void Console::Progress(Nanos now, const std::string& text) {
  if (options_.terminal) {
    const size_t columns = options_.columns == nullptr ? 0 : options_.columns();
    shown_ = columns == 0 ? text : text.substr(0, columns - 1);
    *out_ << kEraseLine << shown_ << std::flush;
  } else if (!last_plain_.has_value() || now - *last_plain_ >= options_.plain_every) {
    last_plain_ = now;
    *out_ << text << std::endl;
  }
}

void Console::EndProgress() {
  if (!shown_.empty()) *out_ << kEraseLine << std::flush;
  shown_.clear();
}

std::optional<std::string> ForwardedLine(const std::string& name, const std::string& line,
                                         bool info) {
  const size_t text = TextOfGlogLine(line);
  if (text == std::string::npos) return absl::StrCat(name, ": ", line);
  if (line[0] == 'I' && !info) return std::nullopt;
  const char* severity = line[0] == 'I' ? "" : line[0] == 'W' ? "warning: " : "error: ";
  return absl::StrCat(name, ": ", severity, line.substr(text));
}

}  // namespace soapstone::apps
