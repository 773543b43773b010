// UnsentBytes: lines that wait until a pipe takes them. A value; both ends of a connection to a
// host have one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace soapstone::apps {

class UnsentBytes {
 public:
  void AddLine(std::string_view line) {
    bytes_.append(line);
    bytes_.push_back('\n');
  }
  std::string_view front() const { return std::string_view(bytes_).substr(sent_); }
  bool empty() const { return sent_ == bytes_.size(); }
  size_t size() const { return bytes_.size() - sent_; }
  // `count` of them were taken. What is kept is moved less often than it grows.
  void Drop(size_t count) {
    sent_ += count;
    if (sent_ < bytes_.size() / 2) return;
    bytes_.erase(0, sent_);
    sent_ = 0;
  }

 private:
  std::string bytes_;
  size_t sent_ = 0;
};

}  // namespace soapstone::apps
