#include "transport/zmq/door.h"

#include <algorithm>
#include <iterator>

namespace soapstone::transport {

bool Door::IsRead(const Unread& unread, SteadyTime now) const {
  const bool was_reading = unread.round % 2 == 1;
  if (round_ >= unread.round + (was_reading ? 1 : 2)) return true;
  return !was_reading && round_ == unread.round && now - unread.last >= kSettled;
}

void Door::Round(uint64_t round, SteadyTime now) {
  round_ = round;
  while (!gone_.empty() && IsRead(gone_.front(), now)) {
    gone_bytes_ -= gone_.front().bytes;
    gone_.pop_front();
  }
  std::erase_if(left_, [&](const auto& left) { return IsRead(left.second, now); });
}

void Door::Enter(int fd, bool held, SteadyTime now) {
  if (visitors_.contains(fd)) Leave(fd, now);  // its end was not told
  visitors_[fd] = {.number = ++last_number_, .entered = now, .held = held};
}

void Door::EnterUnseen(int fd, SteadyTime now) {
  ++came_and_went_;
  Went(fd, limits_.bytes_max, now);
}

bool Door::Prove(int fd) {
  const auto visitor = visitors_.find(fd);
  if (visitor == visitors_.end()) return !left_.contains(fd);
  if (left_.contains(fd)) {
    visitor->second.doubted = true;
    return false;
  }
  visitors_.erase(visitor);
  return true;
}

void Door::Leave(int fd, SteadyTime now) {
  const auto visitor = visitors_.find(fd);
  if (visitor == visitors_.end()) {
    left_[fd] = {.round = round_, .first = now, .last = now};
    return;
  }
  if (!visitor->second.counted) ++came_and_went_;
  Went(fd, visitor->second.bytes, now);
  visitors_.erase(visitor);
}

// An unproven one.
void Door::Went(int fd, uint64_t bytes, SteadyTime now) {
  left_[fd] = {.round = round_, .first = now, .last = now};
  // One entry a round, and of a round that lasts, one for each kSettled: not one a connection.
  const bool waits = round_ % 2 == 0;
  if (gone_.empty() || gone_.back().round != round_ ||
      (waits && now - gone_.back().first >= kSettled)) {
    gone_.push_back({.round = round_, .first = now, .last = now});
  }
  gone_.back().last = now;
  gone_.back().bytes += bytes;
  gone_bytes_ += bytes;
  ends_.push_back(now);
  const size_t many = std::max<size_t>(limits_.ends_max, 1);
  while (ends_.size() > many) ends_.pop_front();
  if (ends_.size() == many && now - ends_.front() < kComeAndGoTime) shut_until_ = now + kShutFor;
}

void Door::Count(int fd, uint64_t bytes) {
  if (const auto visitor = visitors_.find(fd); visitor != visitors_.end()) {
    visitor->second.bytes = bytes;
    visitor->second.spoke = visitor->second.spoke || bytes > 0;
  }
}

void Door::Tried(int fd) {
  if (const auto visitor = visitors_.find(fd); visitor != visitors_.end()) {
    visitor->second.spoke = true;
  }
}

bool Door::IsHeld(int fd) const {
  const auto visitor = visitors_.find(fd);
  return visitor != visitors_.end() && visitor->second.held;
}

size_t Door::held_count() const {
  return std::count_if(visitors_.begin(), visitors_.end(),
                       [](const auto& visitor) { return visitor.second.held; });
}

void Door::CountOnce(Visitor* visitor) {
  if (!visitor->counted) ++strangers_;
  visitor->counted = true;
}

Door::Visitors::iterator Door::End(Visitors::iterator visitor, SteadyTime now, Orders* orders) {
  if (!visitor->second.doubted) CountOnce(&visitor->second);
  orders->end.push_back(visitor->first);
  Went(visitor->first, visitor->second.bytes, now);
  return visitors_.erase(visitor);
}

void Door::Judge(int fd, Visitor* visitor, bool full, SteadyTime now, Orders* orders) {
  if (visitor->bytes > limits_.bytes_max && !visitor->too_much) {
    visitor->too_much = true;
    visitor->too_much_since = now;
    visitor->unread = {.round = round_, .first = now, .last = now};
  }
  if (IsBlamed(*visitor, now) && !visitor->doubted) CountOnce(visitor);
  const bool waits_to_be_heard =
      visitor->held && !visitor->too_much && now - visitor->entered < kShutStay;
  const bool held = visitor->too_much || waits_to_be_heard || full;
  if (held == visitor->held) return;
  visitor->held = held;
  (held ? orders->hold : orders->let_go_on).push_back(fd);
}

void Door::EndTooMany(SteadyTime now, Orders* orders) {
  const auto goes_first = [](const auto& a, const auto& b) {
    if (a.second.too_much != b.second.too_much) return a.second.too_much;
    if (a.second.spoke != b.second.spoke) return b.second.spoke;
    return a.second.number < b.second.number;
  };
  while (visitors_.size() > limits_.connections_max) {
    auto goes = std::min_element(visitors_.begin(), visitors_.end(), goes_first);
    if (goes->second.spoke && !goes->second.too_much) {
      goes = std::next(visitors_.begin(), chance_() % visitors_.size());
    }
    End(goes, now, orders);
  }
}

// They have said all that they will, and it was read: who is heard goes on, and of the others none
// is missed.
bool Door::IsBlamed(const Visitor& visitor, SteadyTime now) const {
  return visitor.too_much && now - visitor.too_much_since >= kBlamedAfter &&
         IsRead(visitor.unread, now);
}

Door::Orders Door::Look(SteadyTime now) {
  Orders orders;
  EndTooMany(now, &orders);
  uint64_t total = gone_bytes_;
  for (const auto& [fd, visitor] : visitors_) total += visitor.bytes;
  const bool full = total > limits_.total_bytes_max;
  for (auto it = visitors_.begin(); it != visitors_.end();) {
    Visitor& visitor = it->second;
    const bool waited = (full && IsBlamed(visitor, now)) ||
                        (visitor.too_much && now - visitor.too_much_since >= limits_.patience);
    // What it said before it was held is read, and was not enough: a member comes again at once.
    const bool in_vain = visitor.too_much && visitor.doubted && !left_.contains(it->first);
    if (waited || in_vain) {
      it = End(it, now, &orders);
    } else {
      Judge(it->first, &visitor, full, now, &orders);
      ++it;
    }
  }
  return orders;
}

}  // namespace soapstone::transport
