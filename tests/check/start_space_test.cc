// The start of a job by every interleaving: processes say Hello and heartbeats, connections end
// while what they carried is still under way, a process dies at any moment before the start and
// another stands for it. The coordinator is the shipped one (scheduler/coordinator.h); connections
// are what transport/transport.h promises of TakeEnded.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "gtest/gtest.h"
#include "scheduler/coordinator.h"
#include "sim/explore.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::check {
namespace {

using scheduler::Coordinator;
using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr Nanos kBeat = kSecond / 2;  // of heartbeats, and between two Hellos
// In heartbeats, how soon a job begins where nothing goes wrong any more. A dead process is counted
// out after 2.5; one that lives is heard at the next but one after a doubt.
constexpr int kFairBeats = 4;
constexpr int kFairBeatsOfLiving = 2;

enum class StartMutant {
  kNone,
  kEndUntold,          // nobody hears of a connection's end
  kLateWordBelieved,   // what an ended connection carried counts as any other
  kHeardAtOnce,        // and takes a doubt back at once
  kHeardTooLate,       // a doubt stays for three heartbeats more
  kAskingSaysNothing,  // that another asks for a rank does not make its holder doubtful
  kOnlyRanks,          // ends are told of those alone that have spoken under their rank
  kDoubtStays,         // who was in doubt once is so for ever
  kAskedAgainYounger,  // each time that another asks for a rank its holder is in doubt anew
};

// How a connection's end and what it carried come to be known.
enum class Carrier {
  kSocket,  // in any order; what is read after the end is known as such
  kMemory,  // likewise, and when all is read the end is told again: within a heartbeat
};

struct StartShape {
  uint32_t workers = 1;
  int deaths = 1;
  int breaks = 0;
  bool intruder = false;  // another process wants server 0's rank, which lives
  Carrier carrier = Carrier::kSocket;
  int beats = 3;  // of the clock; the fair end of a run takes more
  StartMutant mutant = StartMutant::kNone;
};

class StartWorld {
 public:
  enum class Kind : uint8_t {
    kSpeak,
    kDeliver,
    kCut,
    kDie,
    kBreak,
    kTellEarly,
    kTellEnd,
    kReplace,
    kPass
  };
  struct Choice {
    Kind kind{};
    uint32_t slot = 0;
  };

  explicit StartWorld(const StartShape& shape)
      : shape_(shape),
        deaths_(shape.deaths),
        breaks_(shape.breaks),
        coordinator_({.servers = 1,
                      .workers = shape.workers,
                      .heartbeat_ns = kBeat,
                      .timeout_ns = 5 * kBeat / 2,
                      .start_timeout_ns = 1000 * kSecond}) {
    wire::Outbox out;
    coordinator_.Start(0, &out);
    AddSlot(Role::kServer, 0);
    if (shape.intruder) AddSlot(Role::kServer, 0);
    for (uint32_t w = 0; w < shape.workers; ++w) AddSlot(Role::kWorker, w);
  }

  std::vector<Choice> Enabled() const {
    std::vector<Choice> choices;
    if (Finished() || violation_.has_value()) return choices;
    bool settled = beat_ < shape_.beats;
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      const Slot& slot = slots_[i];
      if (CanSpeak(slot)) choices.push_back({Kind::kSpeak, i});
      if (!slot.queue.empty()) choices.push_back({Kind::kDeliver, i});
      if (!slot.alive && !slot.queue.empty()) choices.push_back({Kind::kCut, i});
      if (slot.alive && deaths_ > 0) choices.push_back({Kind::kDie, i});
      if (slot.alive && breaks_ > 0 && slot.spoke >= 0) choices.push_back({Kind::kBreak, i});
      if (CanTellEarly(slot)) choices.push_back({Kind::kTellEarly, i});
      if (CanTellEnd(slot)) choices.push_back({Kind::kTellEnd, i});
      if (!slot.alive && !slot.replaced) choices.push_back({Kind::kReplace, i});
      // A message of one that lives takes less than a heartbeat.
      settled = settled && !CanSpeak(slot) && (!slot.alive || slot.queue.empty());
      if (shape_.carrier == Carrier::kMemory) settled = settled && slot.queue.empty();
    }
    if (settled) choices.push_back({Kind::kPass});
    return choices;
  }

  void Do(const Choice& choice) {
    CarryOut(choice);
    if (!fair_ && !Finished() && !violation_.has_value()) CheckThatItBegins();
  }

  bool Finished() const { return coordinator_.phase() != Coordinator::Phase::kRegistering; }
  std::optional<std::string> Violation() const { return violation_; }

  std::string Describe(const Choice& choice) const {
    constexpr const char* kNames[] = {"speaks",
                                      "is read",
                                      "is lost a word",
                                      "dies",
                                      "its connection breaks",
                                      "its end is told before all is read",
                                      "its end is told",
                                      "is replaced",
                                      "a heartbeat passes"};
    return absl::StrCat("process ", choice.slot, ": ", kNames[static_cast<int>(choice.kind)]);
  }

  void AddTo(Fingerprint* f) const {
    coordinator_.AddTo(f);
    coordinator_.AddTimesTo(f);
    f->Add(beat_);
    f->Add(deaths_);
    f->Add(breaks_);
    for (const Slot& slot : slots_) {
      f->Add(slot.alive);
      f->Add(slot.replaced);
      f->Add(slot.welcomed);
      f->Add(slot.heard_by_rank);
      f->Add(slot.spoke);
      f->Add(slot.connection);
      f->Add(slot.heard);
      f->Add(slot.told);
      f->Add(slot.told_early);
      f->Add(slot.asked);
      f->Add(slot.askers.size());
      f->Add(slot.doubted);
      f->Add(slot.queue.size());
      for (const Word& word : slot.queue) {
        f->Add(word.connection);
        f->Add(word.message.type);
      }
    }
  }

 private:
  struct Word {
    Message message;
    int connection = 0;
  };
  // A process.
  struct Slot {
    Role role = Role::kNone;
    uint32_t rank = 0;
    uint64_t nonce = 0;
    bool alive = true;
    bool replaced = false;
    bool welcomed = false;
    bool heard_by_rank = false;
    int spoke = -1;        // in which heartbeat it spoke last
    int connection = 0;    // its present one, or its last
    uint32_t heard = 0;    // those by which something was read, a bit each
    int told = -1;         // the latest whose end is known, with all that it carried
    int told_early = -1;   // the latest whose end is known
    bool doubted = false;  // the coordinator was told of an end of it
    int asked = -1;        // in which heartbeat another first asked for its rank; -1: read since
    std::set<uint64_t> askers;
    std::deque<Word> queue;
  };

  void AddSlot(Role role, uint32_t rank) {
    uint64_t nonce = 1;  // of a role: a server's says nothing of a worker's
    for (const Slot& slot : slots_) nonce += slot.role == role ? 1 : 0;
    slots_.push_back({.role = role, .rank = rank, .nonce = nonce});
  }
  Nanos now() const { return beat_ * kBeat; }
  static std::string KeyOf(const Slot& slot) {
    return absl::StrCat("key ", slot.nonce, " of ", static_cast<int>(slot.role));
  }
  bool CanSpeak(const Slot& slot) const { return slot.alive && slot.spoke < beat_; }
  // Whose a connection was is known once something was read by it.
  static bool IsKnownOf(const Slot& slot, int connection) {
    return (slot.heard >> connection & 1) != 0;
  }
  // The connections up to this one have ended.
  static int EndedOf(const Slot& slot) {
    return slot.alive ? slot.connection - 1 : slot.connection;
  }
  bool CanTellEarly(const Slot& slot) const {
    return shape_.carrier == Carrier::kMemory && slot.told_early < EndedOf(slot);
  }
  bool CanTellEnd(const Slot& slot) const {
    if (slot.told >= EndedOf(slot)) return false;
    return shape_.carrier != Carrier::kMemory || slot.queue.empty() ||
           slot.queue.front().connection > slot.told + 1;
  }

  void CarryOut(const Choice& choice) {
    Slot* slot = &slots_[choice.slot];
    switch (choice.kind) {
      case Kind::kSpeak:
        slot->spoke = beat_;
        slot->queue.push_back({WordOf(*slot), slot->connection});
        return;
      case Kind::kDeliver:
        return Deliver(slot);
      case Kind::kCut:
        slot->queue.pop_back();
        return;
      case Kind::kDie:
        --deaths_;
        slot->alive = false;
        return;
      case Kind::kBreak:
        --breaks_;
        ++slot->connection;
        return;
      case Kind::kTellEarly:
        ++slot->told_early;
        if (IsKnownOf(*slot, slot->told_early)) TellEnd(slot);
        return;
      case Kind::kTellEnd:
        ++slot->told;
        slot->told_early = std::max(slot->told, slot->told_early);
        if (IsKnownOf(*slot, slot->told)) TellEnd(slot);
        return;
      case Kind::kReplace:
        slot->replaced = true;
        return AddSlot(slot->role, slot->rank);
      case Kind::kPass: {
        ++beat_;
        wire::Outbox out;
        coordinator_.OnTimer(now(), Coordinator::kTick, &out);
        return Take(out);
      }
    }
  }

  Message WordOf(const Slot& slot) const {
    Message message;
    message.to = Address::Scheduler();
    if (slot.welcomed) {
      message.type = MessageType::kHeartbeat;
      message.from = {slot.role, slot.rank};
    } else {
      message.type = MessageType::kHello;
      message.from = Address::Temporary(slot.role, slot.nonce);
      message.body = wire::Hello{.role = slot.role,
                                 .wanted_rank = slot.rank,
                                 .endpoint = "tcp://host",
                                 .nonce = slot.nonce,
                                 .key = KeyOf(slot)};
    }
    return message;
  }

  void TellEnd(Slot* slot) {
    if (shape_.mutant == StartMutant::kEndUntold) return;
    if (shape_.mutant == StartMutant::kOnlyRanks && !slot->heard_by_rank) return;
    slot->doubted = true;
    const Address known_as = slot->heard_by_rank ? Address{slot->role, slot->rank}
                                                 : Address::Temporary(slot->role, slot->nonce);
    Nanos when = now();
    if (shape_.mutant == StartMutant::kHeardAtOnce) when -= kBeat;
    if (shape_.mutant == StartMutant::kHeardTooLate) when += 3 * kBeat;
    coordinator_.OnConnectionEnded(when, known_as);
  }

  // As SchedulerNode does: first what has ended, then the message.
  void Deliver(Slot* slot) {
    const Word word = std::move(slot->queue.front());
    slot->queue.pop_front();
    const bool hello = word.message.type == MessageType::kHello;
    slot->heard |= 1u << word.connection;
    slot->heard_by_rank = slot->heard_by_rank || !hello;
    bool late = word.connection <= std::max(slot->told, slot->told_early);
    if (shape_.mutant == StartMutant::kLateWordBelieved) late = false;
    if (shape_.mutant == StartMutant::kDoubtStays) late = late || slot->doubted;
    if (late) TellEnd(slot);
    if (beat_ > slot->asked) slot->asked = -1;
    wire::Outbox out;
    if (hello && shape_.mutant == StartMutant::kAskingSaysNothing) {
      Message message = word.message;
      std::get<wire::Hello>(message.body).wanted_rank = -1;  // the only one of its role
      coordinator_.OnMessage(now(), message, &out);
    } else {
      coordinator_.OnMessage(now(), word.message, &out);
    }
    if (shape_.mutant == StartMutant::kAskedAgainYounger && hello) AskAgain(out);
    if (hello) NoteAsking(*slot, out);
    Take(out);
    if (Finished()) CheckWhoBegins();
  }

  void NoteAsking(const Slot& asker, const wire::Outbox& out) {
    for (const Message& message : out.messages) {
      if (message.type != MessageType::kWait) continue;
      for (Slot& slot : slots_) {
        const bool holds = coordinator_.KeyOf({slot.role, slot.rank}) == KeyOf(slot);
        if (slot.role != asker.role || slot.rank != asker.rank || !holds) continue;
        if (slot.askers.insert(asker.nonce).second) slot.asked = beat_;
      }
    }
  }

  void AskAgain(const wire::Outbox& out) {
    for (const Message& message : out.messages) {
      if (message.type != MessageType::kWait) continue;
      coordinator_.OnConnectionEnded(now(), Address::Of(ServerId{0}));
    }
  }

  // Answers come at once.
  void Take(const wire::Outbox& out) {
    for (const Message& message : out.messages) {
      for (Slot& slot : slots_) {
        const bool here = message.to == Address::Temporary(slot.role, slot.nonce) ||
                          (slot.welcomed && message.to == Address{slot.role, slot.rank});
        if (!here || !slot.alive) continue;
        if (message.type == MessageType::kWelcome) slot.welcomed = true;
        if (message.type == MessageType::kRefuse || message.type == MessageType::kShutdown) {
          violation_ = absl::StrCat("process ", slot.nonce - 1, ", which lives, is sent away: ",
                                    std::get<wire::Notice>(message.body).text);
        }
      }
    }
  }

  void CheckWhoBegins() {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      const Slot& slot = slots_[i];
      if (coordinator_.KeyOf({slot.role, slot.rank}) != KeyOf(slot)) continue;
      if (slot.alive) continue;
      if (std::max(slot.told, slot.told_early) >= slot.connection) {
        violation_ = absl::StrCat("the job begins with process ", i, ", whose end was known");
      } else if (slot.asked >= 0) {
        violation_ = absl::StrCat("the job begins with process ", i,
                                  ", of whom nothing was heard since another wants its rank");
      }
    }
  }

  // Nothing else goes wrong, and whoever has died is replaced: then it begins.
  void CheckThatItBegins() {
    StartWorld fair(*this);
    fair.fair_ = true;
    const bool all_live = std::ranges::all_of(slots_, [](const Slot& slot) { return slot.alive; });
    const int beats = all_live ? kFairBeatsOfLiving : kFairBeats;
    for (int beat = 0; beat < beats; ++beat) {
      // The last first, who may want another's rank.
      for (size_t i = fair.slots_.size(); i-- > 0;) fair.Settle(static_cast<uint32_t>(i));
      if (fair.violation_.has_value() || fair.Finished()) break;
      fair.CarryOut({Kind::kPass});
    }
    if (fair.violation_.has_value()) {
      violation_ = fair.violation_;
    } else if (!fair.Finished()) {
      violation_ = "the job does not begin, though all are there";
    }
  }

  void Settle(uint32_t i) {
    const auto done = [this] { return Finished() || violation_.has_value(); };
    while (!done() && !slots_[i].queue.empty()) CarryOut({Kind::kDeliver, i});
    if (!done() && CanSpeak(slots_[i])) {
      CarryOut({Kind::kSpeak, i});
      CarryOut({Kind::kDeliver, i});
    }
    if (done()) return;
    while (CanTellEarly(slots_[i])) CarryOut({Kind::kTellEarly, i});
    while (CanTellEnd(slots_[i])) CarryOut({Kind::kTellEnd, i});
    if (!slots_[i].alive && !slots_[i].replaced) CarryOut({Kind::kReplace, i});
  }

  StartShape shape_;
  int beat_ = 0;
  int deaths_;
  int breaks_;
  bool fair_ = false;
  Coordinator coordinator_;
  std::vector<Slot> slots_;
  std::optional<std::string> violation_;
};

sim::ExploreReport ExploreStart(const StartShape& shape) {
  sim::ExploreReport report = sim::Explore(StartWorld(shape), {.states_max = 5'000'000});
  std::printf("start of %u workers, deaths %d, breaks %d%s, carrier %d, mutant %d: %s\n",
              shape.workers, shape.deaths, shape.breaks, shape.intruder ? ", an intruder" : "",
              static_cast<int>(shape.carrier), static_cast<int>(shape.mutant),
              report.ToString().c_str());
  return report;
}

constexpr Carrier kCarriers[] = {Carrier::kSocket, Carrier::kMemory};

TEST(StartSpaceTest, AJobBeginsWithoutThoseWhoseEndIsKnown) {
  for (const Carrier carrier : kCarriers) {
    for (const StartShape& shape :
         {StartShape{.carrier = carrier}, StartShape{.breaks = 1, .carrier = carrier},
          StartShape{.deaths = 2, .carrier = carrier},
          StartShape{.deaths = 0, .breaks = 1, .intruder = true, .carrier = carrier}}) {
      const sim::ExploreReport report = ExploreStart(shape);
      EXPECT_TRUE(report.complete);
      EXPECT_FALSE(report.violation.has_value()) << report.ToString();
    }
  }
}

TEST(StartSpaceTest, EachMutantDies) {
  const std::pair<StartMutant, StartShape> dying[] = {
      {StartMutant::kEndUntold, {}},
      {StartMutant::kEndUntold, {.carrier = Carrier::kMemory}},
      {StartMutant::kLateWordBelieved, {}},
      {StartMutant::kHeardAtOnce, {.carrier = Carrier::kMemory}},
      {StartMutant::kHeardTooLate, {.deaths = 0, .breaks = 1}},
      {StartMutant::kAskingSaysNothing, {}},
      {StartMutant::kAskingSaysNothing, {.carrier = Carrier::kMemory}},
      {StartMutant::kOnlyRanks, {}},
      {StartMutant::kOnlyRanks, {.carrier = Carrier::kMemory}},
      {StartMutant::kDoubtStays, {.deaths = 0, .breaks = 1}},
      {StartMutant::kAskedAgainYounger, {.deaths = 0, .intruder = true}},
  };
  for (auto [mutant, shape] : dying) {
    shape.mutant = mutant;
    EXPECT_TRUE(ExploreStart(shape).violation.has_value()) << static_cast<int>(mutant);
  }
}

}  // namespace
}  // namespace soapstone::check
