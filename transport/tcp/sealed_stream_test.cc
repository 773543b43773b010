#include "transport/tcp/sealed_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using security::Cipher;
using security::RecordCipher;
using security::Secret;

constexpr size_t kHead = RecordCipher::kHeadBytes;

Secret SealKey(uint8_t of) {
  Secret key;
  std::memset(key.data(), of, Secret::kBytes);
  return key;
}

std::string TextOf(uint64_t stream, size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(stream * 31 + i * 7 + i / 251);
  return text;
}

// One end, on a socket pair whose other end is held bare.
class SealedEnd {
 public:
  SealedEnd(Cipher cipher, uint8_t sends, uint8_t receives,
            uint64_t records_per_key = RecordCipher::kRecordsPerKey)
      : seal_(cipher, SealKey(sends), SealKey(receives), records_per_key) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds_), 0);
  }
  ~SealedEnd() {
    close(fds_[0]);
    if (fds_[1] >= 0) close(fds_[1]);
  }
  SealedEnd(const SealedEnd&) = delete;
  SealedEnd& operator=(const SealedEnd&) = delete;

  // What one record of it is on the wire.
  std::string Sealed(const std::string& text) {
    const iovec part = {const_cast<char*>(text.data()), text.size()};
    EXPECT_EQ(seal_.Write(fds_[0], {&part, 1}), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(seal_.unwritten(), 0u);
    return Taken();
  }
  // All that is there at the bare end.
  std::string Taken() {
    std::string bytes(1 << 20, '\0');
    const ssize_t got = read(fds_[1], bytes.data(), bytes.size());
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
  void Give(const std::string& bytes) {
    ASSERT_EQ(write(fds_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void EndBare() { close(std::exchange(fds_[1], -1)); }
  // What it gives out of what is there, in pieces of `piece` bytes; `last`: what ended that.
  std::string Opened(size_t piece, ssize_t* last) {
    std::string text;
    for (;;) {
      std::string one(piece, '\0');
      const iovec part = {one.data(), one.size()};
      const ssize_t got = seal_.Read(fds_[0], {&part, 1});
      if (got <= 0) {
        *last = got < 0 ? -errno : 0;
        return text;
      }
      text.append(one, 0, static_cast<size_t>(got));
    }
  }
  SealedStream* seal() { return &seal_; }
  int fd() const { return fds_[0]; }

 private:
  SealedStream seal_;
  int fds_[2] = {-1, -1};
};

class SealedStreamTest : public testing::TestWithParam<Cipher> {
 protected:
  void SetUp() override {
    SealedEnd sender(GetParam(), 1, 2);
    for (size_t i = 0; i < 6; ++i) {
      texts_.push_back(TextOf(i, i == 3 ? 0 : 1 + 17 * i));
      if (texts_.back().empty()) texts_.back() = "\x03";
      records_.push_back(sender.Sealed(texts_.back()));
      ASSERT_EQ(records_.back().size(), texts_.back().size() + RecordCipher::kOverheadBytes);
    }
  }
  static std::string Joined(const std::vector<std::string>& parts) {
    std::string all;
    for (const std::string& part : parts) all += part;
    return all;
  }
  // What is given out of `bytes`, then the end. It is texts_ up to some record, and no more.
  struct Result {
    size_t records = 0;
    SealFault fault = SealFault::kNone;
    ssize_t last = 0;
  };
  Result Read(const std::string& bytes, size_t piece = 4096) const {
    SealedEnd receiver(GetParam(), 2, 1);
    receiver.Give(bytes);
    receiver.EndBare();
    Result result;
    const std::string text = receiver.Opened(piece, &result.last);
    std::string expected;
    while (expected.size() < text.size() && result.records < texts_.size()) {
      expected += texts_[result.records++];
    }
    EXPECT_EQ(text, expected) << "something came out that was not sealed";
    result.fault = receiver.seal()->fault();
    return result;
  }

  std::vector<std::string> texts_, records_;
};

TEST_P(SealedStreamTest, WhatIsSealedIsReadInPiecesOfAnySize) {
  for (const size_t piece : {1, 3, 16, 17, 100, 4096}) {
    const Result result = Read(Joined(records_), piece);
    EXPECT_EQ(result.records, texts_.size());
    EXPECT_EQ(result.fault, SealFault::kNone);
    EXPECT_EQ(result.last, 0);
  }
}

TEST_P(SealedStreamTest, NoByteMayBeAnother) {
  const std::string good = Joined(records_);
  size_t lengths = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 7}) {
      std::string bad = good;
      bad[at] ^= static_cast<char>(1 << bit);
      const Result result = Read(bad);
      EXPECT_LT(result.records, texts_.size()) << at;
      // A length that is longer waits for more than comes.
      EXPECT_EQ(result.last, result.fault == SealFault::kNone ? 0 : -EBADMSG) << at;
      if (result.fault == SealFault::kLength) ++lengths;
    }
  }
  EXPECT_GT(lengths, 0u);
}

TEST_P(SealedStreamTest, RecordsKeepTheirPlaces) {
  const auto read = [&](const std::vector<size_t>& order) {
    std::string bytes;
    for (const size_t i : order) bytes += records_[i];
    return Read(bytes);
  };
  struct Wrong {
    const char* what;
    std::vector<size_t> order;
    size_t records;
  };
  for (const Wrong& wrong : {Wrong{"repeated", {0, 1, 1, 2}, 2}, Wrong{"left out", {0, 2, 3}, 1},
                             Wrong{"swapped", {1, 0, 2}, 0}, Wrong{"again", {0, 1, 0}, 2}}) {
    const Result result = read(wrong.order);
    EXPECT_EQ(result.records, wrong.records) << wrong.what;
    EXPECT_EQ(result.fault, SealFault::kRecord) << wrong.what;
    EXPECT_EQ(result.last, -EBADMSG) << wrong.what;
  }
}

TEST_P(SealedStreamTest, NothingComesOfARecordThatIsCut) {
  const std::string good = Joined(records_);
  size_t whole = 0, end = records_[0].size();
  for (size_t cut = 0; cut < good.size(); ++cut) {
    if (cut == end) end += records_[++whole].size();
    const Result result = Read(good.substr(0, cut));
    EXPECT_EQ(result.records, whole) << cut;
    EXPECT_EQ(result.fault, SealFault::kNone) << cut;
    EXPECT_EQ(result.last, 0) << cut;
  }
}

TEST_P(SealedStreamTest, LengthsThatLieAreFound) {
  for (const uint32_t length : {0u, 65'537u, ~0u}) {
    std::string bad = Joined(records_);
    std::memcpy(bad.data() + records_[0].size(), &length, sizeof(length));
    const Result result = Read(bad);
    EXPECT_EQ(result.records, 1u) << length;
    EXPECT_EQ(result.fault, SealFault::kLength) << length;
  }
  // Of a record that is there, and cut or prolonged to the length that its head says.
  const std::string& record = records_[4];
  for (const int by : {-1, 1}) {
    const auto length = static_cast<uint32_t>(static_cast<int>(texts_[4].size()) + by);
    std::string bad = Joined({records_[0], records_[1], records_[2], records_[3]});
    const size_t at = bad.size();
    bad += by < 0 ? record.substr(0, kHead) + record.substr(kHead + 1) : record + "x";
    std::memcpy(bad.data() + at, &length, sizeof(length));
    const Result result = Read(bad);
    EXPECT_EQ(result.records, 4u) << by;
    EXPECT_EQ(result.fault, SealFault::kRecord) << by;
  }
}

TEST_P(SealedStreamTest, OnesOwnRecordsAndThoseOfOtherKeysAreNoneOfTheOthers) {
  ssize_t last = 0;
  SealedEnd reflected(GetParam(), 1, 2);
  reflected.Give(reflected.Sealed("mine"));
  EXPECT_EQ(reflected.Opened(100, &last), "");
  EXPECT_EQ(reflected.seal()->fault(), SealFault::kRecord);
  SealedEnd other(GetParam(), 2, 3);
  other.Give(Joined(records_));
  EXPECT_EQ(other.Opened(100, &last), "");
  EXPECT_EQ(other.seal()->fault(), SealFault::kRecord);
  EXPECT_EQ(last, -EBADMSG);
}

// Through a socket that takes little, with keys that are replaced on the way.
TEST_P(SealedStreamTest, ItGoesOnWhereTheKernelTookAPart) {
  SealedStream sender(GetParam(), SealKey(1), SealKey(2), 3);
  SealedStream receiver(GetParam(), SealKey(2), SealKey(1), 3);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  const int small = 5000;
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  const CounterRandom random(3, RandomUse::kTest, 9);
  const std::string text = TextOf(1, 3'000'000);
  std::string got;
  size_t taken = 0, refused = 0;
  for (uint64_t at = 0; got.size() < text.size() && at < 10'000'000;) {
    // Many small parts, or one that is large.
    std::vector<iovec> parts;
    size_t end = taken;
    const uint64_t largest = random.Below(++at, 2) == 0 ? 300 : 200'000;
    for (uint64_t n = random.Below(++at, 20); n > 0; --n) {
      const size_t size = std::min<size_t>(random.Below(++at, largest), text.size() - end);
      parts.push_back({const_cast<char*>(text.data()) + end, size});
      end += size;
    }
    const ssize_t written = sender.Write(ends[0], parts);
    ASSERT_LE(sender.unwritten(), SealedStream::kWriteBytes);
    if (written < 0) {
      ASSERT_EQ(errno, EAGAIN);
      ASSERT_GT(sender.unwritten(), 0u);
      ++refused;
    } else {
      taken += static_cast<size_t>(written);
    }
    std::string first(random.Below(++at, 50'000), '\0'), second(1 + random.Below(++at, 600), '\0');
    const iovec into[2] = {{first.data(), first.size()}, {second.data(), second.size()}};
    const ssize_t read = receiver.Read(ends[1], into);
    ASSERT_TRUE(read >= 0 || errno == EAGAIN);
    if (read > 0) got += (first + second).substr(0, static_cast<size_t>(read));
    ASSERT_LE(receiver.held_bytes(), SealedStream::kReadBytes);
  }
  EXPECT_EQ(got, text);
  EXPECT_GT(refused, 10u);
  EXPECT_EQ(sender.TakeOverheadOut(), receiver.TakeOverheadIn());
  close(ends[0]);
  close(ends[1]);
}

INSTANTIATE_TEST_SUITE_P(Ciphers, SealedStreamTest,
                         testing::Values(Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305));

}  // namespace
}  // namespace soapstone::transport
