#include "worker/program/readiness.h"

#include <algorithm>
#include <string>

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<const Program> Linked(std::vector<Instruction> instructions) {
  Program program;
  program.instructions = std::move(instructions);
  LinkProgram(&program);
  return std::make_shared<const Program>(std::move(program));
}

std::vector<uint32_t> TakeAll(Readiness* readiness) {
  std::vector<uint32_t> taken;
  while (const std::optional<uint32_t> next = readiness->Next()) taken.push_back(*next);
  return taken;
}

// What Readiness must return, by a scan of the whole program.
class Scan {
 public:
  explicit Scan(std::shared_ptr<const Program> program)
      : program_(std::move(program)),
        issued_(program_->instructions.size()),
        satisfied_(program_->instructions.size()) {}

  std::optional<uint32_t> Next() {
    bool device_blocked = false;
    for (uint32_t i = 0; i < issued_.size(); ++i) {
      if (issued_[i]) continue;
      const Instruction& instruction = program_->instructions[i];
      const bool device = IsOfDevice(instruction);
      const bool ready =
          std::all_of(instruction.deps.begin(), instruction.deps.end(), [&](uint32_t d) {
            const bool before = device && IsOfDevice(program_->instructions[d]);
            return satisfied_[d] || (before && issued_[d]);
          });
      if (ready && !(device && device_blocked)) {
        issued_[i] = true;
        return i;
      }
      device_blocked = device_blocked || device;
    }
    return std::nullopt;
  }
  void Satisfy(uint32_t i) { satisfied_[i] = true; }
  void Unsatisfy(uint32_t i) { satisfied_[i] = false; }
  void RewindDevice() {
    for (uint32_t i = 0; i < issued_.size(); ++i) {
      if (!IsOfDevice(program_->instructions[i]) || !issued_[i]) continue;
      issued_[i] = satisfied_[i] = false;
    }
  }
  bool satisfied(uint32_t i) const { return satisfied_[i]; }
  bool complete() const {
    return std::all_of(satisfied_.begin(), satisfied_.end(), [](bool s) { return s; });
  }

 private:
  std::shared_ptr<const Program> program_;
  std::vector<bool> issued_, satisfied_;
};

// Instructions of both kinds with up to three dependencies; those of the device as a stream.
std::shared_ptr<const Program> RandomProgram(uint64_t seed) {
  uint64_t draw = 0;
  const auto below = [&](uint64_t n) {
    return CounterRandom(seed, RandomUse::kTest, 0).Below(draw++, n);
  };
  std::vector<Instruction> instructions(1 + below(24));
  int64_t last_device = -1;
  uint32_t pulls = 0;
  for (uint32_t i = 0; i < instructions.size(); ++i) {
    const Instruction kinds[] = {{SendPull{ShardId{pulls}}, {}},
                                 {SendPush{}, {}},
                                 {RunForward{}, {}},
                                 {CollectBucket{}, {}}};
    instructions[i] = kinds[below(4)];
    if (As<SendPull>(instructions[i])) ++pulls;
    std::vector<uint32_t>& deps = instructions[i].deps;
    for (uint64_t d = below(4); d > 0 && i > 0; --d) deps.push_back(uint32_t(below(i)));
    if (IsOfDevice(instructions[i])) {
      if (last_device >= 0) deps.push_back(static_cast<uint32_t>(last_device));
      last_device = i;
    }
    std::sort(deps.begin(), deps.end());
    deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
  }
  return Linked(std::move(instructions));
}

// Both do the same, whatever is satisfied when, taken back, or done by the device once more.
TEST(ReadinessTest, ReturnsWhatAScanWouldFindInTheSameOrder) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const std::shared_ptr<const Program> program = RandomProgram(seed);
    Readiness readiness(program);
    Scan scan(program);
    std::vector<uint32_t> outstanding;
    uint64_t draw = 1000;
    const auto below = [&](uint64_t n) {
      return CounterRandom(seed, RandomUse::kTest, 1).Below(draw++, n);
    };
    for (int move = 0; move < 100 && !scan.complete(); ++move) {
      for (bool more = true; more;) {
        const std::optional<uint32_t> expected = scan.Next();
        ASSERT_EQ(readiness.Next(), expected) << "seed " << seed << " move " << move;
        more = expected.has_value();
        if (more && below(3) == 0) {  // done as soon as it is issued, as most of the device's are
          scan.Satisfy(*expected);
          readiness.Satisfy(*expected);
        } else if (more) {
          outstanding.push_back(*expected);
        }
      }
      if (below(20) == 0) {
        scan.RewindDevice();
        readiness.RewindDevice();
        std::erase_if(outstanding,
                      [&](uint32_t i) { return IsOfDevice(program->instructions[i]); });
        continue;
      }
      if (outstanding.empty()) continue;
      const uint32_t i = outstanding[below(outstanding.size())];
      if (scan.satisfied(i) && below(2) == 0) {
        scan.Unsatisfy(i);
        readiness.Unsatisfy(i);
      } else {
        scan.Satisfy(i);
        readiness.Satisfy(i);
      }
    }
    EXPECT_EQ(readiness.complete(), scan.complete());
  }
}

TEST(ReadinessTest, ADeviceInstructionGoesBehindOneThatHasNotCompleted) {
  Readiness readiness(Linked({{.what = LoadValues{}},
                              {.what = RunForward{}, .deps = {0}},
                              {.what = SendPush{}, .deps = {1}}}));
  EXPECT_THAT(TakeAll(&readiness), ElementsAre(0, 1));
  readiness.Satisfy(1);
  EXPECT_THAT(TakeAll(&readiness), ElementsAre(2));
}

TEST(ReadinessTest, AnInstructionOfTheDeviceThatWaitsHoldsUpThoseBehindIt) {
  Readiness readiness(
      Linked({{.what = SendPull{}}, {.what = LoadValues{}, .deps = {0}}, {.what = RunForward{}}}));
  EXPECT_THAT(TakeAll(&readiness), ElementsAre(0));
  readiness.Satisfy(0);
  EXPECT_THAT(TakeAll(&readiness), ElementsAre(1, 2));
}

TEST(ReadinessTest, WhatIsTakenBackIsWaitedForAgain) {
  Readiness readiness(Linked({{.what = SendPull{}},
                              {.what = SendPull{ShardId{1}}},
                              {.what = LoadValues{}, .deps = {0, 1}},
                              {.what = SendClock{}, .deps = {0, 1}}}));
  TakeAll(&readiness);
  readiness.Satisfy(0);
  readiness.Unsatisfy(0);
  readiness.Satisfy(1);
  EXPECT_THAT(TakeAll(&readiness), IsEmpty());
  readiness.Satisfy(0);
  EXPECT_THAT(TakeAll(&readiness), ElementsAre(2, 3));
}

TEST(ReadinessTest, ACopyGoesOnByItself) {
  Readiness readiness(Linked({{.what = SendPull{}}, {.what = SendPush{}, .deps = {0}}}));
  TakeAll(&readiness);
  Readiness copy = readiness;
  copy.Satisfy(0);
  EXPECT_THAT(TakeAll(&readiness), IsEmpty());
  EXPECT_THAT(TakeAll(&copy), ElementsAre(1));
}

}  // namespace
}  // namespace soapstone::worker
