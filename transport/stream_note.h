// StreamNote: what two transports tell each other over ZeroMQ to agree on a stream
// (transport/stream_links.h). A message of one frame that is not a wire::Message. docs/wire.md has
// the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/buffer.h"

namespace soapstone::transport {

using StreamToken = std::array<uint8_t, 16>;

struct StreamNote {
  enum class Word : uint16_t {
    kAsk = 1,     // who connected would like a stream
    kOffer = 2,   // the other side: connect to `port`, and say `token` there
    kRefuse = 3,  // the other side: there is none to be had
    kSwitch = 4,  // either: what follows from me comes by the stream
    kHere = 5,    // who connected: a connection of the job; of no stream, number 0
  };
  Word word = Word::kAsk;
  uint16_t port = 0;
  uint64_t session = 0;  // the job's: others are not listened to
  uint64_t number = 0;   // of the attempt, chosen by who asks
  StreamToken token = {};
};

std::string EncodeNote(const StreamNote& note);
bool IsNote(const Buffer& frame);
// Empty: not a note, or of another version.
std::optional<StreamNote> DecodeNote(const Buffer& frame);

// What each side says first on the stream: who connected says the token it was given, the other
// side a token of zeros.
inline constexpr size_t kStreamHelloBytes = 32;
std::string EncodeStreamHello(const StreamToken& token);
std::optional<StreamToken> DecodeStreamHello(const char* bytes);

}  // namespace soapstone::transport
