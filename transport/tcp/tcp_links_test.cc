#include "transport/tcp/tcp_links.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using Word = Handshake::Word;
constexpr uint64_t kLinksSession = 7;

int Dial(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ? fd : -1;
}

// Two nodes, and ZeroMQ between them as a queue of notes each way.
class TcpLinksTest : public testing::Test {
 protected:
  void SetUp() override { Make({}); }
  void TearDown() override {
    if (zmq_fd_ >= 0) close(zmq_fd_);
  }

  void Make(const StreamOptions& options) {
    asker_ = std::make_unique<TcpLinks>(
        options, [this](const std::string& peer, bool ours, const Handshake& note) {
          EXPECT_TRUE(ours);
          to_server_.push_back({peer, note});
          return absl::OkStatus();
        });
    server_ = std::make_unique<TcpLinks>(
        options, [this](const std::string& peer, bool ours, const Handshake& note) {
          EXPECT_FALSE(ours);
          to_asker_.push_back({peer, note});
          return absl::OkStatus();
        });
    server_->OfferAt("tcp://127.0.0.1:1");
    // The first one who asks opens the port.
    server_->OnNote("another", {.word = Word::kAsk, .session = kLinksSession, .number = 1}, -1);
    to_asker_.clear();
    // Stands for ZeroMQ's connection, which tells the asker the other machine's address.
    if (zmq_fd_ >= 0) close(zmq_fd_);
    zmq_fd_ = Dial(server_->port());
    ASSERT_GE(zmq_fd_, 0);
  }

  void Deliver() {
    for (; !to_server_.empty(); to_server_.pop_front()) {
      server_->OnNote(to_server_.front().first, to_server_.front().second, -1);
    }
    for (; !to_asker_.empty(); to_asker_.pop_front()) {
      asker_->OnNote(to_asker_.front().first, to_asker_.front().second, zmq_fd_);
    }
  }
  // One round of both nodes' loops.
  void Turn() {
    asker_->Flush();
    server_->Flush();
    asker_->Progress();
    server_->Progress();
    for (TcpLinks* links : {asker_.get(), server_.get()}) {
      std::vector<pollfd> items;
      links->AddPollItems(&items);
      poll(items.data(), items.size(), 1);
      links->Polled(items);
    }
  }
  void Connect() {
    asker_->Ask("peer", kLinksSession, "the server");
    for (int i = 0; i < 10'000 && !(asker_->Carries("peer") && server_->Carries("peer")); ++i) {
      Turn();
      Deliver();
    }
    Deliver();
    ASSERT_TRUE(asker_->Carries("peer") && server_->Carries("peer"));
  }
  static std::string Receive(TcpLinks* links) {
    std::string peer;
    Buffers frames;
    bool ours = false;
    if (!links->Receive(&peer, &ours, &frames)) return "none";
    EXPECT_EQ(peer, "peer");
    return std::string(reinterpret_cast<const char*>(frames[0].data()), frames[0].size());
  }
  std::string Await(TcpLinks* links) {
    std::string got = "none";
    for (int i = 0; i < 10'000 && got == "none"; ++i) {
      Turn();
      got = Receive(links);
    }
    return got;
  }

  std::deque<std::pair<std::string, Handshake>> to_server_, to_asker_;
  std::unique_ptr<TcpLinks> asker_, server_;
  int zmq_fd_ = -1;
};

TEST_F(TcpLinksTest, AStreamComesAboutAndCarriesBothWays) {
  Connect();
  ASSERT_TRUE(asker_->Send("peer", "there", {}, 0).ok());
  ASSERT_TRUE(server_->Send("peer", "back", {}, 0).ok());
  EXPECT_EQ(Await(server_.get()), "there");
  EXPECT_EQ(Await(asker_.get()), "back");
}

TEST_F(TcpLinksTest, NothingIsTakenBeforeTheSwitchIsHeard) {
  asker_->Ask("peer", kLinksSession, "the server");
  for (int i = 0; i < 10'000 && !asker_->Carries("peer"); ++i) {
    Turn();
    // All but the asker's word that it switches.
    while (!to_server_.empty() && to_server_.front().second.word == Word::kAsk) {
      server_->OnNote("peer", to_server_.front().second, -1);
      to_server_.pop_front();
    }
    for (; !to_asker_.empty(); to_asker_.pop_front()) {
      asker_->OnNote("peer", to_asker_.front().second, zmq_fd_);
    }
  }
  ASSERT_TRUE(asker_->Carries("peer"));
  ASSERT_TRUE(asker_->Send("peer", "early", {}, 0).ok());
  for (int i = 0; i < 20; ++i) {
    Turn();
    ASSERT_EQ(Receive(server_.get()), "none");
  }
  Deliver();
  EXPECT_EQ(Await(server_.get()), "early");
}

TEST_F(TcpLinksTest, AWrongTokenIsSentAway) {
  asker_->Ask("peer", kLinksSession, "the server");
  Deliver();
  const int stranger = Dial(server_->port());
  const std::string hello = EncodeStreamHello({.connection = 1, .token = {1, 2, 3}});
  ASSERT_EQ(write(stranger, hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  pollfd ended = {.fd = stranger, .events = POLLIN, .revents = 0};
  for (int i = 0; i < 10'000 && poll(&ended, 1, 0) == 0; ++i) server_->Progress();
  char answer[kStreamHelloBytes + 1];
  ASSERT_EQ(recv(stranger, answer, sizeof(answer), MSG_DONTWAIT),
            static_cast<ssize_t>(kStreamHelloBytes));
  EXPECT_EQ(DecodeStreamHello(answer)->verdict, StreamHello::Verdict::kUnknown);
  EXPECT_EQ(DecodeStreamHello(answer)->greeting, wire::SessionGreeting{}) << "nothing is said";
  EXPECT_LE(recv(stranger, answer, 1, MSG_DONTWAIT), 0);
  close(stranger);
  Connect();  // the one with the token is taken
}

TEST_F(TcpLinksTest, WhoSaysNothingIsSentAway) {
  Make({.half_open_patience = absl::ZeroDuration()});
  const int stranger = Dial(server_->port());
  pollfd ended = {.fd = stranger, .events = POLLIN, .revents = 0};
  for (int i = 0; i < 10'000 && poll(&ended, 1, 0) == 0; ++i) server_->Progress();
  char byte = 0;
  EXPECT_EQ(recv(stranger, &byte, 1, MSG_DONTWAIT), 0);
  close(stranger);
}

TEST_F(TcpLinksTest, AnOfferThatNobodyTakesIsForgotten) {
  Make({.half_open_patience = absl::ZeroDuration()});
  server_->OnNote("peer", {.word = Word::kAsk, .session = kLinksSession, .number = 1}, -1);
  ASSERT_EQ(to_asker_.front().second.word, Word::kOffer);
  const StreamToken token = to_asker_.front().second.token;
  server_->Progress();
  const int late = Dial(server_->port());
  const std::string hello =
      EncodeStreamHello({.connection = 1, .token = token, .greeting = {.self = 5}});
  ASSERT_EQ(write(late, hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  for (int i = 0; i < 10; ++i) server_->Progress();
  EXPECT_FALSE(server_->any_open());
  close(late);
}

// A dialler whose connection nobody accepted, for want of descriptors, gives it up; later it is.
TEST_F(TcpLinksTest, WhoRefusesAnOfferAndStillComesIsSentAway) {
  server_->OnNote("peer", {.word = Word::kAsk, .session = kLinksSession, .number = 1}, -1);
  const StreamToken token = to_asker_.front().second.token;
  const int late = Dial(server_->port());
  const std::string hello =
      EncodeStreamHello({.connection = 1, .token = token, .greeting = {.self = 5}});
  ASSERT_EQ(write(late, hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  server_->OnNote("peer", {.word = Word::kRefuse, .session = kLinksSession, .number = 1}, -1);
  pollfd ended = {.fd = late, .events = POLLIN, .revents = 0};
  for (int i = 0; i < 10'000 && poll(&ended, 1, 0) == 0; ++i) server_->Progress();
  char answer[kStreamHelloBytes];
  ASSERT_EQ(recv(late, answer, sizeof(answer), MSG_DONTWAIT),
            static_cast<ssize_t>(kStreamHelloBytes));
  EXPECT_EQ(DecodeStreamHello(answer)->verdict, StreamHello::Verdict::kUnknown);
  EXPECT_FALSE(server_->any_open());
  close(late);
  // Nor does it begin by a word.
  server_->OnNote("peer", {.word = Word::kSwitch, .session = kLinksSession, .number = 1}, -1);
  server_->Progress();
  server_->Close(SteadyNow());
  EXPECT_TRUE(server_->TakeLost().empty());
}

TEST_F(TcpLinksTest, ABlockedPortLeavesItToZmq) {
  asker_->Ask("peer", kLinksSession, "the server");
  const Handshake ask = to_server_.front().second;
  to_server_.clear();
  const int closed = socket(AF_INET, SOCK_STREAM, 0);  // bound, but nobody listens
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(closed, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(closed, reinterpret_cast<sockaddr*>(&address), &size), 0);
  asker_->OnNote("peer",
                 {.word = Word::kOffer,
                  .port = ntohs(address.sin_port),
                  .session = kLinksSession,
                  .number = ask.number},
                 zmq_fd_);
  for (int i = 0; i < 10'000 && asker_->unfinished(); ++i) Turn();
  EXPECT_FALSE(asker_->unfinished());
  EXPECT_FALSE(asker_->Carries("peer"));
  asker_->Ask("peer", kLinksSession, "the server");
  EXPECT_TRUE(to_server_.empty()) << "asked again at once";
  close(closed);
}

TEST_F(TcpLinksTest, WithoutAListenerThereIsNone) {
  TcpLinks deaf({}, [this](const std::string& peer, bool, const Handshake& note) {
    to_asker_.push_back({peer, note});
    return absl::OkStatus();
  });
  deaf.OnNote("peer", {.word = Word::kAsk, .session = kLinksSession, .number = 1}, -1);
  EXPECT_EQ(to_asker_.front().second.word, Word::kRefuse);
}

TEST_F(TcpLinksTest, AnEndThatIsSaidIsNoLoss) {
  Connect();
  server_->Close(SteadyTime::InfinitePast());
  for (int i = 0; i < 10'000 && asker_->Carries("peer"); ++i) {
    Turn();
    Receive(asker_.get());
  }
  EXPECT_FALSE(asker_->Carries("peer"));
  EXPECT_FALSE(asker_->any_open());
  EXPECT_EQ(asker_->counts().sockets.connections, 1u);
  EXPECT_TRUE(asker_->TakeLost().empty());
}

// Each end's connection is shut while messages are under way both ways.
TEST_F(TcpLinksTest, AConnectionThatBreaksIsMadeAgain) {
  Connect();
  int sent = 0, there = 0, back = 0;
  // Who does not read does not hear that a connection has ended.
  const auto turn = [&] {
    Turn();
    if (const std::string got = Receive(server_.get()); got != "none") {
      ASSERT_EQ(got, absl::StrCat(there++));
    }
    if (const std::string got = Receive(asker_.get()); got != "none") {
      ASSERT_EQ(got, absl::StrCat(back++));
    }
  };
  for (int breaks = 0; breaks < 6; ++breaks) {
    const std::string large(2'000'000, 'x');
    for (int i = 0; i < 5; ++i, ++sent) {
      const Buffers payload = {Buffer::CopyOf(large)};
      ASSERT_TRUE(asker_->Send("peer", absl::StrCat(sent), payload, 0).ok());
      ASSERT_TRUE(server_->Send("peer", absl::StrCat(sent), payload, 0).ok());
    }
    ASSERT_NO_FATAL_FAILURE(turn());
    std::vector<pollfd> items;
    for (int i = 0; i < 10'000 && !(asker_->any_open() && server_->any_open()); ++i) {
      ASSERT_NO_FATAL_FAILURE(turn());
    }
    (breaks % 2 == 0 ? asker_ : server_)->AddPollItems(&items);
    // The descriptor of the stream is the last. It may have ended by itself.
    shutdown(items.back().fd, breaks % 3);
    for (int i = 0; i < 100'000 && (there < sent || back < sent); ++i) {
      ASSERT_NO_FATAL_FAILURE(turn());
    }
    ASSERT_EQ(there, sent);
    ASSERT_EQ(back, sent);
  }
  EXPECT_GE(asker_->counts().sockets.connections, 3u) << "it was made again";
  EXPECT_TRUE(asker_->TakeLost().empty());
}

TEST_F(TcpLinksTest, WhoWasStoppedWhileItWasBrokenMakesItAgain) {
  Make({.link_timeout = absl::Milliseconds(500)});
  Connect();
  ASSERT_TRUE(asker_->Send("peer", "first", {}, 0).ok());
  for (int i = 0; i < 100'000 && Receive(server_.get()) != "first"; ++i) Turn();
  std::vector<pollfd> items;
  asker_->AddPollItems(&items);
  shutdown(items.back().fd, SHUT_RDWR);
  // Both see it, and have not made another connection yet.
  for (TcpLinks* end : {asker_.get(), server_.get()}) {
    for (int i = 0; i < 100'000 && end->any_open(); ++i) Receive(end);
    end->Progress();
  }
  absl::SleepFor(PauseWatch::kMin + absl::Milliseconds(100));
  ASSERT_TRUE(asker_->Send("peer", "second", {}, 0).ok());
  std::string got = "none";
  for (int i = 0; i < 100'000 && got == "none"; ++i) {
    Turn();
    Receive(asker_.get());
    got = Receive(server_.get());
    ASSERT_TRUE(asker_->TakeLost().empty());
    ASSERT_TRUE(server_->TakeLost().empty());
  }
  EXPECT_EQ(got, "second");
}

TEST_F(TcpLinksTest, WhatCannotBeMadeAgainIsSaidToBeLost) {
  Make({.link_timeout = absl::Milliseconds(50)});
  Connect();
  ASSERT_TRUE(asker_->Send("peer", "never there", {}, 0).ok());
  server_ = nullptr;  // without a word: what it would say goes nowhere
  std::vector<LostLink> lost;
  for (int i = 0; i < 10'000 && lost.empty(); ++i) {
    asker_->Flush();
    Receive(asker_.get());
    asker_->Progress();
    absl::SleepFor(absl::Milliseconds(1));
    lost = asker_->TakeLost();
  }
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].peer, "peer");
  EXPECT_FALSE(asker_->Carries("peer"));
}

TEST_F(TcpLinksTest, GarbageOnAStreamClosesIt) {
  asker_->Ask("peer", kLinksSession, "the server");
  Deliver();
  server_->OnNote("peer", {.word = Word::kAsk, .session = kLinksSession, .number = 99}, -1);
  const StreamToken token = to_asker_.back().second.token;
  const int fd = Dial(server_->port());
  const std::string bytes =
      EncodeStreamHello({.connection = 1, .token = token, .greeting = {.self = 5}}) +
      std::string(5000, 'g');
  ASSERT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  for (int i = 0; i < 10'000 && !server_->any_open(); ++i) server_->Progress();
  ASSERT_TRUE(server_->any_open());
  server_->OnNote("peer", {.word = Word::kSwitch, .session = kLinksSession, .number = 99}, -1);
  for (int i = 0; i < 10'000 && server_->any_open(); ++i) {
    Turn();
    EXPECT_EQ(Receive(server_.get()), "none");
  }
  EXPECT_FALSE(server_->any_open());
  EXPECT_TRUE(server_->Carries("peer")) << "what is sent waits for the next connection";
  close(fd);
}

TEST_F(TcpLinksTest, WhoKnowsTheTokenIsLetInBesideAllThatAreSilent) {
  std::vector<int> fds;
  for (size_t i = 0; i < StreamPort::kPendingMax + 20; ++i) {
    fds.push_back(Dial(server_->port()));
    server_->Progress();
  }
  Connect();
  for (const int fd : fds) close(fd);
}

TEST(HandshakeTest, AProcessSaysItsKey) {
  Handshake note = {.word = Word::kProcess, .session = kLinksSession, .token = {5}};
  note.key[31] = 7;
  std::string bytes = EncodeNote(note);
  ASSERT_EQ(bytes.size(), 80u);
  const std::optional<Handshake> read = DecodeNote(Buffer::CopyOf(bytes));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->key, note.key);
  EXPECT_EQ(read->token, note.token);
  EXPECT_EQ(read->session, kLinksSession);
  EXPECT_FALSE(DecodeNote(Buffer::CopyOf(bytes.substr(0, 48))).has_value()) << "without it";
  for (const int word : {0, 1, 2, 3, 4, 5, 7}) {
    bytes[6] = static_cast<char>(word);
    EXPECT_FALSE(DecodeNote(Buffer::CopyOf(bytes)).has_value()) << word;
  }
}

TEST(HandshakeTest, OnlyOurNotesAreRead) {
  const Handshake note = {
      .word = Word::kOffer, .port = 9, .session = kLinksSession, .number = 3, .token = {5}};
  std::string bytes = EncodeNote(note);
  const std::optional<Handshake> read = DecodeNote(Buffer::CopyOf(bytes));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->port, 9);
  EXPECT_EQ(read->number, 3u);
  EXPECT_EQ(read->token, note.token);
  EXPECT_FALSE(IsNote(Buffer::CopyOf(bytes + "x")));
  EXPECT_FALSE(DecodeNote(Buffer::CopyOf(bytes + std::string(32, 'k'))).has_value());
  EXPECT_FALSE(IsNote(Buffer()));
  bytes[4] = 99;
  EXPECT_FALSE(DecodeNote(Buffer::CopyOf(bytes)).has_value()) << "another version";
}

}  // namespace
}  // namespace soapstone::transport
