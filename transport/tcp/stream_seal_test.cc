#include "transport/tcp/stream_seal.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

class StreamSealTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto keys = StreamSeal::MakeKeys(3, 3);
    ASSERT_TRUE(keys.has_value());
    keys_ = *keys;
    asker_ = StreamSeal(kToken, keys_, true);
    offerer_ = StreamSeal(kToken, keys_, false);
  }
  // A record of `text` as it is on the wire.
  static std::string Sealed(const StreamSeal& seal, uint32_t connection, std::string text) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const iovec part = {text.data(), text.size()};
    EXPECT_GT(seal.Of(connection)->Write(ends[0], {&part, 1}), 0);
    std::string bytes(1000, '\0');
    bytes.resize(static_cast<size_t>(read(ends[1], bytes.data(), bytes.size())));
    close(ends[0]);
    close(ends[1]);
    return bytes;
  }
  static std::string Opened(const StreamSeal& seal, uint32_t connection,
                            const std::string& record) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    EXPECT_EQ(write(ends[1], record.data(), record.size()), static_cast<ssize_t>(record.size()));
    std::string text(1000, '\0');
    const iovec part = {text.data(), text.size()};
    const ssize_t got = seal.Of(connection)->Read(ends[0], {&part, 1});
    close(ends[0]);
    close(ends[1]);
    return got < 0 ? "nothing" : text.substr(0, static_cast<size_t>(got));
  }

  static constexpr StreamToken kToken = {7, 7, 7};
  StreamKeys keys_;
  StreamSeal asker_, offerer_;
};

// Else two texts would be under one key and nonce, and who has both sealed learns of both.
TEST_F(StreamSealTest, EachConnectionAndDirectionHasKeysOfItsOwn) {
  const std::string one = Sealed(asker_, 1, "text");
  EXPECT_EQ(one, Sealed(asker_, 1, "text"));
  EXPECT_EQ(Opened(offerer_, 1, one), "text");
  EXPECT_NE(one, Sealed(asker_, 2, "text"));
  EXPECT_NE(one, Sealed(offerer_, 1, "text"));
  EXPECT_EQ(Opened(offerer_, 2, one), "nothing");
  EXPECT_EQ(Opened(asker_, 1, one), "nothing");
  const StreamSeal other(kToken, *StreamSeal::MakeKeys(3, 3), true);
  EXPECT_NE(one, Sealed(other, 1, "text"));
}

TEST_F(StreamSealTest, AProofIsOfTheWholeHello) {
  StreamHello hello = {.connection = 3, .greeting = {.self = 1, .other = 2, .received = 4}};
  asker_.Prove(&hello, false);
  EXPECT_TRUE(offerer_.Proves(hello, false));
  const std::string good = EncodeStreamHello(hello);
  for (size_t at = 6; at < good.size(); ++at) {  // behind magic and version
    std::string bad = good;
    bad[at] ^= 1;
    const auto other = DecodeStreamHello(bad.data());
    if (other.has_value()) {
      EXPECT_FALSE(offerer_.Proves(*other, false)) << at;
    }
  }
  EXPECT_FALSE(asker_.Proves(hello, true)) << "it is not the other side's";
  EXPECT_FALSE(StreamSeal({7, 7, 8}, keys_, false).Proves(hello, false)) << "another token";
  EXPECT_FALSE(StreamSeal(kToken, *StreamSeal::MakeKeys(3, 3), false).Proves(hello, false));
}

TEST_F(StreamSealTest, WithoutKeysTheTokenIsSaid) {
  const StreamSeal plain(kToken);
  StreamHello hello, answer;
  plain.Prove(&hello, false);
  plain.Prove(&answer, true);
  EXPECT_EQ(hello.token, kToken);
  EXPECT_EQ(answer.token, StreamToken{});
  EXPECT_TRUE(plain.Proves(hello, false));
  EXPECT_FALSE(plain.Proves(answer, false));
  EXPECT_EQ(plain.Of(1), nullptr);
  EXPECT_EQ(StreamSeal::MakeKeys(0, 3)->cipher, security::Cipher::kNone);
  EXPECT_FALSE(StreamSeal::MakeKeys(1, 2).has_value());
}

TEST(HandshakeTest, NotesWithKeysComeAsTheyWere) {
  Handshake note = {.word = Handshake::Word::kOffer, .port = 9, .session = 1, .number = 2};
  note.keys = *StreamSeal::MakeKeys(1, 1);
  const std::string frame = EncodeNote(note);
  ASSERT_EQ(frame.size(), 112u);
  const auto read = DecodeNote(Buffer::CopyOf(frame));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->port, 9);
  EXPECT_EQ(read->keys.cipher, security::Cipher::kAes256Gcm);
  EXPECT_EQ(std::memcmp(read->keys.from_asker.data(), note.keys.from_asker.data(), 32), 0);
  EXPECT_EQ(std::memcmp(read->keys.from_offerer.data(), note.keys.from_offerer.data(), 32), 0);
  for (const int cipher : {0, 3, 8, 255}) {
    std::string bad = frame;
    bad[26] = static_cast<char>(cipher);
    EXPECT_FALSE(DecodeNote(Buffer::CopyOf(bad)).has_value()) << cipher;
  }
  std::string ask = frame;
  ask[6] = static_cast<char>(Handshake::Word::kAsk);
  EXPECT_FALSE(DecodeNote(Buffer::CopyOf(ask)).has_value()) << "only an offer has keys";
  EXPECT_FALSE(DecodeNote(Buffer::CopyOf(frame.substr(0, 80))).has_value()) << "of a process";
  for (const size_t size : {47, 49, 79, 81, 111, 113}) {
    EXPECT_FALSE(IsNote(Buffer::CopyOf((frame + "x").substr(0, size)))) << size;
  }
}

}  // namespace
}  // namespace soapstone::transport
