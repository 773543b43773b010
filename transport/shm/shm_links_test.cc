// Links between real processes where it is their end that matters, else between two ends in one.
#include "transport/shm/shm_links.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/shm/link_socket.h"
#include "transport/shm/shared_channel.h"

namespace soapstone::transport {
namespace {

constexpr absl::Duration kLinksPatience = absl::Seconds(20);

std::string Endpoint() {
  static int next = 0;
  return absl::StrCat("tcp://test:", getpid(), "-", next++);
}

// Turns both until `done`.
template <typename Done>
bool Turn(ShmLinks* a, ShmLinks* b, const Done& done) {
  const SteadyTime until = SteadyNow() + kLinksPatience;
  while (!done()) {
    if (SteadyNow() > until) return false;
    if (a != nullptr) a->Progress();
    if (b != nullptr) b->Progress();
  }
  return true;
}

class ShmLinksTest : public ::testing::Test {
 protected:
  ShmLinksTest() : endpoint_(Endpoint()) { EXPECT_TRUE(SharedArena::Enable()); }

  // A link from `dialler_` to `listener_`.
  LinkId Open() {
    EXPECT_TRUE(listener_.Listen(endpoint_).ok());
    const auto link = dialler_.Connect(endpoint_);
    EXPECT_TRUE(link.has_value());
    EXPECT_EQ(dialler_.state(*link), ShmLinks::State::kOpening);
    EXPECT_TRUE(Turn(&dialler_, &listener_,
                     [&] { return dialler_.state(*link) == ShmLinks::State::kOpen; }));
    return *link;
  }
  // The next message at `links`: its header. `other` is turned as well.
  std::string Next(ShmLinks* links, ShmLinks* other, LinkId* from) {
    EXPECT_TRUE(Turn(links, other, [&] { return links->Receive(from, &frames_); }));
    return frames_.empty()
               ? ""
               : std::string(reinterpret_cast<const char*>(frames_[0].data()), frames_[0].size());
  }

  const std::string endpoint_;
  ShmLinks listener_, dialler_;
  Buffers frames_;
};

TEST_F(ShmLinksTest, MessagesGoBothWays) {
  const LinkId out = Open();
  BufferPool pool;
  const BufferPool::Block block = pool.Take(1 << 20);
  std::memset(block.data, 7, block.size);
  ASSERT_TRUE(dialler_.Send(out, "ask", {block.View()}).ok());
  LinkId in = 0;
  EXPECT_EQ(Next(&listener_, &dialler_, &in), "ask");
  EXPECT_EQ(frames_[1], block.View());
  ASSERT_TRUE(listener_.Send(in, "answer", {block.View(), block.View(0, 100)}).ok());
  LinkId back = 0;
  EXPECT_EQ(Next(&dialler_, &listener_, &back), "answer");
  EXPECT_EQ(back, out);
  EXPECT_EQ(frames_[2], block.View(0, 100));
}

// Both ways; who reads makes room, though it keeps what it has read.
TEST_F(ShmLinksTest, OfWhatIsNotReadOneLinkKeepsNoMoreThanItMay) {
  ShmLinks listener({.unread_bytes_max = 1 << 20}), dialler({.unread_bytes_max = 1 << 20});
  ASSERT_TRUE(listener.Listen(endpoint_).ok());
  const auto link = dialler.Connect(endpoint_);
  ASSERT_TRUE(link.has_value());
  BufferPool pool;
  const Buffer large = pool.Take(1 << 19).View();
  ASSERT_TRUE(dialler.Send(*link, "1", {large}).ok());
  ASSERT_TRUE(dialler.Send(*link, "2", {large}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(dialler.Send(*link, "3", {large})));
  LinkId in = 0;
  EXPECT_EQ(Next(&listener, &dialler, &in), "1");
  const Buffers kept = frames_;
  EXPECT_TRUE(dialler.Send(*link, "3", {large}).ok());
  for (const char* text : {"a", "b"}) ASSERT_TRUE(listener.Send(in, text, {large}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(listener.Send(in, "c", {large})));
}

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
    const absl::Status sent = dialler.Send(*link, "2", {Buffer(nullptr, heap.data(), heap.size())});
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

TEST_F(ShmLinksTest, WhereNobodyListensThereIsNoLink) {
  EXPECT_FALSE(dialler_.Connect(endpoint_).has_value());
  EXPECT_FALSE(dialler_.Connect(std::string(200, 'x')).has_value());
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
    EXPECT_FALSE(dialler_.Receive(&in, &frames_));
    absl::SleepFor(absl::Milliseconds(1));
  }
  ASSERT_EQ(dialler_.state(*link), ShmLinks::State::kGone);
  for (int turn = 0; turn < 20; ++turn) {
    listener.Progress();
    ASSERT_FALSE(listener.Receive(&in, &frames_));
  }
  EXPECT_FALSE(listener.any_open());
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

TEST_F(ShmLinksTest, TwoCannotListenAtOneName) {
  EXPECT_TRUE(listener_.Listen(endpoint_).ok());
  EXPECT_FALSE(dialler_.Listen(endpoint_).ok());
}

// Before the listener has looked at the link at all.
TEST_F(ShmLinksTest, WhatWasSentBeforeTheEndArrives) {
  Open();
  {
    ShmLinks brief;
    const auto link = brief.Connect(endpoint_);
    ASSERT_TRUE(link.has_value());
    ASSERT_TRUE(
        Turn(&brief, &listener_, [&] { return brief.state(*link) == ShmLinks::State::kOpen; }));
    for (const char* text : {"1", "2", "3"}) ASSERT_TRUE(brief.Send(*link, text, {}).ok());
  }
  LinkId from = 0;
  for (const char* text : {"1", "2", "3"}) EXPECT_EQ(Next(&listener_, nullptr, &from), text);
  EXPECT_TRUE(Turn(&listener_, nullptr, [&] {
    return !listener_.Receive(&from, &frames_) && listener_.state(from) == ShmLinks::State::kGone;
  }));
  EXPECT_TRUE(absl::IsNotFound(listener_.Send(from, "late", {})));
}

TEST_F(ShmLinksTest, AStrangerWithGarbageIsDropped) {
  const LinkId out = Open();
  for (const size_t size : {size_t{1}, size_t{32}, size_t{4096}}) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string name = absl::StrCat("soapstone/", endpoint_);
    name.copy(address.sun_path + 1, name.size());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
              0);
    const std::string garbage(size, 'g');
    ASSERT_EQ(write(fd, garbage.data(), size), static_cast<ssize_t>(size));
    char end = 0;
    EXPECT_TRUE(Turn(&listener_, nullptr, [&] { return recv(fd, &end, 1, MSG_DONTWAIT) == 0; }));
    close(fd);
  }
  ASSERT_TRUE(dialler_.Send(out, "still here", {}).ok());
  LinkId in = 0;
  EXPECT_EQ(Next(&listener_, &dialler_, &in), "still here");
}

TEST_F(ShmLinksTest, WhoSleepsIsWoken) {
  const LinkId out = Open();
  ASSERT_FALSE(listener_.PrepareToSleep());
  ASSERT_TRUE(dialler_.Send(out, "ring", {}).ok());
  std::vector<pollfd> items;
  listener_.AddPollItems(&items);
  EXPECT_GT(poll(items.data(), items.size(), 20'000), 0);
  listener_.Woke();
  EXPECT_TRUE(listener_.PrepareToSleep());
}

// Whoever shares the processor cannot send while one looks.
TEST_F(ShmLinksTest, ALookIsWorthItWhereAnotherProcessorSends) {
  EXPECT_FALSE(listener_.may_be_readable());
  const LinkId out = Open();
  EXPECT_TRUE(listener_.may_be_readable()) << "nothing known of the other side";
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  // In a thread of its own, which is on `cpu`.
  const auto on = [](int cpu, const std::function<void()>& act) {
    std::jthread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      act();
    }).join();
  };
  on(cpus.front(), [&] { ASSERT_TRUE(dialler_.Send(out, "here", {}).ok()); });
  on(cpus.front(), [&] { EXPECT_FALSE(listener_.may_be_readable()); });
  if (cpus.size() == 1) return;
  on(cpus.back(), [&] { EXPECT_TRUE(listener_.may_be_readable()); });
  on(cpus.back(), [&] { ASSERT_TRUE(dialler_.Send(out, "there", {}).ok()); });
  on(cpus.front(), [&] { EXPECT_TRUE(listener_.may_be_readable()); });
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

// The sockets of a link, of either side, are shut while blocks are lent both ways.
TEST_F(ShmLinksTest, ASocketThatBreaksIsMadeAgain) {
  const LinkId out = Open();
  LinkId in = 0;
  ASSERT_TRUE(dialler_.Send(out, "first", {}).ok());
  ASSERT_EQ(Next(&listener_, &dialler_, &in), "first");
  std::vector<BufferPool> pools(8);
  std::vector<BufferPool::Block> blocks;
  for (int round = 0; round < 8; ++round) {
    std::vector<pollfd> items;
    (round % 2 == 0 ? dialler_ : listener_).AddPollItems(&items);
    for (const pollfd& item : items) {
      int listens = 1;
      socklen_t size = sizeof(listens);
      const int got = getsockopt(item.fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
      if (got == 0 && listens == 0) {
        ASSERT_EQ(shutdown(item.fd, round % 3), 0);
      }
    }
    // Each time from a segment that the other side has not seen.
    blocks.push_back(pools[static_cast<size_t>(round)].Take(size_t{24} << 20));
    const std::string text = absl::StrCat(round);
    for (const auto& [from, link] : {std::pair(&dialler_, out), std::pair(&listener_, in)}) {
      ASSERT_TRUE(Turn(&dialler_, &listener_, [&, from = from, link = link] {
        return from->Send(link, text, {blocks.back().View()}).ok();
      }));
    }
    LinkId at = 0;
    ASSERT_EQ(Next(&listener_, &dialler_, &at), text);
    EXPECT_EQ(at, in);
    ASSERT_EQ(Next(&dialler_, &listener_, &at), text);
    EXPECT_EQ(at, out);
  }
  EXPECT_TRUE(dialler_.TakeLost().empty());
  EXPECT_TRUE(listener_.TakeLost().empty());
}

TEST_F(ShmLinksTest, WhoWasStoppedWhileTheSocketWasBrokenMakesItAgain) {
  ShmLinks listener({.link_timeout = absl::Milliseconds(500)});
  ShmLinks dialler({.link_timeout = absl::Milliseconds(500)});
  ASSERT_TRUE(listener.Listen(endpoint_).ok());
  const auto link = dialler.Connect(endpoint_);
  ASSERT_TRUE(link.has_value());
  ASSERT_TRUE(
      Turn(&dialler, &listener, [&] { return dialler.state(*link) == ShmLinks::State::kOpen; }));
  std::vector<pollfd> items;
  dialler.AddPollItems(&items);
  ASSERT_EQ(shutdown(items[0].fd, SHUT_RDWR), 0);
  dialler.Progress();
  ASSERT_TRUE(dialler.mending());
  absl::SleepFor(PauseWatch::kMin + absl::Milliseconds(100));
  ASSERT_TRUE(dialler.Send(*link, "later", {}).ok());
  LinkId from = 0;
  EXPECT_TRUE(Turn(&dialler, &listener, [&] { return listener.Receive(&from, &frames_); }));
  EXPECT_TRUE(Turn(&dialler, &listener, [&] { return !dialler.mending(); }));
  EXPECT_TRUE(dialler.TakeLost().empty());
  EXPECT_TRUE(listener.TakeLost().empty());
}

TEST_F(ShmLinksTest, AnotherProcessAtTheSameNameIsNotTakenForIt) {
  auto first = std::make_unique<ShmLinks>();
  ASSERT_TRUE(first->Listen(endpoint_).ok());
  const auto link = dialler_.Connect(endpoint_);
  ASSERT_TRUE(link.has_value());
  ASSERT_TRUE(Turn(&dialler_, first.get(),
                   [&] { return dialler_.state(*link) == ShmLinks::State::kOpen; }));
  std::vector<pollfd> items;
  dialler_.AddPollItems(&items);
  ASSERT_EQ(shutdown(items[0].fd, SHUT_RDWR), 0);
  first = nullptr;
  ASSERT_TRUE(listener_.Listen(endpoint_).ok());
  LinkId from = 0;
  EXPECT_TRUE(Turn(&dialler_, &listener_, [&] {
    return !dialler_.Receive(&from, &frames_) && dialler_.state(*link) == ShmLinks::State::kGone;
  }));
  ASSERT_EQ(dialler_.TakeLost().size(), 1u);
}

// kill -9 at any moment: the other side has what was sent, then the end; nothing is left behind.
TEST_F(ShmLinksTest, AKilledProcessLeavesNothingAndHoldsNobodyUp) {
  ASSERT_TRUE(listener_.Listen(endpoint_).ok());
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      ShmLinks links;
      const auto link = links.Connect(endpoint_);
      if (!link.has_value()) _exit(1);
      while (links.state(*link) != ShmLinks::State::kOpen) links.Progress();
      uint64_t i = 0;
      for (;;) {
        const std::string text = absl::StrCat(i);
        if (links.Send(*link, text, {Buffer::CopyOf(text)}).ok()) ++i;
      }
    }
    uint64_t got = 0;
    LinkId from = 0;
    const auto take = [&] {
      if (!listener_.Receive(&from, &frames_)) return false;
      EXPECT_EQ(frames_[0], Buffer::CopyOf(absl::StrCat(got)));
      EXPECT_EQ(frames_[0], frames_[1]);
      ++got;
      return true;
    };
    EXPECT_TRUE(Turn(&listener_, nullptr, [&] { return take() && got > 1000u * round; }));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(Turn(&listener_, nullptr, [&] {
      while (take()) {
      }
      return listener_.state(from) == ShmLinks::State::kGone;
    }));
    EXPECT_TRUE(absl::IsNotFound(listener_.Send(from, "to the dead", {})));
  }
}

}  // namespace
}  // namespace soapstone::transport
