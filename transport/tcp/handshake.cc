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
  uint8_t ciphers;  // of an offer the one
  uint8_t spare[5];
  StreamToken token;
};
static_assert(std::is_trivially_copyable_v<NoteBytes> && sizeof(NoteBytes) == 48);

using security::Secret;

constexpr size_t kSealedNoteBytes = sizeof(NoteBytes) + 2 * Secret::kBytes;
constexpr size_t kProcessNoteBytes = sizeof(NoteBytes) + Secret::kBytes;
constexpr uint16_t kLastWord = static_cast<uint16_t>(Handshake::Word::kProcess);

struct HelloBytes {
  uint32_t magic;
  uint16_t version;
  uint16_t verdict;
  uint32_t connection;
  uint32_t stream;
  StreamToken token;
  uint64_t self;
  uint64_t other;
  uint64_t received;
};
static_assert(std::is_trivially_copyable_v<HelloBytes> && sizeof(HelloBytes) == kStreamHelloBytes);

}  // namespace

std::string EncodeNote(const Handshake& note) {
  const bool sealed = note.keys.cipher != security::Cipher::kNone;
  const NoteBytes bytes = {
      .magic = kNoteMagic,
      .version = kStreamVersion,
      .word = static_cast<uint16_t>(note.word),
      .session = note.session,
      .number = note.number,
      .port = note.port,
      .ciphers = sealed ? static_cast<uint8_t>(note.keys.cipher) : note.ciphers,
      .spare = {},
      .token = note.token};
  std::string frame(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  if (note.word == Handshake::Word::kProcess) {
    frame.append(reinterpret_cast<const char*>(note.key.data()), note.key.size());
  }
  if (!sealed) return frame;
  for (const Secret* key : {&note.keys.from_asker, &note.keys.from_offerer}) {
    frame.append(reinterpret_cast<const char*>(key->data()), Secret::kBytes);
  }
  return frame;
}

bool IsNote(const Buffer& frame) {
  uint32_t magic = 0;
  if (frame.size() != sizeof(NoteBytes) && frame.size() != kProcessNoteBytes &&
      frame.size() != kSealedNoteBytes) {
    return false;
  }
  std::memcpy(&magic, frame.data(), sizeof(magic));
  return magic == kNoteMagic;
}

std::optional<Handshake> DecodeNote(const Buffer& frame) {
  if (!IsNote(frame)) return std::nullopt;
  NoteBytes bytes;
  std::memcpy(&bytes, frame.data(), sizeof(bytes));
  if (bytes.version != kStreamVersion || bytes.word < 1 || bytes.word > kLastWord) {
    return std::nullopt;
  }
  Handshake note = {.word = static_cast<Handshake::Word>(bytes.word),
                    .port = bytes.port,
                    .session = bytes.session,
                    .number = bytes.number,
                    .token = bytes.token};
  const bool of_process = note.word == Handshake::Word::kProcess;
  if (of_process != (frame.size() == kProcessNoteBytes)) return std::nullopt;
  if (of_process) std::memcpy(note.key.data(), frame.data() + sizeof(bytes), note.key.size());
  const bool sealed = frame.size() == kSealedNoteBytes;
  if (!sealed) {
    note.ciphers = bytes.ciphers;
    return note;
  }
  // One of them, and by its number, not a set.
  note.keys.cipher = static_cast<security::Cipher>(bytes.ciphers);
  if (note.word != Handshake::Word::kOffer || !security::IsCipher(bytes.ciphers)) {
    return std::nullopt;
  }
  const std::byte* keys = frame.data() + sizeof(NoteBytes);
  std::memcpy(note.keys.from_asker.data(), keys, Secret::kBytes);
  std::memcpy(note.keys.from_offerer.data(), keys + Secret::kBytes, Secret::kBytes);
  return note;
}

std::string EncodeStreamHello(const StreamHello& hello) {
  const HelloBytes bytes = {.magic = kHelloMagic,
                            .version = kStreamVersion,
                            .verdict = static_cast<uint16_t>(hello.verdict),
                            .connection = hello.connection,
                            .stream = hello.stream,
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
                     .stream = hello.stream,
                     .token = hello.token,
                     .greeting = {hello.self, hello.other, hello.received}};
}

}  // namespace soapstone::transport
