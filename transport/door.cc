#include "transport/door.h"

#include <algorithm>

namespace soapstone::transport {
namespace {

constexpr size_t kPlacesMax = 16'384;
constexpr size_t kEarlyMax = 16'384;

}  // namespace

bool Door::TakePlace(const std::string& host, absl::Time now) {
  std::erase_if(places_, [&](const Place& place) { return place.until < now; });
  const auto place =
      std::find_if(places_.begin(), places_.end(), [&](const Place& p) { return p.host == host; });
  if (place == places_.end()) return false;
  places_.erase(place);
  return true;
}

bool Door::Enter(int fd, const std::string& host, absl::Time now) {
  if (visitors_.contains(fd) || members_.contains(fd)) Leave(fd, now);  // its end was not told
  if (early_.erase(fd) > 0) {
    members_.emplace(fd, host);
    return false;
  }
  visitors_[fd] = {.number = ++last_number_, .returns = TakePlace(host, now)};
  hosts_[fd] = host;
  return true;
}

void Door::EnterUnseen(int fd) {
  if (early_.erase(fd) > 0) return;
  gone_bytes_ += limits_.bytes_max;
}

void Door::Prove(int fd) {
  if (members_.contains(fd) || left_.contains(fd)) return;
  if (visitors_.erase(fd) == 0) {
    if (early_.size() < kEarlyMax) early_.insert(fd);
    return;
  }
  members_.insert(hosts_.extract(fd));
}

void Door::AllRead() {
  gone_bytes_ = 0;
  left_.clear();
}

void Door::Leave(int fd, absl::Time now) {
  early_.erase(fd);
  left_.insert(fd);
  if (const auto member = members_.find(fd); member != members_.end()) {
    if (places_.size() < kPlacesMax) {
      places_.push_back({member->second, now + limits_.return_patience});
    }
    members_.erase(member);
  }
  if (const auto visitor = visitors_.find(fd); visitor != visitors_.end()) {
    std::vector<int> left;
    SendAway(visitor, &left);
  }
}

void Door::Count(int fd, uint64_t bytes) {
  if (const auto visitor = visitors_.find(fd); visitor != visitors_.end()) {
    visitor->second.bytes = bytes;
  }
}

uint64_t Door::TotalBytes() const {
  uint64_t total = gone_bytes_;
  for (const auto& [fd, visitor] : visitors_) {
    if (!visitor.returns) total += visitor.bytes;
  }
  return total;
}

void Door::SendAway(std::map<int, Visitor>::iterator visitor, std::vector<int>* fds) {
  fds->push_back(visitor->first);
  gone_bytes_ += visitor->second.bytes;
  left_.insert(visitor->first);
  hosts_.erase(visitor->first);
  visitors_.erase(visitor);
}

std::vector<int> Door::TakeUnwelcome() {
  std::vector<int> fds;
  for (auto it = visitors_.begin(); it != visitors_.end();) {
    const auto visitor = it++;
    const uint64_t most = visitor->second.returns ? limits_.returning_bytes_max : limits_.bytes_max;
    if (visitor->second.bytes > most) SendAway(visitor, &fds);
  }
  const auto older = [](const auto& a, const auto& b) { return a.second.number < b.second.number; };
  while (visitors_.size() > limits_.connections_max) {
    SendAway(std::min_element(visitors_.begin(), visitors_.end(), older), &fds);
  }
  // What was sent is not taken back by an end: all who sent something go, until it has been read.
  if (TotalBytes() > limits_.total_bytes_max) {
    for (auto it = visitors_.begin(); it != visitors_.end();) {
      const auto visitor = it++;
      if (visitor->second.bytes > limits_.little_bytes && !visitor->second.returns) SendAway(visitor, &fds);
    }
  }
  return fds;
}

}  // namespace soapstone::transport
