// Readiness: which instructions of one execution of a program may be issued, in program order, kept
// by counters: what happens to an instruction touches those that depend on it, and nothing else. So
// a program costs what it is long, however many events it takes. A ProgramRun asks it; it knows no
// message and no device.
//
// Invariants
//  1. An instruction is returned once (device instructions again after RewindDevice), as soon as
//     what it depends on is satisfied. A device instruction need not wait for an earlier one of the
//     device to complete: it is returned after it.
//  2. Device instructions are returned in program order: one that waits holds up those behind it.
//  3. Of the instructions that may go the first is returned first. Dependencies point backwards, so
//     that is the order in which a scan of the whole program would find them.
// A value: a copy goes on by itself. The program is shared, and is not changed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/fingerprint.h"
#include "worker/program/program.h"

namespace soapstone::worker {

class Readiness {
 public:
  // REQUIRES: a program of the builders, with its links.
  explicit Readiness(std::shared_ptr<const Program> program);

  const Program& program() const { return *program_; }

  // The first instruction that may go; it counts as issued from now on. None: nothing may before
  // more is satisfied.
  std::optional<uint32_t> Next();
  // Those that depend on it may go. Nothing happens where it is satisfied already.
  void Satisfy(uint32_t instruction);
  // It is to be waited for again.
  void Unsatisfy(uint32_t instruction);
  // The device begins anew: none of its instructions is issued.
  void RewindDevice();

  bool issued(uint32_t instruction) const { return issued_[instruction] != 0; }
  bool satisfied(uint32_t instruction) const { return satisfied_[instruction] != 0; }
  // All are satisfied.
  bool complete() const { return open_ == 0; }

  // Issued and satisfied: the rest follows from them.
  void AddTo(Fingerprint* f) const;

 private:
  std::shared_ptr<const Program> program_;
  std::vector<uint8_t> issued_;     // by instruction
  std::vector<uint8_t> satisfied_;  // by instruction
  std::vector<uint32_t> missing_;   // by instruction: of what Program::awaited counts
  uint32_t open_ = 0;               // not satisfied
  uint32_t device_issued_ = 0;      // of Program::device
  std::vector<uint32_t> ready_;     // a heap, the first instruction on top: not the device's
};

}  // namespace soapstone::worker
