#include "transport/node/numbered_links.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using Came = NumberedLinks::Came;

// Two ends, and ZeroMQ between them as a queue each way, which a break empties without a word.
class NumberedLinksTest : public testing::Test {
 protected:
  struct End {
    std::unique_ptr<NumberedLinks> links;
    std::deque<Buffers> in;
    std::vector<std::string> got;
    int redialled = 0;
    absl::Status dials;
    MovedBytes moved;
  };
  void SetUp() override {
    Make(0, {});
    Make(1, {});
  }
  void Make(int e, const NumberedOptions& options) {
    ends_[e].links = std::make_unique<NumberedLinks>(
        options,
        [this, e](const std::string&, bool ours, std::string_view first,
                  absl::Span<const Buffer> rest, bool) {
          EXPECT_EQ(ours, e == 0);
          if (gone_) return absl::NotFoundError("nobody");
          Buffers frames = {Buffer::CopyOf(first)};
          frames.insert(frames.end(), rest.begin(), rest.end());
          ends_[1 - e].in.push_back(std::move(frames));
          return absl::OkStatus();
        },
        [this, e](const std::string&) {
          ++ends_[e].redialled;
          return ends_[e].dials;
        },
        [this, e](const std::string&, bool ours) {
          EXPECT_EQ(ours, e == 0);
          return ends_[e].moved;
        });
  }
  // Nothing arrives for that time, while so much a second crosses the connection, seen by both.
  void Cross(absl::Duration time, MovedBytes a_second) {
    for (SteadyTime end = now_ + time; now_ < end; now_ += absl::Milliseconds(10)) {
      ends_[0].moved.out += a_second.out / 100;
      ends_[1].moved.in += a_second.out / 100;
      ends_[0].moved.in += a_second.in / 100;
      ends_[1].moved.out += a_second.in / 100;
      for (End& end : ends_) end.links->Tend(now_);
    }
  }
  absl::Status Send(int e, const std::string& text) {
    return ends_[e].links->Send("peer", e == 0, text, {}, now_);
  }
  void Turn(int e) {
    End& end = ends_[e];
    while (!end.in.empty()) {
      Buffers frames = std::move(end.in.front());
      end.in.pop_front();
      if (end.links->Receive("peer", e == 0, &frames, now_) != Came::kMessage) continue;
      end.got.emplace_back(reinterpret_cast<const char*>(frames[0].data()), frames[0].size());
    }
    end.links->Tend(now_);
  }
  void Pass(absl::Duration time) {
    for (SteadyTime end = now_ + time; now_ < end; now_ += absl::Milliseconds(10)) {
      Turn(0);
      Turn(1);
    }
  }

  End ends_[2];
  bool gone_ = false;
  SteadyTime now_ = SteadyTime() + absl::Hours(1);
};

TEST_F(NumberedLinksTest, EachMessageArrivesOnceWhateverIsLost) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SetUp();
    ends_[0].got.clear();
    ends_[1].got.clear();
    const CounterRandom random(seed, RandomUse::kTest, 9);
    uint64_t at = 0;
    int sent[2] = {};
    for (int turn = 0; turn < 300; ++turn) {
      const int e = static_cast<int>(random.Below(++at, 2));
      if (random.Below(++at, 2) == 0) {
        ASSERT_TRUE(Send(e, absl::StrCat(sent[e]++)).ok());
      }
      if (random.Below(++at, 3) == 0) Turn(e);
      now_ += absl::Milliseconds(random.Below(++at, 15));
      // A connection takes the newest with it, of one direction or of both.
      if (random.Below(++at, 15) == 0) {
        for (End& end : ends_) {
          const uint64_t kept = random.Below(++at, end.in.size() + 1);
          end.in.resize(kept);
        }
      }
    }
    Pass(absl::Seconds(4));
    for (int e = 0; e < 2; ++e) {
      ASSERT_EQ(static_cast<int>(ends_[1 - e].got.size()), sent[e]) << "seed " << seed;
      for (int i = 0; i < sent[e]; ++i) ASSERT_EQ(ends_[1 - e].got[i], absl::StrCat(i));
      EXPECT_TRUE(ends_[e].links->all_acknowledged()) << "seed " << seed;
      EXPECT_TRUE(ends_[e].links->TakeLost().empty());
    }
  }
}

TEST_F(NumberedLinksTest, WhatHasToWaitIsLeftWithItsSenderAndAskedForByRelease) {
  bool waits = true;
  Make(1, {.waits = [&](const std::string&) { return waits; }});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Send(0, absl::StrCat(i)).ok());
  ASSERT_TRUE(Send(1, "the other way").ok());
  Pass(absl::Seconds(20));
  EXPECT_EQ(ends_[0].got, std::vector<std::string>{"the other way"});
  EXPECT_TRUE(ends_[1].got.empty());
  EXPECT_FALSE(ends_[0].links->all_acknowledged());
  EXPECT_TRUE(ends_[0].links->TakeLost().empty()) << "somebody answers";
  ends_[1].links->Release();
  Pass(absl::Milliseconds(50));
  EXPECT_TRUE(ends_[1].got.empty()) << "it has to wait on";
  waits = false;
  ends_[1].links->Release();
  Turn(0);
  Turn(1);
  EXPECT_EQ(ends_[1].got, (std::vector<std::string>{"0", "1", "2"})) << "without a wait";
  ASSERT_TRUE(Send(0, "3").ok());
  Pass(absl::Milliseconds(100));
  EXPECT_EQ(ends_[1].got.size(), 4u);
  EXPECT_TRUE(ends_[0].links->all_acknowledged());
}

TEST_F(NumberedLinksTest, WhatIsKeptIsBounded) {
  Make(0, {.limits = {.bytes_max = 100, .items_max = 3}});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Send(0, "x").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Send(0, "x")));
  Pass(absl::Milliseconds(100));
  ASSERT_TRUE(Send(0, std::string(1000, 'y')).ok()) << "one always goes";
  EXPECT_TRUE(absl::IsResourceExhausted(Send(0, "x")));
  Pass(absl::Milliseconds(100));
  EXPECT_TRUE(Send(0, "x").ok());
}

TEST_F(NumberedLinksTest, ASilentConnectionIsMadeAnewAndThenLost) {
  ASSERT_TRUE(Send(0, "hello").ok());
  Pass(absl::Milliseconds(100));
  ASSERT_TRUE(Send(0, "nobody answers").ok());
  ends_[1].in.clear();
  for (int i = 0; i < 1000; ++i, now_ += absl::Milliseconds(10)) {
    ends_[1].in.clear();
    ends_[0].links->Tend(now_);
  }
  EXPECT_GE(ends_[0].redialled, 2);
  const std::vector<LostLink> lost = ends_[0].links->TakeLost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].peer, "peer");
}

// As who starts before the node that it connects to.
TEST_F(NumberedLinksTest, WhoIsNotThereYetIsDialledLessAndLessOften) {
  ASSERT_TRUE(Send(0, "hello").ok());
  for (SteadyTime end = now_ + absl::Minutes(1); now_ < end; now_ += absl::Milliseconds(10)) {
    ends_[1].in.clear();
    ends_[0].links->Broke("peer", now_);
    ends_[0].links->Tend(now_);
  }
  EXPECT_GE(ends_[0].redialled, 55);
  EXPECT_LE(ends_[0].redialled, 70);
  EXPECT_TRUE(ends_[0].links->TakeLost().empty());
  Pass(absl::Seconds(1));
  EXPECT_EQ(ends_[1].got, std::vector<std::string>{"hello"});
}

// A process that may have no more descriptors.
TEST_F(NumberedLinksTest, ALinkForWhichNoConnectionIsToBeHadIsLost) {
  for (const bool heard : {false, true}) {
    SetUp();
    ASSERT_TRUE(Send(0, "hello").ok());
    if (heard) Pass(absl::Seconds(1));
    ends_[0].dials = absl::ResourceExhaustedError("too many open files");
    std::vector<LostLink> lost;
    const SteadyTime began = now_;
    for (; lost.empty() && now_ - began < absl::Minutes(1); now_ += absl::Milliseconds(10)) {
      ends_[0].links->Broke("peer", now_);
      ends_[0].links->Tend(now_);
      lost = ends_[0].links->TakeLost();
    }
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_EQ(lost[0].why, "too many open files");
    EXPECT_GE(now_ - began, NumberedOptions{}.link_timeout);
  }
}

TEST_F(NumberedLinksTest, NorIsOneLostForWhichOneIsHadInTheEnd) {
  ASSERT_TRUE(Send(0, "hello").ok());
  for (const bool dials : {false, true}) {
    ends_[0].dials = dials ? absl::OkStatus() : absl::ResourceExhaustedError("too many open files");
    for (SteadyTime end = now_ + absl::Seconds(4); now_ < end; now_ += absl::Milliseconds(10)) {
      ends_[0].links->Broke("peer", now_);
      ends_[0].links->Tend(now_);
    }
  }
  EXPECT_TRUE(ends_[0].links->TakeLost().empty());
}

// The other side speaks, and hears nothing: its libzmq waits for the end of a frame whose length
// was changed on the way.
TEST_F(NumberedLinksTest, AConnectionThatCarriesOneWayAloneIsMadeAnew) {
  ASSERT_TRUE(Send(0, "before").ok());
  Pass(absl::Seconds(1));
  ASSERT_TRUE(Send(0, "swallowed").ok());
  for (int i = 0; i < 400 && ends_[0].redialled == 0; ++i) {
    if (i % 20 == 0) {
      ASSERT_TRUE(Send(1, "a word").ok());
    }
    Turn(0);
    ends_[1].in.clear();
    Turn(1);
    now_ += absl::Milliseconds(10);
  }
  EXPECT_EQ(ends_[0].redialled, 1);
  Pass(absl::Seconds(1));
  EXPECT_EQ(ends_[1].got, (std::vector<std::string>{"before", "swallowed"}));
  EXPECT_EQ(ends_[0].redialled, 1);
  EXPECT_TRUE(ends_[0].links->TakeLost().empty());
  EXPECT_TRUE(ends_[1].links->TakeLost().empty());
}

// Answers come behind it, whichever way it goes.
TEST_F(NumberedLinksTest, AMessageMayTakeAsLongAsTheKernelMovesIt) {
  for (const bool out : {true, false}) {
    SCOPED_TRACE(out);
    SetUp();
    ends_[0].redialled = 0;
    ASSERT_TRUE(Send(0, "before").ok());
    ASSERT_TRUE(Send(1, "before").ok());
    Pass(absl::Seconds(1));
    for (End& end : ends_) end.got.clear();
    ASSERT_TRUE(Send(out ? 0 : 1, "large").ok());
    Cross(absl::Minutes(2), out ? MovedBytes{.out = 100'000} : MovedBytes{.in = 100'000});
    EXPECT_EQ(ends_[0].redialled, 0);
    for (End& end : ends_) EXPECT_TRUE(end.links->TakeLost().empty());
    // A stall, as without one.
    Cross(absl::Seconds(3), {});
    EXPECT_GE(ends_[0].redialled, 1);
    Pass(absl::Seconds(1));
    EXPECT_EQ(ends_[out ? 1 : 0].got, std::vector<std::string>{"large"});
  }
}

// Who is stopped has a kernel that takes questions over, and who is far sends answers.
TEST_F(NumberedLinksTest, WhatQuestionsTakeIsNoMessageOnItsWay) {
  ASSERT_TRUE(Send(0, "before").ok());
  Pass(absl::Seconds(1));
  ASSERT_TRUE(Send(0, "large").ok());
  Cross(absl::Seconds(10), {.out = 10'000, .in = 10'000});
  EXPECT_GE(ends_[0].redialled, 1);
  EXPECT_EQ(ends_[0].links->TakeLost().size(), 1u);
}

// What moves the other way does not tell that this one does.
TEST_F(NumberedLinksTest, AWayThatIsSwallowedIsSeenBesideOneThatIsBusy) {
  ASSERT_TRUE(Send(0, "before").ok());
  Pass(absl::Seconds(1));
  ASSERT_TRUE(Send(0, "swallowed").ok());
  for (int i = 0; i < 4; ++i) {
    Cross(absl::Milliseconds(500), {.in = 1'000'000});
    ends_[1].in.clear();
    ASSERT_TRUE(Send(1, "a word").ok());
    Turn(0);
  }
  EXPECT_EQ(ends_[0].redialled, 1);
}

// Broken links are known before they are needed; a quiet one that answers is as good as any.
TEST_F(NumberedLinksTest, ALinkOnWhichNothingIsDueIsLostWhereNobodyAnswers) {
  for (const absl::Duration timeout : {absl::Milliseconds(50), absl::Seconds(5)}) {
    Make(0, {.link_timeout = timeout});
    Make(1, {.link_timeout = timeout});
    ASSERT_TRUE(Send(0, "hello").ok());
    Pass(absl::Minutes(1));
    EXPECT_TRUE(ends_[0].links->TakeLost().empty());
    const SteadyTime quiet = now_;
    std::vector<LostLink> lost;
    for (; lost.empty() && now_ < quiet + absl::Minutes(1); now_ += absl::Milliseconds(10)) {
      ends_[1].in.clear();
      ends_[0].links->Tend(now_);
      lost = ends_[0].links->TakeLost();
    }
    EXPECT_EQ(lost.size(), 1u);
    EXPECT_LT(now_ - quiet, timeout + absl::Seconds(1));
    ends_[0].in.clear();
  }
}

// Its machine slept, or somebody stopped it: what came meanwhile is still to be read.
TEST_F(NumberedLinksTest, WhoDidNotListenDoesNotCallOthersSilent) {
  ASSERT_TRUE(Send(0, "hello").ok());
  Pass(absl::Milliseconds(100));
  ASSERT_TRUE(Send(0, "before the pause").ok());
  now_ += absl::Minutes(10);
  ends_[0].links->Tend(now_);
  ends_[1].links->Tend(now_);
  Pass(absl::Milliseconds(100));
  EXPECT_TRUE(ends_[0].links->TakeLost().empty());
  EXPECT_TRUE(ends_[0].links->all_acknowledged());
  ASSERT_EQ(ends_[1].got.size(), 2u);
}

// Whenever it stops between two questions on an idle link, and with something on its way.
TEST_F(NumberedLinksTest, WhoIsStoppedForLessThanTheTimeoutHasLostNothing) {
  const absl::Duration timeout = absl::Seconds(3);
  for (int phase = 0; phase < 50; ++phase) {
    Make(0, {.link_timeout = timeout});
    Make(1, {.link_timeout = timeout});
    for (End& end : ends_) end.in.clear();
    ASSERT_TRUE(Send(0, "hello").ok());
    Pass(absl::Seconds(5) + phase * absl::Milliseconds(20));
    if (phase % 2 == 1) {
      ASSERT_TRUE(Send(0, "to who does not listen").ok());
    }
    for (SteadyTime end = now_ + timeout - absl::Milliseconds(50); now_ < end;
         now_ += absl::Milliseconds(10)) {
      Turn(0);
    }
    Pass(absl::Seconds(1));
    EXPECT_TRUE(ends_[0].links->TakeLost().empty()) << phase;
    EXPECT_TRUE(ends_[1].links->TakeLost().empty()) << phase;
  }
}

// The other side's door would take a burst for a stranger's.
TEST_F(NumberedLinksTest, OnAConnectionMadeAnewItAsksBeforeItSendsAgain) {
  ASSERT_TRUE(Send(0, "hello").ok());
  Pass(absl::Milliseconds(100));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Send(0, absl::StrCat("message ", i)).ok());
  for (; ends_[0].redialled == 0; now_ += absl::Milliseconds(10)) {
    ends_[1].in.clear();
    ends_[0].links->Tend(now_);
  }
  ASSERT_TRUE(Send(0, "later").ok());
  ASSERT_EQ(ends_[1].in.size(), 1u);
  EXPECT_EQ(ends_[1].in[0][0].size(), NumberedLinks::kNoteBytes);
  Pass(absl::Milliseconds(100));
  ASSERT_EQ(ends_[1].got.size(), 52u);
  EXPECT_EQ(ends_[1].got[51], "later");
}

TEST_F(NumberedLinksTest, WhoWasNeverHeardIsNotLost) {
  ASSERT_TRUE(Send(0, "is somebody there?").ok());
  ends_[1].in.clear();
  Pass(absl::Milliseconds(10));
  for (int i = 0; i < 1000; ++i, now_ += absl::Milliseconds(10)) {
    ends_[1].in.clear();
    ends_[0].links->Tend(now_);
  }
  EXPECT_TRUE(ends_[0].links->TakeLost().empty());
  Pass(absl::Seconds(2));
  ASSERT_EQ(ends_[1].got.size(), 1u);
}

TEST_F(NumberedLinksTest, WhoIsExpectedIsLostThoughItWasNeverHeard) {
  ASSERT_TRUE(Send(0, "here I am").ok());
  ends_[0].links->Expect("peer", now_);
  const SteadyTime expected = now_;
  std::vector<LostLink> lost;
  for (; lost.empty() && now_ < expected + absl::Minutes(1); now_ += absl::Milliseconds(10)) {
    ends_[1].in.clear();
    ends_[0].links->Tend(now_);
    lost = ends_[0].links->TakeLost();
  }
  ASSERT_EQ(lost.size(), 1u);
  const absl::Duration timeout = NumberedOptions().link_timeout;
  EXPECT_GE(now_ - expected, timeout);
  EXPECT_LE(now_ - expected, timeout + absl::Seconds(1));
}

TEST_F(NumberedLinksTest, ASuccessorIsSeenAndServed) {
  ASSERT_TRUE(Send(0, "to the first").ok());
  Pass(absl::Milliseconds(100));
  Make(1, {});
  ends_[1].in.clear();
  ASSERT_TRUE(Send(0, "lost with the first").ok());
  Pass(absl::Seconds(2));
  ASSERT_EQ(ends_[0].links->TakeLost().size(), 1u);
  ASSERT_TRUE(Send(0, "to the second").ok());
  Pass(absl::Seconds(1));
  ASSERT_FALSE(ends_[1].got.empty());
  EXPECT_EQ(ends_[1].got.back(), "to the second");
  EXPECT_EQ(ends_[1].got.size(), 2u) << "nothing that was for the first";
}

TEST_F(NumberedLinksTest, AGoodbyeIsNoLoss) {
  ASSERT_TRUE(Send(0, "hello").ok());
  Pass(absl::Milliseconds(100));
  ends_[1].links->SayBye();
  Turn(0);
  gone_ = true;
  EXPECT_TRUE(ends_[0].links->all_acknowledged());
  Pass(absl::Seconds(10));
  EXPECT_TRUE(ends_[0].links->TakeLost().empty());
}

TEST_F(NumberedLinksTest, UnprovenLinksAreForgottenBeyondTheirBound) {
  Make(1, {.unproven_max = 4});
  Buffers frames;
  for (int i = 0; i < 100; ++i) {
    NumberedLinks stranger(
        {},
        [&](const std::string&, bool, std::string_view first, absl::Span<const Buffer>, bool) {
          frames = {Buffer::CopyOf(first)};
          return absl::OkStatus();
        },
        [](const std::string&) { return absl::OkStatus(); });
    ASSERT_TRUE(stranger.Send("x", true, "flood", {}, now_).ok());
    EXPECT_EQ(ends_[1].links->Receive(absl::StrCat("stranger ", i), false, &frames, now_),
              Came::kMessage);
  }
  EXPECT_EQ(ends_[1].links->size(), 4u);
}

TEST_F(NumberedLinksTest, WhatIsNotOursIsForeign) {
  for (const size_t size : {0, 1, 39, 40, 41, 200}) {
    Buffers frames = {Buffer::CopyOf(std::string(size, 'g'))};
    EXPECT_EQ(ends_[1].links->Receive("stranger", false, &frames, now_), Came::kForeign) << size;
  }
  EXPECT_EQ(ends_[1].links->size(), 0u);
}

}  // namespace
}  // namespace soapstone::transport
