#include "transport/shm/link_socket.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

class LinkSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends_), 0);
  }
  void TearDown() override {
    for (const int fd : ends_) close(fd);
  }
  LinkNoteCame Receive() { return ReceiveLinkNote(ends_[1], &note_, &came_); }

  int ends_[2] = {-1, -1};
  LinkNote note_;
  LinkFds came_;
};

TEST_F(LinkSocketTest, ANoteComesWithItsDescriptors) {
  EXPECT_EQ(Receive(), LinkNoteCame::kNothing);
  const int bell = eventfd(0, EFD_NONBLOCK);
  ASSERT_TRUE(SendLinkNote(ends_[0], {.word = LinkNote::Word::kSegment, .id = 7, .size = 4096},
                           {bell, bell}));
  ASSERT_EQ(Receive(), LinkNoteCame::kNote);
  EXPECT_EQ(note_.word, LinkNote::Word::kSegment);
  EXPECT_EQ(note_.id, 7u);
  EXPECT_EQ(note_.size, 4096u);
  ASSERT_EQ(came_.fds.size(), 2u);
  const uint64_t one = 1;
  uint64_t count = 0;
  ASSERT_EQ(write(came_.fds[0], &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  EXPECT_EQ(read(bell, &count, sizeof(count)), static_cast<ssize_t>(sizeof(count)));
  close(bell);
}

TEST_F(LinkSocketTest, WhatIsNoNoteOfOursIsAnEnd) {
  ASSERT_TRUE(SendLinkNote(ends_[0], {.version = kLinkVersion + 1}));
  EXPECT_EQ(Receive(), LinkNoteCame::kEnd) << "another version";
  ASSERT_TRUE(SendLinkNote(ends_[0], {.magic = kLinkMagic + 1}));
  EXPECT_EQ(Receive(), LinkNoteCame::kEnd);
  ASSERT_EQ(write(ends_[0], "short", 5), 5);
  EXPECT_EQ(Receive(), LinkNoteCame::kEnd);
}

TEST_F(LinkSocketTest, WhoListensIsFoundByTheEndpointAlone) {
  const std::string endpoint = absl::StrCat("test://link_socket_test/", getpid());
  EXPECT_EQ(DialLink(endpoint), -1) << "nobody listens yet";
  const absl::StatusOr<int> listener = ListenForLinks(endpoint);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_EQ(ListenForLinks(endpoint).status().code(), absl::StatusCode::kUnavailable);
  const int dialled = DialLink(endpoint);
  ASSERT_GE(dialled, 0);
  EXPECT_TRUE(IsOwnUser(dialled));
  EXPECT_EQ(ProcessBehind(dialled), getpid());
  close(dialled);
  close(*listener);
}

TEST_F(LinkSocketTest, ANameThatDoesNotFitIsAnError) {
  const std::string endpoint(200, 'e');
  EXPECT_EQ(ListenForLinks(endpoint).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DialLink(endpoint), -1);
}

// Names of another network namespace are other names: who is there has another text.
TEST_F(LinkSocketTest, AnotherNetworkIsElsewhere) {
  const std::string here = WhereNamesAre();
  EXPECT_FALSE(here.empty());
  EXPECT_EQ(WhereNamesAre(), here);
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 && unshare(CLONE_NEWNET) != 0) _exit(2);
    const std::string there = WhereNamesAre();
    _exit(!there.empty() && there != here ? 0 : 1);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  if (WEXITSTATUS(ended) == 2) GTEST_SKIP() << "no namespaces may be made here";
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace soapstone::transport
