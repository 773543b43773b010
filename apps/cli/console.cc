#include "apps/cli/console.h"

#include <cctype>

#include "absl/strings/str_cat.h"

namespace soapstone::apps {
namespace {

constexpr Nanos kPlainEvery = 2 * kSecond;
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

void Console::Line(const std::string& text) {
  if (!shown_.empty()) *out_ << kEraseLine;
  *out_ << text << "\n" << shown_ << std::flush;
}

void Console::Progress(Nanos now, const std::string& text) {
  if (terminal_) {
    shown_ = text;
    *out_ << kEraseLine << text << std::flush;
  } else if (!last_plain_.has_value() || now - *last_plain_ >= kPlainEvery) {
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
