// Links between real processes where it is their end that matters, else between two ends in one.
#include "transport/shm/shm_links.h"

#include <sched.h>
#include <signal.h>
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
#include "transport/shm/shm_links_fixture.h"

namespace soapstone::transport {
namespace {

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

TEST_F(ShmLinksTest, WhereNobodyListensThereIsNoLink) {
  EXPECT_FALSE(dialler_.Connect(endpoint_).has_value());
  EXPECT_FALSE(dialler_.Connect(std::string(200, 'x')).has_value());
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
