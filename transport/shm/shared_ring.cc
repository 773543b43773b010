#include "transport/shm/shared_ring.h"

#include <sched.h>

#include <cstring>

namespace soapstone::transport {

uint64_t SharedRing::taken() {
  const uint64_t taken = head_->taken.load(std::memory_order_acquire);
  broken_ = broken_ || position_ - taken > capacity_;
  return taken;
}

std::byte* SharedRing::Reserve(size_t size) {
  if (broken_ || size > RecordMax(capacity_)) return nullptr;
  const uint64_t used = position_ - taken();
  if (broken_) return nullptr;
  const uint64_t wanted = Taking(size);
  const uint64_t at = position_ % capacity_;
  const uint64_t to_end = capacity_ - at;
  const bool restarts = used == 0 && at >= home_ && to_end + wanted <= capacity_;
  const uint64_t skipped = wanted <= to_end && !restarts ? 0 : to_end;
  if (used + skipped + wanted > capacity_) return nullptr;
  if (skipped > 0) std::memcpy(bytes_ + at, &kSkip, sizeof(kSkip));
  std::byte* record = bytes_ + (at + skipped) % capacity_;
  const auto size_word = static_cast<uint32_t>(size);
  std::memcpy(record, &size_word, sizeof(size_word));
  next_ = position_ + skipped + wanted;
  return record + kPrefix;
}

bool SharedRing::Publish() {
  position_ = next_;
  head_->writer_cpu.store(static_cast<uint32_t>(sched_getcpu() + 1), std::memory_order_relaxed);
  // The reader sets `sleeps` and then looks at `written`; here it is the other way round: in one
  // order of all four, one of the two sees what the other wrote.
  head_->written.store(position_, std::memory_order_seq_cst);
  return head_->sleeps.load(std::memory_order_seq_cst) != 0 &&
         head_->sleeps.exchange(0, std::memory_order_relaxed) != 0;
}

std::optional<absl::Span<const std::byte>> SharedRing::Peek() {
  if (broken_) return std::nullopt;
  const uint64_t there = head_->written.load(std::memory_order_acquire) - position_;
  if (there == 0) return std::nullopt;
  uint64_t at = position_ % capacity_;
  uint32_t size = 0;
  uint64_t skipped = 0;
  if (there <= capacity_ && there >= kPrefix && at % 8 == 0) {
    std::memcpy(&size, bytes_ + at, sizeof(size));
    if (size == kSkip) {
      skipped = capacity_ - at;
      at = 0;
      std::memcpy(&size, bytes_, sizeof(size));
    }
    const uint64_t wanted = Taking(size);
    if (size <= RecordMax(capacity_) && skipped + wanted <= there && at + wanted <= capacity_) {
      next_ = position_ + skipped + wanted;
      return absl::MakeConstSpan(bytes_ + at + kPrefix, size);
    }
  }
  broken_ = true;
  return std::nullopt;
}

void SharedRing::Pop() {
  position_ = next_;
  head_->taken.store(position_, std::memory_order_release);
}

bool SharedRing::PrepareToSleep() {
  head_->sleeps.store(1, std::memory_order_seq_cst);
  if (head_->written.load(std::memory_order_seq_cst) == position_) return false;
  Woke();
  return true;
}

}  // namespace soapstone::transport
