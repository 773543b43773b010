#include "worker/program/readiness.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "glog/logging.h"

namespace soapstone::worker {

Readiness::Readiness(std::shared_ptr<const Program> program)
    : program_(std::move(program)),
      issued_(program_->instructions.size()),
      satisfied_(program_->instructions.size()),
      missing_(program_->awaited),
      open_(static_cast<uint32_t>(program_->instructions.size())) {
  CHECK_EQ(missing_.size(), program_->instructions.size());
  for (uint32_t i = 0; i < missing_.size(); ++i) {
    // Ascending: a heap as it is.
    if (missing_[i] == 0 && !IsOfDevice(program_->instructions[i])) ready_.push_back(i);
  }
}

std::optional<uint32_t> Readiness::Next() {
  // Issued, or to be waited for again since it was put there.
  while (!ready_.empty() && (issued_[ready_.front()] || missing_[ready_.front()] > 0)) {
    std::pop_heap(ready_.begin(), ready_.end(), std::greater<>());
    ready_.pop_back();
  }
  std::optional<uint32_t> next;
  if (device_issued_ < program_->device.size()) {
    const uint32_t device = program_->device[device_issued_];
    if (missing_[device] == 0) next = device;
  }
  if (!ready_.empty() && (!next.has_value() || ready_.front() < *next)) {
    next = ready_.front();
  } else if (next.has_value()) {
    ++device_issued_;
  }
  if (next.has_value()) issued_[*next] = 1;
  return next;
}

void Readiness::Satisfy(uint32_t instruction) {
  if (satisfied_[instruction]) return;
  satisfied_[instruction] = 1;
  --open_;
  for (const uint32_t dependant : program_->DependantsOf(instruction)) {
    if (--missing_[dependant] > 0 || issued_[dependant]) continue;
    if (IsOfDevice(program_->instructions[dependant])) continue;  // found at its turn
    ready_.push_back(dependant);
    std::push_heap(ready_.begin(), ready_.end(), std::greater<>());
  }
}

void Readiness::Unsatisfy(uint32_t instruction) {
  if (!satisfied_[instruction]) return;
  satisfied_[instruction] = 0;
  ++open_;
  for (const uint32_t dependant : program_->DependantsOf(instruction)) ++missing_[dependant];
}

void Readiness::RewindDevice() {
  for (uint32_t d = 0; d < device_issued_; ++d) {
    issued_[program_->device[d]] = 0;
    Unsatisfy(program_->device[d]);
  }
  device_issued_ = 0;
}

void Readiness::AddTo(Fingerprint* f) const {
  for (const uint8_t issued : issued_) f->Add(issued);
  for (const uint8_t satisfied : satisfied_) f->Add(satisfied);
}

}  // namespace soapstone::worker
