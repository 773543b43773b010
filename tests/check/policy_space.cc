#include "tests/check/policy_space.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "glog/logging.h"
#include "tests/check/policy_state.h"
#include "tests/check/space_moves.h"

namespace soapstone::check {
namespace {

class Explorer : private SpaceMoves {
 public:
  using SpaceMoves::EnabledIn;
  using SpaceMoves::Initial;

  explicit Explorer(const SpaceOptions& options) : SpaceMoves(options) {}

  SpaceReport Run() {
    std::vector<State> stack = {Initial()};
    visited_.insert(PrintOf(stack.back()));
    while (!stack.empty() && !Over()) {
      const State state = std::move(stack.back());
      stack.pop_back();
      ++report_.states;
      CheckGap(state);
      bool moved = false;
      Successors(state, [&](State next) {
        moved = true;
        ++report_.transitions;
        if (visited_.insert(PrintOf(next)).second) stack.push_back(std::move(next));
      });
      if (moved) continue;
      if (Finished(state)) {
        CheckEnd(state);
      } else {
        ++report_.deadlocks;
        report_.violations.insert("S5 deadlock");
      }
    }
    return report_;
  }

  // One path through the space after another, each drawn at random, until `reads` reads have been
  // checked. Faults are rare, so that there is something for them to interrupt.
  SpaceReport Walk(uint64_t reads, uint64_t seed) {
    constexpr uint64_t kFaultEvery = 64;
    constexpr uint64_t kIdleMax = 100'000;  // draws of moves that are not enabled
    const CounterRandom random(seed, RandomUse::kTest, 0);
    uint64_t draw = 0;
    while (reads_ < reads && report_.violations.empty()) {
      State s = Initial();
      for (uint64_t idle = 0; idle < kIdleMax;) {
        if (Finished(s)) {
          // What is under way arrives; a newcomer may begin.
          std::vector<Move> rest = EnabledIn(s);
          std::erase_if(rest, [](const Move& move) { return IsFault(move.kind); });
          if (rest.empty()) {
            CheckEnd(s);
            break;
          }
          Do(&s, rest[random.Bits(draw++) % rest.size()]);
          continue;
        }
        const uint64_t bits = random.Bits(draw++);
        const bool fault = bits % kFaultEvery == 0;
        const Kind kind = fault ? kFaults[(bits >> 8) % std::size(kFaults)]
                                : kSteps[(bits >> 8) % std::size(kSteps)];
        const Move move = {kind, static_cast<uint32_t>((bits >> 16) % P()),
                           static_cast<uint32_t>((bits >> 32) % K())};
        ++idle;
        if (!Enabled(s, move) || !Do(&s, move)) continue;
        idle = 0;
        ++report_.transitions;
        CheckGap(s);
      }
      if (!Finished(s)) report_.violations.insert("S5 deadlock");
      ++report_.states;
    }
    report_.reads = reads_;
    return report_;
  }

  // ---- For PolicyWorld

  std::pair<uint64_t, uint64_t> PrintOf(const State& s) const {
    return s.Print(options_.symmetric, Is(Mutant::kForgetfulPrint));
  }
  // What the guarantee says of one move, "" where it is kept.
  std::string DoAndCheck(State* s, Move move) {
    report_ = {};
    Do(s, move);
    CheckGap(*s);
    return report_.violations.empty() ? "" : *report_.violations.begin();
  }

 private:
  bool Over() const {
    return (options_.until_violation && !report_.violations.empty()) ||
           (options_.until_deadlock && report_.deadlocks > 0);
  }

  void Successors(const State& s, const std::function<void(State)>& add) {
    EachMove([&](Move move) {
      if (!Enabled(s, move)) return;
      State next = s;
      if (Do(&next, move)) add(std::move(next));
    });
  }

  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> visited_;
};

}  // namespace

SpaceReport ExploreSpace(const SpaceOptions& options) { return Explorer(options).Run(); }

SpaceReport WalkSpace(const SpaceOptions& options, uint64_t reads, uint64_t seed) {
  return Explorer(options).Walk(reads, seed);
}

// ---- PolicyWorld

struct PolicyWorld::Inside {
  mutable Explorer explorer;
  State state;
};

PolicyWorld::PolicyWorld(const SpaceOptions& options) {
  Explorer explorer(options);
  State state = explorer.Initial();
  inside_ = std::make_shared<const Inside>(Inside{std::move(explorer), std::move(state)});
}

std::vector<SpaceChoice> PolicyWorld::Enabled() const {
  if (violation_.has_value()) return {};
  return inside_->explorer.EnabledIn(inside_->state);
}

void PolicyWorld::Do(const SpaceChoice& choice) {
  auto next = std::make_shared<Inside>(*inside_);
  const std::string what = next->explorer.DoAndCheck(&next->state, choice);
  if (!what.empty()) violation_ = what;
  inside_ = std::move(next);
}

bool PolicyWorld::Finished() const { return Enabled().empty(); }

std::string PolicyWorld::Describe(const SpaceChoice& choice) const {
  return absl::StrCat("move ", static_cast<int>(choice.kind), " of worker ", choice.w, ", shard ",
                      choice.k);
}

void PolicyWorld::AddTo(Fingerprint* f) const {
  const auto [a, b] = inside_->explorer.PrintOf(inside_->state);
  f->Add(a);
  f->Add(b);
}

}  // namespace soapstone::check
