#include "transport/tcp/handshake.h"

#include <cstring>
#include <type_traits>

namespace soapstone::transport {
namespace {

constexpr uint32_t kNoteMagic = 0x544F4E53;   // "SNOT"
constexpr uint32_t kHelloMagic = 0x4D525453;  // "STRM"
constexpr uint16_t kStreamVersion = 2;

struct NoteBytes {
  uint32_t magic;
  uint16_t version;
  uint16_t word;
  uint64_t session;
  uint64_t number;
  uint16_t port;
  uint8_t spare[6];
  StreamToken token;
};
static_assert(std::is_trivially_copyable_v<NoteBytes> && sizeof(NoteBytes) == 48);

struct HelloBytes {
  uint32_t magic;
  uint16_t version;
  uint16_t verdict;
  uint32_t connection;
  uint32_t spare;
  StreamToken token;
  uint64_t self;
  uint64_t other;
  uint64_t received;
};
static_assert(std::is_trivially_copyable_v<HelloBytes> && sizeof(HelloBytes) == kStreamHelloBytes);

}  // namespace

std::string EncodeNote(const Handshake& note) {
  const NoteBytes bytes = {.magic = kNoteMagic,
                           .version = kStreamVersion,
                           .word = static_cast<uint16_t>(note.word),
                           .session = note.session,
                           .number = note.number,
                           .port = note.port,
                           .spare = {},
                           .token = note.token};
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
}

bool IsNote(const Buffer& frame) {
  uint32_t magic = 0;
  if (frame.size() != sizeof(NoteBytes)) return false;
  std::memcpy(&magic, frame.data(), sizeof(magic));
  return magic == kNoteMagic;
}

std::optional<Handshake> DecodeNote(const Buffer& frame) {
  if (!IsNote(frame)) return std::nullopt;
  NoteBytes bytes;
  std::memcpy(&bytes, frame.data(), sizeof(bytes));
  if (bytes.version != kStreamVersion || bytes.word < 1 || bytes.word > 5) return std::nullopt;
  return Handshake{.word = static_cast<Handshake::Word>(bytes.word),
                   .port = bytes.port,
                   .session = bytes.session,
                   .number = bytes.number,
                   .token = bytes.token};
}

std::string EncodeStreamHello(const StreamHello& hello) {
  const HelloBytes bytes = {.magic = kHelloMagic,
                            .version = kStreamVersion,
                            .verdict = static_cast<uint16_t>(hello.verdict),
                            .connection = hello.connection,
                            .spare = 0,
                            .token = hello.token,
                            .self = hello.greeting.self,
                            .other = hello.greeting.other,
                            .received = hello.greeting.received};
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
}

std::optional<StreamHello> DecodeStreamHello(const char* bytes) {
  HelloBytes hello;
  std::memcpy(&hello, bytes, sizeof(hello));
  if (hello.magic != kHelloMagic || hello.version != kStreamVersion || hello.verdict > 1) {
    return std::nullopt;
  }
  return StreamHello{.verdict = static_cast<StreamHello::Verdict>(hello.verdict),
                     .connection = hello.connection,
                     .token = hello.token,
                     .greeting = {hello.self, hello.other, hello.received}};
}

}  // namespace soapstone::transport
