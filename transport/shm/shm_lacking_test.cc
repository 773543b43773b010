// Links of a process that can have no more: descriptors, shared memory, somebody who takes them.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/shm/link_socket.h"
#include "transport/shm/shared_channel.h"
#include "transport/shm/shm_links_fixture.h"

namespace soapstone::transport {
namespace {

// As at the limit of descriptors, or where the system's shared memory is full.
TEST_F(ShmLinksTest, ALinkForWhichThereIsNoSharedMemoryIsLost) {
  ShmLinks listener(LocalOptions{}),
      dialler({.link_timeout = absl::Milliseconds(300), .unread_bytes_max = uint64_t{1} << 40});
  ASSERT_TRUE(listener.Listen(endpoint_).ok());
  const auto link = dialler.Connect(endpoint_);
  ASSERT_TRUE(link.has_value());
  LinkId in = 0;
  ASSERT_TRUE(dialler.Send(*link, "1", {}).ok());
  ASSERT_EQ(Next(&listener, &dialler, &in), "1");
  rlimit usual = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = usual.rlim_max};
  const std::string heap(24 << 20, 'x');
  const auto send = [&](const rlimit& limit) {
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    absl::Status sent = dialler.Send(*link, "2", {Buffer(nullptr, heap.data(), heap.size())});
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
    return sent;
  };
  while (send(none).ok()) {  // into blocks that this process has already
  }
  std::vector<LostLocalLink> lost;
  const SteadyTime began = SteadyNow();
  while (lost.empty() && SteadyNow() - began < absl::Seconds(20)) {
    EXPECT_TRUE(absl::IsResourceExhausted(send(none)));
    EXPECT_TRUE(dialler.mending());
    dialler.Progress();
    lost = dialler.TakeLost();
    absl::SleepFor(absl::Milliseconds(1));
  }
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].why, "no shared memory, or too many open files");
  EXPECT_GE(SteadyNow() - began, absl::Milliseconds(250));
}

// A process that may have no more descriptors does not accept it for as long.
TEST_F(ShmLinksTest, ALinkThatNobodyTakesIsWithdrawn) {
  ShmLinks listener(LocalOptions{});
  ASSERT_TRUE(listener.Listen(endpoint_).ok());
  const auto link = dialler_.Connect(endpoint_);
  ASSERT_TRUE(link.has_value());
  ASSERT_TRUE(dialler_.Send(*link, "it goes another way", {}).ok());
  LinkId in = 0;
  const SteadyTime deadline = SteadyNow() + absl::Seconds(30);
  while (dialler_.state(*link) != ShmLinks::State::kGone && SteadyNow() < deadline) {
    dialler_.Progress();
    absl::SleepFor(absl::Milliseconds(1));
  }
  ASSERT_EQ(dialler_.state(*link),
            ShmLinks::State::kGone);  // though nobody has looked for messages
  for (int turn = 0; turn < 20; ++turn) {
    listener.Progress();
    ASSERT_FALSE(listener.Receive(&in, &frames_));
  }
  EXPECT_FALSE(listener.any_open());
}

// Who made it was stopped for longer than it waits, and its socket broke meanwhile.
TEST_F(ShmLinksTest, ALinkIsWithdrawnOnceThoughTwoThingsSayThatNobodyTakesIt) {
  ASSERT_TRUE(listener_.Listen(endpoint_).ok());
  const auto link = dialler_.Connect(endpoint_);
  ASSERT_TRUE(link.has_value());
  listener_.Close();
  absl::SleepFor(absl::Milliseconds(5100));
  dialler_.Progress();
  EXPECT_EQ(dialler_.state(*link), ShmLinks::State::kGone);
  EXPECT_FALSE(dialler_.any_open());
}

// What was taken goes on, though who made it has not heard so.
TEST_F(ShmLinksTest, ALinkThatIsTakenAsItsSocketBreaksGoesOn) {
  const int listens = ListenForLinks(endpoint_).value();
  const auto link = dialler_.Connect(endpoint_);
  ASSERT_TRUE(link.has_value());
  ASSERT_TRUE(dialler_.Send(*link, "once", {}).ok());
  int socket = accept4(listens, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  LinkNote note;
  LinkFds came;
  ASSERT_EQ(ReceiveLinkNote(socket, &note, &came), LinkNoteCame::kNote);
  ASSERT_EQ(note.word, LinkNote::Word::kHello);
  auto channel = *SharedChannel::Map(came.fds[0], false, [](const auto&) { return true; });
  ASSERT_TRUE(channel->Claim());
  close(socket);
  ASSERT_TRUE(Turn(&dialler_, nullptr, [&] {
    socket = accept4(listens, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return socket >= 0;
  }));
  EXPECT_EQ(dialler_.state(*link), ShmLinks::State::kOpen);
  ASSERT_EQ(ReceiveLinkNote(socket, &note, &came), LinkNoteCame::kNote);
  EXPECT_EQ(note.word, LinkNote::Word::kGoOn);
  close(socket);
  close(listens);
}

// Of a message that was written before its socket stood, as of a link whose keys are proved first,
// segments are shown after the socket's first word; by a process of which the test is the other.
class ShmLinksLateSegmentTest : public ShmLinksTest {
 protected:
  explicit ShmLinksLateSegmentTest(absl::Duration link_timeout = absl::Milliseconds(500))
      : listens_({.link_timeout = link_timeout}) {
    EXPECT_TRUE(listens_.Listen(endpoint_).ok());
    channel_ = *SharedChannel::Map(memory_, true, [this](const SharedArena::Segment& segment) {
      segments_.push_back(&segment);
      return true;
    });
    bool ring = false;
    EXPECT_TRUE(channel_->Send("first", {first_.View()}, &ring).ok());
    EXPECT_TRUE(channel_->Send("second", {second_.View()}, &ring).ok());
    EXPECT_EQ(segments_.size(), 2u);
    socket_ = DialLink(endpoint_);
    const LinkNote hello = {
        .word = LinkNote::Word::kHello, .id = 1, .size = SharedChannel::MemoryBytes()};
    EXPECT_TRUE(SendLinkNote(socket_, hello, {memory_, memory_, memory_}));
    LinkNote note;
    LinkFds came;
    EXPECT_TRUE(Turn(&listens_, nullptr, [&] {
      return ReceiveLinkNote(socket_, &note, &came) == LinkNoteCame::kNote;
    }));
    EXPECT_EQ(note.word, LinkNote::Word::kTaken);
  }
  ~ShmLinksLateSegmentTest() override {
    close(memory_);
    close(socket_);
  }

  ShmLinks listens_;
  BufferPool pool_;
  const BufferPool::Block first_ = pool_.Take(1 << 20), second_ = pool_.Take(1 << 21);
  const int memory_ = SharedChannel::MakeMemory();
  int socket_ = -1;
  std::vector<const SharedArena::Segment*> segments_;  // that the messages mention
  std::unique_ptr<SharedChannel> channel_;
};

// Each for as long as another: 300 ms and 300 ms of 500.
TEST_F(ShmLinksLateSegmentTest, ItIsAwaited) {
  LinkId from = 0;
  for (const size_t i : {0, 1}) {
    for (const SteadyTime until = SteadyNow() + absl::Milliseconds(300); SteadyNow() < until;) {
      ASSERT_FALSE(listens_.Receive(&from, &frames_));
      listens_.Progress();
    }
    const SharedArena::Segment& shown = *segments_[i];
    ASSERT_TRUE(SendLinkNote(socket_,
                             {.word = LinkNote::Word::kSegment, .id = shown.id, .size = shown.size},
                             {shown.fd}));
    EXPECT_EQ(Next(&listens_, nullptr, &from), i == 0 ? "first" : "second");
    EXPECT_EQ(frames_[1], (i == 0 ? first_ : second_).View());
  }
  EXPECT_TRUE(listens_.TakeLost().empty());
}

TEST_F(ShmLinksLateSegmentTest, ButNotForEver) {
  const SteadyTime began = SteadyNow();
  LinkId from = 0;
  EXPECT_FALSE(listens_.Receive(&from, &frames_));
  // Who waits sleeps, and looks now and then.
  EXPECT_FALSE(listens_.readable());
  EXPECT_FALSE(listens_.PrepareToSleep());
  EXPECT_TRUE(listens_.mending());
  EXPECT_TRUE(Turn(&listens_, nullptr,
                   [&] { return !listens_.Receive(&from, &frames_) && !listens_.any_open(); }));
  EXPECT_GE(SteadyNow() - began, absl::Milliseconds(500));
  EXPECT_LT(SteadyNow() - began, absl::Seconds(5));
  const std::vector<LostLocalLink> lost = listens_.TakeLost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].why, "a message mentions a segment that was never shown");
  LinkNote note;
  LinkFds came;
  ASSERT_EQ(ReceiveLinkNote(socket_, &note, &came), LinkNoteCame::kNote);
  EXPECT_EQ(note.word, LinkNote::Word::kBye);
}

// As where a process has no descriptor left: what shows a segment comes without one, which ends the
// socket, and the next one's begin is no sign that things go on.
TEST_F(ShmLinksLateSegmentTest, NorWhereASocketIsMadeAgainAndAgain) {
  const SteadyTime began = SteadyNow();
  LinkId from = 0;
  std::vector<LostLocalLink> lost;
  while (lost.empty() && SteadyNow() - began < absl::Seconds(5)) {
    close(socket_);
    socket_ = DialLink(endpoint_);
    SendLinkNote(socket_, {.word = LinkNote::Word::kGoOn, .id = 1});
    SendLinkNote(socket_, {.word = LinkNote::Word::kSegment, .id = segments_[0]->id, .size = 1});
    for (int turn = 0; turn < 10; ++turn) {
      EXPECT_FALSE(listens_.Receive(&from, &frames_));
      listens_.Progress();
      absl::SleepFor(absl::Milliseconds(1));
    }
    lost = listens_.TakeLost();
  }
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_GE(SteadyNow() - began, absl::Milliseconds(500));
}

class ShmLinksNoDescriptorTest : public ShmLinksLateSegmentTest {
 protected:
  // Who could not accept a link does not try again for a second.
  ShmLinksNoDescriptorTest() : ShmLinksLateSegmentTest(absl::Milliseconds(2500)) {}
  bool Show(const SharedArena::Segment& segment) const {
    return SendLinkNote(socket_,
                        {.word = LinkNote::Word::kSegment, .id = segment.id, .size = segment.size},
                        {segment.fd});
  }
};

// A segment is shown before a message mentions it: nobody wants it yet.
TEST_F(ShmLinksNoDescriptorTest, LosesTheLinkThoughItsSocketIsMadeAgain) {
  LinkId from = 0;
  ASSERT_TRUE(Show(*segments_[0]));
  ASSERT_EQ(Next(&listens_, nullptr, &from), "first");
  rlimit usual = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = usual.rlim_max};
  std::vector<LostLocalLink> lost;
  for (const SteadyTime end = SteadyNow() + absl::Seconds(20); lost.empty() && SteadyNow() < end;) {
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    Show(*segments_[1]);
    listens_.Progress();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
    close(socket_);
    socket_ = DialLink(endpoint_);
    SendLinkNote(socket_, {.word = LinkNote::Word::kGoOn, .id = 1});
    LinkNote note;
    LinkFds came;
    ASSERT_TRUE(Turn(&listens_, nullptr, [&] {
      lost = listens_.TakeLost();
      return !lost.empty() || ReceiveLinkNote(socket_, &note, &came) == LinkNoteCame::kNote;
    }));
  }
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].why, "too many open files");
}

TEST_F(ShmLinksLateSegmentTest, WhoWasStoppedMeanwhileLooksFirst) {
  LinkId from = 0;
  EXPECT_FALSE(listens_.Receive(&from, &frames_));
  listens_.Progress();
  absl::SleepFor(PauseWatch::kMin + absl::Milliseconds(100));
  listens_.Progress();
  EXPECT_FALSE(listens_.Receive(&from, &frames_));
  EXPECT_TRUE(listens_.any_open());
  EXPECT_TRUE(listens_.TakeLost().empty());
}

}  // namespace
}  // namespace soapstone::transport
