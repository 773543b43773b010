// Streams of a job with keys: what passes is sealed, and what is changed, repeated or made up by
// whoever carries the bytes ends connections and nothing else.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "security/record_cipher.h"
#include "transport/tcp/stream_seal.h"
#include "transport/tcp/tcp_links.h"

namespace soapstone::transport {
namespace {

using Word = Handshake::Word;
constexpr uint64_t kSealedSession = 9;

int ListenLocally(uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(fd, 16), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

int DialLocally(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ? fd : -1;
}

// Between who connects and a port: sees all that passes, and may change it.
class Carrier {
 public:
  // `there`: on the way to the port.
  using Change = std::function<void(bool there, std::string* bytes)>;

  explicit Carrier(uint16_t to) : to_(to) { listener_ = ListenLocally(&port_); }
  ~Carrier() {
    close(listener_);
    for (Pair& pair : pairs_) Close(&pair);
  }
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  uint16_t port() const { return port_; }
  const std::string& seen(bool there) const { return seen_[there ? 1 : 0]; }
  Change change = [](bool, std::string*) {};

  void Carry() {
    if (const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK); fd >= 0) {
      pairs_.push_back({fd, DialLocally(to_), {}});
    }
    for (Pair& pair : pairs_) {
      const bool goes_on = Pass(&pair, true) && Pass(&pair, false);
      if (!goes_on) Close(&pair);
    }
    pairs_.remove_if([](const Pair& pair) { return pair.here < 0; });
  }

 private:
  struct Pair {
    int here = -1, there = -1;
    std::string left[2];  // to be written
  };
  static void Close(Pair* pair) {
    close(std::exchange(pair->here, -1));
    close(std::exchange(pair->there, -1));
  }
  bool Pass(Pair* pair, bool there) {
    std::string& left = pair->left[there ? 1 : 0];
    if (left.empty()) {
      std::string bytes(65'536, '\0');
      const ssize_t got =
          recv(there ? pair->here : pair->there, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got == 0) return false;
      if (got < 0) return errno == EAGAIN;
      bytes.resize(static_cast<size_t>(got));
      change(there, &bytes);
      seen_[there ? 1 : 0] += bytes;
      left = std::move(bytes);
    }
    const ssize_t sent = send(there ? pair->there : pair->here, left.data(), left.size(),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    left.erase(0, static_cast<size_t>(sent));
    return true;
  }

  const uint16_t to_;
  uint16_t port_ = 0;
  int listener_ = -1;
  std::list<Pair> pairs_;
  std::string seen_[2];
};

class SealedLinksTest : public testing::Test {
 protected:
  void SetUp() override {
    const uint8_t ciphers = security::CiphersHere();
    Make({.ciphers = ciphers}, {.ciphers = ciphers});
  }
  void TearDown() override {
    if (zmq_fd_ >= 0) close(zmq_fd_);
  }

  void Make(const StreamOptions& asks, const StreamOptions& offers) {
    asker_ = std::make_unique<TcpLinks>(asks, [this](const auto&, bool, const Handshake& note) {
      to_server_.push_back(note);
      return absl::OkStatus();
    });
    server_ = std::make_unique<TcpLinks>(offers, [this](const auto&, bool, const Handshake& note) {
      to_asker_.push_back(note);
      return absl::OkStatus();
    });
    server_->OfferAt("tcp://127.0.0.1:1");
    // The first one who asks opens the port.
    server_->OnNote("another", Ask(offers.ciphers), -1);
    to_asker_.clear();
    carrier_ = std::make_unique<Carrier>(server_->port());
    if (zmq_fd_ >= 0) close(zmq_fd_);
    zmq_fd_ = DialLocally(server_->port());
    ASSERT_GE(zmq_fd_, 0);
  }
  static Handshake Ask(uint8_t ciphers) {
    return {.word = Word::kAsk, .session = kSealedSession, .number = 1, .ciphers = ciphers};
  }

  // As CURVE does, notes arrive as they were sent, but for the port, at which the carrier is.
  void Deliver() {
    for (; !to_server_.empty(); to_server_.pop_front()) {
      server_->OnNote("peer", Passed(to_server_.front()), -1);
    }
    for (; !to_asker_.empty(); to_asker_.pop_front()) {
      Handshake note = Passed(to_asker_.front());
      if (note.word == Word::kOffer) {
        offer_ = note;
        if (offered_port_ != 0) note.port = offered_port_;
      }
      asker_->OnNote("peer", note, zmq_fd_);
    }
  }
  static Handshake Passed(const Handshake& note) {
    const std::string frame = EncodeNote(note);
    return DecodeNote(Buffer::CopyOf(frame)).value();
  }
  void Turn() {
    carrier_->Carry();
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
  void Begin() {
    offered_port_ = carrier_->port();
    asker_->Ask("peer", kSealedSession, "the server");
    Deliver();
  }
  void Connect() {
    Begin();
    for (int i = 0; i < 10'000 && !(asker_->Carries("peer") && server_->Carries("peer")); ++i) {
      Turn();
      Deliver();
    }
    ASSERT_TRUE(asker_->Carries("peer") && server_->Carries("peer"));
  }
  static std::string Receive(TcpLinks* links) {
    std::string peer;
    Buffers frames;
    bool ours = false;
    if (!links->Receive(&peer, &ours, &frames)) return "none";
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
  void ExpectServes() {
    ASSERT_TRUE(asker_->Send("peer", "there", {}, 0).ok());
    ASSERT_TRUE(server_->Send("peer", "back", {}, 0).ok());
    EXPECT_EQ(Await(server_.get()), "there");
    EXPECT_EQ(Await(asker_.get()), "back");
  }
  // What the port says to who says so; "": it is sent away without a word.
  std::string Answer(const std::string& hello) {
    const int fd = DialLocally(server_->port());
    EXPECT_EQ(write(fd, hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
    char answer[200];
    ssize_t got = -1;
    for (int i = 0; i < 10'000 && got < 0; ++i) {
      Turn();
      got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
    }
    close(fd);
    return std::string(answer, got > 0 ? static_cast<size_t>(got) : 0);
  }

  std::deque<Handshake> to_server_, to_asker_;
  std::unique_ptr<TcpLinks> asker_, server_;
  std::unique_ptr<Carrier> carrier_;
  uint16_t offered_port_ = 0;
  Handshake offer_;
  int zmq_fd_ = -1;
};

std::string TextOfToken(const StreamToken& token) {
  return std::string(reinterpret_cast<const char*>(token.data()), token.size());
}

// Both know then which port is not open, and neither waits.
TEST_F(SealedLinksTest, WhoCannotConnectSaysSo) {
  uint16_t shut = 0;
  close(ListenLocally(&shut));
  asker_->Ask("peer", kSealedSession, "the server");
  offered_port_ = shut;
  Deliver();
  const auto why = [](const TcpLinks* links) {
    return links->WhyNone("peer", absl::ZeroDuration());
  };
  for (int i = 0; i < 10'000 && why(server_.get()).empty(); ++i) {
    Turn();
    Deliver();
  }
  const std::string here = absl::StrCat("port ", server_->port(), " of this node");
  EXPECT_NE(why(server_.get()).find(here), std::string::npos) << why(server_.get());
  const std::string there = absl::StrCat("the server, Connection refused; open port ", shut);
  EXPECT_NE(why(asker_.get()).find(there), std::string::npos) << why(asker_.get());
}

TEST_F(SealedLinksTest, NothingCanBeReadOnTheWay) {
  Connect();
  const std::string secret = "what nobody else may read";
  const Buffers payload = {Buffer::CopyOf(std::string(100'000, 'p'))};
  ASSERT_TRUE(asker_->Send("peer", secret, payload, 0).ok());
  EXPECT_EQ(Await(server_.get()), secret);
  ASSERT_TRUE(server_->Send("peer", secret, payload, 0).ok());
  EXPECT_EQ(Await(asker_.get()), secret);
  for (const bool there : {true, false}) {
    const std::string& seen = carrier_->seen(there);
    EXPECT_GT(seen.size(), 100'000u);
    for (const std::string& text :
         {secret, std::string(16, 'p'), std::string("SBEG"), TextOfToken(offer_.token)}) {
      EXPECT_EQ(seen.find(text), std::string::npos) << text;
    }
  }
  EXPECT_EQ(asker_->counts().faults, ProofFaults());
  EXPECT_EQ(server_->counts().faults, ProofFaults());
  asker_->Close(SteadyTime::InfinitePast());
  for (int i = 0; i < 20; ++i) carrier_->Carry();
  const SocketCounts sockets = asker_->counts().sockets;
  EXPECT_EQ(sockets.connections, 1u);
  EXPECT_EQ(sockets.given_bytes, carrier_->seen(true).size()) << "records are counted";
  EXPECT_EQ(sockets.taken_bytes, sockets.given_bytes);
}

TEST_F(SealedLinksTest, WithoutAesInstructionsOnOneSideItIsTheOtherCipher) {
  Make({.ciphers = static_cast<uint8_t>(security::Cipher::kChaCha20Poly1305)}, {.ciphers = 3});
  Connect();
  EXPECT_EQ(offer_.keys.cipher, security::Cipher::kChaCha20Poly1305);
  ExpectServes();
}

TEST_F(SealedLinksTest, AnOfferInClearIsRefused) {
  Make({.ciphers = security::CiphersHere()}, {});
  Begin();
  EXPECT_EQ(offer_.keys.cipher, security::Cipher::kNone) << "it was not offered at all";
  for (int i = 0; i < 20; ++i) Turn();
  EXPECT_FALSE(asker_->Carries("peer"));
  EXPECT_EQ(asker_->counts().faults.offers, 1u);
  EXPECT_TRUE(carrier_->seen(true).empty()) << "it was connected to";
}

TEST_F(SealedLinksTest, WhoAsksForNoCipherIsOfferedNone) {
  server_->OnNote("peer", Ask(0), -1);
  EXPECT_EQ(to_asker_.back().word, Word::kRefuse);
  server_->OnNote("peer", Ask(0x80), -1);
  EXPECT_EQ(to_asker_.back().word, Word::kRefuse);
}

// Whoever has seen all that passed, or even the token, and not the keys.
TEST_F(SealedLinksTest, HellosWithoutTheKeysAreSentAway) {
  Connect();
  const std::string seen = carrier_->seen(true).substr(0, kStreamHelloBytes);
  StreamHello bare = *DecodeStreamHello(seen.data());
  StreamHello later = bare, further = bare, other = bare;
  bare.token = offer_.token;
  bare.connection = 2;
  later.connection = 2;
  further.connection = 2;
  further.greeting.received += 1;
  other.stream ^= 1;
  other.connection = 2;
  uint64_t faults = 0;
  for (const StreamHello& hello : {bare, later, further, other}) {
    const std::string answer = Answer(EncodeStreamHello(hello));
    ASSERT_EQ(answer.size(), kStreamHelloBytes);
    EXPECT_EQ(DecodeStreamHello(answer.data())->verdict, StreamHello::Verdict::kUnknown);
    EXPECT_EQ(server_->counts().faults.hellos, ++faults);
  }
  // Once more what was said: it is known, and that connection has been.
  EXPECT_EQ(Answer(seen), "");
  ExpectServes();
  EXPECT_TRUE(server_->TakeLost().empty());
}

// Who answers in the place of the server hears a hello, and no more.
TEST_F(SealedLinksTest, AFalseAnswerIsNotBelieved) {
  Make({.link_timeout = absl::Milliseconds(300), .ciphers = security::CiphersHere()},
       {.ciphers = security::CiphersHere()});
  asker_->Ask("peer", kSealedSession, "the server");
  const int listener = ListenLocally(&offered_port_);
  Deliver();
  std::vector<int> taken;
  size_t answered = 0;
  for (int i = 0; i < 10'000 && asker_->unfinished(); ++i) {
    Turn();
    if (const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK); fd >= 0) {
      taken.push_back(fd);
    }
    for (const int fd : taken) {
      char bytes[1000];
      const ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got <= 0) continue;
      ASSERT_EQ(got, static_cast<ssize_t>(kStreamHelloBytes));
      ++answered;
      StreamHello answer = *DecodeStreamHello(bytes);
      answer.greeting = {.self = 5};
      const std::string text = EncodeStreamHello(answer);
      ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
  }
  EXPECT_FALSE(asker_->unfinished());
  EXPECT_FALSE(asker_->Carries("peer"));
  EXPECT_GE(answered, 2u) << "the server itself may be there, too";
  // The time may be over before the last one's hello, or before its answer is read.
  EXPECT_LE(answered, taken.size());
  EXPECT_LE(taken.size(), answered + 1);
  EXPECT_LE(asker_->counts().faults.hellos, answered);
  EXPECT_LE(answered, asker_->counts().faults.hellos + 1);
  EXPECT_TRUE(asker_->TakeLost().empty());
  for (const int fd : taken) close(fd);
  close(listener);
}

// An answer that was right for another connection does not count for this one.
TEST_F(SealedLinksTest, AnEarlierAnswerIsNotBelieved) {
  Connect();
  const std::string first = carrier_->seen(false).substr(0, kStreamHelloBytes);
  bool bent = false, again = false;
  carrier_->change = [&](bool there, std::string* bytes) {
    if (!there && !bent) {
      bytes->back() ^= 1;  // so that another connection is made
      bent = true;
    } else if (!there && !again && bytes->compare(0, 4, "STRM") == 0) {
      bytes->replace(0, kStreamHelloBytes, first);
      again = true;
    }
  };
  ASSERT_TRUE(server_->Send("peer", "bent", {}, 0).ok());
  EXPECT_EQ(Await(asker_.get()), "bent");
  EXPECT_TRUE(again);
  EXPECT_EQ(asker_->counts().faults.hellos, 1u);
  EXPECT_GE(asker_->counts().faults.records + asker_->counts().faults.lengths, 1u);
  ExpectServes();
}

TEST_F(SealedLinksTest, BytesThatChangeOnTheWayChangeNothing) {
  Connect();
  size_t passed = 0, bent = 0;
  carrier_->change = [&](bool, std::string* bytes) {
    passed += bytes->size();
    if (passed < 2'000'000 * (bent + 1)) return;
    (*bytes)[bytes->size() / 3] ^= static_cast<char>(1 << bent % 8);
    ++bent;
  };
  std::vector<Buffer> large;
  for (int i = 0; i < 40; ++i) {
    const Buffers payload = {Buffer::CopyOf(std::string(500'000, static_cast<char>('a' + i % 26)))};
    ASSERT_TRUE(asker_->Send("peer", absl::StrCat(i), payload, 0).ok());
    ASSERT_TRUE(server_->Send("peer", absl::StrCat(i), payload, 0).ok());
  }
  int there = 0, back = 0;
  for (int i = 0; i < 100'000 && (there < 40 || back < 40); ++i) {
    Turn();
    for (TcpLinks* links : {asker_.get(), server_.get()}) {
      std::string peer;
      Buffers frames;
      bool ours = false;
      if (!links->Receive(&peer, &ours, &frames)) continue;
      int& next = ours ? back : there;
      ASSERT_EQ(std::string(reinterpret_cast<const char*>(frames[0].data()), frames[0].size()),
                absl::StrCat(next));
      const std::string text(reinterpret_cast<const char*>(frames[1].data()), frames[1].size());
      ASSERT_EQ(text, std::string(500'000, static_cast<char>('a' + next % 26)));
      ++next;
    }
  }
  EXPECT_EQ(there, 40);
  EXPECT_EQ(back, 40);
  EXPECT_GE(bent, 5u);
  const ProofFaults here = asker_->counts().faults, other = server_->counts().faults;
  EXPECT_GE(
      here.records + here.lengths + here.hellos + other.records + other.lengths + other.hellos,
      bent / 2);
  EXPECT_TRUE(asker_->TakeLost().empty());
  EXPECT_TRUE(server_->TakeLost().empty());
}

}  // namespace
}  // namespace soapstone::transport
