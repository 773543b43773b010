#include "transport/tcp/chunk_reader.h"

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

// A chunk's head, and behind it the sizes of frames and other bytes.
std::string Raw(const ChunkHead& head, const std::vector<uint64_t>& sizes = {},
                const std::string& rest = "") {
  return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) +
         std::string(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(uint64_t)) +
         rest;
}

class ChunkReaderTest : public testing::Test {
 protected:
  using Came = ChunkReader::Came;
  using Got = ChunkReader::Got;

  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
  }
  void TearDown() override {
    for (const int fd : ends_) {
      if (fd >= 0) close(fd);
    }
  }
  void Arrive(const std::string& bytes) {
    ASSERT_EQ(write(ends_[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  // What comes of all that has arrived: "name|frame|..." of a message, "note N".
  std::vector<std::string> TakeAll() {
    std::vector<std::string> all;
    for (;;) {
      Buffers frames;
      switch (reader_.Next(&frames)) {
        case Came::kNothing:
          if (const Got got = reader_.Read(ends_[1]); got == Got::kNothing || got == Got::kEnd) {
            return all;
          }
          break;
        case Came::kMessage: {
          std::string text;
          for (const Buffer& frame : frames) {
            if (!text.empty()) text += "|";
            text.append(reinterpret_cast<const char*>(frame.data()), frame.size());
          }
          all.push_back(text);
          break;
        }
        case Came::kNote:
          all.push_back("note " + std::to_string(reader_.note().number));
          break;
        case Came::kFault:
          all.emplace_back("fault");
          return all;
      }
    }
  }

  BufferPool pool_;
  ChunkReader reader_{
      {.header_bytes_max = 100, .frame_bytes_max = 100'000, .message_bytes_max = 100'000}, &pool_};
  int ends_[2] = {-1, -1};
};

TEST_F(ChunkReaderTest, AMessageIsTheSameHoweverItsBytesArrive) {
  const std::string bytes = Raw({kBeginMagic, 16, 3, 2}, {3, 8}, std::string("abc\0\0\0\0\0", 8)) +
                            std::string("one\0\0\0\0\0", 8) + "12345678" +
                            Raw({kBeginMagic, 0, 8, 0}, {}, "the next");
  const std::vector<std::string> whole = {"abc|one|12345678", "the next"};
  Arrive(bytes);
  EXPECT_EQ(TakeAll(), whole);
  std::vector<std::string> pieces;
  for (const char byte : bytes) {
    Arrive(std::string(1, byte));
    for (std::string& message : TakeAll()) pieces.push_back(std::move(message));
  }
  EXPECT_EQ(pieces, whole);
}

TEST_F(ChunkReaderTest, AMessageThatBeganLaterEndsFirst) {
  Arrive(Raw({kBeginMagic, 8, 8, 1}, {24}, "outside." + std::string(8, 'a')));
  Arrive(Raw({kBeginMagic, 8, 8, 1}, {16}, "within.." + std::string(8, 'b')));
  EXPECT_TRUE(TakeAll().empty());
  Arrive(Raw({kMoreMagic, 8, 0, 0}, {}, std::string(8, 'c')));
  EXPECT_EQ(TakeAll(), std::vector<std::string>{"within..|bbbbbbbbcccccccc"});
  EXPECT_EQ(reader_.message_bytes(), 16u);
  Arrive(Raw({kMoreMagic, 16, 0, 0}, {}, std::string(16, 'd')));
  EXPECT_EQ(TakeAll(), std::vector<std::string>{"outside.|aaaaaaaadddddddddddddddd"});
  EXPECT_EQ(reader_.more_bytes(), int64_t{2 * sizeof(ChunkHead)});
}

TEST_F(ChunkReaderTest, NotesComeBetweenTheChunksOfAMessage) {
  Arrive(Raw({kBeginMagic, 8, 8, 1}, {16}, "a header" + std::string(8, 'a')));
  Arrive(Raw({kAckMagic, 0, 7, 1}));
  Arrive(Raw({kMoreMagic, 8, 0, 0}, {}, std::string(8, 'b')));
  const std::vector<std::string> all = {"note 4294967303", "a header|aaaaaaaabbbbbbbb"};
  EXPECT_EQ(TakeAll(), all);
  EXPECT_EQ(reader_.note().magic, kAckMagic);
}

TEST_F(ChunkReaderTest, AFaultStaysUntilAnotherConnectionBegins) {
  Arrive(Raw({kMoreMagic, 8, 0, 0}, {}, "no begin"));
  EXPECT_EQ(TakeAll(), std::vector<std::string>{"fault"});
  Buffers frames;
  EXPECT_EQ(reader_.Next(&frames), Came::kFault);
  reader_.Reset();
  Arrive(Raw({kBeginMagic, 0, 8, 0}, {}, "good one"));
  EXPECT_EQ(TakeAll(), std::vector<std::string>{"good one"});
}

TEST_F(ChunkReaderTest, ANoteWithAPayloadIsAFault) {
  Arrive(Raw({kAskMagic, 8, 0, 0}, {}, "payload!"));
  EXPECT_EQ(TakeAll(), std::vector<std::string>{"fault"});
}

TEST_F(ChunkReaderTest, TheEndOfTheConnectionIsToldBehindWhatCame) {
  Arrive(Raw({kBeginMagic, 0, 8, 0}, {}, "the last"));
  close(std::exchange(ends_[0], -1));
  EXPECT_EQ(TakeAll(), std::vector<std::string>{"the last"});
  EXPECT_EQ(reader_.Read(ends_[1]), Got::kEnd);
}

}  // namespace
}  // namespace soapstone::transport
