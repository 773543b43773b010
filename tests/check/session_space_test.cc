// Sessions (wire/session.h) by every interleaving: two ends that send each other a few messages
// over connections that break, at any moment, on one side first or on both; both ends may make
// another at once, an old one may speak after a new one, and a process may be replaced by a
// successor. Messages are of two pieces and bear no number, as on a stream: both ends count.
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "gtest/gtest.h"
#include "sim/explore.h"
#include "wire/session.h"

namespace soapstone::check {
namespace {

enum class SessionMutant {
  kNone,
  kNoResume,              // what was kept is not sent again
  kAcknowledgedTooEarly,  // when its first piece is there
  kResumedTooEarly,       // from the message before the one that is missing
  kResumedTooLate,        // from the one after it
  kSuccessorNotSeen,      // another process is taken for the one that was there
  kOldConnectionHeard,    // frames of a connection count after a later one has taken its place
  kLatestForgotten,       // once it has broken, an earlier one is taken again
  kAnswersWait,           // acknowledgements wait for room as messages do
};

struct SessionShape {
  int messages = 3;  // each way
  int breaks = 2;
  int successors = 0;
  uint64_t items_max = 1;
  SessionMutant mutant = SessionMutant::kNone;
};

struct Item {
  int incarnation = 0;  // of its sender's view of the other end: how many successors it has seen
  int index = 0;
};

class SessionWorld {
 public:
  enum class Kind : uint8_t { kSend, kDeliver, kBreak, kNotice, kDial, kReplace };
  struct Choice {
    Kind kind{};
    int end = 0;  // who acts, or to whom a frame comes
    int connection = 0;
  };

  explicit SessionWorld(const SessionShape& shape)
      : shape_(shape), breaks_(shape.breaks), successors_(shape.successors) {
    for (int e = 0; e < 2; ++e) ends_[e].session = NewSession(e);
    Dial(0);
  }

  std::vector<Choice> Enabled() const {
    std::vector<Choice> choices;
    for (int e = 0; e < 2; ++e) {
      const End& end = ends_[e];
      if (end.sent < shape_.messages && end.session.HasRoom(1)) choices.push_back({Kind::kSend, e});
      if (end.connection >= 0 && connections_[end.connection].broken) {
        choices.push_back({Kind::kNotice, e});
      }
      if (end.connection < 0) choices.push_back({Kind::kDial, e});
    }
    for (int c = 0; c < static_cast<int>(connections_.size()); ++c) {
      for (int e = 0; e < 2; ++e) {
        if (!connections_[c].to[e].empty()) choices.push_back({Kind::kDeliver, e, c});
      }
      if (breaks_ > 0 && !connections_[c].broken) choices.push_back({Kind::kBreak, 0, c});
    }
    if (successors_ > 0) choices.push_back({Kind::kReplace, 1});
    return choices;
  }

  void Do(const Choice& choice) {
    switch (choice.kind) {
      case Kind::kSend: {
        End& end = ends_[choice.end];
        end.session.Keep({end.seen_successors, end.sent++}, 1);
        if (end.greeted) PutItem(choice.end, end.session.kept().back().item);
        break;
      }
      case Kind::kDeliver:
        Deliver(choice.end, choice.connection);
        break;
      case Kind::kBreak:
        --breaks_;
        connections_[choice.connection].broken = true;
        // What is under way to one end may still arrive there: that of the other is lost.
        connections_[choice.connection].to[1].clear();
        break;
      case Kind::kNotice:
        LetGo(choice.end);
        break;
      case Kind::kDial:
        Dial(choice.end);
        break;
      case Kind::kReplace:
        --successors_;
        for (Connection& connection : connections_) {  // its sockets ended with it
          connection.broken = true;
          connection.to[1].clear();
        }
        ends_[1] = End{};
        ends_[1].latest = static_cast<int>(connections_.size()) - 1;
        ++replaced_;
        ends_[1].session = NewSession(1);
        break;
    }
    if (!violation_.has_value() && !Finished() && Enabled().empty()) {
      violation_ = "deadlock: nothing can happen, and not all has arrived";
    }
  }

  bool Finished() const {
    for (int e = 0; e < 2; ++e) {
      const End& end = ends_[e];
      const bool whole = static_cast<int>(end.received.size()) == shape_.messages;
      if (!whole || end.sent < shape_.messages || !end.session.kept().empty()) return false;
    }
    return true;
  }
  std::optional<std::string> Violation() const { return violation_; }

  std::string Describe(const Choice& choice) const {
    constexpr const char* kNames[] = {"send", "deliver", "break", "notice", "dial", "replace"};
    return absl::StrCat(kNames[static_cast<int>(choice.kind)], " end ", choice.end, " connection ",
                        choice.connection);
  }

  void AddTo(Fingerprint* f) const {
    f->Add(breaks_);
    f->Add(successors_);
    for (const End& end : ends_) {
      f->Add(end.session.self());
      f->Add(end.session.other());
      f->Add(end.session.received());
      f->Add(end.session.sent());
      f->Add(end.session.kept().size());
      f->Add(end.sent);
      f->Add(end.connection);
      f->Add(end.latest);
      f->Add(end.greeted);
      f->Add(end.half);
      f->Add(end.seen_successors);
      f->Add(end.received.size());
    }
    f->Add(connections_.size());
    for (const Connection& connection : connections_) {
      f->Add(connection.broken);
      for (const auto& queue : connection.to) {
        f->Add(queue.size());
        for (const Frame& frame : queue) {
          f->Add(frame.kind);
          f->Add(frame.greeting.self);
          f->Add(frame.greeting.other);
          f->Add(frame.greeting.received);
          f->Add(frame.item.incarnation);
          f->Add(frame.item.index);
        }
      }
    }
  }

 private:
  struct Frame {
    enum class Kind : uint8_t { kGreeting, kFirstHalf, kSecondHalf, kAcknowledgement };
    Kind kind{};
    wire::SessionGreeting greeting;  // of an acknowledgement: `received`
    Item item;
  };
  struct Connection {
    bool broken = false;
    std::array<std::vector<Frame>, 2> to;
  };
  struct End {
    wire::Session<Item> session{1, {}};
    int sent = 0;
    std::vector<Item> received;
    int connection = -1;
    int latest = -1;       // connection ever: none before it is listened to again
    bool greeted = false;  // the other end has greeted on it
    bool half = false;     // of a message
    int seen_successors = 0;
  };

  wire::Session<Item> NewSession(int end) const {
    return {static_cast<uint64_t>(1 + end + 10 * replaced_), {.items_max = shape_.items_max}};
  }

  void Put(int from, Frame frame) {
    const int c = ends_[from].connection;
    if (c < 0 || connections_[c].broken) return;  // written to nobody
    connections_[c].to[1 - from].push_back(frame);
  }
  void PutItem(int from, const Item& item) {
    Put(from, {Frame::Kind::kFirstHalf, {}, item});
    Put(from, {Frame::Kind::kSecondHalf, {}, item});
  }
  void Greet(int from) { Put(from, {Frame::Kind::kGreeting, ends_[from].session.greeting(), {}}); }

  void LetGo(int e) {
    End& end = ends_[e];
    end.connection = -1;
    end.greeted = end.half = false;
  }
  void Dial(int e) {
    LetGo(e);
    ends_[e].connection = ends_[e].latest = static_cast<int>(connections_.size());
    connections_.emplace_back();
    Greet(e);
  }

  void Deliver(int e, int c) {
    std::vector<Frame>& queue = connections_[c].to[e];
    const Frame frame = queue.front();
    queue.erase(queue.begin());
    End& end = ends_[e];
    const bool later =
        c > (shape_.mutant == SessionMutant::kLatestForgotten ? end.connection : end.latest);
    if (later && frame.kind == Frame::Kind::kGreeting) {
      LetGo(e);  // a later connection takes the place of an earlier
      end.connection = end.latest = c;
      Greet(e);
    }
    if (c != end.connection && shape_.mutant != SessionMutant::kOldConnectionHeard) return;
    switch (frame.kind) {
      case Frame::Kind::kGreeting:
        return OnGreeting(e, frame.greeting);
      case Frame::Kind::kFirstHalf:
        end.half = true;
        if (shape_.mutant == SessionMutant::kAcknowledgedTooEarly) Acknowledge(e, 1);
        return;
      case Frame::Kind::kSecondHalf:
        if (!end.half && shape_.mutant != SessionMutant::kOldConnectionHeard) return;
        end.half = false;
        return Take(e, frame.item);
      case Frame::Kind::kAcknowledgement:
        if (!end.session.OnAcknowledged(frame.greeting.received)) Fail("acknowledged, never sent");
        return CheckKept(e);
    }
  }

  void OnGreeting(int e, wire::SessionGreeting theirs) {
    using Greeted = wire::Session<Item>::Greeted;
    End& end = ends_[e];
    if (shape_.mutant == SessionMutant::kSuccessorNotSeen && end.session.other() != 0) {
      theirs.self = end.session.other();
    }
    if (shape_.mutant == SessionMutant::kResumedTooLate && theirs.received < end.session.sent()) {
      ++theirs.received;
    }
    // From the message before the one that is missing: as if it were not in hand.
    const bool early = shape_.mutant == SessionMutant::kResumedTooEarly && theirs.received > 0 &&
                       theirs.received >= end.session.first_kept();
    if (early) --theirs.received;
    switch (end.session.OnGreeting(theirs)) {
      case Greeted::kSuccessor:
        ++end.seen_successors;
        end.sent = 0;
        end.received.clear();
        end.greeted = true;
        Greet(e);  // what was said before was for another
        return;
      case Greeted::kGoesOn:
        CheckKept(e);
        end.greeted = true;
        if (shape_.mutant == SessionMutant::kNoResume) return;
        for (const auto& kept : end.session.kept()) PutItem(e, kept.item);
        return;
      case Greeted::kMistaken:
        return;  // our greeting is under way
      case Greeted::kLies:
        if (theirs.other == end.session.self()) Fail("an honest greeting is taken for a lie");
        return;
    }
  }

  void Acknowledge(int e, uint64_t more) {
    if (shape_.mutant == SessionMutant::kAnswersWait && !ends_[e].session.HasRoom(1)) return;
    Put(e, {Frame::Kind::kAcknowledgement, {0, 0, ends_[e].session.received() + more}, {}});
  }

  void Take(int e, const Item& item) {
    End& end = ends_[e];
    end.session.OnArrival(end.session.received() + 1);
    if (item.index != static_cast<int>(end.received.size())) {
      Fail(absl::StrCat("message ", item.index, " arrives as number ", end.received.size()));
    }
    if (e == 1 && item.incarnation != 0 && replaced_ == 0) Fail("a successor that is none");
    // One that had been heard of is not taken for its successor.
    if (!end.received.empty() && item.incarnation != end.received.front().incarnation) {
      Fail("what was for another process arrives");
    }
    end.received.push_back(item);
    if (shape_.mutant != SessionMutant::kAcknowledgedTooEarly) Acknowledge(e, 0);
  }

  // What is not kept any more is in the other end's hand.
  void CheckKept(int e) {
    const End& other = ends_[1 - e];
    if (other.session.self() != ends_[e].session.other()) return;
    if (ends_[e].session.first_kept() - 1 > other.received.size()) {
      Fail("forgotten before it was in hand");
    }
  }
  void Fail(std::string what) {
    if (!violation_.has_value()) violation_ = std::move(what);
  }

  SessionShape shape_;
  int breaks_ = 0;
  int successors_ = 0;
  int replaced_ = 0;
  std::array<End, 2> ends_;
  std::vector<Connection> connections_;
  std::optional<std::string> violation_;
};

sim::ExploreReport ExploreSessions(const SessionShape& shape) {
  return sim::Explore(SessionWorld(shape), {.states_max = 4'000'000, .depth_max = 400});
}

class SessionSpaceTest : public testing::TestWithParam<uint64_t> {};

TEST_P(SessionSpaceTest, EachMessageArrivesOnceInOrder) {
  const int messages = GetParam() == 1 ? 3 : 2;
  const sim::ExploreReport report =
      ExploreSessions({.messages = messages, .items_max = GetParam()});
  EXPECT_FALSE(report.violation.has_value()) << report.ToString();
  EXPECT_TRUE(report.complete);
  EXPECT_GT(report.ends, 0u);
  std::printf("bound %d: %s\n", static_cast<int>(GetParam()), report.ToString().c_str());
}

TEST(SessionSuccessorTest, ASuccessorGetsNothingThatWasForAnother) {
  const sim::ExploreReport report = ExploreSessions({.messages = 2, .breaks = 1, .successors = 1});
  EXPECT_FALSE(report.violation.has_value()) << report.ToString();
  EXPECT_TRUE(report.complete);
  EXPECT_GT(report.ends, 0u);
}

INSTANTIATE_TEST_SUITE_P(Bounds, SessionSpaceTest, testing::Values(1, 3));

// Each dies in the space in which the real thing lives.
TEST(SessionMutantTest, EachDies) {
  const std::pair<SessionMutant, const char*> kMutants[] = {
      {SessionMutant::kNoResume, "no resume"},
      {SessionMutant::kAcknowledgedTooEarly, "acknowledged before it is in hand"},
      {SessionMutant::kResumedTooEarly, "resumed one too early"},
      {SessionMutant::kResumedTooLate, "resumed one too late"},
      {SessionMutant::kOldConnectionHeard, "an old connection is heard"},
      {SessionMutant::kLatestForgotten, "an old connection is taken after a later one"},
      {SessionMutant::kAnswersWait, "acknowledgements wait for room"},
  };
  for (const auto& [mutant, name] : kMutants) {
    const sim::ExploreReport report = ExploreSessions({.mutant = mutant});
    EXPECT_TRUE(report.violation.has_value()) << name << " lives";
    std::printf("%s: dies after %d states: %s\n", name, static_cast<int>(report.states),
                report.violation.value_or("").c_str());
    if (mutant == SessionMutant::kNoResume) {
      EXPECT_LE(report.states, 1000u);
    }
  }
  const sim::ExploreReport report = ExploreSessions(
      {.messages = 2, .breaks = 1, .successors = 1, .mutant = SessionMutant::kSuccessorNotSeen});
  EXPECT_TRUE(report.violation.has_value()) << "a successor taken for the same process lives";
  std::printf("successor not seen: dies after %d states\n", static_cast<int>(report.states));
}

}  // namespace
}  // namespace soapstone::check
